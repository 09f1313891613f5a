"""Headings of the troubleshooting page that findings lead to: the sentences that people see, and search for."""

from __future__ import annotations

PAGE = "docs/troubleshooting.md"

BLOCKED = "A firewall or proxy may be blocking it"
AUTH_CONFLICT = "Auth conflict: both a token and an API key are set"
REFUSED_KEY = "It does not take the key"
REFUSED_CONNECTION = "Connection refused"
NOT_TRUSTED = "You have not trusted it with this content"
CLOCK = "The clock is wrong"
DATABASE = "The file cannot be opened"
READABLE = "It can be read by others"
SERVICE = "The service does not see the variables of the shell"

ALL = (BLOCKED, AUTH_CONFLICT, REFUSED_KEY, REFUSED_CONNECTION, NOT_TRUSTED, CLOCK, DATABASE, READABLE, SERVICE)
