"""Launching: what well-known clients need to use a gateway, and how they are started in front of one. A client is data
(`clients`): environment variables and arguments, and nothing in the user's own files."""
