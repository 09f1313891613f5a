"""The gateway: one endpoint for every protocol; only here are sockets, clocks and keys. Start at `exchange/`."""
