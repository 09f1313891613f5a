"""Grammars: what a stream to a client must look like, checked frame by frame against the protocol pages."""

from __future__ import annotations

import json

from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.laws.shapes import as_list, as_object, as_text
from tests.laws.strategies import CHAT, MESSAGES, RESPONSES


class Broken(AssertionError):
    """A stream that its protocol does not allow."""


def demand(condition: bool, sentence: str, data: object = None) -> None:
    """Break off with a sentence unless the condition holds."""
    if not condition:
        raise Broken(f"{sentence}: {data!r}" if data is not None else sentence)


def frames_of(stream: bytes) -> list[tuple[str | None, bytes]]:
    """The frames of a stream as this library writes them: at most an event line, then one data line, then a blank."""
    demand(not stream or stream.endswith(b"\n\n"), "the last frame ends with a blank line", stream[-80:])
    frames: list[tuple[str | None, bytes]] = []
    for block in stream.split(b"\n\n")[:-1]:
        lines = [line for line in block.split(b"\n") if not line.startswith(b":")]
        if not lines:
            continue
        name = lines.pop(0).removeprefix(b"event: ").decode() if lines[0].startswith(b"event: ") else None
        demand(len(lines) == 1 and lines[0].startswith(b"data: "), "a frame has one data line", block)
        frames.append((name, lines[0].removeprefix(b"data: ")))
    return frames


def check(protocol: str, stream: bytes) -> list[JsonObject]:
    """Check a stream against its protocol's grammar; give its events."""
    return {MESSAGES: _messages, CHAT: _chat, RESPONSES: _responses}[protocol](stream)


def _object(data: bytes) -> JsonObject:
    return as_object(json.loads(data))


# --- Messages -------------------------------------------------------------------------------------------------------

