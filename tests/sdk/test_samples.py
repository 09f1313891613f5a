"""The shared data: one turn in all three stream forms, and the golden values of mapping.md, end to end."""

from __future__ import annotations

import itertools
import json

import anthropic
import openai
import pytest

from dragoman.protocols.codec import Mint
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedRequest, translate_request, translate_response
from tests.sdk.clients import replay
from tests.sdk.digging import Object, dig, dig_object, dig_objects, dig_text
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.sdk.oracles import check_answer, check_stream
from tests.sdk.providers import Call, Turn, answer, stream
from tests.sdk.samples import SAMPLES, VECTORS, as_stream, events_of

# The sample's questions: what its Chat client asks for (usage), and what its Responses client does not (storage).
QUESTIONS: dict[str, Object] = {
    MESSAGES: {"model": "m", "max_tokens": 99, "stream": True, "messages": [{"role": "user", "content": "hi"}]},
    CHAT: {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    RESPONSES: {"model": "m", "input": "hi", "store": False, "stream": True},
}


def _asked(client: str, provider: str) -> TranslatedRequest:
    return translate_request(json.dumps(QUESTIONS[client]), source=client, target=provider)


def _sample_mint() -> Mint:
    """Ids end in the sample's "s1"; the clock goes on by a second each time it is read: once to open, once to end."""
    return Mint(token=lambda length: "s1", now=itertools.count(1_700_000_000).__next__)


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_the_sample_turn_is_translated_event_by_event(client: str) -> None:
    question = _asked(client, MESSAGES)
    translator = StreamPipeline(source=MESSAGES, target=client, request=question, mint=_sample_mint())
    out = translator.feed(as_stream(MESSAGES, SAMPLES[MESSAGES])) + translator.close()
    assert events_of(out) == SAMPLES[client]
    assert out.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("protocol", SAMPLES)
def test_the_sdks_accumulate_the_sample(protocol: str) -> None:
    told = check_stream(protocol, as_stream(protocol, SAMPLES[protocol]))
    assert told.error is None
    assert "Let me look." in json.dumps(told.body)


@pytest.mark.parametrize("provider", SAMPLES)
@pytest.mark.parametrize("client", SAMPLES)
def test_the_sdks_accumulate_the_sample_in_every_direction(client: str, provider: str) -> None:
    translator = StreamPipeline(source=provider, target=client, request=_asked(client, provider))
    out = translator.feed(as_stream(provider, SAMPLES[provider])) + translator.close()
    body = check_stream(client, out).body
    found = json.dumps(body)
    assert all(text in found for text in ("Need the weather.", "Let me look.", "toolu_01", "toolu_02", "Paris"))
    if client != CHAT or provider != CHAT:
        check_answer(client, _whole(provider, client))


def _whole(provider: str, client: str) -> Object:
    """The sample as a whole answer for a client that did not stream."""
    translator = StreamPipeline(source=provider, target=client, request=_asked(client, provider), collect=True)
    found: object = json.loads(translator.feed(as_stream(provider, SAMPLES[provider])) + translator.close())
    assert isinstance(found, dict)
    return found


CALL = (Call("call_1", "get_weather", '{"city":"Paris"}'),)


def _turn(words: str, usage: Object | None = None) -> Turn:
    """A provider's turn by its row in the vectors: `word+call`, `word+no_call`, `word+refusal`."""
    word, *more = words.split("+")
    calls = "call" in more or (word in ("tool_use", "tool_calls") and "no_call" not in more)
    refusal = "I will not." if "refusal" in more else ""
    text = "" if calls or refusal else "Hi."
    stop = None if word == "null" else word
    return Turn(stop=stop, text=text, refusal=refusal, calls=CALL if calls else (), usage=usage)


def _heard(provider: str, client: str, turn: Turn) -> list[Object]:
    """What the client makes of a turn on all four ways: whole or streamed by the provider, for itself likewise."""
    whole = json.dumps(answer(provider, turn)).encode()
    told = stream(provider, turn)
    question = _asked(client, provider)
    collected = StreamPipeline(source=provider, target=client, request=question, collect=True)
    relayed = StreamPipeline(source=provider, target=client, request=question)
    bodies: list[bytes] = [
        translate_response(whole, source=provider, target=client, request=question).body,
        collected.feed(told) + collected.close(),
    ]
    streams = [
        translate_response(whole, source=provider, target=client, request=question, stream=True).body,
        relayed.feed(told) + relayed.close(),
    ]
    heard: list[Object] = [json.loads(body) for body in bodies]
    for body in heard:
        check_answer(client, body)
    return heard + [check_stream(client, out).body for out in streams]


def _stop_of(protocol: str, body: Object) -> object:
    if protocol == MESSAGES:
        return body["stop_reason"]
    if protocol == CHAT:
        return dig(body, "choices", 0, "finish_reason")
    details = body["incomplete_details"]
    return f"{body['status']}:{dig(details, 'reason')}" if details else body["status"]


# Provider, then the two clients in the order of the vectors' columns.
TABLES = [
    ("stop_a", MESSAGES, (CHAT, RESPONSES)),
    ("finish_c", CHAT, (MESSAGES, RESPONSES)),
    ("status_r", RESPONSES, (MESSAGES, CHAT)),
]
STOPS = [
    pytest.param(provider, words, client, expected, id=f"{words} of {provider} to {client}")
    for table, provider, clients in TABLES
    for words, row in dig_object(VECTORS, table).items()
    for client, expected in zip(clients, row if isinstance(row, list) else [], strict=True)
]


@pytest.mark.parametrize(("provider", "words", "client", "expected"), STOPS)
def test_stop_reasons(provider: str, words: str, client: str, expected: str) -> None:
    heard = _heard(provider, client, _turn(words))
    assert [_stop_of(client, body) for body in heard] == [expected] * 4


def _openai_usage(protocol: str, counts: Object) -> Object:
    """The vectors' neutral counts in OpenAI's members."""
    read: Object = {"cached_tokens": counts["cached"], "cache_write_tokens": counts["cache_write"]}
    written: Object = {"reasoning_tokens": counts["reasoning"]}
    total = counts.get("total", int(str(counts["input"])) + int(str(counts["output"])))
    if protocol == CHAT:
        totals: Object = {"prompt_tokens": counts["input"], "completion_tokens": counts["output"]}
        return {
            **totals,
            "total_tokens": total,
            "prompt_tokens_details": read,
            "completion_tokens_details": written,
        }
    totals = {"input_tokens": counts["input"], "output_tokens": counts["output"]}
    return {**totals, "total_tokens": total, "input_tokens_details": read, "output_tokens_details": written}


def _claude_usage(counts: Object) -> Object:
    """The vectors' counts in Anthropic's members."""
    plain = {name: count for name, count in counts.items() if name != "thinking_tokens"}
    return {**plain, "output_tokens_details": {"thinking_tokens": counts["thinking_tokens"]}}


def _counted(usage: object) -> Object:
    """Usage without members that are null or absent alike."""
    assert isinstance(usage, dict)
    return {
        name: _counted(value) if isinstance(value, dict) else value
        for name, value in usage.items()
        if value is not None
    }


@pytest.mark.parametrize("vector", dig_objects(VECTORS, "usage_a_to_openai"), ids=json.dumps)
@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_usage_of_claude_counts_what_openai_counts(client: str, vector: Object) -> None:
    turn = _turn("end_turn", _claude_usage(dig_object(vector, "a")))
    expected = _openai_usage(client, dig_object(vector, "openai"))
    assert [_counted(body["usage"]) for body in _heard(MESSAGES, client, turn)] == [expected] * 4


@pytest.mark.parametrize("vector", dig_objects(VECTORS, "usage_openai_to_a"), ids=json.dumps)
@pytest.mark.parametrize(("provider", "stop"), [(CHAT, "stop"), (RESPONSES, "completed")])
def test_usage_of_openai_counts_what_claude_counts(provider: str, stop: str, vector: Object) -> None:
    turn = _turn(stop, _openai_usage(provider, dig_object(vector, "openai")))
    heard = [_counted(body["usage"]) for body in _heard(provider, MESSAGES, turn)]
    expected = _claude_usage(dig_object(vector, "a"))
    assert [{name: usage.get(name) for name in expected} for usage in heard] == [expected] * 4
    if "report" in vector:
        told = translate_response(json.dumps(answer(provider, turn)), source=provider, target=MESSAGES)
        assert [loss["feature"] for loss in told.losses if "usage" in loss["feature"]], "U2 is reported"


class Row:
    """One row of the table of errors (§21), as each protocol tells it."""

    def __init__(self, row: object) -> None:
        assert isinstance(row, list)
        self.claude_status, self.claude_type = int(row[0]), str(row[1])
        self.status, self.type = int(row[2]), str(row[3])
        self.code = None if row[4] is None else str(row[4])

    def told(self, protocol: str) -> tuple[int, Object]:
        """Status and body of the error as a provider of the protocol answers."""
        if protocol == MESSAGES:
            return self.claude_status, {"type": "error", "error": {"type": self.claude_type, "message": "No luck."}}
        inner: Object = {"message": "No luck.", "type": self.type, "param": None, "code": self.code}
        return self.status, {"error": inner}


ERRORS = [Row(row) for row in VECTORS["errors"]] if isinstance(VECTORS["errors"], list) else []
CROSSINGS = [(MESSAGES, CHAT), (MESSAGES, RESPONSES), (CHAT, MESSAGES), (RESPONSES, MESSAGES)]


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: f"{row.claude_status} {row.claude_type}")
@pytest.mark.parametrize(("provider", "client"), CROSSINGS)
def test_errors_are_raised_by_the_clients_sdk_as_its_own(provider: str, client: str, row: Row) -> None:
    status, body = row.told(provider)
    told = translate_response(json.dumps(body), source=provider, target=client, status=status, request_id="req_1")
    expected_status, expected = row.told(client)
    assert (told.status, told.failed) == (expected_status, True)
    found = json.loads(told.body)
    if client == MESSAGES:
        assert found == {**expected, "request_id": "req_1"}
    else:
        assert found == expected
    raised = _raised(client, told.body, told.status)
    assert raised.status_code == expected_status
    assert "No luck." in raised.message


