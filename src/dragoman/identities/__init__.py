"""Identities: the holders of gateway keys, the rights of a key, and how keys are created and changed."""
