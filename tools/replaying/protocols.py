"""The three protocols by their shapes: whose answer, request or stream this is."""

from __future__ import annotations

import json

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
Object = dict[str, object]


def answer_protocol(body: Object) -> str | None:
    """Whose whole answer this is, by its shape."""
    if body.get("type") == "message" and body.get("role") == "assistant" and isinstance(body.get("content"), list):
        return MESSAGES if "stop_reason" in body else None
    if body.get("type") == "error" and isinstance(body.get("error"), dict):
        return MESSAGES
    choices = body.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        if "message" in choices[0]:
            return CHAT
        # Azure leaves out the message that it filtered. The older completions have a text.
        if "content_filter_results" in choices[0] and not {"delta", "text"} & set(choices[0]):
            return CHAT
        return None
    if body.get("object") == "response" and isinstance(body.get("output"), list):
        return RESPONSES
    return None


_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))


def request_protocol(body: Object) -> str | None:
    """Whose request this is, by its shape; what two protocols share is told by whoever knows the address."""
    messages = body.get("messages")
    if isinstance(messages, list) and isinstance(body.get("model", ""), str) and messages:
        if not all(isinstance(message, dict) and message.get("role") in _ROLES for message in messages):
            return None
        if "anthropic_version" in body or ("max_tokens" in body and "system" in body):
            return MESSAGES
        return CHAT if "model" in body else None
    if "input" in body and isinstance(body.get("model"), str) and not {"encoding_format", "voice", "texts"} & set(body):
        return RESPONSES if isinstance(body["input"], list | str) else None
    return None


def stream_protocol(events: list[object] | list[Object]) -> str | None:
    """Whose stream these events are: the first that can be told decides."""
    for event in events[:8]:
        if not isinstance(event, dict):
            return None
        kind = event.get("type")
        if kind == "message_start" and "message" in event:
            return MESSAGES
        if isinstance(kind, str) and kind.startswith("response.") and ("response" in event or "item" in event):
            return RESPONSES
        if event.get("object") == "chat.completion.chunk":
            return CHAT
        choices = event.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict) and "delta" in choices[0]:
            return CHAT
    return None


def events_of(text: str) -> list[Object]:
    """The JSON objects of a stream: of the data lines if there are any, else of all lines."""
    lines = text.replace("\r\n", "\n").split("\n")
    data = [line[5:].strip() for line in lines if line.startswith("data:")]
    events: list[Object] = []
    for line in data or [line.strip() for line in lines]:
        if line[:1] == "{":
            try:
                event: object = json.loads(line)
            except ValueError:
                # Recordings cut lines off; a half object tells nothing.
                continue
            if isinstance(event, dict):
                events.append(event)
    return events


def written(protocol: str, events: list[Object], *, closed: bool) -> bytes:
    """Events as the stream that they were taken from."""
    frames: list[bytes] = []
    for event in events:
        head = b"" if protocol == CHAT else b"event: %s\n" % str(event.get("type", "error")).encode()
        frames.append(head + b"data: " + as_json(event) + b"\n\n")
    if protocol == CHAT and closed:
        frames.append(b"data: [DONE]\n\n")
    return b"".join(frames)


def as_json(value: object) -> bytes:
    """A value as it would have come over the wire: half a character can only be escaped there."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()
