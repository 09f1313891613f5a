"""Attacks on running gateways, at length: `make attack`. Each is bounded in count and time, and stays on 127.0.0.1.

The short forms of all of them are tests elsewhere; here they are measured: what an attacker pays, and what others feel.
"""
