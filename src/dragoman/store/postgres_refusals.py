"""Refusals: why no connection to a server of PostgreSQL was made, in words of our own with the remedy.

The library reports such a failure as a text, without an SQLSTATE, and its text has addresses and users. A server that
reports in another language counts as one that does not answer, which differs in words alone.
"""

from __future__ import annotations

import re

# The lowest version that has all that the store uses, as the library numbers versions.
LOWEST_VERSION = 140000
_STATES = {
    "53300": re.compile(r"too many (clients|connections)|connection slots|no more connections"),
    "57P03": re.compile(r"is (starting up|shutting down|not yet accepting connections|in recovery mode)"),
}
_REASONS = (
    (
        r"password authentication failed|no password supplied|authentication failed|role \".*\" does not exist"
        r"|is not permitted to log in",
        "refuses the user: correct user and password in storage.database",
    ),
    (r"no pg_hba\.conf entry", "has no entry for this machine and user: add one to its pg_hba.conf"),
    (r"database \".*\" does not exist", "does not exist: create it, or correct its name in storage.database"),
    (r"permission denied for database", "does not let its user connect: GRANT CONNECT ON DATABASE to the role"),
    (
        r"session is read-only|server is in hot standby mode",
        "is read-only, as a replica is: name the primary in storage.database, or all its hosts",
    ),
    (
        r"certificate verify failed|root certificate file|server certificate for|SSL error|SSL negotiation",
        "does not prove its identity: sslrootcert needs the authority of its certificate, and the host its name",
    ),
    (r"server does not support SSL", "does not encrypt connections: enable ssl on the server"),
    (
        r"could not translate host name|failed to resolve host",
        "has a host whose name is not known: correct it in storage.database, or the name server",
    ),
    (r"unsupported startup parameter", "is behind a pooler that refuses a parameter: remove options from its address"),
)
_FORMS = tuple((re.compile(form), words) for form, words in _REASONS)


def state_of(text: str) -> str | None:
    """The SQLSTATE of a refusal, if it has one that passes by itself."""
    return next((state for state, form in _STATES.items() if form.search(text)), None)


def reason_of(text: str) -> str:
    """Why no connection was made, as what is said of the database."""
    return next((words for form, words in _FORMS if form.search(text)), "does not answer")
