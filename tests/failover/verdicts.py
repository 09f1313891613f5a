"""What a client makes of a reply: an error in its own form, or an answer that is whole, once, and of one provider."""

from __future__ import annotations

from enum import Enum
from typing import TypeGuard

from msgspec import Struct

from tests.failover.faults import Fault
from tests.failover.house import GATEWAY_KEY, HEALTHY, FailingHouse, Told
from tests.failover.sayings import Asked
from tests.gateway.harness import CHAT, MESSAGES, RESPONSES
from tests.gateway.says import (
    MESSAGES_TOLD,
    OPENAI_TOLD,
    SAID,
    failure_of,
    is_finished,
    streamed_text,
    text_of,
)
from tests.sdk.digging import Object, dig_object
from tests.sdk.oracles import check_answer, check_stream
from tests.sdk.samples import events_of

_OPENINGS = {MESSAGES: "message_start", RESPONSES: "response.created"}


class Ended(Enum):
    """How a request ended for its client."""

    # With the answer of the provider that was asked first, or with that of the other one.
    RIGHT = "right"
    OTHER = "other"
    # With an error as the reply.
    TOLD = "told"
    # With an error inside a stream.
    BROKEN = "broken"


class Verdict(Struct, frozen=True, kw_only=True):
    """How it ended, and what was said until then."""

    ended: Ended
    status: int
    text: str = ""


def verdict_on(house: FailingHouse, told: Told) -> Verdict:
    """Read a reply as its client does, and hold it to everything that is true of all replies."""
    answer, client = told.answer, told.case.client
    assert answer.complete, told
    _keeps_secrets(house, told)
    if answer.status != 200:
        assert failure_of(client, answer)["message"]
        return Verdict(ended=Ended.TOLD, status=answer.status)
    if not told.case.stream:
        body = answer.json()
        check_answer(client, body)
        return _answered(text_of(client, body))
    if _passes_as_it_is(told, house.providers[told.case.bad].fault):
        ended = Ended.RIGHT if is_finished(client, answer.body) else Ended.BROKEN
        return Verdict(ended=ended, status=200, text=streamed_text(client, answer.body))
    heard = check_stream(client, answer.body)
    _is_of_one_mind(client, events_of(answer.body))
    text = streamed_text(client, answer.body)
    if is_finished(client, answer.body):
        assert heard.error is None, told
        return _answered(text)
    assert _has_failed(client, events_of(answer.body)), told
    return Verdict(ended=Ended.BROKEN, status=200, text=text)


def all_is_well(house: FailingHouse) -> None:
    """Assert that healthy providers answer every client, whatever others do."""
    assert {verdict_on(house, told).ended for told in house.ask_healthy()} == {Ended.OTHER}


def statuses(told: Told, fault: Fault) -> set[int]:
    """What a client may be told of a fault: in its own protocol's way, or as the provider reported it."""
    own = fault.says(Asked(protocol=told.case.provider, stream=told.case.stream)).status
    known = MESSAGES_TOLD[fault.status][0] if told.case.client == MESSAGES else OPENAI_TOLD[fault.status][0]
    return {known, own} - {200}


def _passes_as_it_is(told: Told, fault: Fault) -> bool:
    """Whether a stream is odd and is the provider's own: where nothing is translated, only ids of responses change."""
    if not fault.odd or told.case.client != told.case.provider:
        return False
    said = fault.says(Asked(protocol=told.case.provider, stream=True))
    theirs = events_of(b"".join(step for step in said.steps if isinstance(step, bytes)))
    return _but_for_ids(events_of(told.answer.body)) == _but_for_ids(theirs)


def _but_for_ids(events: list[Object]) -> list[Object]:
    return [{name: value for name, value in event.items() if name != "response"} for event in events]


def _answered(text: str) -> Verdict:
    assert text in (SAID, HEALTHY)
    return Verdict(ended=Ended.RIGHT if text == SAID else Ended.OTHER, status=200, text=text)


def _keeps_secrets(house: FailingHouse, told: Told) -> None:
    said = repr(told.answer)
    assert GATEWAY_KEY not in said
    for provider in house.providers.values():
        assert provider.key not in said
        assert f"127.0.0.1:{provider.port}" not in said
    assert "elsewhere" not in said
    assert "Traceback" not in said


def _is_of_one_mind(client: str, events: list[Object]) -> None:
    """One opening, one id and one model, all from the same provider."""
    if client == CHAT:
        told = [event for event in events if "choices" in event]
        first = [event for event in told if _role(event) is not None]
    else:
        told = [body for event in events for body in (event.get("message"), event.get("response")) if _is_object(body)]
        first = [event for event in events if event["type"] == _OPENINGS[client]]
    assert len(first) <= 1, events
    assert len({str(one["id"]) for one in told}) <= 1, events
    assert len({str(one["model"]) for one in told}) <= 1, events


def _is_object(value: object) -> TypeGuard[Object]:
    return isinstance(value, dict)


def _role(chunk: Object) -> object:
    return dig_object(chunk, "choices", 0, "delta").get("role") if chunk["choices"] else None


def _has_failed(client: str, events: list[Object]) -> bool:
    last = events[-1]
    return last.get("type") == "response.failed" if client == RESPONSES else "error" in last
