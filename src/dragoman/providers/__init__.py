"""Whom we call: the catalogue of providers, as data, and how a call to each is addressed, signed and framed."""
