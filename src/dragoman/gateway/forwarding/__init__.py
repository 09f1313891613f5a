"""Forwarding: the request of a client, the request that a provider gets, and headers and errors on the way back."""
