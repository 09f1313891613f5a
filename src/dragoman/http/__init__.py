"""HTTP/1.1 server, client and content codings over `httptools`, without any knowledge of providers or models."""
