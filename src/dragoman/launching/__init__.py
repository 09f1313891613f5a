"""Launching: starts well-known clients with the settings to use a gateway. A client is data (`clients`): environment
variables and arguments. The user's own files stay unchanged."""
