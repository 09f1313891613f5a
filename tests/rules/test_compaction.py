"""K1: where a provider has no compaction, the model writes a summary, and the summary is the compaction."""

from __future__ import annotations

import json

import pytest

from dragoman.errors import DragomanError
from dragoman.model.failure import Failure
from dragoman.model.features import Feature
from dragoman.model.losses import Fate, Ledger
from dragoman.model.parts import Compaction, Text, Thinking, ToolCall
from dragoman.model.request import Message, Request, Role, Updates
from dragoman.model.response import Response, Stop, StopReason
from dragoman.model.tools import FunctionTool
from dragoman.protocols.registry import codec_of
from dragoman.rules.capabilities import Capabilities
from dragoman.rules.compaction import as_compaction, summarising
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedRequest, translate_request, translate_response
from tests.sdk.digging import Object, dig, dig_objects, dig_text
from tests.sdk.oracles import check_request
from tests.sdk.providers import Turn, answer, stream
from tests.sdk.samples import events_of

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
MODELS = {MESSAGES: "claude-opus-5", CHAT: "llama-4"}
STOPS = {MESSAGES: "end_turn", CHAT: "stop"}
SUMMARY = "They met, and agreed on Tuesday."
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}
CALL = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "nothing"}
ASKED: Object = {
    "model": "m",
    "input": [{"role": "user", "content": "Look."}, CALL, RESULT, {"type": "compaction_trigger"}],
    "tools": [TOOL],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
}


def _translated(provider: str, body: Object = ASKED) -> TranslatedRequest:
    return translate_request(json.dumps(body).encode(), source=RESPONSES, target=provider, model=MODELS[provider])


def _answer(provider: str, turn: Turn) -> bytes:
    return json.dumps(answer(provider, turn)).encode()


@pytest.mark.parametrize("provider", MODELS)
def test_the_history_goes_without_tools_and_ends_with_the_wish_for_a_summary(provider: str) -> None:
    translated = _translated(provider)
    body: Object = json.loads(translated.body)
    check_request(provider, body)
    assert body.keys().isdisjoint({"tool_choice", "parallel_tool_calls", "response_format", "output_config"})
    messages = dig_objects(body, "messages")
    assert messages[-1]["role"] == "user"
    assert "summary" in json.dumps(messages[-1])
    assert "nothing" in json.dumps(messages)
    assert "compaction_trigger" not in json.dumps(body)
    assert [loss["at"] for loss in translated.losses if loss["feature"] == "output_schema"] == ["output"]
    assert any("summary" in str(line) for line in translated.losses)


@pytest.mark.parametrize("provider", MODELS)
def test_the_text_of_the_answer_is_the_one_compaction(provider: str) -> None:
    turn = Turn(stop=STOPS[provider], reasoning="Hm." if provider == MESSAGES else "", text=SUMMARY)
    told = translate_response(_answer(provider, turn), source=provider, target=RESPONSES, request=_translated(provider))
    body: Object = json.loads(told.body)
    assert [item["type"] for item in dig_objects(body, "output")] == ["compaction"]
    assert body["status"] == "completed"


@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("step", [7, 10**6])
def test_a_stream_is_told_as_the_stream_of_one_compaction(provider: str, step: int) -> None:
    data = stream(provider, Turn(stop=STOPS[provider], text=SUMMARY))
    translator = StreamPipeline(source=provider, target=RESPONSES, request=_translated(provider))
    out = b"".join(translator.feed(data[at : at + step]) for at in range(0, len(data), step)) + translator.close()
    kinds = [event["type"] for event in events_of(out)]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]
    assert translator.failure is None


@pytest.mark.parametrize("provider", MODELS)
def test_a_stream_for_a_client_that_wants_none_is_one_compaction_too(provider: str) -> None:
    data = stream(provider, Turn(stop=STOPS[provider], text=SUMMARY))
    translator = StreamPipeline(source=provider, target=RESPONSES, request=_translated(provider), collect=True)
    body: Object = json.loads(translator.feed(data) + translator.close())
    assert [item["type"] for item in dig_objects(body, "output")] == ["compaction"]


@pytest.mark.parametrize("issuer", MODELS)
@pytest.mark.parametrize("reader", [*MODELS, RESPONSES])
def test_the_compaction_is_understood_again_by_every_provider(issuer: str, reader: str) -> None:
    made = translate_response(
        _answer(issuer, Turn(stop=STOPS[issuer], text=SUMMARY)),
        source=issuer,
        target=RESPONSES,
        request=_translated(issuer),
    )
    item = dig(json.loads(made.body), "output", 0)
    body = {"model": "m", "input": [item, {"role": "user", "content": "Go on."}]}
    raw = json.dumps(body).encode()
    if reader == RESPONSES:
        # It cannot read what it did not make, so that the summary is told on the relay, too.
        sent = codec_of(RESPONSES).relay_request(raw, Capabilities(), "", Ledger())
    else:
        sent = translate_request(raw, source=RESPONSES, target=reader, model=MODELS[reader]).body
    assert SUMMARY in sent.decode()
    assert "rsv1" not in sent.decode()


