"""Whole answers on the relay: their counts, the errors among them, and the report at their end."""

from __future__ import annotations

import json

import pytest

from dragoman.errors import BadResponse
from dragoman.gateway.exchange.full_response import (
    has_content,
    is_envelope,
    relayed_response,
    report_comment,
    with_report,
)
from dragoman.model.failure import FailureKind
from dragoman.protocols.registry import codec_of
from dragoman.translate import LossLine

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
USAGES = {
    MESSAGES: {"input_tokens": 5, "output_tokens": 7},
    CHAT: {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    RESPONSES: {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12},
}
# What each protocol answers in.
ANSWERS = {MESSAGES: "content", CHAT: "choices", RESPONSES: "output"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_counts_of_an_answer_are_read(protocol: str) -> None:
    said: dict[str, object] = {"id": "x", "error": None, "status": "completed", ANSWERS[protocol]: []}
    raw = json.dumps({**said, "usage": USAGES[protocol]}).encode()
    judged = relayed_response(raw, codec_of(protocol))
    usage, failure = judged.usage, judged.failure
    assert failure is None
    assert usage is not None
    assert (usage.input, usage.output) == (5, 7)


ODD_USAGES = {
    "none": b"null",
    "a number": b"5",
    "a list": b"[]",
    "words for numbers": b'{"input_tokens":"many","prompt_tokens":"many"}',
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("case", ODD_USAGES)
def test_counts_that_cannot_be_read_are_no_reason_to_fail(case: str, protocol: str) -> None:
    raw = b'{"id":"x","%b":[],"usage":%b}' % (ANSWERS[protocol].encode(), ODD_USAGES[case])
    judged = relayed_response(raw, codec_of(protocol))
    assert (judged.usage, judged.failure) == (None, None)


@pytest.mark.parametrize(
    ("output", "says"),
    [(None, False), (b"null", False), (b"[]", False), (b'[{"type":"message"}]', True), (b"broken", False)],
)
def test_what_failed_may_say_something_all_the_same(output: bytes | None, says: bool) -> None:
    raw = FAILED if output is None else FAILED[:-1] + b',"output":' + output + b"}"
    assert has_content(raw) is says


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_failed_says_something_in_the_words_of_its_protocol(protocol: str) -> None:
    assert has_content(b'{"%b":[{}]}' % ANSWERS[protocol].encode())
    assert not has_content(b'{"%b":[]}' % ANSWERS[protocol].encode())


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("empty", ["{}", '""', "false", "[]"])
def test_an_error_that_is_none_beside_half_a_character_is_no_reason_to_fail(empty: str, protocol: str) -> None:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}
    answer = {
        ANSWERS[protocol]: [choice] if protocol == CHAT else [],
        "usage": USAGES[protocol],
        "more": "\ud83d",
        "error": json.loads(empty),
    }
    said = {"id": "x", "type": "message", "role": "assistant", "model": "m", "object": "response", **answer}
    judged = relayed_response(json.dumps(said).encode(), codec_of(protocol))
    assert judged.failure is None
    assert judged.usage is not None and judged.usage.output == 7


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_that_quotes_half_a_character_is_told_as_the_error_that_it_is(protocol: str) -> None:
    error = {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "too many of \ud83d"}
    raw = json.dumps({"type": "error", "error": error}).encode()
    failure = relayed_response(raw, codec_of(protocol)).failure
    assert failure is not None and failure.kind is FailureKind.RATE_LIMITED
    if protocol == RESPONSES:
        failed = {"id": "x", "object": "response", "status": "failed", "output": [], "error": error}
        own = relayed_response(json.dumps(failed).encode(), codec_of(protocol)).own
        assert own is not None and own.kind is FailureKind.RATE_LIMITED


def test_what_an_answer_calls_itself_and_why_it_ended_is_read() -> None:
    choices = '[{"index":0,"finish_reason":"stop","message":{"content":"hi"}},{"finish_reason":"length"}]'
    judged = relayed_response(f'{{"id":"c1","model":"m","choices":{choices}}}'.encode(), codec_of(CHAT))
    assert (judged.id, judged.model, judged.stop) == ("c1", "m", "stop")
    judged = relayed_response(b'{"id":"m1","model":"m","content":[],"stop_reason":"end_turn"}', codec_of(MESSAGES))
    assert (judged.id, judged.model, judged.stop) == ("m1", "m", "end_turn")
    cut = b'"output":[],"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}'
    judged = relayed_response(b'{"id":"r1","model":"m",%b}' % cut, codec_of(RESPONSES))
    assert (judged.id, judged.model, judged.stop) == ("r1", "m", "max_output_tokens")


# A member that is of another kind than everywhere else, and what is known of the answer in spite of it.
ODD_MEMBERS = {
    "an id that is a number": ('"id":7', ("", "m", "stop", 5)),
    "a model that is a list": ('"model":["m"]', ("x", "", "stop", 5)),
    "a reason that is a number": ('"choices":[{"finish_reason":1}]', ("x", "m", "", 5)),
    "a choice that is none": ('"choices":[5]', ("x", "m", "", 5)),
    "no list of choices": ('"choices":{}', ("x", "m", "", 5)),
    "a name that is too long": ('"id":"' + "x" * 511 + '"', ("", "m", "stop", 5)),
    "one that takes many bytes": ('"id":"' + "\u20ac" * 200 + '"', ("", "m", "stop", 5)),
    "one of them beside half a character": ('"id":7,"more":"\\ud83d"', ("", "m", "stop", 5)),
    "half a character": ('"choices":[{"finish_reason":"stop","text":"\\ud83d"}]', ("x", "m", "stop", 5)),
}


@pytest.mark.parametrize("case", ODD_MEMBERS)
def test_a_member_of_another_kind_hides_nothing_else(case: str) -> None:
    said = {"id": '"id":"x"', "model": '"model":"m"', "choices": '"choices":[{"finish_reason":"stop"}]'}
    odd, known = ODD_MEMBERS[case]
    said[odd.split('"')[1]] = odd
    body = f'{{{",".join(said.values())},"usage":{{"prompt_tokens":5,"completion_tokens":7}}}}'
    judged = relayed_response(body.encode(), codec_of(CHAT))
    assert judged.usage is not None
    assert (judged.id, judged.model, judged.stop, judged.usage.input) == known


# An error under status 200, and what it is (O2).
ERRORS = {
    "with a status as its code": ({"message": "slow down", "code": 429}, 429),
    "of a known type": ({"message": "slow down", "type": "rate_limit_error"}, 429),
    "of a bad request": ({"message": "no", "type": "invalid_request_error"}, 400),
    "of nothing in particular": ({"message": "no"}, 500),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("case", ERRORS)
def test_pitfall_184_an_error_in_spite_of_its_status_is_one(case: str, protocol: str) -> None:
    error, status = ERRORS[case]
    judged = relayed_response(json.dumps({"type": "error", "error": error}).encode(), codec_of(protocol))
    usage, failure = judged.usage, judged.failure
    assert usage is None
    assert failure is not None
    assert failure.status == status
    assert failure.message


def test_an_error_in_spite_of_its_status_may_tell_its_counts() -> None:
    told = b'{"error":{"message":"no"},"usage":{"prompt_tokens":4,"completion_tokens":2}}'
    judged = relayed_response(told, codec_of(CHAT))
    assert judged.failure is not None
    assert judged.usage is not None and (judged.usage.input, judged.usage.output) == (4, 2)


@pytest.mark.parametrize("error", ["{}", '""', "false", "[]", "0"])
def test_an_empty_error_beside_an_answer_is_none(error: str) -> None:
    choice = '{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}'
    raw = f'{{"id":"x","error":{error},"choices":[{choice}],"usage":{{"prompt_tokens":5,"completion_tokens":7}}}}'
    judged = relayed_response(raw.encode(), codec_of(CHAT))
    usage, failure = judged.usage, judged.failure
    assert failure is None
    assert usage is not None
    assert usage.input == 5


@pytest.mark.parametrize("error", ["{}", '""', "false", '"\\ud800"'])
def test_an_empty_error_without_an_answer_is_the_providers_fault(error: str) -> None:
    with pytest.raises(BadResponse):
        relayed_response(f'{{"error":{error}}}'.encode(), codec_of(CHAT))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_that_is_no_text_is_the_providers_fault(protocol: str) -> None:
    with pytest.raises(BadResponse):
        relayed_response(b'{"error":{"message":"\xff"}}', codec_of(protocol))


FAILED = b'{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"no"},"usage":null}'


def test_a_failed_response_is_an_answer_of_its_own_protocol() -> None:
    judged = relayed_response(FAILED, codec_of(RESPONSES))
    assert (judged.usage, judged.failure) == (None, None)


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT])
def test_no_other_protocol_has_failed_answers(protocol: str) -> None:
    failure = relayed_response(FAILED, codec_of(protocol)).failure
    assert failure is not None
    assert failure.kind is not FailureKind.OTHER or failure.status >= 400


NO_ANSWERS = {
    "a page": b"<html><body>502 Bad Gateway</body></html>",
    "half a body": b'{"id":"x","usage":{"input_to',
    "a list": b"[]",
    "a number": b"5",
    "null": b"null",
    "text": b'"hello"',
    "nothing": b"",
    "bytes": b"\xff\xfe\x00",
    "two documents": b"{}{}",
    "bytes that are no text, where nobody looks": b'{"choices":[{"message":{"content":"\xff"}}]}',
    "counts with bytes that are no text": b'{"usage":{"prompt_tokens":5,"x":"\xff"}}',
    "an event stream": b"data: {}\n\n",
    "brackets without end": b'{"a":' + b"[" * 100_000,
    "deep nesting": b'{"error":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
}


@pytest.mark.parametrize("case", NO_ANSWERS)
def test_what_is_no_json_object_is_no_answer(case: str) -> None:
    with pytest.raises(BadResponse) as caught:
        relayed_response(NO_ANSWERS[case], codec_of(CHAT))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("raw", "readers"),
    [
        (b'{"type":"error","error":{"type":"api_error","message":"no"}}', PROTOCOLS),
        (b'{"error":{"message":"no","code":"429"}}', (CHAT, RESPONSES)),
        (b'{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}', (CHAT, RESPONSES)),
        (b'{"message":"no"}', ()),
        (b'{"error":"no"}', ()),
        (b'{"error":{}}', ()),
        (b"[]", ()),
        (b"<html>", ()),
    ],
    ids=["Messages", "OpenAI", "Google", "AWS", "text", "empty", "a list", "a page"],
)
def test_an_envelope_is_what_the_clients_of_a_protocol_look_for(raw: bytes, readers: tuple[str, ...]) -> None:
    assert tuple(protocol for protocol in PROTOCOLS if is_envelope(raw, protocol)) == readers


