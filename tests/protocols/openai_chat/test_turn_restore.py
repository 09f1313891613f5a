"""V4: clients that send back content and calls alone lose no reasoning, and whoever differs gets what it said."""

from __future__ import annotations

import json
from typing import TypeAlias

import pytest
from msgspec.structs import replace

from dragoman.model.folding import Fold
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.request import Request
from dragoman.protocols.codec import CachedTurn, TranslationContext
from dragoman.protocols.registry import codec_of
from dragoman.streaming import StreamPipeline, Tap
from dragoman.translate import TranslatedRequest, translate_request, translate_response
from dragoman.wire.json import decode_object, encode
from tests.protocols.openai_chat.room import A, C, R, objects
from tests.sdk import providers
from tests.sdk.oracles import check_answer, check_request
from tests.sdk.providers import stream_of
from tests.sdk.streams import check_stream

Blocks: TypeAlias = list[JsonObject]

TURNS = codec_of(C).turn_restorer
assert TURNS is not None
MODELS = {A: "claude-opus-5", R: "gpt-5"}
UPSTREAMS = {A: "anthropic", R: "openai"}
SIGNATURE = "EosnCkYICxIMMb3LzNrMu/+=="


def _thought(text: str = "I must look.", signature: str = SIGNATURE) -> JsonObject:
    return {"type": "thinking", "thinking": text, "signature": signature}


def _use(call_id: str = "toolu_1", **given: str) -> JsonObject:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": dict(given) or {"at": "the sky"}}


def _item(item_id: str = "rs_1", text: str = "I must look.", **more: str) -> JsonObject:
    summary: list[JsonObject] = [{"type": "summary_text", "text": text}]
    proof = more or {"encrypted_content": "gAAAAABmc3Bva2Vu_-w=="}
    return {"id": item_id, "type": "reasoning", "summary": [*summary], **proof}


def _said(text: str, item_id: str = "msg_1") -> JsonObject:
    content: JsonObject = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": [content]}


def _call(call_id: str = "call_1", arguments: str = '{"at": "the sky"}') -> JsonObject:
    common: JsonObject = {"id": f"fc_{call_id}", "type": "function_call", "status": "completed"}
    return {**common, "call_id": call_id, "name": "look", "arguments": arguments}


TEXT: JsonObject = {"type": "text", "text": "Let me look."}
# What a provider says in a turn; each of them loses its reasoning when only content and calls come back.
STORIES: dict[str, tuple[str, Blocks]] = {
    "thinking, text and a call": (A, [_thought(), TEXT, _use()]),
    "thinking and calls at once": (A, [_thought(), _use(), _use("toolu_2", at="the sea")]),
    "redacted thinking": (A, [{"type": "redacted_thinking", "data": "c2VjcmV0"}, _use()]),
    "thinking withheld": (A, [_thought(""), TEXT, _use()]),
    "two thoughts": (A, [_thought(), _thought("And again.", "EpwCx=="), _use()]),
    "thinking between text and call": (A, [TEXT, _thought(), _use()]),
    "thinking between calls": (A, [_thought(), _use(), _thought("More.", "EpwCx=="), _use("toolu_2")]),
    "text in two blocks": (A, [_thought(), TEXT, {"type": "text", "text": " Up there."}, _use()]),
    "an id that recurs": (A, [_thought(), _use("call_0")]),
    "reasoning, text and a call": (R, [_item(), _said("Let me look."), _call()]),
    "reasoning and calls at once": (R, [_item(), _call(), _call("call_2", "{}")]),
    "reasoning without a summary": (
        R,
        [{"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gA=="}, _call()],
    ),
    "reasoning before each call": (R, [_item(), _call(), _item("rs_2", "And again."), _call("call_2")]),
    "reasoning between text and call": (R, [_said("Let me look."), _item(), _call()]),
    "two messages": (R, [_item(), _said("Let me look."), _said("Up there.", "msg_2"), _call()]),
    "an id that Responses counts": (R, [_item(), _call("call_0")]),
}
MODES = ("whole", "streamed")


