"""Tool names on the wire (N1): what every protocol accepts passes, everything else gets a readable, hashed stand-in.

The functions are deterministic, so a name in history finds the name of its definition without a table. An empty name is
refused by the caller, who knows where it stood; here it is a name like any other.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

_conforms = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch
_replace_others = re.compile(r"[^a-zA-Z0-9_-]").sub


def wire_name(name: str) -> str:
    """Give the name that stands for this one on the wire, itself where possible."""
    return name if _conforms(name) else _hashed(name, 55, 8)


def wire_name_taken(name: str) -> str:
    """Give the name on the wire for a tool whose first choice another tool of the request already has."""
    return _hashed(name, 51, 12)


def flatten(namespace: str | None, name: str) -> str:
    """Join a namespace and its member's name into one plain name."""
    return f"{namespace}__{name}" if namespace else name


def _hashed(name: str, cut: int, digits: int) -> str:
    # A long name is no tool's: whoever sends many of them must not fill the memory.
    return _remembered(name, cut, digits) if len(name) <= _REMEMBERED else _digested(name, cut, digits)


_REMEMBERED = 256


def _digested(name: str, cut: int, digits: int) -> str:
    # A lone surrogate has no UTF-8 form; it still deserves a stable name.
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_replace_others('_', name[:cut])}_{digest[:digits]}"


_remembered = lru_cache(maxsize=4096)(_digested)
