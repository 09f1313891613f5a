"""Errors inside a successful response, as servers of each protocol write them: full, and as the end of a stream."""

from __future__ import annotations

import json

from msgspec import Struct

from dragoman.model.failure import FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.laws.shapes import as_text
from tests.laws.strategies import CHAT, MESSAGES, RESPONSES

OVERFLOW = FailureKind.CONTEXT_OVERFLOW
WORDS = "Your input exceeds the context window of this model."
_ERROR: JsonObject = {"code": "context_length_exceeded", "message": WORDS}
_TYPED: JsonObject = {"type": "invalid_request_error", "message": "prompt is too long: 5 tokens > 4 maximum"}


class ErrorShape(Struct, frozen=True, kw_only=True):
    """One error in both forms; `frames` stand behind the opening of a stream."""

    protocol: str
    name: str
    full: JsonObject
    frames: tuple[JsonObject, ...]
    words: str
    kind: FailureKind

    def __str__(self) -> str:
        return f"{self.protocol}: {self.name}"

    @property
    def stream(self) -> bytes:
        """The stream that ends in the error."""
        return b"".join(_frame(event) for event in (_OPENING[self.protocol], *self.frames))

    @property
    def stream_after_text(self) -> bytes:
        """The same behind some text, when the status is out."""
        return b"".join(_frame(event) for event in (_OPENING[self.protocol], *_TEXT[self.protocol], *self.frames))


def _frame(event: JsonObject) -> bytes:
    name = f"event: {as_text(event['type'])}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


_RESPONSE: JsonObject = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
_FAILED: JsonObject = {**_RESPONSE, "status": "failed", "error": None}
_ITEM: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
_CHUNK: JsonObject = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_COMPLETION: JsonObject = {**_CHUNK, "object": "chat.completion"}
_MESSAGE: JsonObject = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
_OPENING: dict[str, JsonObject] = {
    RESPONSES: {"type": "response.created", "response": {**_RESPONSE, "status": "in_progress", "error": None}},
    CHAT: {**_CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]},
    MESSAGES: {"type": "message_start", "message": _MESSAGE},
}
_TEXT: dict[str, tuple[JsonObject, ...]] = {
    RESPONSES: (
        {"type": "response.output_item.added", "output_index": 0, "item": _ITEM},
        {
            "type": "response.output_text.delta",
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
            "delta": "So far",
        },
    ),
    CHAT: ({**_CHUNK, "choices": [{"index": 0, "delta": {"content": "So far"}, "finish_reason": None}]},),
    MESSAGES: (
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "So far"}},
    ),
}


def _responses(name: str, error: JsonValue, words: str, kind: FailureKind) -> list[ErrorShape]:
    """An error of Responses at each place where servers put it."""
    full: JsonObject = {**_FAILED, "error": error}
    places: dict[str, JsonObject] = {
        "in the response": {"type": "response.failed", "response": full},
        "beside the response": {"type": "response.failed", "response": _FAILED, "error": error},
        "beside an empty error": {
            "type": "response.failed",
            "response": {**_FAILED, "error": {"code": None, "message": ""}},
            "error": error,
        },
        "without a response": {"type": "response.failed", "error": error},
        "in both": {"type": "response.failed", "response": full, "error": error},
        "in a completed response": {"type": "response.completed", "response": {**full, "status": "completed"}},
        "in an incomplete response": {"type": "response.incomplete", "response": {**full, "status": "incomplete"}},
        "in an error event": {"type": "error", "error": error},
        "in an event of another name": {"type": "response.error", "error": error},
        "in an event without a name": {"error": error},
    }
    return [
        ErrorShape(protocol=RESPONSES, name=f"{name} {place}", full=full, frames=(event,), words=words, kind=kind)
        for place, event in places.items()
    ]


def _choice(error: JsonValue) -> tuple[JsonObject, JsonObject]:
    ended: JsonObject = {"index": 0, "finish_reason": "error", "error": error}
    full: JsonObject = {**_COMPLETION, "choices": [{**ended, "message": {"role": "assistant", "content": ""}}]}
    return full, {**_CHUNK, "choices": [{**ended, "delta": {}}]}