class Turn:
    """One answer of a provider to a Chat client, and what its keeper makes of it."""

    def __init__(self, provider: str, said: Blocks, mode: str = "whole", **changes: object) -> None:
        self.provider = provider
        self.changes = changes
        self.asked = self.translated([], stream=mode == "streamed")
        body = encode(self.answered(said))
        if mode == "whole":
            told = translate_response(body, source=provider, target=C, request=self.asked)
            assert told.response is not None
            answer, seen = told.response, check_answer(C, json.loads(told.body)).model_dump(mode="json")
        else:
            frames = self._frames(body)
            folding = Fold(provider)
            tap = Tap(events=folding.take)
            translator = StreamPipeline(source=provider, target=C, request=self.asked, tap=tap)
            out = b"".join(translator.feed(frames[at : at + 50]) for at in range(0, len(frames), 50))
            answer, seen = folding.response(), check_stream(C, out + translator.close()).body
        message = decode_object(json.dumps(seen))["choices"]
        assert isinstance(message, list) and isinstance(message[0], dict) and isinstance(message[0]["message"], dict)
        # As users of the SDK append it: without what is null.
        self.message: JsonObject = {key: value for key, value in message[0]["message"].items() if value is not None}
        self.message.pop("parsed", None)
        for call in objects(self.message, "tool_calls") if "tool_calls" in self.message else ():
            inner = call["function"]
            assert isinstance(inner, dict)
            inner.pop("parsed_arguments", None)
            call.pop("index", None)
        assert self.asked.context is not None
        self.kept = TURNS.build_cached_turn(answer, self.asked.context) if TURNS is not None else None

    def _frames(self, body: bytes) -> bytes:
        if self.provider == R:
            return stream_of(R, json.loads(body), providers.Turn(stop="completed"))
        return translate_response(body, source=A, target=A, stream=True).body

    def answered(self, said: Blocks) -> JsonObject:
        """The provider's answer, whole."""
        if self.provider == A:
            usage: JsonObject = {"input_tokens": 3, "output_tokens": 1}
            head: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODELS[A]}
            return {**head, "usage": usage, "content": [*said], "stop_reason": "tool_use", "stop_sequence": None}
        answer: JsonObject = {"id": "resp_1", "object": "response", "created_at": 1, "model": MODELS[R]}
        return {**answer, "output": [*said], "status": "completed", "incomplete_details": None}

    @property
    def bare(self) -> JsonObject:
        """The message as many clients send it back."""
        return {key: self.message[key] for key in ("role", "content", "tool_calls") if key in self.message}

    def history(self, message: JsonObject) -> Blocks:
        """The turn, and the results of its calls."""
        results: Blocks = [
            {"role": "tool", "tool_call_id": call["id"], "content": "blue"} for call in objects(message, "tool_calls")
        ]
        return [message, *results]

    def body(self, history: Blocks, *, stream: bool = False) -> bytes:
        """A request of the client."""
        schema: JsonObject = {"type": "object", "properties": {"at": {"type": "string"}}}
        tool: JsonObject = {"type": "function", "function": {"name": "look", "parameters": schema}}
        asked: JsonObject = {
            "model": "m",
            "messages": [{"role": "user", "content": "What colour is it?"}, *history],
            "tools": [tool],
            "reasoning_effort": "high",
            "stream": stream,
        }
        # Spaces as somebody writes them, so that what is not touched can be seen.
        return json.dumps({**asked, **self.changes}, indent=1).encode()

    def translated(self, history: Blocks | bytes, *, stream: bool = False, strict: bool = False) -> TranslatedRequest:
        """The request as the provider gets it."""
        body = history if isinstance(history, bytes) else self.body(history, stream=stream)
        return translate_request(
            body,
            source=C,
            target=self.provider,
            model=MODELS[self.provider],
            vendor=UPSTREAMS[self.provider],
            strict=strict,
        )

    def restored(self, body: bytes, kept: CachedTurn | None = None, **target: str) -> bytes:
        """The client's request, completed with what was kept."""
        assert TURNS is not None and self.asked.context is not None
        kept = kept or self.kept
        assert kept is not None
        found = {kept.call_id: kept.body}
        whom = replace(self.asked.context.target, **{key: value for key, value in target.items() if key != "protocol"})
        return TURNS.restore(body, found, target.get("protocol", self.provider), whom)


def _lacking(body: bytes) -> list[str]:
    assert TURNS is not None
    return TURNS.lacking(body)


