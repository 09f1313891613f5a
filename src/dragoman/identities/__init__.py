"""Identities: who holds a gateway key, what the key permits, and how keys are made and changed."""
