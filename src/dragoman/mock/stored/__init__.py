"""Stored: what services hold behind an id: Messages threads, responses and conversations, all in one `memory`."""