def _asked(turn: Turn) -> TranslationContext:
    assert turn.asked.context is not None
    return turn.asked.context


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("story", STORIES)
def test_pitfall_103_105_108_a_provider_gets_its_turn_as_if_the_client_had_said_all(story: str, mode: str) -> None:
    provider, said = STORIES[story]
    turn = Turn(provider, said, mode)
    bare, full = turn.body(turn.history(turn.bare)), turn.history(turn.message)
    first = objects(turn.message, "tool_calls")[0]["id"]
    assert turn.kept is not None and turn.kept.call_id == first
    assert _lacking(bare) == [first]
    restored = turn.restored(bare)
    check_request(C, json.loads(restored))
    again, echoed = turn.translated(restored), turn.translated(full)
    assert again.body == echoed.body
    assert again.losses == echoed.losses
    assert again.body != turn.translated(bare).body
    check_request(provider, json.loads(again.body))
    assert turn.translated(restored, strict=not echoed.losses).body == echoed.body


@pytest.mark.parametrize("story", STORIES)
def test_streamed_and_whole_answers_leave_the_same_turn(story: str) -> None:
    provider, said = STORIES[story]
    whole, streamed = Turn(provider, said).kept, Turn(provider, said, "streamed").kept
    assert whole is not None and streamed is not None
    assert whole.call_id == streamed.call_id
    turn = Turn(provider, said)
    body = turn.body(turn.history(turn.bare))
    restored = [turn.translated(turn.restored(body, kept)).body for kept in (whole, streamed)]
    assert restored[0] == restored[1]


@pytest.mark.parametrize("provider", [A, R])
def test_every_other_byte_stays(provider: str) -> None:
    turn = Turn(provider, STORIES["thinking, text and a call" if provider == A else "reasoning, text and a call"][1])
    body = turn.body(turn.history(turn.bare))
    restored = turn.restored(body)
    at = restored.index(b',"reasoning_details":')
    end = at + len(restored) - len(body)
    assert restored[:at] + restored[end:] == body
    details = decode_object(restored)["messages"]
    assert isinstance(details, list) and isinstance(details[1], dict)
    assert details[1]["reasoning_details"] == turn.message["reasoning_details"]


@pytest.mark.parametrize("empty", [None, []])
def test_an_empty_member_is_filled(empty: list[JsonObject] | None) -> None:
    turn = Turn(A, STORIES["thinking, text and a call"][1])
    full = turn.translated(turn.history(turn.message))
    message: JsonObject = {
        **turn.bare,
        "reasoning_details": None if empty is None else [],
        "reasoning_content": None,
        "refusal": None,
    }
    assert turn.translated(turn.restored(turn.body(turn.history(message)))).body == full.body


def _text(message: JsonObject) -> None:
    message["content"] = "Let me look"


def _arguments(message: JsonObject) -> None:
    call = objects(message, "tool_calls")[0]
    message["tool_calls"] = [{**call, "function": {"name": "look", "arguments": '{"at":"the sea"}'}}]


def _name(message: JsonObject) -> None:
    call = objects(message, "tool_calls")[0]
    message["tool_calls"] = [{**call, "function": {"name": "see", "arguments": '{"at":"the sky"}'}}]


def _one_more(message: JsonObject) -> None:
    call = objects(message, "tool_calls")[0]
    message["tool_calls"] = [call, {**call, "id": "toolu_9"}]


def _reasons(message: JsonObject) -> None:
    message["reasoning_content"] = "I thought of something else."


def _blocks(message: JsonObject) -> None:
    message["thinking_blocks"] = [{"type": "thinking", "thinking": "x", "signature": "y"}]


def _beside(message: JsonObject) -> None:
    message["provider_specific_fields"] = {"thinking_blocks": [{"type": "thinking", "thinking": "x"}]}


def _thinks(message: JsonObject) -> None:
    message["content"] = [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "Let me look."}]


@pytest.mark.parametrize("change", [_text, _arguments, _name, _one_more, _reasons, _blocks, _beside, _thinks])
@pytest.mark.parametrize("provider", [A, R])
def test_a_turn_that_differs_stays_as_it_was_said(provider: str, change: object) -> None:
    turn = Turn(provider, STORIES["thinking, text and a call" if provider == A else "reasoning, text and a call"][1])
    message = turn.bare
    assert callable(change)
    change(message)
    body = turn.body(turn.history(message))
    assert turn.restored(body) == body


@pytest.mark.parametrize(
    "target",
    [{"protocol": C}, {"vendor": "elsewhere"}, {"model": "claude-haiku-3"}],
    ids=["protocol", "vendor", "model"],
)
def test_nobody_else_gets_it(target: dict[str, str]) -> None:
    turn = Turn(A, STORIES["thinking, text and a call"][1])
    body = turn.body(turn.history(turn.bare))
    assert turn.restored(body, None, **target) == body


