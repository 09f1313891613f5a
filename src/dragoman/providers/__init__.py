"""Providers: the catalogue as data, and how a call to each is addressed, signed and framed."""
