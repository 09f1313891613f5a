"""Members of a key: the fields that a change may set, and their valid values."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from dragoman.identities.errors import InvalidMember
from dragoman.identities.identity import CLIENT, MAX_TAGS, ROLES, Rights, Tags, is_tag
from dragoman.identities.key_text import PREFIX
from dragoman.identities.path_families import ACTIONS, OPEN_ACTIONS, is_path_right
from dragoman.identities.permissions import MAX_PATTERN_LENGTH, MAX_PATTERN_STARS, is_pattern
from dragoman.model.losses import Strict

T = TypeVar("T")
TextList: TypeAlias = tuple[str, ...] | UnsetType | None
# Another role is rejected with the list of roles instead of a type error.
RoleName: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": list(ROLES)})]
MAX_CONCURRENCY = 100_000
# Longer lists are unreadable for people, and slow to match.
MAX_LIST = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Some systems cannot show later dates.
_LAST_MOMENT = 253_370_764_800


def is_name(text: str) -> bool:
    """Whether a text is valid as a name of a key or provider, which occurs in model names, header values and logs."""
    return _NAME.fullmatch(text) is not None


class KeyMembers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Members of a key to set. An absent member stays unchanged; null removes it."""

    # The role of the key; client unless stated.
    role: RoleName | UnsetType | None = UNSET
    # Patterns of names that requests may ask for.
    models: TextList = UNSET
    # Names of providers that requests may reach.
    providers: TextList = UNSET
    # Addresses and networks that requests may come from.
    addresses: TextList = UNSET
    # Path families, with an action or without: "embeddings", "files:read".
    paths: TextList = UNSET
    # Names and values that are copied into records.
    tags: dict[str, str] | UnsetType | None = UNSET
    # When the key ends.
    expires: Annotated[datetime, Meta(tz=True)] | UnsetType | None = UNSET
    # Which losses refuse a request: true for changes of the response, "all" for bookkeeping, too.
    strict: Strict | UnsetType | None = UNSET
    # How many exchanges the key may have at a time.
    concurrency: int | UnsetType | None = UNSET


class KeyTerms(Struct, frozen=True, kw_only=True):
    """The rights, tags and end of an identity: everything that a change may set."""

    rights: Rights = Rights()
    tags: Tags = ()
    # Unix seconds; None is never.
    expires: float | None = None


def applied(members: KeyMembers, before: KeyTerms, now: float) -> KeyTerms:
    """Apply members to terms. Raises `InvalidMember` for the first invalid value."""
    for problem in member_problems(members, now):
        raise problem
    rights = before.rights
    return KeyTerms(
        rights=Rights(
            role=_set(CLIENT if members.role is None else members.role, rights.role),
            models=_set(members.models, rights.models),
            providers=_set(members.providers, rights.providers),
            addresses=_set(_networks(members.addresses), rights.addresses),
            paths=_set(members.paths, rights.paths),
            strict=_set(False if members.strict is None else members.strict, rights.strict),
            concurrency=_set(members.concurrency, rights.concurrency),
        ),
        tags=_set(_sorted(members.tags), before.tags),
        expires=_set(_seconds(members.expires), before.expires),
    )


def member_problems(members: KeyMembers, now: float) -> Iterator[InvalidMember]:
    if isinstance(members.role, str) and members.role not in ROLES:
        yield InvalidMember("role", f"there is no role {quoted(members.role)}", f"use one of {', '.join(ROLES)}")
    for name, check in _CHECKS.items():
        texts = getattr(members, name)
        if isinstance(texts, tuple):
            problem = _list_problem(name, texts, check)
            if problem is not None:
                yield problem
    if isinstance(members.tags, dict):
        yield from _tag_problems(members.tags)
    if isinstance(members.expires, datetime):
        moment = members.expires.timestamp()
        if moment <= now:
            yield InvalidMember("expires", "the time is in the past", "choose a later one, or revoke the key")
        elif moment >= _LAST_MOMENT:
            yield InvalidMember("expires", "the time is too far in the future", "leave it out for a key without an end")
    concurrency = members.concurrency
    if isinstance(concurrency, int) and not 1 <= concurrency <= MAX_CONCURRENCY:
        yield InvalidMember(
            "concurrency",
            f"expected an integer from 1 to {MAX_CONCURRENCY}, got {concurrency}",
            "choose another number",
        )


