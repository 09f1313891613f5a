"""Errors of key changes: the member of the key, the problem and the remedy. No error contains a key text."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.errors import DragomanError


class KeyChangeError(DragomanError):
    """A rejected change of keys. Nothing was changed. `member` is "" for a key as a whole."""

    def __init__(self, member: str, problem: str, remedy: str) -> None:
        self.member = member
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{member}: {problem} ({remedy})" if member else f"{problem} ({remedy})")


class InvalidMember(KeyChangeError):
    """A member has an invalid value."""


class KeyExists(KeyChangeError):
    """The name or the digest belongs, or belonged, to another identity."""


class KeyMissing(KeyChangeError):
    """The database has no identity of this name."""


class KeyMoved(KeyChangeError):
    """The identity was changed since the caller read it: its generation is not the expected one."""


class KeyRevoked(KeyChangeError):
    """The identity is revoked, which is final."""


class BeyondMaker(KeyChangeError):
    """The change exceeds the rights of the key that makes it."""


class ImportRefused(KeyChangeError):
    """Keys that cannot be imported, each with its problem. None was imported."""

    def __init__(self, problems: Sequence[KeyChangeError]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.member, first.problem, first.remedy)
        self.args = ("\n".join(map(str, self.problems)),)
