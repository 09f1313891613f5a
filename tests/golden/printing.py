"""How golden files print bodies and streams: short enough to read, with nothing left out that is not checked.

Left out, unless the section says `full`:
- of Responses answers: echo members that have their default; a member that should be there and is not is named;
- of stream events: `type` where it equals the event's name, `sequence_number` where it counts up by one, the members
  that every Chat chunk repeats, members of a Responses snapshot that the first snapshot already told, and the final
  `output` where it equals the items done.

An envelope (mapping.md §11) is printed with its content in the clear, and is given so: `rsv1.{"o":"a",…}`.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from dragoman.wire.sse import SseReader, frame

WIDTH = 110

JsonObject = dict[str, object]


class Spelled(str):
    """A number as it was spelled."""


def loads(text: str | bytes) -> object:
    """Read JSON, keeping the spelling of numbers."""
    return json.loads(text, parse_float=Spelled, parse_int=Spelled)


def flat(value: object) -> str:
    """Write JSON on one line."""
    if isinstance(value, Spelled):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flat(str(key))}: {flat(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flat(item) for item in value) + "]"
    return json.dumps(_opened(value) if isinstance(value, str) else value, ensure_ascii=False)


_PREFIX = "rsv1."
_CLEAR = re.compile(r'"rsv1\.(\{(?:[^"\\]|\\.)*\})"')


def _opened(text: str) -> str:
    if not text.startswith(_PREFIX):
        return text
    packed = text.removeprefix(_PREFIX)
    return _PREFIX + urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()


def sealed(text: str) -> str:
    """The text of a section with the envelopes that it shows in the clear packed as they travel."""
    return _CLEAR.sub(_packed, text)


def _packed(clear: re.Match[str]) -> str:
    content: str = json.loads(f'"{clear[1]}"')
    return f'"{_PREFIX}{urlsafe_b64encode(content.encode()).decode().rstrip("=")}"'


def pretty(value: object, indent: int = 0, before: int = 0) -> str:
    """Write JSON over as many lines as it needs: what fits on one line stays on it, below the outermost object."""
    line = flat(value)
    fits = indent + before + len(line) < WIDTH
    if not isinstance(value, dict | list) or not value or (indent and fits):
        return line
    inner, end = "\n" + " " * (indent + 2), "\n" + " " * indent
    if isinstance(value, list):
        return "[" + inner + f",{inner}".join(pretty(item, indent + 2) for item in value) + end + "]"
    members = [f"{flat(str(key))}: {pretty(item, indent + 2, len(flat(str(key))) + 2)}" for key, item in value.items()]
    return "{" + inner + f",{inner}".join(members) + end + "}"


_NULL: tuple[str, ...] = (
    "error",
    "incomplete_details",
    "instructions",
    "previous_response_id",
    "reasoning",
    "max_output_tokens",
    "max_tool_calls",
    "safety_identifier",
    "prompt_cache_key",
)
# What a Responses answer echoes if the client did not say otherwise (mapping.md §16).
ECHO: JsonObject = {
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "top_logprobs": 0,
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "text": {"format": {"type": "text"}},
    "store": True,
    "background": False,
    "service_tier": "default",
    "metadata": {},
    **dict.fromkeys(_NULL),
}


def without_echo(answer: JsonObject) -> JsonObject:
    """A Responses answer without the echo members at their default."""
    kept = {
        name: value
        for name, value in answer.items()
        if name not in ECHO or flat(value).removesuffix(".0") != flat(ECHO[name])
    }
    missing: list[object] = [name for name in (*ECHO, "completed_at", "usage") if name not in answer]
    return {**kept, "(missing)": missing} if missing else kept


def print_answer(body: bytes, protocol: str, full: bool) -> str:
    """A whole answer as the golden file shows it."""
    value = loads(body)
    if protocol == "openai-responses" and not full and isinstance(value, dict):
        value = without_echo(value)
    return pretty(value)


def print_stream(stream: bytes, protocol: str, full: bool) -> str:
    """A stream, one event per line."""
    reader = SseReader()
    frames = reader.feed(stream) + reader.close()
    shown = _Shortener(protocol, full)
    return "\n".join(shown.line(one.event, one.data.decode()) for one in frames)


class _Shortener:
    """Leaves out of each event what the ones before it let the reader know."""

    def __init__(self, protocol: str, full: bool) -> None:
        self._full = full
        self._responses = protocol == "openai-responses"
        self._constant: JsonObject = {}
        self._snapshot: JsonObject = {}
        self._done: list[object] = []
        self._count = 0

    def line(self, event: str | None, data: str) -> str:
        if data == "[DONE]":
            return data
        value = loads(data)
        if not self._full and isinstance(value, dict):
            value = self._short(event, value)
        return f"{event} {flat(value)}" if event else flat(value)

    def _short(self, event: str | None, value: JsonObject) -> JsonObject:
        short = dict(value)
        if event is None:
            return self._chunk(short)
        if short.get("type") == event:
            del short["type"]
        if self._responses and short.get("sequence_number") == str(self._count):
            del short["sequence_number"]
        self._count += 1
        if self._responses and event == "response.output_item.done":
            self._done.append(short["item"])
        response = short.get("response")
        if isinstance(response, dict):
            short["response"] = self._news(response)
        return short

    def _chunk(self, chunk: JsonObject) -> JsonObject:
        if "error" in chunk:
            return chunk
        if not self._constant:
            self._constant = {name: item for name, item in chunk.items() if name != "choices"}
            return chunk
        gone: list[object] = [name for name in self._constant if name not in chunk]
        news = {
            name: item for name, item in chunk.items() if name not in self._constant or self._constant[name] != item
        }
        return {**news, **({"(missing)": gone} if gone else {})}

    def _news(self, response: JsonObject) -> JsonObject:
        if not self._snapshot:
            self._snapshot = response
            return without_echo(response)
        news = {
            name: item
            for name, item in response.items()
            if name not in self._snapshot or flat(self._snapshot[name]) != flat(item)
        }
        gone: list[object] = [name for name in self._snapshot if name not in response]
        if response.get("output") == self._done and self._done:
            news["output"] = "the items done"
        return {"id": response.get("id"), **news, **({"(missing)": gone} if gone else {})}


_CHUNK: JsonObject = {
    "id": "chatcmpl-0123456789abcdef01234567",
    "object": "chat.completion.chunk",
    "created": Spelled("1700000000"),
    "model": "served",
}


def stream_bytes(text: str, protocol: str) -> bytes:
    """The bytes of a stream given as one event per line (`name {…}`, Chat: `{…}`), or as it stands on the wire."""
    if text.startswith(("event:", "data:")):
        return (text + "\n\n").encode()
    out: list[bytes] = []
    for count, line in enumerate(text.splitlines()):
        if line.startswith(":"):
            out.append(f"{line}\n\n".encode())
        elif line == "[DONE]":
            out.append(frame(b"[DONE]"))
        elif protocol == "openai-chat":
            value = loads(line)
            assert isinstance(value, dict), line
            out.append(frame(flat(value if "error" in value else {**_CHUNK, **value}).encode()))
        else:
            event, _, body = line.partition(" ")
            value = loads(body or "{}")
            assert isinstance(value, dict), line
            number = {"sequence_number": Spelled(count)} if protocol == "openai-responses" else {}
            out.append(frame(flat({"type": event, **value, **number}).encode(), event))
    return b"".join(out)
