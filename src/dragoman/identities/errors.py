"""Errors of changes of keys: which member of a key, what is wrong with it, what to do. No error holds a key text."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.errors import DragomanError


class KeyChangeError(DragomanError):
    """A change of keys that is refused; nothing of it was done. `member` is "" for a key as a whole."""

    def __init__(self, member: str, problem: str, remedy: str) -> None:
        self.member = member
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{member}: {problem} ({remedy})" if member else f"{problem} ({remedy})")


class InvalidMember(KeyChangeError):
    """A member with a value that cannot be used."""


class KeyExists(KeyChangeError):
    """The name or the digest belongs to another identity, or did once."""


class KeyMissing(KeyChangeError):
    """There is no identity of this name in the database."""


class KeyMoved(KeyChangeError):
    """The identity was changed since it was read: its generation is another than the expected one."""


class KeyRevoked(KeyChangeError):
    """The identity is revoked, which is final."""


class BeyondMaker(KeyChangeError):
    """The change exceeds the rights of the key that makes it."""


class ImportRefused(KeyChangeError):
    """Keys that cannot be imported, each with its problem; none was imported."""

    def __init__(self, problems: Sequence[KeyChangeError]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.member, first.problem, first.remedy)
        self.args = ("\n".join(map(str, self.problems)),)
