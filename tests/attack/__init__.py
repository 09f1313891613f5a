"""Attacks on running gateways, at length: `make attack`. Each is bounded in count and time, and stays on 127.0.0.1.

The short forms of all of them are tests elsewhere. Here their damage is measured.

    hostile_requests    single requests and uploads of a client
    hostile_providers   streams and errors of a provider
    greedy_keys         many requests of one key, beside another key
    exposures           secrets and prices
    partial_outages     targets that fail at random, stay silent or change their speed
    crashes             failures around a gateway, and its own sudden end
    translations        CPU time of single translations
"""
