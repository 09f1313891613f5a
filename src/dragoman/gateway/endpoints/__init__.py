"""What is asked beside conversations: token counts, models, other paths of a provider."""
