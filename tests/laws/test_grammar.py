"""Law 5, grammar: every stream for a client passes the order table, its page's grammar and the official SDK."""

from __future__ import annotations

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.events import Event, Failed
from dragoman.model.losses import Ledger
from dragoman.rules.part_serializer import PartSerializer
from dragoman.translate import translate_response
from tests.laws.grammar import check
from tests.laws.journey import STEADY, asked, events_of, translated_stream
from tests.laws.official import accumulated
from tests.laws.strategies import CHAT, MESSAGES, PAIRS, PROTOCOLS, RESPONSES, Case, answers, single_answers
from tests.laws.telling import frame, streams, tell
from tests.model.event_order import OrderCheck, StreamPhase

# How a provider tells an error in the middle of its stream.
ERRORS: dict[str, bytes] = {
    MESSAGES: frame({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "error"),
    CHAT: frame({"error": {"message": "busy", "type": "server_error", "code": 503}}),
    RESPONSES: frame(
        {"type": "error", "sequence_number": 99, "code": "server_error", "message": "busy", "param": None}, "error"
    ),
}


def in_order(events: list[Event]) -> None:
    order, serial = OrderCheck(), OrderCheck(serial=True)
    sink = PartSerializer(serial, Ledger())
    for event in events:
        order(event)
        sink(event)
    assert order.phase is StreamPhase.OVER
    assert serial.phase is StreamPhase.OVER


def sdk_raises(client: str, stream: bytes) -> bool:
    """Whether the official SDK reports the error that a broken stream ends with."""
    try:
        answer = accumulated(client, stream)
    except (anthropic.APIError, openai.APIError):
        return True
    return answer.get("status") == "failed"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_decoded_events_keep_the_order_table(protocol: str, data: st.DataObject) -> None:
    in_order(events_of(protocol, data.draw(streams(protocol, lying=True)).stream))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data(), end=st.integers(0, 5000))
def test_decoded_events_keep_the_order_table_when_the_provider_breaks_off(
    protocol: str, data: st.DataObject, end: int
) -> None:
    stream = data.draw(streams(protocol, lying=True)).stream
    in_order(events_of(protocol, stream[: end % (len(stream) + 1)]))


@pytest.mark.parametrize("case", [case for protocol in PROTOCOLS for case in single_answers(protocol)], ids=str)
def test_every_part_of_an_answer_makes_a_legal_stream(case: Case) -> None:
    told = tell(case.protocol, case.body)
    in_order(events_of(case.protocol, told.stream))
    for provider, client in PAIRS:
        if provider == case.protocol:
            stream = translated_stream(provider, client, told.stream, asked(client, provider))
            check(client, stream)
            accumulated(client, stream)


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data())
def test_every_stream_is_legal_and_the_official_sdk_takes_it(provider: str, client: str, data: st.DataObject) -> None:
    told = data.draw(streams(provider, lying=True))
    stream = translated_stream(provider, client, told.stream, asked(client, provider))
    check(client, stream)
    accumulated(client, stream)


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data(), at=st.integers(0, 200))
def test_an_error_in_the_middle_is_told_in_the_clients_form(
    provider: str, client: str, data: st.DataObject, at: int
) -> None:
    frames = data.draw(streams(provider)).frames
    # Before the frames that say the answer is whole; what follows those is nobody's error.
    cut = at % max(1, len(frames) - 2)
    broken = b"".join(frames[:cut]) + ERRORS[provider]
    events = events_of(provider, broken)
    in_order(events)
    assert isinstance(events[-1], Failed)
    assert "busy" in events[-1].failure.message
    stream = translated_stream(provider, client, broken, asked(client, provider))
    check(client, stream)
    assert b"busy" in stream
    assert sdk_raises(client, stream)


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data(), end=st.integers(0, 5000))
def test_a_stream_that_breaks_off_ends_legally(provider: str, client: str, data: st.DataObject, end: int) -> None:
    stream = data.draw(streams(provider)).stream
    told = translated_stream(provider, client, stream[: end % (len(stream) + 1)], asked(client, provider))
    check(client, told)


@pytest.mark.parametrize(("provider", "client"), [*PAIRS, *((one, one) for one in PROTOCOLS)])
@given(data=st.data())
def test_a_whole_answer_told_as_a_stream_is_legal(provider: str, client: str, data: st.DataObject) -> None:
    answer = data.draw(answers(provider))
    request = asked(client, provider) if provider != client else None
    told = translate_response(answer, source=provider, target=client, request=request, stream=True, mint=STEADY)
    check(client, told.body)
    accumulated(client, told.body)
