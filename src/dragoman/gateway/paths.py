"""Paths: which endpoint a URL means. People paste base URLs in every form, so prefixes are stripped before looking."""

from __future__ import annotations

import re
import string
from enum import Enum
from urllib.parse import unquote

from msgspec import Struct

MESSAGES = "anthropic-messages"
CHAT = "openai-chat"
RESPONSES = "openai-responses"


class Kind(Enum):
    """What an endpoint does."""

    CONVERSATION = "conversation"
    COUNT = "count"
    COMPACT = "compact"
    # What is kept: a response by its id, conversations.
    STORED = "stored"
    CONVERSATIONS = "conversations"
    MODELS = "models"
    MODEL = "model"
    HOME = "home"
    HEALTH = "health"
    READY = "ready"
    METRICS = "metrics"
    # A path of some provider's API that is not ours, and one of nobody's.
    OTHER = "other"
    NOWHERE = "nowhere"


class Place(Struct, frozen=True, kw_only=True):
    """An endpoint: `protocol` is the client's dialect, and `rest` the path behind the prefixes."""

    kind: Kind
    protocol: str
    rest: str
    methods: tuple[str, ...] = ()


_ENDPOINTS: dict[str, tuple[Kind, str, tuple[str, ...]]] = {
    "/messages": (Kind.CONVERSATION, MESSAGES, ("POST",)),
    "/chat/completions": (Kind.CONVERSATION, CHAT, ("POST",)),
    "/responses": (Kind.CONVERSATION, RESPONSES, ("POST",)),
    "/messages/count_tokens": (Kind.COUNT, MESSAGES, ("POST",)),
    "/responses/input_tokens": (Kind.COUNT, RESPONSES, ("POST",)),
    "/responses/compact": (Kind.COMPACT, RESPONSES, ("POST",)),
    "/conversations": (Kind.CONVERSATIONS, RESPONSES, ("POST",)),
    "/models": (Kind.MODELS, "", ("GET", "HEAD")),
    "/": (Kind.HOME, "", ("GET", "HEAD")),
    "/healthz": (Kind.HEALTH, "", ("GET", "HEAD")),
    "/readyz": (Kind.READY, "", ("GET", "HEAD")),
    "/metrics": (Kind.METRICS, "", ("GET", "HEAD")),
}
_FAMILIES = {"anthropic": MESSAGES, "openai": CHAT}
_MODELS = "/models/"
_BELOW = {"/responses/": Kind.STORED, "/conversations/": Kind.CONVERSATIONS}
_OTHERS = frozenset(
    {
        "audio",
        "batches",
        "completions",
        "containers",
        "conversations",
        "embeddings",
        "files",
        "fine_tuning",
        "images",
        "messages",
        "moderations",
        "rerank",
        "responses",
        "uploads",
        "vector_stores",
        "videos",
    }
)
# Everything a conversation is asked under, found without taking the path apart.
_KNOWN: dict[str, Place] = {}
_KNOWN_LIMIT = 256
# Kinds with paths without number, which are not worth keeping.
_MANY = frozenset({Kind.OTHER, Kind.NOWHERE, Kind.MODEL, Kind.STORED, Kind.CONVERSATIONS})


def place_of(path: str) -> Place:
    """The endpoint that a path means; one that is none of ours is another path of some provider's."""
    known = _KNOWN.get(path)
    if known is None:
        known = _read(path)
        if known.kind not in _MANY and len(_KNOWN) < _KNOWN_LIMIT:
            _KNOWN[path] = known
    return known


def _read(path: str) -> Place:
    segments = [_plain(segment) for segment in path.split("/") if segment]
    depth = len(segments)
    family = ""
    if segments and segments[0] in _FAMILIES:
        family = _FAMILIES[segments.pop(0)]
    # An SDK whose base URL already ends in /v1 says it twice.
    while segments and segments[0] == "v1":
        segments.pop(0)
    rest = "/" + "/".join(segments)
    found = _ENDPOINTS.get(rest)
    if found is not None:
        kind, protocol, methods = found
        return Place(kind=kind, protocol=protocol or family, rest=rest, methods=methods)
    if rest.startswith(_MODELS):
        return Place(kind=Kind.MODEL, protocol=family, rest=rest, methods=("GET", "HEAD"))
    for start, kind in _BELOW.items():
        if rest.startswith(start):
            return Place(kind=kind, protocol=RESPONSES, rest=rest, methods=("GET", "HEAD", "POST", "DELETE"))
    if _hides_state(rest):
        return Place(kind=Kind.NOWHERE, protocol=RESPONSES, rest=rest)
    # Without a prefix only what is known to be of an API goes to a provider: browsers ask for icons.
    named = len(segments) < depth or (segments and segments[0] in _OTHERS)
    if not named:
        return Place(kind=Kind.NOWHERE, protocol=family, rest=rest)
    return Place(kind=Kind.OTHER, protocol=family or _family_of(rest), rest=rest)


def _hides_state(rest: str) -> bool:
    """Whether some servers would find stored state at a path that does not look so: its owner must not be missed.

    They decode a path before they take it apart, once or twice, take no notice of case, or cut parameters off.
    """
    meant = [segment for segment in _split(unquote(unquote(rest)).lower()) if segment not in ("", "v1")]
    return bool(meant) and f"/{meant[0]}/" in _BELOW


def _plain(segment: str) -> str:
    """A segment as it reads: what needs no escape is one with it too, so that no endpoint has a second name."""
    return _find_escape(lambda found: _unescaped(found[0]), segment) if "%" in segment else segment


def _unescaped(escape: str) -> str:
    letter = chr(int(escape[1:], 16))
    return letter if letter in _UNRESERVED else escape


_split = re.compile(r"[/\\;?#]").split
_find_escape = re.compile(r"%[0-9A-Fa-f]{2}").sub
# https://www.rfc-editor.org/rfc/rfc3986#section-2.3, without the dot: `..` must not come into being here.
_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-_~")


def _family_of(rest: str) -> str:
    """Whose envelope errors on a path wear: what stands below an endpoint is of its protocol."""
    if rest.startswith("/messages"):
        return MESSAGES
    return RESPONSES if rest.startswith(("/responses", "/conversations")) else CHAT
