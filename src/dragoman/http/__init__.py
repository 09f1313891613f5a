"""HTTP/1.1 server, client and content codings: `asyncio` protocols over the parser of `httptools`, without any
knowledge of providers or models."""
