"""Paths: endpoints by URL, and paths relayed with a provider's key. Base URLs come in all forms: strip prefixes."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from dragoman.identities.path_families import CREATE, DELETE, OTHER, READ

MESSAGES = "anthropic-messages"
CHAT = "openai-chat"
RESPONSES = "openai-responses"


class EndpointKind(Enum):
    """The kind of an endpoint."""

    # Members are compared by identity, because the hash of an enum's name is slow.
    __hash__ = object.__hash__

    CONVERSATION = "conversation"
    COUNT = "count"
    COMPACT = "compact"
    # Stored items: a response by its ID, conversations.
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
    # A path of a provider's API that the gateway does not handle itself, and an unknown path.
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
    # Some clients call it at their start to see whether the server is up.
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
# All usual paths, looked up without parsing.
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
    """The endpoint for conversations of a protocol; None if it is no client's."""
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
    # An SDK whose base URL already ends in /v1 repeats it.
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
    # Without a prefix only known API paths go to a provider: browsers request icons.
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
    """The protocol of the error envelope of a path: paths below an endpoint have its protocol."""
    if rest.startswith("/messages"):
        return MESSAGES
    return RESPONSES if rest.startswith(("/responses", "/conversations")) else CHAT


class ModelPlace(Enum):
    """Where a request names its model."""

    __hash__ = object.__hash__

    # The member `model`, or the field of a form.
    BODY = "body"
    # Each of the requests in the body.
    REQUESTS = "requests"
    PATH = "path"
    # Nowhere: what is read or ended was made by the same owner, or by any.
    OWN = "own"
    NONE = "none"


class PathRule(Struct, frozen=True, kw_only=True):
    """What a method does at a path: the family and the action that keys are permitted, and where the model stands."""

    family: str
    action: str
    model: ModelPlace
    # Whether a key without a list of paths may take it, if several owners share an account: what is read may be of
    # another gateway key or of other users of the account, what is ended was begun by others, and requests in a file
    # name models out of sight. Paths of one owner are all open.
    is_open: bool = True
    # Whether it is relayed to a provider as it is; else it is an endpoint of the gateway.
    is_relayed: bool = True

    @property
    def right(self) -> str:
        """Its name in the list of a key."""
        return f"{self.family}:{self.action}"