_DELTAS = {
    "text": {"text_delta", "citations_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "tool_use": {"input_json_delta"},
    "server_tool_use": {"input_json_delta"},
    "mcp_tool_use": {"input_json_delta"},
    "compaction": {"compaction_delta"},
}


def _messages(stream: bytes) -> list[JsonObject]:
    events: list[JsonObject] = []
    phase = "start"
    next_index = 0
    open_block: str | None = None
    seen: list[str] = []
    text = ""
    for name, data in frames_of(stream):
        demand(data != b"[DONE]", "no [DONE] on Messages")
        event = _object(data)
        kind = as_text(event["type"])
        events.append(event)
        demand(name == kind, "the event line equals the type", (name, kind))
        demand(phase != "over", "nothing follows the end", event)
        if kind == "ping":
            demand(phase != "start", "message_start comes first", event)
            continue
        if kind == "error":
            demand(bool(as_object(event["error"])["type"]), "an error has a type", event)
            demand(bool(as_object(event["error"])["message"]), "an error has a message", event)
            phase = "over"
            open_block = None
            continue
        if kind == "message_start":
            demand(phase == "start", "exactly one message_start", event)
            message = as_object(event["message"])
            demand(message["content"] == [] and message["stop_reason"] is None, "message_start is empty", message)
            demand(message["type"] == "message" and message["role"] == "assistant", "it is a message", message)
            demand({"id", "model", "stop_sequence", "usage"} <= message.keys(), "message_start is whole", message)
            phase = "blocks"
            continue
        demand(phase != "start", "message_start comes first", event)
        if kind == "content_block_start":
            demand(phase == "blocks" and open_block is None, "one block is open at a time", event)
            demand(event["index"] == next_index, "indices count up by one", event)
            open_block = as_text(as_object(event["content_block"])["type"])
            seen, text = [], ""
        elif kind == "content_block_delta":
            delta = as_object(event["delta"])
            sort = as_text(delta["type"])
            demand(open_block is not None and event["index"] == next_index, "a delta is for the open block", event)
            demand(sort in _DELTAS.get(open_block or "", set()), "the delta fits its block", (open_block, sort))
            demand(seen[-1:] != ["signature_delta"], "one signature, at the end", event)
            seen.append(sort)
            text += str(delta.get("text", delta.get("partial_json", "")))
        elif kind == "content_block_stop":
            demand(open_block is not None and event["index"] == next_index, "a stop is for the open block", event)
            if open_block == "thinking":
                demand(seen.count("signature_delta") == 1, "a thinking block is signed exactly once", event)
            if open_block == "text":
                demand(bool(text.strip()), "a text block holds text", event)
            open_block = None
            next_index += 1
        elif kind == "message_delta":
            demand(open_block is None, "blocks are closed before message_delta", event)
            demand(phase in ("blocks", "delta"), "message_delta follows the blocks", event)
            demand(
                {"stop_reason", "stop_sequence"} <= as_object(event["delta"]).keys(), "message_delta is whole", event
            )
            demand(as_object(event["delta"])["stop_reason"] is not None, "there is a reason to stop", event)
            demand(isinstance(as_object(event["usage"]).get("output_tokens"), int), "output_tokens is there", event)
            phase = "delta"
        elif kind == "message_stop":
            demand(phase == "delta", "message_stop follows message_delta", event)
            phase = "over"
        else:
            raise Broken(f"unknown event {kind}")
    demand(phase == "over", "the stream ends with message_stop or error", events[-1:])
    return events


# --- Chat -----------------------------------------------------------------------------------------------------------


def _chat(stream: bytes) -> list[JsonObject]:
    frames = frames_of(stream)
    demand(bool(frames), "a stream has frames")
    demand(all(name is None for name, _ in frames), "no event lines on Chat")
    chunks = [_object(data) for _, data in frames if data != b"[DONE]"]
    done = [index for index, (_, data) in enumerate(frames) if data == b"[DONE]"]
    errors = [index for index, chunk in enumerate(chunks) if "error" in chunk]
    if errors:
        demand(errors == [len(chunks) - 1] and not done, "an error is the last frame, without [DONE]", chunks[-2:])
        error = as_object(chunks.pop()["error"])
        demand(bool(error["message"]) and {"type", "param", "code"} <= error.keys(), "an error is whole", error)
    else:
        demand(done == [len(frames) - 1], "one [DONE], last", frames[-2:])
    demand(len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) <= 1, "one id, created, model")
    finished = False
    calls: dict[int, str] = {}
    for number, chunk in enumerate(chunks):
        demand(chunk["object"] == "chat.completion.chunk", "it is a chunk", chunk)
        choices = as_list(chunk["choices"])
        if not choices:
            demand(finished and isinstance(chunk.get("usage"), dict), "only the usage chunk has no choices", chunk)
            demand(number == len(chunks) - 1, "the usage chunk is the last", chunk)
            continue
        demand(chunk.get("usage") is None, "usage stands in its own chunk", chunk)
        demand(len(choices) == 1 and as_object(choices[0])["index"] == 0, "one choice", chunk)
        choice = as_object(choices[0])
        delta = as_object(choice["delta"])
        demand(not finished, "no delta follows the finish", chunk)
        demand(("role" in delta) == (number == 0), "the role comes first and once", chunk)
        demand(all(value is not None for name, value in delta.items() if name != "content"), "no nulls", chunk)
        for fragment in as_list(delta.get("tool_calls") or []):
            _check_fragment(as_object(fragment), calls)
        for name in ("annotations", "reasoning_details"):
            for entry in as_list(delta.get(name) or []):
                demand(isinstance(as_object(entry).get("index"), int), "list entries have an index", entry)
        finished = choice["finish_reason"] is not None
    demand(finished or bool(errors), "there is a finish_reason or an error", chunks[-1:])
    return chunks


def _check_fragment(fragment: JsonObject, calls: dict[int, str]) -> None:
    index = fragment["index"]
    assert isinstance(index, int)
    if index in calls:
        demand("id" not in fragment and "type" not in fragment, "id and type come once", fragment)
        demand("name" not in as_object(fragment["function"]), "the name comes once", fragment)
    else:
        demand(index == len(calls), "calls count up from 0", fragment)
        demand(fragment["type"] == "function", "streamed calls are functions", fragment)
        demand(bool(as_object(fragment["function"])["name"]) and bool(fragment["id"]), "a call opens whole", fragment)
        calls[index] = as_text(fragment["id"])


