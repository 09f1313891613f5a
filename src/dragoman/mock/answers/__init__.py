"""Responses of echo and the mock: from a request in any protocol to the bytes and headers of its response. This package
has no state and accepts every valid request."""
