"""Strict: what the services refuse, each its own; `checks` asks the one whose protocol is spoken."""
