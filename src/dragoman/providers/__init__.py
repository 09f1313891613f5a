"""Providers: the catalogue as data, and the transports that address, sign and frame calls."""
