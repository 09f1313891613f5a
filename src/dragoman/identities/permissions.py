"""Permissions: whether rights permit a model, a provider, an address or a path, and whether one key's rights cover
another's. Pure. An absent list permits everything.

Patterns of models: `*` matches any text within a segment (between two `/`), `*` as the last segment everything below,
and `*` alone every name. `bedrock/*` permits `bedrock/a/b`, but neither `bedrock` nor `bedrockz/a`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from dragoman.identities.identity import ADMIN, Identity, Rights, Tags
from dragoman.identities.path_families import OPEN_ACTIONS, PARTLY_CLOSED, WITHOUT_MODEL
from dragoman.model.losses import strictest

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_PATTERN_LENGTH, MAX_PATTERN_STARS = 128, 4
# Longer names are never permitted: clients choose them, and each is compared with all patterns of a list.
MAX_NAME_LENGTH = 256
# Maximum number of compiled lists. Keys with equal lists share one.
_COMPILED = 4096


def has_lists(rights: Rights) -> bool:
    """Whether some models or providers are not permitted."""
    return limits_models(rights) or rights.providers is not None


def limits_models(rights: Rights) -> bool:
    return rights.models is not None and "*" not in rights.models


def permits_model(rights: Rights, name: str) -> bool:
    if rights.models is None:
        return True
    return len(name) <= MAX_NAME_LENGTH and _models(rights.models).fullmatch(name) is not None


def permits_provider(rights: Rights, name: str) -> bool:
    return rights.providers is None or name in rights.providers


def permits_address(rights: Rights, address: IPAddress | None) -> bool:
    """Whether requests may come from an address. None is an unknown address, which no list permits."""
    if rights.addresses is None:
        return True
    return address is not None and any(address in network for network in _networks(rights.addresses))


def permits_path(rights: Rights, family: str, action: str, *, is_open: bool) -> bool:
    """Whether requests may take an action on a path family. `is_open` means that keys without a list may."""
    if rights.paths is None:
        return is_open
    return f"{family}:{action}" in rights.paths or (is_open and family in rights.paths)


def is_pattern(text: str) -> bool:
    return (
        0 < len(text) <= MAX_PATTERN_LENGTH
        and text.isprintable()
        and " " not in text
        and "**" not in text
        and text.count("*") <= MAX_PATTERN_STARS
    )


def uncovered(maker: Identity, rights: Rights, tags: Tags, expires: float | None) -> str | None:
    """The first member of a key that exceeds its maker's rights, or None."""
    if maker.rights.role != ADMIN:
        return "role"
    for name, covers in _COVERS.items():
        if not covers(maker.rights, rights):
            return name
    if maker.expires is not None and (expires is None or expires > maker.expires):
        return "expires"
    return None if {*maker.tags} <= {*tags} else "tags"


def narrows(before: Rights, after: Rights) -> bool:
    """Whether a change removes any right from running requests. The concurrency limit affects later ones only."""
    if before.role != after.role != ADMIN:
        return True
    return any(not covers(after, before) for name, covers in _COVERS.items() if name != "concurrency")


def _covers_models(maker: Rights, rights: Rights) -> bool:
    # Patterns are compared as texts: only a `*` of the maker's covers a `*`.
    return maker.models is None or (
        rights.models is not None and all(permits_model(maker, pattern) for pattern in rights.models)
    )


def _covers_providers(maker: Rights, rights: Rights) -> bool:
    return maker.providers is None or (rights.providers is not None and {*rights.providers} <= {*maker.providers})


def _covers_addresses(maker: Rights, rights: Rights) -> bool:
    if maker.addresses is None:
        return True
    if rights.addresses is None:
        return False
    outer = _networks(maker.addresses)
    return all(_is_within(inner, outer) for inner in _networks(rights.addresses))


def _is_within(inner: _Network, outer: Iterable[_Network]) -> bool:
    for network in outer:
        if isinstance(inner, ipaddress.IPv4Network) and isinstance(network, ipaddress.IPv4Network):
            if inner.subnet_of(network):
                return True
        elif (
            isinstance(inner, ipaddress.IPv6Network)
            and isinstance(network, ipaddress.IPv6Network)
            and inner.subnet_of(network)
        ):
            return True
    return False


def _covers_paths(maker: Rights, rights: Rights) -> bool:
    # The maker must have families without an action, and actions that are closed by default. A list permits more than
    # none.
    if rights.paths is None:
        return maker.paths is None
    if maker.paths is not None:
        held = {*maker.paths}
    else:
        held = {*OPEN_ACTIONS}.difference(() if maker.models is None else WITHOUT_MODEL)
    return all(path in held or _is_open_action(path, held) for path in rights.paths)


def _is_open_action(path: str, held: set[str]) -> bool:
    family, _, action = path.partition(":")
    return family in held and action in OPEN_ACTIONS[family] and path not in PARTLY_CLOSED


def _covers_strict(maker: Rights, rights: Rights) -> bool:
    return strictest(maker.strict, rights.strict) == rights.strict


def _covers_concurrency(maker: Rights, rights: Rights) -> bool:
    return maker.concurrency is None or (rights.concurrency is not None and rights.concurrency <= maker.concurrency)


_COVERS: Mapping[str, Callable[[Rights, Rights], bool]] = {
    "models": _covers_models,
    "providers": _covers_providers,
    "addresses": _covers_addresses,
    "paths": _covers_paths,
    "strict": _covers_strict,
    "concurrency": _covers_concurrency,
}

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(_COMPILED)
def _models(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(_expression, patterns)), re.DOTALL)


def _expression(pattern: str) -> str:
    if pattern == "*":
        return ".*+"
    *parents, last = pattern.split("/")
    below = parents and last == "*"
    segments = [_segment(part) for part in (parents if below else (*parents, last))]
    return "/".join([*segments, ".++"] if below else segments)


def _segment(text: str) -> str:
    """Compile one segment. Each piece between two `*` matches at its first occurrence, the last piece at the end.
    Without backtracking, matching stays fast for any name."""
    first, *pieces = map(re.escape, text.split("*"))
    if not pieces:
        return first
    *between, last = pieces
    return first + "".join(f"(?>[^/]*?{piece})" for piece in between) + rf"(?>[^/]*{last}(?=/|\Z))"


@lru_cache(_COMPILED)
def _networks(texts: tuple[str, ...]) -> tuple[_Network, ...]:
    return tuple(map(ipaddress.ip_network, texts))
