"""Every call is in the record, with what became of it, whatever way it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.exchange.attempt import Attempt
from dragoman.gateway.exchange.calls import Calls
from dragoman.gateway.records.record import Record
from dragoman.gateway.service import Service
from dragoman.routing.outcomes import Kind
from tests.gateway.exchange.played import played_by
from tests.gateway.harness import CHAT, House
from tests.playbooks.stage import START
from tests.playbooks.test_playbooks import SCENES, played
from tests.virtual_time import run

# What the dialogues come to, by their names, for each call in turn.
KINDS = {
    "whole": ["answered"],
    "stream": ["answered"],
    "collected": ["answered"],
    "mislabelled": ["answered", "answered"],
    "refused": ["rate_limited"],
    "failed": ["no_answer"],
    "key_unknown": ["bad_key"],
    "key_refused": ["rate_limited", "answered", "answered", "answered"],
    "reasoning_refused": ["wrong_request", "answered"],
    "reasoning_refused_inside": ["wrong_request", "answered"],
    "reasoning_refused_with_200": ["wrong_request", "answered"],
    "refused_with_200": ["overloaded"],
    "error_first": ["overloaded"],
    "error_inside": ["broken"],
    "empty": ["no_answer", "no_answer"],
    "unreachable": ["unreachable"],
    "cut": ["broken"],
    "cut_before_content": ["broken"],
    "cancelled": ["left"],
    "cancelled_before_head": ["left"],
    "dead_reader": ["left"],
    "stopped": ["ours"],
    "stopped_waiting": ["ours"],
}


@pytest.mark.parametrize("name", KINDS)
def test_every_call_is_closed_once_with_its_kind(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[Record] = []
    finish = Service.finish

    def finished(service: Service, record: Record) -> None:
        records.append(record)
        finish(service, record)

    monkeypatch.setattr(Service, "finish", finished)
    run(played(SCENES[f"chat_to_chat/{name}"], tmp_path), START)
    attempts = [attempt for record in records for attempt in record.attempts]
    assert [attempt.kind for attempt in attempts] == KINDS[name]
    assert all(record.ended >= attempt.ended >= attempt.started for record in records for attempt in record.attempts)
    assert [attempt.maybe_billed for attempt in attempts] == [attempt.kind == "broken" for attempt in attempts]
    # The place of a key is told, and never its text.
    assert {attempt.key for attempt in attempts} == ({0, 1} if name == "key_refused" else {0})


def test_a_call_that_could_not_be_made_is_one_too() -> None:
    def story(house: House) -> None:
        service = house.app.service
        account = service.account(Record(id="req_1", dialect=CHAT, path="", started=0.0, time=0.0))
        calls, target = Calls(service, account), service.routes.target("chat/served", CHAT)
        attempt = Attempt(target, service.rotation(target.provider))
        assert calls.ended(attempt, Kind.OURS) == ()
        calls.begin()
        account.note(attempts=calls.ended(attempt, Kind.NO_ANSWER))
        [noted] = account.record.attempts
        assert (noted.provider, noted.kind, noted.key, noted.status) == ("chat", "no_answer", -1, 0)
        assert calls.ended(attempt, Kind.ANSWERED) == account.record.attempts

    played_by(story)
