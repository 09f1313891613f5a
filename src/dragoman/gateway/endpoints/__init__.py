"""Endpoints other than conversations: token counts, models, other paths of a provider."""
