"""The official SDKs as oracles: what they would send, what they understand, and what they make of a stream.

Each check raises `AssertionError` with every fault and its path. The SDKs' types have the last word on what is legal;
the members that a body needs beyond them stand in the tables here, each with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from anthropic.types import Message
from anthropic.types.beta import BetaMessage
from anthropic.types.beta.message_create_params import MessageCreateParams as BetaMessageCreateParams
from anthropic.types.message_create_params import MessageCreateParams
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses import Response, ResponseInputAudioParam
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import BaseModel, ValidationError

from tests.sdk.annotations import MISSING, UNKNOWN, Fault, faults
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.sdk.open_responses import response_faults
from tests.sdk.streams import Told, check_stream

__all__ = [
    "IN_ANSWERS",
    "IN_REQUESTS",
    "Told",
    "check_answer",
    "check_request",
    "check_stream",
]

Allowed = dict[tuple[str, str], str]

_OLDER_CLAUDE = "sampling left the types with API version 2026-10-21; older models still take it"
_REASONING_ECHO = "extension of Chat-compatible servers that demand their reasoning back (V7)"
# (kind, place) -> why a request may hold what the SDK's types do not.
IN_REQUESTS: dict[str, Allowed] = {
    MESSAGES: {
        (UNKNOWN, "temperature"): _OLDER_CLAUDE,
        (UNKNOWN, "top_p"): _OLDER_CLAUDE,
        (UNKNOWN, "top_k"): _OLDER_CLAUDE,
    },
    CHAT: {
        (UNKNOWN, "messages[].reasoning_content"): _REASONING_ECHO,
        (UNKNOWN, "messages[].reasoning"): _REASONING_ECHO,
        (UNKNOWN, "messages[].reasoning_details"): _REASONING_ECHO,
        (UNKNOWN, "messages[].prefix"): "prefill option that servers such as Mistral declare (T14)",
        (UNKNOWN, "top_k"): "sampling extension of servers declared to take it (§3)",
    },
    RESPONSES: {
        (UNKNOWN, "presence_penalty"): "member of Open Responses servers (§3)",
        (UNKNOWN, "frequency_penalty"): "member of Open Responses servers (§3)",
    },
}

_OPEN_RESPONSES = "demanded by the Open Responses core"
_REASONING = "the widespread extension by which Chat tells reasoning (§11)"
# (kind, place) -> why an answer may hold what the SDK's models do not.
IN_ANSWERS: dict[str, Allowed] = {
    MESSAGES: {},
    CHAT: {
        (UNKNOWN, "choices[].message.reasoning_content"): _REASONING,
        (UNKNOWN, "choices[].message.reasoning_details"): _REASONING,
    },
    RESPONSES: {
        (UNKNOWN, "presence_penalty"): _OPEN_RESPONSES,
        (UNKNOWN, "frequency_penalty"): _OPEN_RESPONSES,
        (UNKNOWN, "store"): _OPEN_RESPONSES,
    },
}

# Members that only exist under a beta: a body that holds one must be sent with the header that unlocks it.
BETA_HEADER = "anthropic-beta"


def check_request(protocol: str, body: Mapping[str, object], headers: Mapping[str, str] | None = None) -> None:
    """Hold a request body against the SDK's own parameter types; `headers` are those it is sent with, if known."""
    allowed = IN_REQUESTS[protocol]
    if protocol == MESSAGES:
        found = _left(faults(MessageCreateParams, body, models=False), allowed)
        if found:
            beta = _left(faults(BetaMessageCreateParams, body, models=False), allowed)
            if not beta and headers is not None and not headers.get(BETA_HEADER):
                found.append(Fault("", MISSING, f"the header {BETA_HEADER}, which these members need"))
            elif len(beta) < len(found) or not beta:
                found = beta
        if "betas" in body:
            found.append(Fault("betas", UNKNOWN, "a header, not a member of the body"))
        return _judge(f"{protocol} request", found)
    if protocol == CHAT:
        return _judge(f"{protocol} request", _left(faults(CompletionCreateParams, body, models=False), allowed))
    found = faults(ResponseCreateParams, _without_audio(body), models=False)
    return _judge(f"{protocol} request", _left(found, allowed))


def _without_audio(body: Mapping[str, object]) -> Mapping[str, object]:
    """A Responses body without audio, which has a type of its own that no union of contents lists."""
    items = body.get("input")
    if not isinstance(items, list):
        return body
    return {**body, "input": [_item_without_audio(item) if isinstance(item, dict) else item for item in items]}


def _item_without_audio(item: dict[str, object]) -> dict[str, object]:
    content = item.get("content")
    if not isinstance(content, list) or item.get("role") == "assistant":
        return item
    kept = [part for part in content if faults(ResponseInputAudioParam, part)]
    return item if len(kept) == len(content) else {**item, "content": kept}


_ANSWERS: dict[str, type[BaseModel]] = {MESSAGES: Message, CHAT: ChatCompletion, RESPONSES: Response}


def check_answer(protocol: str, body: Mapping[str, object]) -> BaseModel:
    """Hold a whole answer against the SDK's response model; give it as the SDK parses it."""
    model = _ANSWERS[protocol]
    found = _left(faults(model, body), IN_ANSWERS[protocol])
    if protocol == MESSAGES and found:
        beta = faults(BetaMessage, body)
        found, model = (beta, BetaMessage) if len(beta) < len(found) else (found, model)
    if protocol == RESPONSES:
        found += response_faults(body)
    _judge(f"{protocol} answer", found)
    try:
        # From text, so that strictness knows JSON's types and not Python's.
        return model.model_validate_json(json.dumps(body), strict=True)
    except ValidationError as error:
        raise AssertionError(f"{protocol} answer: {error}") from None


def _left(found: list[Fault], allowed: Allowed) -> list[Fault]:
    return [fault for fault in found if (fault.kind, fault.place) not in allowed]


def _judge(what: str, found: list[Fault]) -> None:
    if found:
        raise AssertionError(
            "\n".join([f"{what} is not what the SDK's types allow:", *(f"  {fault}" for fault in found)])
        )
