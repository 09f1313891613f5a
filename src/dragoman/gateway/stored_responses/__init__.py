"""Responses and conversations that are kept here: recalled, kept, run in the background, asked for by id."""
