"""Logs, metrics and records of exchanges."""