def name_problem(name: str) -> InvalidMember | None:
    """The problem of a key name, if any. A key text is rejected, because names are shown and logged."""
    if name.startswith(PREFIX):
        return InvalidMember("name", f"a name does not begin with {PREFIX}, as keys do", "choose another name")
    if is_name(name):
        return None
    return InvalidMember(
        "name",
        f"{quoted(name)} cannot name a key",
        "use up to 64 letters, digits, hyphens, dots and underscores, the first a letter or a digit",
    )


def quoted(text: str) -> str:
    """Quote a text, shortened, without control characters for the terminal."""
    short = text if len(text) <= 60 else f"{text[:59]}…"
    return '"' + "".join(char if char.isprintable() else "�" for char in short) + '"'


def _list_problem(name: str, texts: tuple[str, ...], check: Callable[[str], str | None]) -> InvalidMember | None:
    if not texts:
        return InvalidMember(name, "the list is empty", "remove the member to permit everything, or revoke the key")
    if len(texts) > MAX_LIST:
        return InvalidMember(name, f"the list has {len(texts)} entries", f"use at most {MAX_LIST}")
    for text in texts:
        remedy = check(text)
        if remedy is not None:
            return InvalidMember(name, f"{quoted(text)} cannot be used", remedy)
    return None


def _check_model(text: str) -> str | None:
    if is_pattern(text):
        return None
    return f"a pattern has at most {MAX_PATTERN_LENGTH} characters, {MAX_PATTERN_STARS} single *, and no blanks"


def _check_provider(text: str) -> str | None:
    return None if is_name(text) else "use the name of a provider"


def _check_address(text: str) -> str | None:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        pass
    else:
        return None
    try:
        return f'write "{ipaddress.ip_network(text, strict=False)}"'
    except ValueError:
        return "use an IP address, or a network as 10.0.0.0/8"


def _check_path(text: str) -> str | None:
    if is_path_right(text):
        return None
    family, colon, _ = text.partition(":")
    if colon and family in OPEN_ACTIONS:
        return f"use one of the actions {', '.join(ACTIONS)}"
    return f"use one of the families {', '.join(OPEN_ACTIONS)}"


_CHECKS: Mapping[str, Callable[[str], str | None]] = {
    "models": _check_model,
    "providers": _check_provider,
    "addresses": _check_address,
    "paths": _check_path,
}


def _tag_problems(tags: Mapping[str, str]) -> Iterator[InvalidMember]:
    if len(tags) > MAX_TAGS:
        yield InvalidMember("tags", f"there are {len(tags)} tags", f"use at most {MAX_TAGS}")
        return
    for name, text in tags.items():
        if not (is_tag(name) and is_tag(text)):
            yield InvalidMember(
                "tags",
                f"the tag {quoted(name)} cannot be used with {quoted(text)}",
                "a name and a value have 1 to 64 letters, digits, dots, hyphens and underscores",
            )
            return


def _networks(texts: TextList) -> TextList:
    return tuple(str(ipaddress.ip_network(text)) for text in texts) if isinstance(texts, tuple) else texts


def _sorted(tags: dict[str, str] | UnsetType | None) -> Tags | UnsetType:
    return tags if isinstance(tags, UnsetType) else tuple(sorted((tags or {}).items()))


def _seconds(moment: datetime | UnsetType | None) -> float | UnsetType | None:
    return moment.timestamp() if isinstance(moment, datetime) else moment


def _set(value: T | UnsetType, before: T) -> T:
    return before if isinstance(value, UnsetType) else value
