"""The gateway: one endpoint that speaks every protocol, and takes any client to any provider.

Here is the only place that knows sockets, clocks, keys and protocols at once. One exchange reads from the top in
`exchange/`.
"""