@pytest.mark.parametrize(
    "spelled", ['{"at":"the sky"}', '{ "at" : "the sky" }', '{"at": "the\\u0020sky"}'], ids=["close", "wide", "escaped"]
)
def test_arguments_that_were_written_anew_are_the_same(spelled: str) -> None:
    turn = Turn(R, STORIES["reasoning, text and a call"][1])
    call = objects(turn.message, "tool_calls")[0]
    message: JsonObject = {**turn.bare, "tool_calls": [{**call, "function": {"name": "look", "arguments": spelled}}]}
    restored = turn.restored(turn.body(turn.history(message)))
    assert b"reasoning_details" in restored
    losses = turn.translated(restored).losses
    assert [loss for loss in losses if loss["feature"] in ("thinking", "thinking_signature")] == []


def test_an_exact_turn_is_only_restored_to_the_letter() -> None:
    """The sealed turn would be dropped for other spaces, which is a line in the ledger that nobody else would get."""
    turn = Turn(R, STORIES["reasoning between text and call"][1])
    call = objects(turn.message, "tool_calls")[0]
    inner: JsonObject = {"name": "look", "arguments": '{"at":"the sky"}'}
    body = turn.body(turn.history({**turn.bare, "tool_calls": [{**call, "function": inner}]}))
    assert turn.restored(body) == body


@pytest.mark.parametrize("content", [None, "", []])
def test_no_text_is_no_text_in_every_form(content: object) -> None:
    turn = Turn(A, STORIES["thinking and calls at once"][1])
    message = decode_object(json.dumps({**turn.bare, "content": content}))
    assert b"reasoning_details" in turn.restored(turn.body(turn.history(message)))


def test_text_in_parts_is_the_same_text() -> None:
    turn = Turn(A, STORIES["thinking, text and a call"][1])
    parts: list[JsonObject] = [{"type": "text", "text": "Let me "}, {"type": "text", "text": "look."}]
    message: JsonObject = {**turn.bare, "content": [*parts]}
    assert b"reasoning_details" in turn.restored(turn.body(turn.history(message)))


def test_the_turn_whose_digest_fits_is_the_one_that_is_restored() -> None:
    """Ids like call_0 are said in every turn."""
    turn = Turn(A, STORIES["an id that recurs"][1])
    other: JsonObject = {**turn.bare, "content": "Something else."}
    body = turn.body([*turn.history(other), *turn.history(turn.bare), *turn.history(turn.bare)])
    assert _lacking(body) == ["call_0"]
    messages = objects(decode_object(turn.restored(body)), "messages")
    # A turn was said once: a request does not grow with how often it is repeated.
    assert ["reasoning_details" in message for message in messages if message["role"] == "assistant"] == [
        False,
        True,
        False,
    ]


def test_several_turns_are_restored_at_once() -> None:
    first = Turn(A, STORIES["thinking, text and a call"][1])
    second = Turn(A, [_thought("Further.", "EpwCx=="), _use("toolu_2", at="the sea")])
    body = first.body([*first.history(first.bare), *second.history(second.bare)])
    assert _lacking(body) == ["toolu_1", "toolu_2"]
    assert first.kept is not None and second.kept is not None and TURNS is not None
    found = {kept.call_id: kept.body for kept in (second.kept, first.kept)}
    restored = TURNS.restore(body, found, A, _asked(first).target)
    echoed = first.translated([*first.history(first.message), *second.history(second.message)])
    assert first.translated(restored).body == echoed.body


@pytest.mark.parametrize(
    "said",
    [
        [TEXT, _use()],
        [_thought(), TEXT],
        [_thought("unsigned", ""), _use()],
        [TEXT, _thought(), _thought("unsigned", ""), _use()],
    ],
    ids=["no reasoning", "no call", "no proof", "no proof in an exact turn"],
)
@pytest.mark.parametrize("mode", MODES)
def test_without_a_call_or_a_proof_nothing_is_kept(said: Blocks, mode: str) -> None:
    assert Turn(A, said, mode).kept is None


@pytest.mark.parametrize("mode", MODES)
def test_reasoning_that_only_its_provider_keeps_is_not_kept_here(mode: str) -> None:
    assert Turn(R, [_item(encrypted_content=""), _call()], mode).kept is None


