"""Stored objects: Messages threads, responses and conversations by ID, all in one `memory`."""