# Every path that a key may be permitted: method, path (`{id}` is any one segment), family and action, place of the
# model. Endpoints of the gateway come first; then what is relayed of a provider's other paths: what a model computes,
# and what is made for that. Everything else is closed: paths that mint, administer or delete, files of containers, and
# unknown paths. Responses and conversations are of a key, which is looked for before. `server.passthrough_paths` opens
# more.
_SERVED = """
POST   /messages                                          messages:create       body
POST   /messages/count_tokens                             messages:create       body
POST   /chat/completions                                  chat:create           body
POST   /responses                                         responses:create      body
POST   /responses/input_tokens                            responses:create      body
GET    /models                                            models:read           none
GET    /models/*                                          models:read           path
GET    /model-names                                       models:read           none
POST   /route                                             models:read           body
"""
_RELAYED = """
POST   /embeddings                                        embeddings:create     body
POST   /pooling                                           embeddings:create     body
POST   /completions                                       completions:create    body
POST   /complete                                          completions:create    body
POST   /fim/completions                                   completions:create    body
POST   /moderations                                       moderations:create    body
POST   /chat/moderations                                  moderations:create    body
POST   /classifications                                   classify:create       body
POST   /chat/classifications                              classify:create       body
POST   /classify                                          classify:create       body
POST   /score                                             rerank:create         body
POST   /rerank                                            rerank:create         body
POST   /ocr                                               ocr:create            body
POST   /tokenize                                          tokenize:create       body
POST   /detokenize                                        tokenize:create       body
POST   /images/generations                                images:create         body
POST   /images/edits                                      images:create         body
POST   /images/variations                                 images:create         body
POST   /audio/speech                                      audio:create          body
POST   /audio/transcriptions                              audio:create          body
POST   /audio/translations                                audio:create          body
POST   /videos                                            videos:create         body
POST   /files                                             files:create          none
POST   /uploads                                           uploads:create        none
POST   /uploads/{id}/parts                                uploads:create        none
POST   /uploads/{id}/complete                             uploads:create        none
POST   /messages/batches                                  batches:create        requests
POST   /containers                                        containers:create     none
POST   /containers/{id}/files                             containers:create     none
POST   /vector_stores                                     vector_stores:create  none
POST   /vector_stores/{id}/files                          vector_stores:create  none
POST   /vector_stores/{id}/file_batches                   vector_stores:create  none
POST   /responses/compact                                 responses:create      body
GET    /responses/{id}                                    responses:read        own
DELETE /responses/{id}                                    responses:delete      own
GET    /responses/{id}/input_items                        responses:read        own
POST   /responses/{id}/cancel                             responses:cancel      own
POST   /conversations                                     conversations:create  own
GET    /conversations/{id}                                conversations:read    own
POST   /conversations/{id}                                conversations:create  own
DELETE /conversations/{id}                                conversations:delete  own
GET    /conversations/{id}/items                          conversations:read    own
POST   /conversations/{id}/items                          conversations:create  own
GET    /conversations/{id}/items/{id}                     conversations:read    own
DELETE /conversations/{id}/items/{id}                     conversations:delete  own
"""
_RELAYED_FOR_ONE = """
GET    /files                                             files:read            none
GET    /files/{id}                                        files:read            none
GET    /files/{id}/content                                files:read            none
GET    /batches                                           batches:read          none
GET    /batches/{id}                                      batches:read          none
GET    /messages/batches                                  batches:read          none
GET    /messages/batches/{id}                             batches:read          none
GET    /messages/batches/{id}/results                     batches:read          none
GET    /containers                                        containers:read       none
GET    /containers/{id}                                   containers:read       none
GET    /containers/{id}/files                             containers:read       none
GET    /containers/{id}/files/{id}                        containers:read       none
GET    /vector_stores                                     vector_stores:read    none
GET    /vector_stores/{id}                                vector_stores:read    none
POST   /vector_stores/{id}/search                         vector_stores:read    none
GET    /vector_stores/{id}/files                          vector_stores:read    none
GET    /vector_stores/{id}/files/{id}                     vector_stores:read    none
GET    /vector_stores/{id}/files/{id}/content             vector_stores:read    none
GET    /vector_stores/{id}/file_batches/{id}              vector_stores:read    none
GET    /vector_stores/{id}/file_batches/{id}/files        vector_stores:read    none
GET    /videos                                            videos:read           none
GET    /videos/{id}                                       videos:read           none
GET    /videos/{id}/content                               videos:read           none
POST   /videos/{id}/remix                                 videos:create         none
POST   /batches                                           batches:create        none
POST   /batches/{id}/cancel                               batches:cancel        none
POST   /messages/batches/{id}/cancel                      batches:cancel        none
POST   /uploads/{id}/cancel                               uploads:cancel        none
POST   /vector_stores/{id}/file_batches/{id}/cancel       vector_stores:cancel  none
"""
# The actions of methods at paths that `server.passthrough_paths` alone opens.
_OTHER_ACTIONS = {"GET": READ, "HEAD": READ, "DELETE": DELETE}


def rule_of(method: str, rest: str) -> PathRule | None:
    """The rule of a method at a path without its prefixes; None if nothing that is known here."""
    requested = "GET" if method == "HEAD" else method, tuple(rest.strip("/").split("/"))
    return next((rule for pattern, rule in _RULES if _matches(pattern, *requested)), None)


def relayed_rule(method: str, rest: str, *, shared: bool, opened: Iterable[str] = ()) -> PathRule | None:
    """The rule of a method at a path that may be relayed; None if none is. `shared` if several owners share one
    provider account, `opened` are the paths of `server.passthrough_paths`."""
    requested = "GET" if method == "HEAD" else method, tuple(rest.strip("/").split("/"))
    is_opened = any(_matches(_pattern(each), *requested) for each in opened)
    rule = rule_of(method, rest)
    if rule is None or not rule.is_relayed:
        if not is_opened:
            return None
        action = _OTHER_ACTIONS.get(method, CREATE)
        return PathRule(family=OTHER, action=action, model=ModelPlace.NONE)
    return replace(rule, is_open=True) if is_opened or not shared else rule


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


def _rules(
    table: str, *, is_open: bool = True, is_relayed: bool = True
) -> Iterable[tuple[tuple[str, tuple[str, ...]], PathRule]]:
    for line in table.strip().split("\n"):
        method, path, right, place = line.split()
        family, _, action = right.partition(":")
        rule = PathRule(family=family, action=action, model=ModelPlace(place), is_open=is_open, is_relayed=is_relayed)
        yield _pattern(f"{method} {path}"), rule


# The first that matches holds: names before `{id}`.
_RULES = (*_rules(_SERVED, is_relayed=False), *_rules(_RELAYED), *_rules(_RELAYED_FOR_ONE, is_open=False))
_is_plain = re.compile(r"[A-Za-z0-9._~@=-]+").fullmatch
