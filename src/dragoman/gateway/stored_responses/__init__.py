"""Responses and conversations that are stored here: resolved, written, run in the background, retrieved by ID."""