# --- Responses ------------------------------------------------------------------------------------------------------

_TERMINALS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}


class _Item:
    """One output item while it is open."""

    def __init__(self, item: JsonObject) -> None:
        self.item = item
        self.texts: dict[tuple[str, int], str] = {}
        self.done: dict[tuple[str, int], str] = {}
        self.open_part: tuple[str, int] | None = None
        self.parts: dict[str, int] = {}

    def begin(self, sort: str, index: JsonValue) -> None:
        demand(self.open_part is None, "one part is open at a time", self.item)
        demand(index == self.parts.get(sort, 0), "part indices count up from 0", (sort, index))
        assert isinstance(index, int)
        self.parts[sort] = index + 1
        self.open_part = (sort, index)

    def end(self, sort: str, index: JsonValue) -> None:
        demand(self.open_part == (sort, index), "the part that ends is the open one", (self.open_part, sort, index))
        self.open_part = None


# Delta and done events: which part they belong to, the member that counts, and what the done event repeats.
_GROWTH: dict[str, tuple[str, str | None, str]] = {
    "response.output_text": ("content", "content_index", "text"),
    "response.refusal": ("content", "content_index", "refusal"),
    "response.reasoning_summary_text": ("summary", "summary_index", "text"),
    "response.reasoning_text": ("content", "content_index", "text"),
    "response.function_call_arguments": ("arguments", None, "arguments"),
    "response.custom_tool_call_input": ("input", None, "input"),
    "response.mcp_call_arguments": ("arguments", None, "arguments"),
    "response.code_interpreter_call_code": ("code", None, "code"),
}
_ZERO: dict[str, JsonObject] = {
    "message": {"content": [], "status": "in_progress"},
    "reasoning": {"summary": []},
    "function_call": {"arguments": "", "status": "in_progress"},
    "custom_tool_call": {"input": ""},
}


def _responses(stream: bytes) -> list[JsonObject]:
    frames = frames_of(stream)
    demand(bool(frames) and frames[-1] == (None, b"[DONE]"), "the stream ends with [DONE]", frames[-1:])
    events = []
    for name, data in frames[:-1]:
        event = _object(data)
        demand(name == event["type"], "the event line equals the type", (name, event["type"]))
        events.append(event)
    demand([event["sequence_number"] for event in events] == list(range(len(events))), "numbered 0,1,2… without a gap")
    demand(bool(events) and events[0]["type"] == "response.created", "response.created is first", events[:1])
    demand(events[-1]["type"] in _TERMINALS, "a terminal event is last", events[-1:])
    kinds = [as_text(event["type"]) for event in events]
    demand(sum(kind in _TERMINALS for kind in kinds) == 1, "exactly one terminal event", kinds)
    demand(kinds.count("response.created") == 1, "exactly one response.created", kinds)
    identities = {as_text(as_object(event["response"])["id"]) for event in events if "response" in event}
    demand(len(identities) == 1, "the id of the response never changes", identities)
    if "error" in kinds:
        demand(kinds[-2:] == ["error", "response.failed"], "an error is followed by response.failed alone", kinds)
        demand("error" not in events[-2] and bool(events[-2]["message"]), "the error event is flat", events[-2])
    _check_items(events)
    return events


