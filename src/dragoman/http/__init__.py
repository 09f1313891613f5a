"""HTTP/1.1 without meaning: a server, a client, and content codings.

Both sides are `asyncio` protocols over the parser of `httptools`. Nothing here knows of providers, models or what they
speak.
"""