def _raised(client: str, body: bytes, status: int) -> anthropic.APIStatusError | openai.APIStatusError:
    replay().whole(body, status)
    if client == MESSAGES:
        with pytest.raises(anthropic.APIStatusError) as caught:
            replay().anthropic.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "hi"}])
        return caught.value
    with pytest.raises(openai.APIStatusError) as seen:
        if client == CHAT:
            replay().openai.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        else:
            replay().openai.responses.create(model="m", input="hi")
    return seen.value


def _can_tell(provider: str, row: Row) -> bool:
    """Whether an error inside a stream, which has no status, says which row it is.

    Messages tells the type alone, Responses the code alone; two rows share a type, and two have no code.
    """
    if provider == MESSAGES:
        return row.claude_status != 502
    return provider == CHAT or row.code is not None or row.status == 500


MID_STREAM = [
    pytest.param(provider, client, row, id=f"{row.claude_status} of {provider} to {client}")
    for provider, client in CROSSINGS
    for row in ERRORS
    if _can_tell(provider, row)
]


@pytest.mark.parametrize(("provider", "client", "row"), MID_STREAM)
def test_an_error_inside_a_stream_keeps_its_class(provider: str, client: str, row: Row) -> None:
    _, body = row.told(provider)
    events = SAMPLES[provider][:9]
    if provider == RESPONSES:
        body = {"type": "error", "code": row.code, "message": "No luck.", "param": None, "sequence_number": len(events)}
    translator = StreamPipeline(source=provider, target=client, request=_asked(client, provider))
    out = translator.feed(as_stream(provider, [*events, body], done=False)) + translator.close()
    told = check_stream(client, out)
    assert told.error is not None and "No luck." in told.error
    errors = [event for event in events_of(out) if event.get("type") == "error" or "error" in event]
    assert len(errors) == 1
    if client == RESPONSES:
        # The flat event has no type: where there is no code, the type stands for it.
        assert errors[0]["code"] == (row.code or row.type)
        failed = events_of(out)[-1]
        assert dig(failed, "response", "error", "message") == "No luck."
        code = "rate_limit_exceeded" if row.code == "rate_limit_exceeded" else "server_error"
        assert dig(failed, "response", "error", "code") == code
    else:
        _, expected = row.told(client)
        assert errors[0]["error"] == expected["error"]


