"""Law 3, stream is whole: an answer is the same told at once or bit by bit, at home and for every client."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.model.events import Failed
from dragoman.model.failure import Failure
from dragoman.model.folding import fold, unfold
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.losses import Ledger
from dragoman.model.parts import Citation, HostedResult, InputForm, Part, Text, ToolCall
from dragoman.model.response import Response
from dragoman.protocols.registry import codec_of
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_response
from dragoman.wire.json import decode_object
from tests.laws.error_shapes import ERROR_SHAPES, ErrorShape
from tests.laws.journey import STEADY, asked, bare, counting, events_of, parsed, translated_stream
from tests.laws.official import accumulated
from tests.laws.shapes import as_list, as_object, as_text
from tests.laws.strategies import CHAT, MESSAGES, PAIRS, PROTOCOLS, RESPONSES, Case, answers, single_answers
from tests.laws.telling import Lie, Told, streams, tell
from tests.model.event_order import OrderCheck


def decoded(protocol: str, body: JsonObject) -> Response:
    codec = codec_of(protocol)
    response = codec.decode_response(parsed(body), bare(codec), Ledger())
    assert isinstance(response, Response)
    return response


def essence(response: Response, told: Told) -> Response:
    """What a stream tells of an answer: the members beside it ride on frames that tell nothing to a client."""
    parts = tuple(_plain_part(part, nameless(told)) for part in response.parts)
    native = "" if Lie.STOP_WITH_CALLS in told.lies else response.stop.native
    usage = None if response.usage is None else replace(response.usage, extras=None)
    stop = replace(response.stop, extras=None, native=native)
    return replace(response, parts=parts, stop=stop, usage=usage, extras=None, alternatives=())


def _plain_part(part: Part, nameless: bool) -> Part:
    """A part whose JSON has one spelling; without an id where the provider gave none and one is made up."""
    if isinstance(part, HostedResult) and part.text is not None:
        return replace(part, text=json.dumps(_loaded(part.text), sort_keys=True))
    if isinstance(part, Text):
        # The position of an annotation in its list stands only in streams.
        cited = (_without_index(citation) for citation in part.citations)
        return replace(part, citations=tuple(cited))
    if isinstance(part, ToolCall):
        text = part.arguments
        arguments = json.dumps(_loaded(text), sort_keys=True) if part.form is InputForm.JSON else text
        # A call is announced before the status of its item is known.
        return replace(part, arguments=arguments, call_id="" if nameless else part.call_id, extras=None)
    return part


def _without_index(citation: Citation) -> Citation:
    return replace(citation, native={name: value for name, value in citation.native.items() if name != "index"})


# What the official accumulators cannot read of a provider's stream.
UNREADABLE: dict[str, tuple[bytes, ...]] = {
    # The beta client takes over the model that a fallback names, and spells `from` in its own way.
    MESSAGES: (b'"fallback"',),
    # It fails on streamed custom calls (openai-chat-completions.md §14 rule 5), and forgets a choice's extensions.
    CHAT: (b'"type":"custom"', b'"stop_reason":'),
    RESPONSES: (),
}


def sdk_can_read(told: Told) -> bool:
    return not told.lies and not any(word in told.stream for word in UNREADABLE[told.protocol])


def nameless(told: Told) -> bool:
    """Whether the provider gives calls no ids, so that every reader makes up its own."""
    return Lie.NO_IDS in told.lies or b'"function_call":{' in told.stream


def check_fold(told: Told) -> None:
    folded = fold(events_of(told.protocol, told.stream), told.protocol)
    assert isinstance(folded, Response)
    found = essence(folded, told)
    expected = essence(decoded(told.protocol, told.answer), told)
    assert found == expected
    if sdk_can_read(told):
        expected = essence(decoded(told.protocol, accumulated(told.protocol, told.stream)), told)
        assert found == expected


@pytest.mark.parametrize("case", [case for protocol in PROTOCOLS for case in single_answers(protocol)], ids=str)
def test_every_part_folds_to_what_the_official_sdk_accumulates(case: Case) -> None:
    check_fold(tell(case.protocol, case.body))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_a_stream_folds_to_what_the_official_sdk_accumulates(protocol: str, data: st.DataObject) -> None:
    check_fold(data.draw(streams(protocol)))


@pytest.mark.parametrize("protocol", [CHAT, RESPONSES])
@given(data=st.data())
def test_a_lying_stream_folds_to_the_truth(protocol: str, data: st.DataObject) -> None:
    check_fold(data.draw(streams(protocol, lying=True)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_unfolding_and_folding_is_the_identity(protocol: str, data: st.DataObject) -> None:
    response = replace(decoded(protocol, data.draw(answers(protocol))), extras=None)
    events = list(unfold(response))
    check = OrderCheck(serial=True)
    for event in events:
        check(event)
    assert fold(events, protocol) == response


# --- the same for clients -------------------------------------------------------------------------------------------


def plain_messages(body: JsonObject) -> JsonObject:
    """Citations split text only in whole answers (mapping.md §19): neighbouring texts are joined for comparison."""
    blocks: list[JsonValue] = []
    for block in as_list(body["content"]):
        block = as_object(block)
        if block["type"] == "text":
            cited = [
                [as_object(one).get("url"), as_object(one).get("title")]
                for one in as_list(block.get("citations") or [])
            ]
            last = blocks[-1] if blocks else None
            if isinstance(last, dict) and last["type"] == "text":
                last["text"] = as_text(last["text"]) + as_text(block["text"])
                last["cited"] = [*as_list(last["cited"]), *cited]
                continue
            block = {"type": "text", "text": block["text"], "cited": list[JsonValue](cited)}
        blocks.append(_present(block))
    return {**_present(body), "content": blocks}


def plain_chat(body: JsonObject) -> JsonObject:
    """Custom calls are streamed as functions (mapping.md §7); list entries carry an index only in streams."""
    choice = dict(as_object(as_list(body["choices"])[0]))
    message = dict(as_object(choice["message"]))
    message["content"] = message.get("content") or None
    calls: list[JsonValue] = []
    for call in as_list(message.pop("tool_calls", None) or []):
        call = {name: value for name, value in as_object(call).items() if name != "index"}
        if call["type"] == "custom":
            custom = as_object(call.pop("custom"))
            function: JsonObject = {"name": custom["name"], "arguments": {"input": custom["input"]}}
        else:
            function = dict(as_object(call["function"]))
            function["arguments"] = _loaded(as_text(function["arguments"]))
        calls.append({**call, "type": "function", "function": function})
    for name in ("annotations", "reasoning_details"):
        entries = [
            {key: value for key, value in as_object(entry).items() if key != "index"}
            for entry in as_list(message.pop(name, None) or [])
        ]
        if entries:
            message[name] = list[JsonValue](entries)
    if calls:
        message["tool_calls"] = calls
    choice["message"] = _present(message)
    return {**_present(body), "choices": [_present(choice)]}


def plain_responses(body: JsonObject) -> JsonObject:
    """Arguments are compared by their meaning: a provider that gives an object leaves their spelling open."""
    items: list[JsonValue] = []
    for item in as_list(body["output"]):
        item = as_object(item)
        if item["type"] == "function_call":
            item = {**item, "arguments": _loaded(as_text(item["arguments"]))}
        items.append(item)
    return {**_present(body), "output": items}


def plain_numbers(value: JsonValue) -> JsonValue:
    """The SDKs read numbers by their value, not by their spelling."""
    if isinstance(value, Number):
        return float(value)
    if isinstance(value, dict):
        return {name: plain_numbers(member) for name, member in value.items()}
    return [plain_numbers(item) for item in value] if isinstance(value, list) else value


def plain(client: str, body: JsonObject, nameless: bool) -> JsonObject:
    """An answer as it can be compared.

    The tier is left out: a stream opens before it is known, and the accumulators take it from the opening alone.
    """
    told = as_object(plain_numbers(PLAIN[client](body)))
    told.pop("service_tier", None)
    usage = told.get("usage")
    if isinstance(usage, dict):
        usage.pop("service_tier", None)
    return as_object(_without_ids(told)) if nameless else told


def _without_ids(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without_ids(member) for name, member in value.items() if name not in ("id", "call_id")}
    return [_without_ids(item) for item in value] if isinstance(value, list) else value


def _loaded(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value


def _present(body: JsonObject) -> JsonObject:
    return {name: value for name, value in body.items() if value is not None}


PLAIN = {MESSAGES: plain_messages, CHAT: plain_chat, RESPONSES: plain_responses}


def check_client(told: Told, client: str) -> None:
    request = asked(client, told.protocol)
    # Ids are left out of the comparison where every reader makes up its own; then they must not be all the same.
    mint = counting() if nameless(told) else STEADY
    whole = translate_response(told.answer, source=told.protocol, target=client, request=request, mint=mint)
    stream = translated_stream(told.protocol, client, told.stream, request, mint)
    expected = plain(client, decode_object(whole.body), nameless(told))
    found = plain(client, accumulated(client, stream), nameless(told))
    assert found == expected
    translator = StreamPipeline(source=told.protocol, target=client, request=request, mint=mint, collect=True)
    collected = translator.feed(told.stream) + translator.close()
    assert translator.status == 200
    found = plain(client, decode_object(collected), nameless(told))
    assert found == expected


@pytest.mark.parametrize(
    ("case", "client"),
    [(case, client) for provider, client in PAIRS for case in single_answers(provider)],
    ids=str,
)
def test_every_part_reaches_a_client_alike_whole_and_streamed(case: Case, client: str) -> None:
    check_client(tell(case.protocol, case.body), client)


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data())
def test_what_a_client_accumulates_is_the_whole_conversion(provider: str, client: str, data: st.DataObject) -> None:
    check_client(data.draw(streams(provider)), client)


@pytest.mark.parametrize(("provider", "client"), [pair for pair in PAIRS if pair[0] != MESSAGES])
@given(data=st.data())
def test_lies_do_not_change_what_a_client_accumulates(provider: str, client: str, data: st.DataObject) -> None:
    told = data.draw(streams(provider, lying=True))
    check_client(told, client)


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ERROR_SHAPES, ids=str)
def test_an_error_is_read_alike_full_and_streamed(shape: ErrorShape) -> None:
    codec = codec_of(shape.protocol)
    full = codec.decode_response(parsed(shape.full), bare(codec), Ledger())
    assert isinstance(full, Failure)
    assert (full.kind, full.message) == (shape.kind, shape.words)
    for stream in (shape.stream, shape.stream_after_text):
        ended = events_of(shape.protocol, stream)[-1]
        assert isinstance(ended, Failed)
        assert ended.failure == full


@pytest.mark.parametrize(
    ("shape", "client"),
    [(shape, client) for provider, client in PAIRS for shape in ERROR_SHAPES if shape.protocol == provider],
    ids=str,
)
def test_an_error_reaches_a_client_alike_full_and_streamed(shape: ErrorShape, client: str) -> None:
    request = asked(client, shape.protocol)
    full = translate_response(shape.full, source=shape.protocol, target=client, request=request, mint=STEADY)
    assert full.failed
    assert shape.words in full.body.decode()
    collected = StreamPipeline(source=shape.protocol, target=client, request=request, mint=STEADY, collect=True)
    body = collected.feed(shape.stream) + collected.close()
    assert (collected.status, decode_object(body)) == (full.status, decode_object(full.body))
    streamed = translated_stream(shape.protocol, client, shape.stream_after_text, request, STEADY)
    assert shape.words in streamed.decode()
    code = as_object(decode_object(full.body)["error"]).get("code")
    assert code is None or f'"code":"{as_text(code)}"' in streamed.decode()
