"""The stream oracle: the grammar of each protocol, frame by frame, then the SDKs' own accumulators over the bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

import anthropic
import openai
from anthropic.types import RawMessageStreamEvent
from anthropic.types.beta import BetaRawMessageStreamEvent
from msgspec import Struct
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel

from tests.sdk.annotations import UNKNOWN, Fault, faults
from tests.sdk.clients import replay
from tests.sdk.open_responses import WIRE, item_faults, names, response_faults

DONE = "[DONE]"


class Told(Struct, frozen=True):
    """What a client makes of a stream: the answer it accumulated, and the error it raised or was told, if any."""

    final: BaseModel | None
    error: str | None = None

    @property
    def body(self) -> dict[str, object]:
        """The accumulated answer as JSON members."""
        assert self.final is not None, self.error
        body: object = json.loads(self.final.model_dump_json(exclude_unset=True, warnings=False))
        assert isinstance(body, dict)
        return body


class Sent(Struct, frozen=True):
    """One frame: its event name and its data, read as JSON unless it is the terminator."""

    event: str | None
    data: str
    body: dict[str, object]


def check_stream(protocol: str, stream: bytes) -> Told:
    """Check every frame and the order of all, then run the SDK's clients over the bytes; give what they accumulate."""
    sent = list(_frames(stream))
    assert sent, "an empty stream"
    for one in sent:
        if one.data != DONE:
            found = _EVENT_FAULTS[protocol](one)
            assert not found, f"{protocol} {one.event or 'chunk'}: {'; '.join(map(str, found))}\n{one.data}"
    _GRAMMARS[protocol](sent)
    replay().stream(stream)
    if protocol == "anthropic-messages" and any(_is_beta(one) for one in sent):
        return _beta_messages_client()
    return _CLIENTS[protocol]()


def _frames(stream: bytes) -> Iterator[Sent]:
    text = stream.decode()
    assert text.endswith("\n\n"), "the last frame is closed by a blank line"
    for frame in text.removesuffix("\n\n").split("\n\n"):
        event, data = None, []
        for line in frame.split("\n"):
            name, _, value = line.partition(": ")
            if name == "event":
                event = value
            elif name == "data":
                data.append(value)
            else:
                assert line.startswith(":"), f"a line that is no field: {line!r}"
        if data:
            joined = "\n".join(data)
            yield Sent(event, joined, {} if joined == DONE else json.loads(joined))


def _messages_faults(one: Sent) -> list[Fault]:
    assert one.event is not None and one.event == one.body.get("type"), f"S8: {one}"
    required = WIRE["anthropic_events"][one.event]
    if one.event in ("ping", "error"):
        # The SDK handles both before its union of events.
        return [Fault(name, "missing") for name in names(required) if name not in one.body]
    return faults(BetaRawMessageStreamEvent if _is_beta(one) else RawMessageStreamEvent, one.body)


def _is_beta(one: Sent) -> bool:
    """Whether an event holds a block or a delta that only the beta types know, and they know it fully."""
    if one.event not in ("content_block_start", "content_block_delta"):
        return False
    return bool(faults(RawMessageStreamEvent, one.body)) and not faults(BetaRawMessageStreamEvent, one.body)


_IN_CHUNKS = {
    "choices[].delta.reasoning_content": "the widespread extension by which Chat tells reasoning (§11)",
    "choices[].delta.reasoning_details": "the carrier of its proof (§11)",
    "choices[].delta.annotations": "known to the SDK's whole message, told in streams under the same name (§19)",
}


def _chat_faults(one: Sent) -> list[Fault]:
    assert one.event is None, f"S8: no event lines on Chat: {one}"
    if "error" in one.body:
        error = one.body["error"]
        assert isinstance(error, dict) and set(error) >= {"message", "type", "param", "code"}, one
        return []
    return _beyond(faults(ChatCompletionChunk, one.body), _IN_CHUNKS)


_IN_EVENTS = {
    "name": "of `function_call_arguments.done`: demanded by one revision of the schema (§26, 20)",
    "response.presence_penalty": "demanded by the Open Responses core",
    "response.frequency_penalty": "demanded by the Open Responses core",
    "response.store": "demanded by the Open Responses core",
}


