"""Key options: the members of a key as options of `dragoman key new` and `dragoman key set`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from dragoman.cli import documents
from dragoman.errors import UsageError
from dragoman.identities.identity import ROLES
from dragoman.identities.members import KeyMembers, member_problems
from dragoman.identities.path_families import ACTIONS, OPEN_ACTIONS
from dragoman.model.losses import Strict

if TYPE_CHECKING:
    from dragoman.records.time_range import Zone

MEMBERS = KeyMembers.__struct_fields__
_LISTS = {
    "models": "models that it may request, as patterns: 'claude-*,fast'",
    "providers": "providers that its requests may reach",
    "addresses": "addresses and networks that its requests may come from: 10.0.0.0/8",
    "paths": f"paths that it may use, as families with or without an action ({', '.join(ACTIONS)}): "
    f"'chat,files:read'; families are {', '.join(OPEN_ACTIONS)}",
}


def add_members(parser: argparse.ArgumentParser, *, of_new_key: bool) -> None:
    """Declare the members of a key. Only a new key has defaults for omitted options."""
    role, rest = (f" (default: {ROLES[0]})", "; default: all") if of_new_key else ("", "")
    parser.add_argument("--role", metavar="ROLE", help=f"{', '.join(ROLES)}{role}")
    for name, text in _LISTS.items():
        parser.add_argument(f"--{name}", metavar="LIST", help=f"{text}{rest}")
    parser.add_argument(
        "--tag", action="append", metavar="NAME=VALUE", help="copied into records; may be repeated; replaces all tags"
    )
    parser.add_argument("--expires", metavar="WHEN", help="90d, 24h, a date (included), or a date and time")
    parser.add_argument(
        "--strict",
        nargs="?",
        const="true",
        choices=("true", "all"),
        help="reject requests whose translation changes the response; `all` rejects every loss",
    )
    parser.add_argument("--concurrency", type=int, metavar="N", help="maximum concurrent requests")


def read_members(options: argparse.Namespace, zone: Zone, now: int, removed: Sequence[str] = ()) -> KeyMembers:
    """The members that options set or remove. The time is in seconds. Prints every problem, and raises an error for the
    last."""
    members = KeyMembers(
        role=_given(options.role),
        models=_list(options.models),
        providers=_list(options.providers),
        addresses=_list(options.addresses),
        paths=_list(options.paths),
        tags=UNSET if options.tag is None else _tags(options.tag),
        expires=UNSET if options.expires is None else _end(options.expires, zone, now),
        strict=_strict(options.strict),
        concurrency=UNSET if options.concurrency is None else options.concurrency,
    )
    for name in removed:
        if getattr(members, name) is not UNSET:
            raise UsageError(f"{name} is both set and removed")
    members = replace(members, **dict.fromkeys(removed))
    problems = [str(problem) for problem in member_problems(members, now)]
    for problem in problems[:-1]:
        documents.complain(problem)
    if problems:
        raise UsageError(problems[-1])
    return members


def _given(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text


def _list(text: str | None) -> tuple[str, ...] | UnsetType:
    if text is None:
        return UNSET
    return tuple(stripped for part in text.split(",") if (stripped := part.strip()))


def _tags(pairs: Sequence[str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--tag: expected NAME=VALUE, got {pair!r}")
        if name in tags:
            raise UsageError(f"--tag: {name!r} is given twice")
        tags[name] = value
    return tags


def _end(text: str, zone: Zone, now: int) -> datetime:
    from dragoman.records.time_range import end_of

    return datetime.fromtimestamp(end_of("--expires", text, zone, now), UTC)


def _strict(text: str | None) -> Strict | UnsetType:
    if text is None:
        return UNSET
    return "all" if text == "all" else True
