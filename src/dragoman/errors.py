"""Exceptions of the library and the gateway, all subclasses of `DragomanError`. A provider's error response is a
`Failure` of the model, not an exception."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dragoman.model.losses import Loss


class DragomanError(Exception):
    """Base class of all exceptions that this library raises."""


E = TypeVar("E", bound=DragomanError)


def bare(error: E) -> E:
    """Return an error as a value, without the traceback frames that would keep its holder alive."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


class WireError(DragomanError):
    """A document that breaks its protocol. `path` is a JSON pointer. If the document is no JSON, `expected` is `JSON`
    and `actual` is the syntax error."""

    def __init__(self, path: str, expected: str, actual: str) -> None:
        self.path = path
        self.expected = expected
        self.actual = actual
        super().__init__(self.describe())

    def describe(self, document: str = "") -> str:
        """Format the error. `document` is the name of the document."""
        path = _dotted_path(self.path) or document
        if self.expected == "JSON":
            return f"{path or 'this'} is not JSON: {self.actual}"
        problem = f"expected {_plain(self.expected)}, found {_plain(self.actual)}"
        return f"{path}: {problem}" if path else problem


# The types of JSON, as people call them.
_TYPES = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


def _plain(words: str) -> str:
    return " or ".join(_TYPES.get(word, word) for word in words.split(" or "))


def _dotted_path(pointer: str) -> str:
    """A JSON pointer in dotted form: `messages[2].content`. Other text stays unchanged."""
    if not pointer.startswith("/"):
        return pointer
    steps = (step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/"))
    return "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in steps).lstrip(".")


class RefusedError(DragomanError):
    """A request that the target protocol cannot express without losing user content."""

    def __init__(self, feature: str, at: str, note: str) -> None:
        self.feature = feature
        self.at = at
        self.note = note
        super().__init__(f"{at}: {note}" if at else note)


class StrictError(DragomanError):
    """A translation that strict mode refuses, naming every loss."""

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = tuple(losses)
        named = "; ".join(f"{loss.at}: {loss.fate.value} ({loss.feature.value}) {loss.note}" for loss in self.losses)
        super().__init__(f"{len(self.losses)} loss{'es' if len(self.losses) != 1 else ''} refused: {named}")


class ConfigError(DragomanError):
    def __init__(self, *, key: str, problem: str, remedy: str, file: str = "", line: int = 0) -> None:
        self.key = key
        self.problem = problem
        self.remedy = remedy
        self.file = file
        self.line = line
        place = ":".join(part for part in (file, str(line) if line else "") if part)
        super().__init__(": ".join(part for part in (place, key, problem) if part) + f" ({remedy})")


class ConfigErrors(ConfigError):
    """Several invalid settings, one line each. As a single error it is the first of them."""

    def __init__(self, problems: Sequence[ConfigError]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(key=first.key, problem=first.problem, remedy=first.remedy, file=first.file, line=first.line)
        self.args = ("\n".join(map(str, self.problems)),)


class UsageError(DragomanError):
    """Arguments that are invalid, or that exclude each other."""


class ClientError(DragomanError):
    """An invalid HTTP request, whatever its body means. `status` is the HTTP status, `param` names the invalid part,
    and `code` is the protocol's own error code, if it has one."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        super().__init__(message)


class NotPermitted(ClientError):
    """A resource that the gateway key may not use. The message is the same whether it exists or not."""

    def __init__(self, what: str, *, param: str | None = None) -> None:
        super().__init__(403, f"this key may not use {what}; see /v1/models", param=param)


class Busy(DragomanError):
    """A limit of the gateway is reached. No provider was called. The client may retry after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(f"{message}; it was not sent and is not billed, try again in {retry_after} s")


class Overloaded(Busy):
    """A provider's queue is full or its wait timed out. `waited` is the time in the queue so far, in seconds."""

    def __init__(self, message: str, *, waited: float, retry_after: int) -> None:
        self.waited = waited
        super().__init__(message, retry_after=retry_after)


class OffloadBusy(Busy):
    """No thread is free for work on a large request."""


class KeyBusy(Busy):
    """A gateway key has reached its limit of concurrent exchanges."""


class KeysUnreadable(Busy):
    """The gateway keys in the database cannot be read, so an unknown text might be a valid key."""


class UnknownKeysLimited(Busy):
    """One address has sent too many unknown gateway keys."""


class TooLong(DragomanError):
    """A request that exceeds the context window of every target of its route."""


class UpstreamError(DragomanError):
    """An error on the provider's side. Clients may see its text, so it names no host and no secret. For the operator,
    `address` is the called host and port (a proxy's if `proxied`), and `remedy` the next step, if known."""

    def __init__(self, message: str, *, address: str = "", proxied: bool = False, remedy: str = "") -> None:
        self.address = address
        self.proxied = proxied
        self.remedy = remedy
        super().__init__(message)


class Unconfigured(UpstreamError):
    """A provider lacks required settings."""


class Unreachable(UpstreamError):
    """The connection failed before any response bytes arrived."""


class Unresolved(Unreachable):
    """Name servers did not respond."""


class Unnamed(Unreachable):
    """The host name does not exist."""


class NotListening(Unreachable):
    """The address refused the connection: no process listens there."""


class Untrusted(Unreachable):
    """The TLS certificate is not trusted, or does not match the host name."""


class Unencrypted(Unreachable):
    """No TLS connection could be made."""


class Exhausted(Unreachable):
    """The machine has no socket, port or memory left for a connection."""


class Unanswered(Unreachable):
    """All or part of the request was sent, and the connection was lost before any response bytes arrived."""


class TimedOut(UpstreamError):
    """A timeout. The default is the timeout of the first byte."""


class Unconnected(TimedOut):
    """The connection was not established in time. Nothing was sent."""


class Stalled(TimedOut):
    """The response started, then stopped."""


class NoContent(Stalled):
    """The response started, then continued with heartbeats only."""


class Overdue(TimedOut):
    """The exchange exceeded its total time."""


class Truncated(UpstreamError):
    """The response broke off before its end."""


class BadResponse(UpstreamError):
    """The response is not valid HTTP."""


class Redirected(BadResponse):
    """The response is a redirect to `place`."""


class Oversized(BadResponse):
    """The response exceeds the gateway's limit. Another provider would exceed it, too."""
