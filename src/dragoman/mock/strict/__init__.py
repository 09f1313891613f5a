"""Strict: what the services refuse, each its own; `checks` selects the checks of a protocol."""