def _check_items(events: list[JsonObject]) -> None:
    finished: list[JsonObject] = []
    current: _Item | None = None
    for event in events:
        kind = as_text(event["type"])
        if kind in ("response.created", "response.in_progress", "response.queued"):
            demand(not finished and current is None, "the opening comes before items", event)
            response = as_object(event["response"])
            demand(
                response["output"] == [] and response["status"] in ("in_progress", "queued"), "it is empty", response
            )
        elif kind == "response.output_item.added":
            demand(current is None, "one item is open at a time", event)
            demand(event["output_index"] == len(finished), "output_index counts up by one", event)
            current = _Item(as_object(event["item"]))
            zero = _ZERO.get(as_text(current.item["type"]), {})
            demand(all(current.item.get(name) == value for name, value in zero.items()), "added has zero values", event)
            demand(bool(current.item.get("id")), "an item has an id", event)
        elif kind == "response.output_item.done":
            demand(current is not None and event["output_index"] == len(finished), "done is for the open item", event)
            assert current is not None
            _check_done(current, as_object(event["item"]))
            finished.append(as_object(event["item"]))
            current = None
        elif kind in _TERMINALS:
            _check_terminal(event, finished, current)
        elif kind != "error":
            demand(
                current is not None and event["output_index"] == len(finished), "events are for the open item", event
            )
            assert current is not None
            demand(event["item_id"] == current.item["id"], "item_id is the open item's", event)
            _check_growth(current, kind, event)


def _check_growth(current: _Item, kind: str, event: JsonObject) -> None:
    if kind in ("response.content_part.added", "response.reasoning_summary_part.added"):
        sort = "content" if "content" in kind else "summary"
        current.begin(sort, event[f"{sort}_index"])
        return
    if kind in ("response.content_part.done", "response.reasoning_summary_part.done"):
        sort = "content" if "content" in kind else "summary"
        current.end(sort, event[f"{sort}_index"])
        return
    stem, _, verb = kind.rpartition(".")
    growth = _GROWTH.get(stem)
    if growth is None or verb not in ("delta", "done"):
        return
    sort, counter, member = growth
    index = event[counter] if counter is not None else 0
    assert isinstance(index, int)
    if counter is not None:
        demand(current.open_part == (sort, index), "deltas are for the open part", event)
    place = (sort, index)
    demand(place not in current.done, "nothing grows after its done", event)
    if stem == "response.output_text":
        demand(isinstance(event["logprobs"], list), "logprobs are there", event)
    if verb == "delta":
        demand(bool(event["delta"]), "no empty deltas", event)
        current.texts[place] = current.texts.get(place, "") + as_text(event["delta"])
    else:
        demand(event[member] == current.texts.get(place, ""), "deltas add up to done", (event, current.texts))
        current.done[place] = as_text(event[member])


def _check_done(current: _Item, item: JsonObject) -> None:
    demand(current.open_part is None, "parts are closed before their item", item)
    for name in ("id", "type", "call_id", "name"):
        demand(current.item.get(name) == item.get(name), f"{name} is the same in added and done", item)
    demand(current.texts.keys() <= current.done.keys(), "every text that grew is done", item)
    if item["type"] == "message":
        told = [
            as_text(as_object(part).get("text", as_object(part).get("refusal"))) for part in as_list(item["content"])
        ]
        demand(told == [current.done[("content", index)] for index in range(len(told))], "the item has its texts", item)
    elif item["type"] == "function_call":
        demand(current.done.get(("arguments", 0)) == item["arguments"], "the item has its arguments", item)
    elif item["type"] == "custom_tool_call":
        demand(current.done.get(("input", 0), "") == item["input"], "the item has its input", item)


def _check_terminal(event: JsonObject, finished: list[JsonObject], current: _Item | None) -> None:
    response = as_object(event["response"])
    kind = as_text(event["type"])
    demand(response["status"] == _TERMINALS[kind], "the status fits the event", response)
    demand(response["output"] == finished, "the output equals the done items", (response["output"], finished))
    if kind == "response.failed":
        demand(bool(as_object(response["error"])["message"]), "a failure says why", response)
        return
    demand(current is None, "every item is closed before the end", current and current.item)
    demand(isinstance(response["usage"], dict), "usage is there", response)
    incomplete = [item for item in finished if item.get("status") == "incomplete"]
    demand(incomplete in ([], finished[-1:]), "only the last item is incomplete", finished)
    if kind == "response.completed":
        demand(not incomplete, "a completed response has no incomplete item", finished)
    else:
        demand(as_object(response["incomplete_details"])["reason"] is not None, "it says why", response)
