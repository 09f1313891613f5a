"""Paths: endpoints by URL, and paths relayed with a provider's key. Base URLs come in all forms: strip prefixes."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote

from msgspec import Struct

MESSAGES = "anthropic-messages"
CHAT = "openai-chat"
RESPONSES = "openai-responses"


class EndpointKind(Enum):
    """What an endpoint does."""

    # Members are compared by what they are: their own hash is of the name, and slow.
    __hash__ = object.__hash__

    CONVERSATION = "conversation"
    COUNT = "count"
    COMPACT = "compact"
    # What is kept: a response by its id, conversations.
    STORED = "stored"
    CONVERSATIONS = "conversations"
    MODELS = "models"
    MODEL = "model"
    MODEL_NAMES = "model_names"
    INDEX = "home"
    HELLO = "hello"
    HEALTH = "health"
    READY = "ready"
    METRICS = "metrics"
    STATUS = "status"
    ROUTE = "route"
    LAUNCH = "launch"
    ADMIN = "admin"
    # A path of some provider's API that is not ours, and one of nobody's.
    OTHER = "other"
    NOWHERE = "nowhere"


class ApiPath(Struct, frozen=True, kw_only=True):
    """An endpoint: `protocol` is the client's, and `rest` the path behind the prefixes."""

    kind: EndpointKind
    protocol: str
    rest: str
    methods: tuple[str, ...] = ()


_ENDPOINTS: dict[str, tuple[EndpointKind, str, tuple[str, ...]]] = {
    "/messages": (EndpointKind.CONVERSATION, MESSAGES, ("POST",)),
    "/chat/completions": (EndpointKind.CONVERSATION, CHAT, ("POST",)),
    "/responses": (EndpointKind.CONVERSATION, RESPONSES, ("POST",)),
    "/messages/count_tokens": (EndpointKind.COUNT, MESSAGES, ("POST",)),
    "/responses/input_tokens": (EndpointKind.COUNT, RESPONSES, ("POST",)),
    "/responses/compact": (EndpointKind.COMPACT, RESPONSES, ("POST",)),
    "/conversations": (EndpointKind.CONVERSATIONS, RESPONSES, ("POST",)),
    "/models": (EndpointKind.MODELS, "", ("GET", "HEAD")),
    "/model-names": (EndpointKind.MODEL_NAMES, "", ("GET", "HEAD")),
    "/": (EndpointKind.INDEX, "", ("GET", "HEAD")),
    # By which some clients open a connection when they start, and see whether anybody is there.
    "/api/hello": (EndpointKind.HELLO, "", ("GET", "HEAD")),
    "/health": (EndpointKind.HEALTH, "", ("GET", "HEAD")),
    "/healthz": (EndpointKind.HEALTH, "", ("GET", "HEAD")),
    "/readyz": (EndpointKind.READY, "", ("GET", "HEAD")),
    "/metrics": (EndpointKind.METRICS, "", ("GET", "HEAD")),
    "/status": (EndpointKind.STATUS, "", ("GET", "HEAD", "POST")),
    "/route": (EndpointKind.ROUTE, "", ("POST",)),
}
_FAMILIES = {"anthropic": MESSAGES, "openai": CHAT}
_MODELS = "/models/"
LAUNCHES = "/launches/"
# The admin API has no prefixes and no second spelling: an allow-list of a proxy in front sees the path that is served.
ADMIN = "/admin/"
_BELOW = {"/responses/": EndpointKind.STORED, "/conversations/": EndpointKind.CONVERSATIONS}
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
_CACHE: dict[str, ApiPath] = {}
_MAX_CACHED = 256
# Kinds with paths without number, which are not worth keeping.
_MANY = frozenset(
    {
        EndpointKind.OTHER,
        EndpointKind.NOWHERE,
        EndpointKind.MODEL,
        EndpointKind.STORED,
        EndpointKind.CONVERSATIONS,
        EndpointKind.LAUNCH,
        EndpointKind.ADMIN,
    }
)


def api_path_of(path: str) -> ApiPath:
    """The endpoint that a path means; one that is none of ours is another path of some provider's."""
    api_path = _CACHE.get(path)
    if api_path is None:
        api_path = _read(path)
        if api_path.kind not in _MANY and len(_CACHE) < _MAX_CACHED:
            _CACHE[path] = api_path
    return api_path


def conversation_path(protocol: str) -> ApiPath | None:
    """The endpoint that conversations of a protocol are asked at; None if it is no client's."""
    for rest, (kind, endpoint_protocol, methods) in _ENDPOINTS.items():
        if kind is EndpointKind.CONVERSATION and endpoint_protocol == protocol:
            return ApiPath(kind=kind, protocol=endpoint_protocol, rest=rest, methods=methods)
    return None


def _read(path: str) -> ApiPath:
    if path.startswith(ADMIN):
        return ApiPath(kind=EndpointKind.ADMIN, protocol="", rest=path)
    segments = [_plain(segment) for segment in path.split("/") if segment]
    depth = len(segments)
    family = ""
    if segments and segments[0] in _FAMILIES:
        family = _FAMILIES[segments.pop(0)]
    # An SDK whose base URL already ends in /v1 says it twice.
    while segments and segments[0] == "v1":
        segments.pop(0)
    rest = "/" + "/".join(segments)
    endpoint = _ENDPOINTS.get(rest)
    if endpoint is not None:
        kind, protocol, methods = endpoint
        return ApiPath(kind=kind, protocol=protocol or family, rest=rest, methods=methods)
    if f"{rest}/".lower().startswith(ADMIN):
        return ApiPath(kind=EndpointKind.NOWHERE, protocol=family, rest=rest)
    if rest.startswith(_MODELS):
        return ApiPath(kind=EndpointKind.MODEL, protocol=family, rest=rest, methods=("GET", "HEAD"))
    if rest.startswith(LAUNCHES):
        return ApiPath(kind=EndpointKind.LAUNCH, protocol=family, rest=rest, methods=("GET", "HEAD"))
    for start, kind in _BELOW.items():
        if rest.startswith(start):
            return ApiPath(kind=kind, protocol=RESPONSES, rest=rest, methods=("GET", "HEAD", "POST", "DELETE"))
    if _hides_state(rest):
        return ApiPath(kind=EndpointKind.NOWHERE, protocol=RESPONSES, rest=rest)
    # Without a prefix only what is known to be of an API goes to a provider: browsers ask for icons.
    named = len(segments) < depth or (segments and segments[0] in _OTHERS)
    if not named:
        return ApiPath(kind=EndpointKind.NOWHERE, protocol=family, rest=rest)
    return ApiPath(kind=EndpointKind.OTHER, protocol=family or _family_of(rest), rest=rest)


