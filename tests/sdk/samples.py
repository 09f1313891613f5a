"""The test data that every protocol shares, and streams written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.sdk.digging import Object, dig_objects

DATA = Path(__file__).parent.parent / "data"


def _read(name: str) -> Object:
    value: object = json.loads((DATA / name).read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


VECTORS = _read("mapping-vectors.json")
_SAMPLES = _read("stream-samples.json")
# One assistant turn by protocol: reasoning, text, two calls, the second without arguments.
SAMPLES: dict[str, list[Object]] = {
    "anthropic-messages": dig_objects(_SAMPLES, "anthropic"),
    "openai-chat": dig_objects(_SAMPLES, "chat"),
    "openai-responses": dig_objects(_SAMPLES, "responses"),
}


def as_stream(protocol: str, events: Sequence[Mapping[str, object]], done: bool = True) -> bytes:
    """Events as they stand on the wire, with the terminator that the protocol has unless `done` says otherwise."""
    frames: list[str] = []
    for event in events:
        if protocol != "openai-chat":
            frames.append(f"event: {event['type']}\n")
        frames.append(f"data: {json.dumps(event)}\n\n")
    if done and protocol != "anthropic-messages":
        frames.append("data: [DONE]\n\n")
    return "".join(frames).encode()


def events_of(stream: bytes) -> list[Object]:
    """The events of a stream as objects, without the terminator."""
    lines = [line.removeprefix("data: ") for line in stream.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]