@pytest.mark.parametrize(
    "vector", dig_objects(VECTORS, "context_overflow"), ids=lambda row: dig_text(row, "upstream", "message")
)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_context_overflow_is_worded_as_agents_know_it(vector: Object, streamed: bool) -> None:
    upstream = dig_object(vector, "upstream")
    if "a" in vector:
        expected = {name: dig(vector, "a", name) for name in ("type", "message")}
        crossings = [(CHAT, MESSAGES), (RESPONSES, MESSAGES)]
    else:
        expected = {name: dig(vector, "openai", name) for name in ("type", "message", "code")}
        crossings = [(MESSAGES, CHAT), (MESSAGES, RESPONSES)]
    for provider, client in crossings:
        told = _overflow(provider, client, upstream, streamed)
        # The flat error event of Responses has no type of error.
        names = [name for name in expected if not (streamed and client == RESPONSES and name == "type")]
        assert {name: told[name] for name in names} == {name: expected[name] for name in names}


def _overflow(provider: str, client: str, upstream: Object, streamed: bool) -> Object:
    """The error that the client is told, as the object that holds its members."""
    status = int(str(upstream["status"]))
    inner: Object = {"type": "invalid_request_error", "message": upstream["message"]}
    if provider == MESSAGES:
        body: Object = {"type": "error", "error": inner}
    else:
        body = {"error": {**inner, "param": None, "code": upstream.get("code")}}
    if not streamed:
        told = translate_response(json.dumps(body), source=provider, target=client, status=status)
        assert told.status == status
        return dig_object(json.loads(told.body), "error")
    if provider == RESPONSES:
        flat: Object = {"code": upstream.get("code"), "message": upstream["message"], "param": None}
        body = {"type": "error", **flat, "sequence_number": 2}
    translator = StreamPipeline(source=provider, target=client, request=_asked(client, provider))
    begun = SAMPLES[provider][:2]
    out = translator.feed(as_stream(provider, [*begun, body], done=False)) + translator.close()
    check_stream(client, out)
    error = next(event for event in events_of(out) if event.get("type") == "error" or "error" in event)
    return error if client == RESPONSES else dig_object(error, "error")
