"""A provider's own strictness: what the real services refuse, although the types of their SDKs allow it.

`refusal_of` gives the status and the reasons for which a service of a protocol would turn a request away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from tests.gateway import strict_chat, strict_messages, strict_responses
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, PROVIDER_KEY, RESPONSES, Received
from tests.gateway.strict_common import Issued, objects, repeated
from tests.sdk.digging import Object
from tests.sdk.oracles import check_request

MODELS: dict[str, tuple[str, ...]] = {
    MESSAGES: tuple(strict_messages.MODELS),
    CHAT: strict_chat.MODELS,
    RESPONSES: strict_responses.MODELS,
}
_FAULTS: dict[str, Callable[[Object, Mapping[str, str], Issued], Iterator[str]]] = {
    MESSAGES: strict_messages.faults,
    CHAT: strict_chat.faults,
    RESPONSES: strict_responses.faults,
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
    reasons = [*header_faults(received, protocol), *_secret_faults(received, secrets)]
    try:
        check_request(protocol, _without_positions(body) if protocol == CHAT else body, headers)
    except AssertionError as error:
        reasons.append(str(error))
    reasons += _FAULTS[protocol](body, headers, issued)
    return Turned(400, tuple(reasons)) if reasons else None


def _without_positions(body: Object) -> Object:
    """A Chat body as its types have it: the SDK leaves `index` in calls of a stream, and services take it back."""
    messages: list[Object] = []
    for message in objects(body.get("messages")):
        calls = [
            {name: value for name, value in call.items() if name != "index"}
            for call in objects(message.get("tool_calls"))
        ]
        messages.append({**message, "tool_calls": calls} if calls else message)
    return {**body, "messages": messages}


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
