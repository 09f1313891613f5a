"""A provider stricter than the real services: their own rules, the types of their SDKs, and what the gateway promises.

`refusal_of` gives the status and the reasons for which a request is turned away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.mock.strict.checks import reasons
from dragoman.mock.strict.common import Issued, closed_faults, objects, repeated
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.wire.json import decode, decode_object
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, PROVIDER_KEY, RESPONSES, Received
from tests.sdk.digging import Object
from tests.sdk.oracles import check_request

MODELS: dict[str, tuple[str, ...]] = {
    MESSAGES: ("claude-opus-5", "claude-sonnet-4-5"),
    CHAT: ("llama-4",),
    RESPONSES: ("gpt-5",),
}
_CREDENTIALS = {
    MESSAGES: ("x-api-key", PROVIDER_KEY),
    CHAT: ("authorization", f"Bearer {PROVIDER_KEY}"),
    RESPONSES: ("authorization", f"Bearer {PROVIDER_KEY}"),
}
_TRANSPORT = frozenset(
    {"host", "content-type", "content-length", "accept", "accept-encoding", "user-agent", "connection"}
)
_OF_PROTOCOL = {
    MESSAGES: frozenset({"anthropic-version", "anthropic-beta"}),
    CHAT: frozenset[str](),
    RESPONSES: frozenset[str](),
}


class Turned(Struct, frozen=True):
    """A request that is refused, and why."""

    status: int
    reasons: tuple[str, ...]


def protocol_at(target: str) -> str:
    """The protocol of a path."""
    path = target.partition("?")[0]
    return next(protocol for protocol in PROTOCOLS if PATHS[protocol] == path)


def refusal_of(received: Received, issued: Issued, secrets: tuple[str, ...] = ()) -> Turned | None:
    """Hold a request against everything its service demands; `secrets` are its client's and must not be in it."""
    protocol = protocol_at(received.target)
    body: Object = {**received.json()}
    headers = dict(received.headers)
    if headers.get(_CREDENTIALS[protocol][0]) != _CREDENTIALS[protocol][1]:
        return Turned(401, ("the provider's key is missing",))
    if body.get("model") not in MODELS[protocol]:
        return Turned(404, (f"model: {body.get('model')!r}",))
    found = [*header_faults(received, protocol), *_secret_faults(received, secrets)]
    read = decode_object(received.body)
    try:
        check_request(protocol, _without_positions(read) if protocol == CHAT else body, headers)
    except AssertionError as error:
        found.append(str(error))
    found += reasons(protocol, read, headers, issued)
    found += _EXACT[protocol](read, issued)
    return Turned(400, tuple(found)) if found else None


def _without_positions(body: JsonObject) -> Object:
    """A Chat body as its types have it: the SDK leaves `index` in calls of a stream, and services take it back."""
    messages: list[Object] = []
    for message in objects(body.get("messages")):
        calls = [
            {name: value for name, value in call.items() if name != "index"}
            for call in objects(message.get("tool_calls"))
        ]
        messages.append({**message, "tool_calls": calls} if calls else {**message})
    return {**body, "messages": messages}


# What services take but the gateway never writes.


def _alternation(body: JsonObject, issued: Issued) -> Iterator[str]:
    roles = [message.get("role") for message in objects(body.get("messages"))]
    for count, (before, after) in enumerate(pairwise(roles)):
        if before == after:
            yield f"messages.{count + 1}: roles must alternate"


def _turns(body: JsonObject, issued: Issued) -> Iterator[str]:
    """Turns alternate, and one with a proof in it comes back to the last argument of its calls."""
    yield from _alternation(body, issued)
    for count, message in enumerate(objects(body.get("messages"))):
        blocks = objects(message.get("content"))
        for block in blocks:
            said = issued.turns.get(str(block.get("signature")))
            if said is not None and _inputs(blocks) != _inputs(said):
                yield f"messages.{count}: {_inputs(blocks)} was {_inputs(said)}"


def _inputs(blocks: list[JsonObject]) -> list[JsonValue]:
    return [block.get("input") for block in blocks if block.get("type") == "tool_use"]


def _nothing(body: JsonObject, issued: Issued) -> Iterator[str]:
    yield from ()


def _sameness(body: JsonObject, issued: Issued) -> Iterator[str]:
    """Strictness is said and not left to the service, and items come back as they were said, under any spelling."""
    for tool in objects(body.get("tools")):
        # What is absent is tried strictly, which changes the arguments a model may leave out.
        if tool.get("type") == "function" and tool.get("strict") is None:
            yield from closed_faults(tool.get("parameters"), "tools", all_required=True)
    items = objects(body.get("input"))
    for count, item in enumerate(items):
        said = issued.items.get(str(item.get("id")))
        if said is not None and _core(item) != _core(said):
            yield f"input[{count}]: {item} was {said}"
        follower = issued.items.get(issued.followers.get(str(item.get("id")), ""))
        after = items[count + 1] if count + 1 < len(items) else {}
        if follower is not None and _core(after) != _core(follower):
            yield f"input[{count}]: the required following item {after} is not {follower}"


def _core(item: JsonObject) -> list[JsonValue]:
    """What makes an item the same, whichever of its spellings is used."""
    kind = item.get("type", "message")
    if kind == "message":
        return [kind, item.get("role"), text_of(item.get("content"))]
    arguments = item.get("arguments")
    given: JsonValue = json_object(arguments) or arguments
    return [kind, given, *(item.get(name) for name in ("call_id", "name", "encrypted_content"))]


_EXACT: dict[str, Callable[[JsonObject, Issued], Iterator[str]]] = {
    MESSAGES: _turns,
    CHAT: _nothing,
    RESPONSES: _sameness,
}


def header_faults(received: Received, protocol: str) -> Iterator[str]:
    """Headers that no service should see, by an allow-list: cookies, telemetry of the SDK, a second credential."""
    names = [name for name, _ in received.headers]
    allowed = _TRANSPORT | _OF_PROTOCOL[protocol] | {_CREDENTIALS[protocol][0]}
    for name in set(names) - allowed:
        yield f"header {name}: not expected here"
    for twice in repeated(names):
        yield f"header {twice}: more than once"
    headers = dict(received.headers)
    if headers.get("content-type") != "application/json":
        yield f"header content-type: {headers.get('content-type')!r}"
    agent = headers.get("user-agent", "")
    if "openai" in agent.lower() or "anthropic" in agent.lower():
        yield f"header user-agent: {agent!r} is the client's"


def _secret_faults(received: Received, secrets: tuple[str, ...]) -> Iterator[str]:
    told = "\n".join(value for _, value in received.headers) + received.target + received.body.decode()
    for secret in secrets:
        if secret in told:
            yield "a credential of the client reached the provider"


def text_of(value: JsonValue) -> str:
    """A string, or the joined text of parts."""
    if isinstance(value, str):
        return value
    return "".join([str(part.get("text", "")) for part in objects(value)])


def json_object(text: JsonValue) -> JsonObject | None:
    """The object that a text is the JSON of, as arguments have to be; None for anything else."""
    try:
        value = decode(text) if isinstance(text, str) else None
    except WireError:
        return None
    return value if isinstance(value, dict) else None