def _responses_faults(one: Sent) -> list[Fault]:
    assert one.event is not None and one.event == one.body.get("type"), f"S8: {one}"
    found = _beyond(faults(ResponseStreamEvent, one.body), _IN_EVENTS)
    known = WIRE["responses_events"][one.event]
    assert isinstance(known, dict)
    found += [Fault(name, "missing") for name in names(known["required"]) if name not in one.body]
    response, item = one.body.get("response"), one.body.get("item")
    if isinstance(response, dict):
        found += response_faults(response, "response")
    if isinstance(item, dict) and one.event == "response.output_item.done":
        found += item_faults(item, "item")
    return found


def _beyond(found: list[Fault], allowed: Mapping[str, str]) -> list[Fault]:
    return [fault for fault in found if not (fault.kind == UNKNOWN and fault.place in allowed) and not _overflow(fault)]


def _overflow(fault: Fault) -> bool:
    """Whether it is the code by which agents know that they must compact: the types lack it (O1)."""
    return fault.place == "response.error.code" and "found 'context_length_exceeded'" in fault.note


_EVENT_FAULTS: dict[str, Callable[[Sent], list[Fault]]] = {
    "anthropic-messages": _messages_faults,
    "openai-chat": _chat_faults,
    "openai-responses": _responses_faults,
}


def _messages_grammar(sent: list[Sent]) -> None:
    """`message_start`, blocks one after the other with counted indices, `message_delta`, `message_stop`; or `error`."""
    told = [one for one in sent if one.event != "ping"]
    assert all(one.data != DONE for one in told), "S8: no [DONE] on Messages"
    if told[-1].event == "error":
        told = told[:-1]
    else:
        assert [one.event for one in told[-2:]] == ["message_delta", "message_stop"], "S10: the terminal frames"
        told = told[:-2]
    assert not told or told[0].event == "message_start", "the opening frame"
    count, is_open = 0, False
    for one in told[1:]:
        assert one.body["index"] == count - (0 if one.event == "content_block_start" else 1), f"S2: {one}"
        assert is_open is (one.event != "content_block_start"), f"S2: one open block at a time: {one}"
        if one.event == "content_block_start":
            count += 1
        is_open = one.event != "content_block_stop"
    assert not is_open or sent[-1].event == "error", "S13: an open block at the end"


def _chat_grammar(sent: list[Sent]) -> None:
    """Of each choice the role, deltas, one finish reason; perhaps the usage, `[DONE]`; or an error."""
    chunks = [one.body for one in sent if one.data != DONE and "error" not in one.body]
    failed = "error" in sent[-1].body
    assert failed is not (sent[-1].data == DONE), "S10: [DONE] ends a whole stream and no broken one"
    assert len({json.dumps([chunk["id"], chunk["created"], chunk["model"]]) for chunk in chunks}) <= 1, "S8"
    if not chunks:
        return
    everything = [choice for chunk in chunks for choice in _choices(chunk)]
    for number in {json.dumps(choice["index"]) for choice in everything}:
        choices = [choice for choice in everything if json.dumps(choice["index"]) == number]
        first = choices[0]["delta"]
        assert isinstance(first, dict) and first.get("role") == "assistant", "the role comes first"
        finished = [place for place, choice in enumerate(choices) if choice["finish_reason"] is not None]
        assert finished == ([] if failed else [len(choices) - 1]), "one finish reason, last"
    counted = [place for place, chunk in enumerate(chunks) if not _choices(chunk)]
    assert counted in ([], [len(chunks) - 1]), "S5: the usage chunk is the last"
    if counted:
        assert all(chunk["usage"] is None for chunk in chunks[:-1]), "S5: usage is null in every other chunk"
    elif not failed:
        assert all("usage" not in chunk for chunk in chunks), "S5: no usage for those who did not ask"


def _choices(chunk: Mapping[str, object]) -> list[dict[str, object]]:
    choices = chunk["choices"]
    assert isinstance(choices, list)
    return choices


_TERMINAL = ("response.completed", "response.incomplete", "response.failed")


