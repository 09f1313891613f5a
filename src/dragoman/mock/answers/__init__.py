"""Answers: what echo and the mock answer, from a request in any protocol to the bytes and headers of its response.
Nothing here remembers, and nothing is strict."""