@pytest.mark.parametrize("mode", MODES)
def test_what_is_not_proven_is_left_out(mode: str) -> None:
    turn = Turn(A, [_thought(), _thought("unsigned", ""), TEXT, _use()], mode)
    restored = turn.restored(turn.body(turn.history(turn.bare)))
    assert b"unsigned" not in restored and SIGNATURE.encode() in restored
    losses = turn.translated(restored).losses
    assert [loss for loss in losses if loss["feature"] in ("thinking", "thinking_signature")] == []


def test_who_wants_nothing_stored_gets_nothing_stored() -> None:
    turn = Turn(A, STORIES["thinking, text and a call"][1], store=False)
    assert turn.kept is None
    assert _lacking(turn.body(turn.history(turn.bare))) == []


def test_calls_without_ids_are_not_kept() -> None:
    turn = Turn(A, STORIES["thinking, text and a call"][1])
    response = translate_response(
        encode(turn.answered(STORIES["thinking, text and a call"][1])), source=A, target=C, request=turn.asked
    ).response
    assert response is not None and TURNS is not None
    legacy = replace(_asked(turn), request=Request(origin=C, model="m", legacy_functions=True))
    assert TURNS.build_cached_turn(response, legacy) is None
    assert TURNS.build_cached_turn(replace(response, origin=C), _asked(turn)) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"role":"user","content":"hi"}]}',
        b'{"messages":[{"role":"user","content":"say \\"tool_calls\\""}]}',
        b'{"messages":[{"role":"assistant","tool_calls":[]}]}',
        b'{"messages":[{"role":"assistant","tool_calls":null,"content":"x"}]}',
        b'{"messages":[{"role":"assistant","tool_calls":[{"id":7}]}]}',
        b'{"messages":[{"role":"assistant","tool_calls":[{"id":"","function":{"name":"x","arguments":""}}]}]}',
        b'{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"x","arguments":{}}}]}]}',
        b'{"messages":[{"role":"user","tool_calls":[{"id":"a","function":{"name":"x","arguments":""}}]}]}',
        b'{"messages":["tool_calls"],"tool_calls":1}',
        b'{"messages":{"tool_calls":1}}',
        b'{"messages":[{"role":"assistant","tool_calls":[',
        b'{"messages":[{"role":"assistant","tool_calls":' + b"[" * 5000,
        b'{"messages":[{"role":"assistant","content":"\\ud800","tool_calls":[]}]}',
        b'"tool_calls"',
        b'{"x":"\xff","messages":[{"role":"assistant","tool_calls":[]}]}',
    ],
)
def test_what_is_no_such_turn_is_not_looked_for(body: bytes) -> None:
    assert _lacking(body) == []


def test_what_another_version_wrote_is_nothing() -> None:
    turn = Turn(A, STORIES["thinking, text and a call"][1])
    body = turn.body(turn.history(turn.bare))
    for kept in (b"", b"{}", b"[1]", b'["a","b","c"]'):
        assert turn.restored(body, CachedTurn(call_id="toolu_1", body=kept)) == body


def test_a_manual_budget_goes_on_as_if_the_client_had_said_all() -> None:
    """Without the thinking of its turn the budget would go, which is a loss that strict clients refuse (V5)."""
    said = STORIES["thinking, text and a call"][1]
    turn = Turn(A, said)

    def translated(body: bytes) -> TranslatedRequest:
        return translate_request(body, source=C, target=A, model="claude-sonnet-4-5", vendor="anthropic")

    bare, full = turn.body(turn.history(turn.bare)), turn.body(turn.history(_of_model(turn.message)))
    without = translated(bare)
    told = translate_response(encode(turn.answered(said)), source=A, target=C, request=without).response
    assert told is not None and without.context is not None and TURNS is not None
    kept = TURNS.build_cached_turn(told, without.context)
    assert kept is not None
    restored = translated(TURNS.restore(bare, {kept.call_id: kept.body}, A, without.context.target))
    assert (restored.body, restored.losses) == (translated(full).body, translated(full).losses)
    assert decode_object(restored.body)["thinking"] != decode_object(without.body)["thinking"]
    assert "thinking" in [loss["feature"] for loss in without.losses]
    assert "thinking" not in [loss["feature"] for loss in restored.losses]


def _of_model(message: JsonObject) -> JsonObject:
    details = [{**entry, "model": "claude-sonnet-4-5"} for entry in objects(message, "reasoning_details")]
    return {**message, "reasoning_details": [*details]}