@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("text", ["", " \n"])
def test_an_answer_without_a_summary_is_a_clear_failure(provider: str, text: str) -> None:
    turn = Turn(stop=STOPS[provider], text=text)
    request = _translated(provider)
    told = translate_response(_answer(provider, turn), source=provider, target=RESPONSES, request=request)
    assert told.status == 502 and told.failure is not None
    assert "summary" in dig_text(json.loads(told.body), "error", "message")
    for collect in (False, True):
        translator = StreamPipeline(source=provider, target=RESPONSES, request=request, collect=collect)
        out = translator.feed(stream(provider, turn)) + translator.close()
        assert translator.failure is not None and "summary" in translator.failure.message
        assert translator.status == (502 if collect else 200)
        if not collect:
            assert events_of(out)[-1]["type"] == "response.failed"


@pytest.mark.parametrize("provider", MODELS)
def test_a_provider_that_fails_is_told_as_ever(provider: str) -> None:
    translator = StreamPipeline(source=provider, target=RESPONSES, request=_translated(provider))
    out = translator.feed(stream(provider, Turn(stop=STOPS[provider], text=SUMMARY))[:200]) + translator.close()
    assert events_of(out)[-1]["type"] == "response.failed"
    assert translator.failure is not None


@pytest.mark.parametrize(
    "items",
    [
        [{"type": "compaction_trigger"}, {"role": "user", "content": "Go on."}],
        [{"role": "user", "content": "x"}, {"type": "compaction_trigger"}, {"type": "compaction_trigger"}],
    ],
)
@pytest.mark.parametrize("provider", MODELS)
def test_a_compaction_is_asked_for_once_and_at_the_end(provider: str, items: object) -> None:
    with pytest.raises(DragomanError, match="last item"):
        _translated(provider, {"model": "m", "input": items})


def test_whoever_has_compaction_itself_is_asked_for_it() -> None:
    raw = json.dumps(ASKED).encode()
    translated = translate_request(raw, source=RESPONSES, target=RESPONSES, model="m")
    assert json.loads(translated.body)["input"] == ASKED["input"]


def test_the_request_for_a_summary_is_the_same_request_without_what_a_summary_needs_not() -> None:
    said = Message(role=Role.USER, parts=(Text(text="Hello."),))
    trigger = Message(role=Role.USER, parts=())
    tool = FunctionTool(name="look", parameters={})
    request = Request(
        origin=RESPONSES,
        model="m",
        messages=(said, trigger),
        tools=(tool,),
        updates=Updates(tools=(tool,), effort="low"),
        compacts=True,
        compact_at=5,
    )
    ledger = Ledger()
    asked = summarising(request, ledger)
    assert asked.messages[0] == said and len(asked.messages) == 2
    assert (asked.tools, asked.updates, asked.compacts, asked.compact_at) == ((), Updates(effort="low"), False, None)
    places = [(loss.fate, loss.feature, loss.at) for loss in ledger.losses]
    assert places == [
        (Fate.APPROXIMATED, Feature.COMPACTION, "messages[1]"),
        (Fate.DROPPED, Feature.COMPACTION, "tools"),
        (Fate.DROPPED, Feature.CONTEXT_MANAGEMENT, "compact_at"),
    ]


@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("choice", ["none", "required", {"type": "function", "name": "look"}])
def test_what_a_summary_needs_not_is_in_the_ledger(provider: str, choice: object) -> None:
    changed: Object = {"context_management": [{"type": "compaction", "compact_threshold": 5000}]}
    losses = _translated(provider, {**ASKED, **changed, "tool_choice": choice}).losses
    dropped = {(loss["feature"], loss["at"]) for loss in losses if loss["fate"] == "dropped"}
    assert dropped >= {
        ("compaction", "tools"),
        ("tool_choice", "tool_choice"),
        ("parallel_calls", "parallel_calls"),
        ("output_schema", "output"),
        ("context_management", "compact_at"),
    }


def test_only_what_was_said_aloud_is_the_summary() -> None:
    stop = Stop(reason=StopReason.END)
    call = ToolCall(call_id="c", name="n", arguments="{}")
    parts = (Thinking(text="Hm."), Text(text=" They "), call, Text(text="met.\n"))
    told = as_compaction(Response(id="x", model="m", parts=parts, stop=stop, origin=CHAT))
    assert isinstance(told, Response) and told.parts == (Compaction(summary="They met."),)
    nothing = as_compaction(Response(id="x", model="m", parts=(call,), stop=stop, origin=CHAT))
    assert isinstance(nothing, Failure)