def _hides_state(rest: str) -> bool:
    """Whether a server that decodes twice, ignores case or cuts parameters would find stored state at such a path."""
    decoded = [segment for segment in _split(unquote(unquote(rest)).lower()) if segment not in ("", "v1")]
    return bool(decoded) and f"/{decoded[0]}/" in _BELOW


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


# What is relayed of a provider's other paths: what a model computes, and what is made for that. `{id}` is any one
# segment. Everything else is closed: what mints, administers and deletes, what reads files of containers, and whatever
# nobody thought of. Responses and conversations are of a key, which is looked for before.
# `server.passthrough_paths` opens more.
_RELAYED = """
POST /embeddings
POST /completions
POST /complete
POST /fim/completions
POST /moderations
POST /chat/moderations
POST /classifications
POST /chat/classifications
POST /classify
POST /score
POST /pooling
POST /rerank
POST /ocr
POST /tokenize
POST /detokenize
POST /images/generations
POST /images/edits
POST /images/variations
POST /audio/speech
POST /audio/transcriptions
POST /audio/translations
POST /videos
POST /files
POST /uploads
POST /uploads/{id}/parts
POST /uploads/{id}/complete
POST /messages/batches
POST /containers
POST /containers/{id}/files
POST /vector_stores
POST /vector_stores/{id}/files
POST /vector_stores/{id}/file_batches
POST   /responses/compact
GET    /responses/{id}
DELETE /responses/{id}
GET    /responses/{id}/input_items
POST   /responses/{id}/cancel
POST   /conversations
GET    /conversations/{id}
POST   /conversations/{id}
DELETE /conversations/{id}
GET    /conversations/{id}/items
POST   /conversations/{id}/items
GET    /conversations/{id}/items/{id}
DELETE /conversations/{id}/items/{id}
"""
# Only where all gateway keys are one owner's: what reads or lists things of the provider's account, which may be of
# another gateway key or of nobody here, the end of what others began, and requests in a file, where nobody sees what
# they refer to.
_RELAYED_FOR_ONE = """
GET  /files
GET  /files/{id}
GET  /files/{id}/content
GET  /batches
GET  /batches/{id}
GET  /messages/batches
GET  /messages/batches/{id}
GET  /messages/batches/{id}/results
GET  /containers
GET  /containers/{id}
GET  /containers/{id}/files
GET  /containers/{id}/files/{id}
GET  /vector_stores
GET  /vector_stores/{id}
POST /vector_stores/{id}/search
GET  /vector_stores/{id}/files
GET  /vector_stores/{id}/files/{id}
GET  /vector_stores/{id}/files/{id}/content
GET  /vector_stores/{id}/file_batches/{id}
GET  /vector_stores/{id}/file_batches/{id}/files
GET  /videos
GET  /videos/{id}
GET  /videos/{id}/content
POST /videos/{id}/remix
POST /batches
POST /batches/{id}/cancel
POST /messages/batches/{id}/cancel
POST /uploads/{id}/cancel
POST /vector_stores/{id}/file_batches/{id}/cancel
"""


def is_relayed(method: str, rest: str, *, shared: bool, opened: Iterable[str] = ()) -> bool:
    """Whether a path behind the prefixes is relayed; `shared` if several owners have what is theirs in one account."""
    requested = "GET" if method == "HEAD" else method, tuple(rest.strip("/").split("/"))
    patterns = _OPEN if shared else _OPEN_FOR_ONE
    return any(_matches(pattern, *requested) for pattern in patterns) or any(
        _matches(_pattern(o), *requested) for o in opened
    )


def is_plain(rest: str) -> bool:
    """Whether every server reads the same segments in a path: none with escapes, parameters or dots alone."""
    return all(_is_plain(segment) and segment.strip(".") for segment in rest[1:].split("/"))


@lru_cache(256)
def _pattern(text: str) -> tuple[str, tuple[str, ...]]:
    method, path = text.split()
    return method, tuple(path.strip("/").split("/"))


def _matches(pattern: tuple[str, tuple[str, ...]], method: str, segments: tuple[str, ...]) -> bool:
    """Whether a pattern is about this path; its `*` is one segment, and at its end everything below."""
    allowed, wanted = pattern
    if allowed not in (method, "*"):
        return False
    if wanted[-1] == "*":
        segments = segments[: len(wanted)]
    return len(wanted) == len(segments) and all(
        part in (segment, "*", "{id}") for part, segment in zip(wanted, segments, strict=True)
    )


_OPEN = tuple(map(_pattern, _RELAYED.strip().split("\n")))
_OPEN_FOR_ONE = (*_OPEN, *map(_pattern, _RELAYED_FOR_ONE.strip().split("\n")))
_is_plain = re.compile(r"[A-Za-z0-9._~@=-]+").fullmatch
