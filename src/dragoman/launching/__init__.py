"""Launching: what the well-known clients need to talk to a gateway, and how they are started in front of one.

A client is data (`clients`): variables of its environment and words of its command line, and nothing in the user's own
files. `names` asks a gateway what it knows of models, `sizes` is what a client is told of them. `shells` says the same
as lines for a shell, `keys` finds the key that opens the gateway, `gateway` finds the gateway or starts one,
`listeners` tells whose a port is, `running` runs the client to its end.
"""
