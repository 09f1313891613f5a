"""What is known of a server: its habits, and small recordings of our own making in the shapes that it sends.

A file `<server>.toml` holds the server, its quirks and recordings; every name in it is a member here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.toml"))


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table whose every key is known."""


class Quirk(_Table, frozen=True, kw_only=True):
    """One habit, for users: what the server does, since when, what is made of it, and where that can be checked."""

    id: str
    does: str
    made: str
    source: str
    since: str = ""
    # `path::name` of a test; empty if recordings name the quirk.
    test: str = ""
    # Capabilities in rows of the server that say the same in fewer words; docs/quirks.md leaves them out.
    capabilities: tuple[str, ...] = ()


class Call(_Table, frozen=True, kw_only=True):
    """A call as every client sees it; an empty id is not compared."""

    name: str
    arguments: dict[str, Any] = {}
    id: str = ""


class Counts(_Table, frozen=True, kw_only=True):
    """Tokens, totals inclusive; what is None is not compared."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None


class Says(_Table, frozen=True, kw_only=True):
    """What the server means, by an independent reading. What is left out is not said; `usage` is then not compared."""

    text: str = ""
    thinking: str = ""
    refusal: str = ""
    calls: tuple[Call, ...] = ()
    # A row of `tests.servers.reading.STOPS`; empty is `tool_call` if there are calls, else `end`.
    stop: str = ""
    usage: Counts | None = None
    # Part of the message of the error that the client is told instead of an answer, and its status if it is whole.
    error: str = ""
    status: int = 0


class Turn(_Table, frozen=True, kw_only=True):
    """One answer, whole or as frames, and what the server gets in the request after it."""

    says: Says
    answer: str = ""
    stream: tuple[str, ...] = ()
    # The HTTP status of a whole answer.
    status: int = 200
    # JSON pointers into the next request: what stands there, and what does not.
    returns: Mapping[str, Any] = {}
    absent: tuple[str, ...] = ()
    # Features in the ledger of the answer: for all clients, or by the client's protocol.
    losses: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()


class Recording(Turn, frozen=True, kw_only=True):
    """A conversation's first answer under the quirk that it shows; `then` are those that follow in it."""

    quirk: str
    name: str
    tools: tuple[str, ...] = ()
    # The cap that the client asks for; 0 is none, where its protocol can say that.
    max_tokens: int = 0
    # Another model than the file's, for servers of many.
    model: str = ""
    then: tuple[Turn, ...] = ()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All answers, in order."""
        return (self, *self.then)


class Server(_Table, frozen=True, kw_only=True):
    """One file."""

    server: str
    protocol: str
    model: str
    # Its name in the catalogue, or its vendor; "" where it is nobody's in particular.
    provider: str = ""
    quirk: tuple[Quirk, ...] = ()
    recording: tuple[Recording, ...] = ()


@cache
def read(path: Path) -> Server:
    """A file, checked for names that nobody reads."""
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Server)
