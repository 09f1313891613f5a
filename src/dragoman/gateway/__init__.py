"""The gateway: one endpoint that speaks every protocol, and connects any client to any provider. Sockets, clocks, keys
and protocols meet here alone. Read `exchange/` first."""