HOSTILE = ["sampling.seed", "a\r\n\r\ndata: forged", "\u2028", '"}', "漢字", "x" * 100_000]


def loss(at: str) -> LossLine:
    return LossLine(fate="dropped", feature="sampling", weight="changes_response", at=at, note="why")


@pytest.mark.parametrize("at", HOSTILE, ids=lambda at: ascii(at[:20]))
def test_the_report_is_the_last_member_and_the_rest_is_untouched(at: str) -> None:
    body = b'{ "id" : "x", "n": 1.0 }'
    reported = with_report(body, [loss(at)])
    told = json.loads(reported)
    assert list(told) == ["id", "n", "dragoman"]
    assert told["dragoman"] == {"losses": [loss(at)]}
    assert b'"n": 1.0' in reported


def test_the_report_of_nothing_lost_is_an_empty_list() -> None:
    assert json.loads(with_report(b"{}", []))["dragoman"] == {"losses": []}


@pytest.mark.parametrize("at", HOSTILE, ids=lambda at: ascii(at[:20]))
def test_the_report_of_a_stream_is_one_comment(at: str) -> None:
    frame = report_comment([loss(at)])
    assert frame.startswith(b": dragoman {")
    assert frame.endswith(b"}\n\n")
    assert frame.count(b"\n") == 2
    assert b"\r" not in frame
    assert json.loads(frame.removeprefix(b": dragoman "))["losses"] == [loss(at)]


