"""Named models: the model names deeper in a body that is relayed, as of a tool or of a fallback. A gateway key with a
list of models may name there what it may request: a name that leads to just that model of the provider."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache

import msgspec
from msgspec import Raw

from dragoman.errors import ClientError, NotPermitted
from dragoman.gateway.advice import printable
from dragoman.gateway.forwarding.provider_request import check_unambiguous
from dragoman.gateway.model_resolver import ModelResolver
from dragoman.identities.identity import Rights
from dragoman.identities.permissions import limits_models
from dragoman.protocols.codec import RequestGlance
from dragoman.protocols.registry import codec_of
from dragoman.routing.target import Target
from dragoman.wire.duplicate_keys import OBJECT
from dragoman.wire.member_paths import PathTree, path_tree, strings_at, strings_in
from dragoman.wire.multipart import field_span
from dragoman.wire.peek import UNREADABLE

_ITEMS: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])
_NOTHING = Raw(b"{}")
_REQUESTS, _PARAMETERS = frozenset({"requests"}), frozenset({"params"})
# The model of each request of a batch.
_OWN_NAME = path_tree(["model"])
# No honest request names more.
_MAX_NAMES = 64


def may_name_models(glance: RequestGlance) -> bool:
    """Whether a conversation may name other models. Most have tools, and no tool has a member `model`, or models of a
    panel: to look for the names of these members is faster than to read them."""
    members = glance.members
    if not _ROOTS[glance.protocol].isdisjoint(members) and _names_beside_tools(glance):
        return True
    tools = members.get(_TOOLS)
    # An agent sends the same tools with every request.
    return tools is not None and tools not in _HARMLESS_TOOLS and _in_tools(tools)


def _names_beside_tools(glance: RequestGlance) -> bool:
    members, paths = glance.members, codec_of(glance.protocol).model_members
    naming = {path.partition("/")[0] for path in paths if not path.endswith(_SEARCHED)}
    return any(name in naming or _may_name(members[name]) for name in _ROOTS[glance.protocol] if name in members)


def _in_tools(tools: Raw) -> bool:
    if tools in _OTHER_TOOLS:
        return True
    found = _may_name(tools)
    if memoryview(tools).nbytes <= _MAX_TOOLS_BYTES:
        seen = _OTHER_TOOLS if found else _HARMLESS_TOOLS
        seen.insert(0, tools.copy())
        del seen[_MAX_SEEN:]
    return found


def _may_name(value: Raw) -> bool:
    """Whether a value may have a member `model`, or models of a panel."""
    # Letters in another case are another spelling, and so are escapes.
    lower = bytes(value).lower()
    return b'"model"' in lower or b'"analysis_models"' in lower or b"\\u" in lower


class _Roots(dict[str, frozenset[str]]):
    """The members of a protocol's conversations that name models, or may contain their names; without tools."""

    def __missing__(self, protocol: str) -> frozenset[str]:
        roots = frozenset(path.partition("/")[0] for path in codec_of(protocol).model_members) - {_TOOLS}
        self[protocol] = roots
        return roots


_TOOLS = "tools"
_ROOTS = _Roots()
# How the paths end whose names are searched for; other members name models whatever they contain.
_SEARCHED = ("/model", "/analysis_models/*")
# Tools that were searched, the latest first.
_HARMLESS_TOOLS: list[Raw] = []
_OTHER_TOOLS: list[Raw] = []
_MAX_SEEN, _MAX_TOOLS_BYTES = 32, 128 * 1024


def check_deeper_names(
    resolver: ModelResolver, rights: Rights, glance: RequestGlance, targets: Iterable[Target]
) -> None:
    """Refuse names in a conversation that its key may not use. They reach a provider only where the body is relayed."""
    if not limits_models(rights) or not may_name_models(glance):
        return
    tree = _tree(glance.protocol)
    relaying = {target.provider.name for target in targets if target.endpoint.protocol == glance.protocol}
    names = _collected(strings_in(glance.members, tree, check_unambiguous))
    for provider in relaying:
        _check(resolver, rights, provider, glance.protocol, names)


def check_names_of_body(
    resolver: ModelResolver,
    rights: Rights,
    body: bytes,
    target: Target,
    protocols: Collection[str],
    *,
    is_batch: bool,
) -> None:
    """The same of a JSON body at another path of a provider, which is of one of some protocols; each request of a batch
    must name its model."""
    try:
        values = _requests_in(body) if is_batch else [body]
        names: set[str] = set()
        for value in values:
            for each in protocols:
                names |= _collected(strings_at(value, _tree(each), check_unambiguous))
            if is_batch:
                own = _collected(strings_at(value, _OWN_NAME, check_unambiguous))
                if not own:
                    raise NotPermitted("requests that name no model")
                names |= own
    except UNREADABLE:
        raise ClientError(400, "the body cannot be read") from None
    _check(resolver, rights, target.provider.name, target.endpoint.protocol, names)


def check_fields_of_form(body: bytes, kind: bytes, protocols: Collection[str]) -> None:
    """Refuse a form with a field that names other models: servers read the values of such fields in several ways."""
    for name in sorted({name for each in protocols for name in _tree(each)}):
        if field_span(body, kind, name) is not None:
            raise NotPermitted(f"the field {name} of a form")


def _requests_in(body: bytes) -> Iterable[Raw]:
    """The requests of a batch."""
    requests = _member(body, "requests", _REQUESTS)
    if requests is None:
        raise NotPermitted("requests that name no model")
    for request in _ITEMS.decode(requests):
        yield _member(bytes(request), "params", _PARAMETERS) or _NOTHING


def _member(body: bytes, name: str, names: frozenset[str]) -> Raw | None:
    members = OBJECT.decode(body)
    check_unambiguous(body, members, names)
    return members.get(name)


def _collected(names: Iterable[str]) -> set[str]:
    """The names, each once; too many are refused."""
    collected: set[str] = set()
    for name in names:
        collected.add(name)
        if len(collected) > _MAX_NAMES:
            raise ClientError(400, f"the request names more than {_MAX_NAMES} models")
    return collected


def _check(resolver: ModelResolver, rights: Rights, provider: str, protocol: str, names: Iterable[str]) -> None:
    for name in names:
        target = f"{provider}/{name}"
        if not any(resolver.leads_to(each, target, protocol, rights) for each in (target, name)):
            raise NotPermitted(printable(name), param="model")


@lru_cache(maxsize=8)
def _tree(protocol: str) -> PathTree:
    return path_tree(codec_of(protocol).model_members)
