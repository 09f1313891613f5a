"""Launching: what the well-known clients need to talk to a gateway, and how they are started in front of one.

A client is data (`clients`): variables of its environment and words of its command line, and nothing in the user's own
files. `shells` writes the same as lines for a shell, `keys` finds the key that opens the gateway, `gateway` finds the
gateway or starts one, and asks it what it knows of models, `port_owners` finds the owner of a port, `client_process`
runs the client to its end.
"""