APART = {
    CHAT: {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 90}},
    RESPONSES: {"input_tokens": 5, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 90}},
    MESSAGES: {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 90},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_cached_tokens_that_a_server_counts_apart_are_in_the_total_on_the_relay_too(protocol: str) -> None:
    raw = json.dumps({"id": "x", ANSWERS[protocol]: [], "usage": APART[protocol]}).encode()
    usage = relayed_response(raw, codec_of(protocol)).usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.output) == (95, 90, 2)


def test_cache_hits_by_another_name_are_counted_on_the_relay_too() -> None:
    counts = {"prompt_tokens": 95, "completion_tokens": 2, "prompt_cache_hit_tokens": 90}
    usage = relayed_response(json.dumps({"choices": [], "usage": counts}).encode(), codec_of(CHAT)).usage
    assert usage is not None
    assert (usage.input, usage.cache_read) == (95, 90)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"status":"failed","output":[],"error":{"code":"rate_limit_exceeded","message":"slow"}}', "rate_limited"),
        (b'{"status":"completed","output":[],"x":"failed"}', None),
    ],
)
def test_a_failure_that_is_an_answer_of_its_own_is_seen(raw: bytes, kind: str | None) -> None:
    found = relayed_response(raw, codec_of(RESPONSES)).own
    assert (None if found is None else found.kind.value) == kind