def _chat() -> list[ErrorShape]:
    vllm: JsonObject = {"object": "error", "message": WORDS, "type": "BadRequestError", "param": None, "code": 400}
    pairs: dict[str, tuple[JsonObject, JsonObject]] = {
        "an object": ({"error": _ERROR}, {"error": _ERROR}),
        "an object beside choices": (
            {**_COMPLETION, "choices": [], "error": _ERROR},
            {**_CHUNK, "choices": [], "error": _ERROR},
        ),
        "an object in a choice": _choice(_ERROR),
        "no envelope": (vllm, vllm),
        "a list of errors": ({"error": [WORDS]}, {"error": [WORDS]}),
        "a string": ({"error": WORDS}, {"error": WORDS}),
        "a string in a choice": _choice(WORDS),
        "a detail": ({"detail": WORDS}, {"detail": WORDS}),
    }
    return [
        ErrorShape(protocol=CHAT, name=name, full=full, frames=(chunk,), words=WORDS, kind=OVERFLOW)
        for name, (full, chunk) in pairs.items()
    ]


def _messages() -> list[ErrorShape]:
    stopped: JsonObject = {"type": "message_delta", "delta": {"stop_reason": "error"}, "error": _TYPED}
    inside: JsonObject = {"type": "message_delta", "delta": {"stop_reason": "error", "error": _TYPED}}
    ended: JsonObject = {"type": "message_stop"}
    flat: JsonObject = {"type": "error", "message": _TYPED["message"]}
    string: JsonObject = {"type": "error", "error": _TYPED["message"]}
    broken: JsonObject = {**_MESSAGE, "stop_reason": "error", "error": _TYPED}
    shapes: dict[str, tuple[JsonObject, tuple[JsonObject, ...]]] = {
        "an object": ({"type": "error", "error": _TYPED}, ({"type": "error", "error": _TYPED},)),
        "an object without a name": ({"error": _TYPED}, ({"error": _TYPED},)),
        "an object beside a stop reason": (broken, (stopped, ended)),
        "an object with a stop reason": (broken, (inside, ended)),
        "a string": (string, (string,)),
        "no envelope": (flat, (flat,)),
    }
    return [
        ErrorShape(protocol=MESSAGES, name=name, full=full, frames=frames, words=str(_TYPED["message"]), kind=OVERFLOW)
        for name, (full, frames) in shapes.items()
    ]


_LIMITED: JsonObject = {"code": "rate_limit_exceeded", "message": "Slow down, please."}
_CANCELLED: JsonObject = {**_RESPONSE, "status": "cancelled"}

ERROR_SHAPES: list[ErrorShape] = [
    *_responses("an object", _ERROR, WORDS, OVERFLOW),
    *_responses("another object", _LIMITED, "Slow down, please.", FailureKind.RATE_LIMITED),
    *_responses("a string", WORDS, WORDS, OVERFLOW),
    *_responses("a list", [WORDS], WORDS, OVERFLOW),
    ErrorShape(
        protocol=RESPONSES,
        name="members beside the response",
        full={**_FAILED, **_ERROR},
        frames=({"type": "response.failed", "response": _FAILED, **_ERROR},),
        words=WORDS,
        kind=OVERFLOW,
    ),
    ErrorShape(
        protocol=RESPONSES,
        name="no words",
        full=_FAILED,
        frames=({"type": "response.failed", "response": _FAILED},),
        words="the response failed",
        kind=FailureKind.INTERNAL,
    ),
    ErrorShape(
        protocol=RESPONSES,
        name="a cancelled response",
        full=_CANCELLED,
        frames=({"type": "response.cancelled", "response": _CANCELLED},),
        words="the response was cancelled",
        kind=FailureKind.INTERNAL,
    ),
    *_chat(),
    *_messages(),
]