def _responses_grammar(sent: list[Sent]) -> None:
    """Counted frames, items one after the other, ids that stay, a terminal event that repeats the items done."""
    assert sent[-1].data == DONE, "§26, 19: [DONE] ends the stream"
    told = sent[:-1]
    assert [one.body["sequence_number"] for one in told] == list(range(len(told))), "S8: numbered without a gap"
    assert [one.event for one in told[:2]] == ["response.created", "response.in_progress"], "the opening frames"
    assert [one.event for one in told if one.event in _TERMINAL] == [told[-1].event], "one terminal event, last"
    done: list[object] = []
    item_id: object = None
    for one in told:
        if one.event == "response.output_item.added":
            assert item_id is None, f"S2: one open item at a time: {one}"
            item_id = _member(one.body, "item")["id"]
        if "output_index" in one.body:
            assert one.body["output_index"] == len(done), f"S2: {one}"
            assert one.body.get("item_id", item_id) == item_id, f"N4: {one}"
        if one.event == "response.output_item.done":
            item = _member(one.body, "item")
            assert item["id"] == item_id, f"N4: {one}"
            done.append(item)
            item_id = None
    final = _member(told[-1].body, "response")
    assert final["id"] == _member(told[0].body, "response")["id"], "N4: one id"
    assert final["output"] == done, "S13: the terminal output equals the items done"
    assert item_id is None or told[-1].event == "response.failed", "S13: an open item at the end"


def _member(body: Mapping[str, object], name: str) -> dict[str, object]:
    value = body[name]
    assert isinstance(value, dict)
    return value


_GRAMMARS: dict[str, Callable[[list[Sent]], None]] = {
    "anthropic-messages": _messages_grammar,
    "openai-chat": _chat_grammar,
    "openai-responses": _responses_grammar,
}


def _messages_client() -> Told:
    client = replay().anthropic.messages
    final, error = None, None
    try:
        with client.stream(max_tokens=1, model="m", messages=[{"role": "user", "content": "hi"}]) as stream:
            final = stream.get_final_message()
    except anthropic.APIError as raised:
        error = raised.message
    try:
        raw = list(client.create(max_tokens=1, model="m", messages=[{"role": "user", "content": "hi"}], stream=True))
        assert error is None and raw[-1].type == "message_stop"
    except anthropic.APIError as raised:
        assert raised.message == error
    return Told(final, error)


def _beta_messages_client() -> Told:
    client = replay().anthropic.beta.messages
    try:
        with client.stream(max_tokens=1, model="m", messages=[{"role": "user", "content": "hi"}]) as stream:
            return Told(stream.get_final_message())
    except anthropic.APIError as raised:
        return Told(None, raised.message)


def _chat_client() -> Told:
    client = replay().openai.chat.completions
    final: BaseModel | None = None
    error: str | None = None
    try:
        with client.stream(model="m", messages=[{"role": "user", "content": "hi"}]) as stream:
            stream.until_done()
            snapshot = stream.current_completion_snapshot
            # The SDK raises for what was cut or filtered, to keep its users from parsing half an answer.
            cut = any(choice.finish_reason in ("length", "content_filter") for choice in snapshot.choices)
            final = snapshot if cut else stream.get_final_completion()
    except openai.APIError as raised:
        error = raised.message
    try:
        raw = list(client.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True))
        assert error is None and raw
    except openai.APIError as raised:
        assert raised.message == error
    return Told(final, error)


def _responses_client() -> Told:
    client = replay().openai.responses
    final: BaseModel | None = None
    error: str | None = None
    with client.stream(model="m", input="hi") as stream:
        for event in stream:
            if event.type == "error":
                error = event.message
            elif event.type in ("response.incomplete", "response.failed"):
                final = event.response
        if final is None:
            final = stream.get_final_response()
    raw = list(client.create(model="m", input="hi", stream=True))
    assert raw[-1].type in _TERMINAL
    return Told(final, error)


_CLIENTS: dict[str, Callable[[], Told]] = {
    "anthropic-messages": _messages_client,
    "openai-chat": _chat_client,
    "openai-responses": _responses_client,
}
