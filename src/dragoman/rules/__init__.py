"""The rules of translation that need no message: names, ids, arguments, schemas, efforts, envelopes, durations, stops.

What belongs here is pure and small: a value in, a value out, the same for every protocol that needs it. What does not:
anything that knows a wire's shapes (that is a protocol's room) or that reports a loss (the caller holds the ledger).
"""
