"""Logs: one exchange is one line, and nothing from outside can end it, colour it or pose as another field."""

from __future__ import annotations

import io
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest
from msgspec.structs import replace

from dragoman import translate
from dragoman.gateway.observability.log_writer import LogWriter
from dragoman.gateway.observability.logs import MAX_ENDED, Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.prometheus import render
from dragoman.gateway.observability.record import Record
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Fate, Loss
from dragoman.model.response import Usage
from dragoman.records.journal_entry import CallEntry, CandidateEntry, CostBreakdown, JournalEntry, TokenCounts
from dragoman.sessions.fact_extraction import header_facts
from dragoman.sessions.facts import ExchangeFacts
from dragoman.translate import LossLine
from tests.docs.bare import ROOT
from tests.gateway.harness import PROVIDER_KEY, running, whole
from tests.gateway.observability.scraped import logged, read, total

HOSTILE = {
    "line breaks": 'a\r\n{"level":"error","event":"forged"}',
    "an escape sequence": "\x1b[31mred\x1b[0m\x07",
    "an escape sequence in one character": "\x9b31mred",
    "line separators of Unicode": "a\u2028b\u2029c\u0085d\x0b\x0c\x1c\x1d\x1ee",
    "text that runs backwards": "a\u202eb\u2066c",
    "a lone surrogate": "a\ud800b",
    "a null and a delete": "a\0b\x7fc",
    "blanks that pose as fields": "m -> openai/x openai-chat 200 ms",
    "blanks of other kinds": "m\u00a0\u3000\t->",
    "quotes": 'a","level":"error","x":"',
    "a private character beyond the basic plane": "a\U000f0000b\U000e0041c",
    "ten million letters": "x" * 10_000_000,
}


class Terminal(io.StringIO):
    """A stream that people look at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


SPOKEN = ExchangeFacts(session="s1", client="claude-code", thread="a1")


def record(*, provider_request_id: str = "", **members: str) -> Record:
    call = CallEntry(
        provider="openai",
        model="gpt-5.1",
        protocol="openai-responses",
        status=200,
        provider_request_id=provider_request_id,
    )
    told = Record(
        id="req_1",
        client_protocol="openai-chat",
        path="/chat/completions",
        started=100.0,
        time=0,
        requested_model="fast",
        provider="openai",
        model="gpt-5.1",
        provider_protocol="openai-responses",
        status=200,
        ended=100.25,
        attempts=(call,),
    )
    return replace(told, **members)


def lines(out: io.StringIO) -> list[str]:
    text = out.getvalue()
    assert text.endswith("\n")
    # Whatever may end a line for somebody does so here.
    return text.splitlines()


def only(out: io.StringIO) -> JsonObject:
    (line,) = lines(out)
    value = json.loads(line)
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("member", ["requested_model", "model", "provider_request_id", "path", "key"])
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_name_stays_in_its_place_in_json(case: str, member: str) -> None:
    out = io.StringIO()
    Log(out, json=True).exchange(*logged(record(**{member: HOSTILE[case]})))
    told = only(out)
    assert (told["event"], told["level"], told["status"], told["id"]) == ("exchange", "info", 200, "req_1")
    assert all(line.isprintable() for line in lines(out))
    assert "forged" not in told
    if member in ("requested_model", "model", "path"):
        assert len(out.getvalue()) < 2000


@pytest.mark.parametrize("case", [case for case in HOSTILE if case not in ("a lone surrogate", "ten million letters")])
def test_json_tells_a_hostile_name_exactly(case: str) -> None:
    out = io.StringIO()
    Log(out, json=True).exchange(*logged(record(requested_model=HOSTILE[case])))
    assert only(out)["requested_model"] == HOSTILE[case]


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_field_of_an_event_stays_in_its_place(case: str) -> None:
    for out in (io.StringIO(), Terminal()):
        Log(out).event("warn", "something happened", reason=HOSTILE[case], running=3)
        first, *below = lines(out)
        # A line below the first cannot pose as another event.
        assert not below or isinstance(out, Terminal)
        assert all(each.startswith(" " * 15) and each[15] != " " for each in below)
        line = " ".join([first, *(each[15:] for each in below)])
        assert line.isprintable()
        assert len(line) < 3000
        if isinstance(out, Terminal):
            assert re.fullmatch(r'\d\d:\d\d:\d\d warn  something happened reason=("[^"]*"|[^" ]+) running=3', line)
        else:
            told = json.loads(line)
            assert set(told) == {"time", "level", "event", "reason", "running"}
            assert told["level"] == "warn"


def test_sentences_stay_readable_on_a_terminal() -> None:
    out = Terminal()
    Log(out).event("info", "refused", status=401, reason='a "key" is required', id="r1", nothing="")
    assert out.getvalue().split(" ", 1)[1] == (
        'info  refused status=401 reason="a \'key\' is required" id=r1 nothing=""\n'
    )


def test_what_is_done_is_told_in_words_to_people_and_by_fields_to_programs() -> None:
    for out in (io.StringIO(), Terminal()):
        Log(out).report("info", "stopping", "stopping: 3 run", running=3)
        (line,) = lines(out)
        if isinstance(out, Terminal):
            assert line.split(" ", 1)[1] == "info  stopping: 3 run"
        else:
            told = json.loads(line)
            assert (told["event"], told["running"], told["level"]) == ("stopping", 3, "info")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("address", "192.0.2.9"),
        ("key", "other"),
        ("client_protocol", "openai-responses"),
        ("path", "/responses"),
        ("requested_model", "small"),
        ("provider", "anthropic"),
        ("model", "gpt-4.1"),
        ("provider_protocol", "anthropic-messages"),
        ("stream", True),
        ("status", 201),
    ],
)
def test_a_line_has_the_members_of_its_own_exchange_whatever_was_logged_before(member: str, value: str | int) -> None:
    """Encoded members that many exchanges share are cached; each of them tells lines apart."""
    out = io.StringIO()
    log, changed = Log(out, json=True), record()
    setattr(changed, member, value)
    for told in (record(), changed, record()):
        log.exchange(*logged(told))
    first, second, third = map(json.loads, lines(out))
    assert first == third != second
    assert second == first | {member: value}
    assert list(first)[:6] == ["time", "level", "event", "id", "address", "key"]


def test_bookkeeping_is_counted_apart_and_named_on_request() -> None:
    lost = replace(
        record(), losses=translate.loss_lines((Loss(Fate.DROPPED, Feature.CACHE_BREAKPOINT, "cache", ""),) * 3)
    )
    out = io.StringIO()
    Log(out, json=True).exchange(*logged(lost))
    line = only(out)
    assert (line["losses"], line["bookkeeping_losses"]) == (0, 3)
    for all_losses in (False, True):
        out = io.StringIO()
        Log(out, json=False, all_losses=all_losses).exchange(*logged(lost))
        assert ("-cache_breakpoint" in out.getvalue()) is all_losses


def test_everything_about_an_exchange_is_told() -> None:
    out = io.StringIO()
    told = record(address="203.0.113.9", key="laptop", provider_request_id="up_1", failure="rate_limited")
    usage = Usage(input=10, output=3, cache_read=4)
    losses = (
        LossLine(fate="dropped", feature="sampling", weight="changes_response", at="sampling.seed", note="a note"),
    )
    told = replace(
        told, stream=True, first_content=100.125, usage=usage, losses=losses, program="codex/1.0", refusal="none"
    )
    Log(out, json=True).exchange(*logged(told))
    line = only(out)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(line.pop("time")))
    assert line == {
        "level": "info",
        "event": "exchange",
        "id": "req_1",
        "address": "203.0.113.9",
        "key": "laptop",
        "client_protocol": "openai-chat",
        "path": "/chat/completions",
        "requested_model": "fast",
        "provider": "openai",
        "model": "gpt-5.1",
        "provider_protocol": "openai-responses",
        "stream": True,
        "status": 200,
        "duration": 0.25,
        "time_to_first_token": 0.125,
        "attempt_count": 1,
        "losses": 1,
        "input": 10,
        "output": 3,
        "cache_read": 4,
        "client": "codex/1.0",
        "failure": "rate_limited",
        "refusal": "none",
        "provider_request_id": "up_1",
    }


def test_pitfall_557_money_is_told_and_what_has_no_price() -> None:
    out = io.StringIO()
    told = replace(
        record(),
        tokens=TokenCounts(input=10, output=5, cache_read=2),
        cost=CostBreakdown(input=12_345_678, reported=13_000_000),
    )
    Log(out, json=True).exchange(*logged(told))
    line = only(out)
    assert (line["input"], line["output"], line["cache_read"]) == (10, 5, 2)
    assert (line["cost"], line["reported_cost"]) == ("0.012345678", "0.013")
    assert "unpriced" not in line and "estimated" not in line
    out = io.StringIO()
    Log(out, json=True).exchange(*logged(replace(record(), estimated=True, cost=CostBreakdown(unpriced=("model",)))))
    line = only(out)
    assert (line["cost"], line["unpriced"], line["estimated"]) == (None, ["model"], True)


@pytest.mark.parametrize(("status", "level"), [(200, "info"), (404, "info"), (500, "error"), (529, "error")])
def test_failures_of_servers_are_errors(status: int, level: str) -> None:
    out = io.StringIO()
    told = replace(record(), status=status)
    Log(out, json=True).exchange(*logged(told))
    assert only(out)["level"] == level


def test_quiet_is_about_exchanges_alone() -> None:
    out = io.StringIO()
    log = Log(out, json=True, quiet=True)
    log.exchange(*logged(record()))
    assert out.getvalue() == ""
    log.event("info", "listening")
    assert only(out)["event"] == "listening"


@pytest.mark.parametrize("said", ["the prompt of the user", PROVIDER_KEY, "dgm_the-clients-own-key"])
def test_neither_prompts_nor_keys_are_logged(said: str) -> None:
    reply = {"error": {"message": f"wrong key {PROVIDER_KEY}", "type": "invalid_request_error"}}
    with running([whole(reply, 401, x_request_id="up_1")]) as house:
        body = {"model": "chat/served", "messages": [{"role": "user", "content": "the prompt of the user"}]}
        told = house.post("/v1/chat/completions", body, authorization="Bearer dgm_the-clients-own-key")
        assert told.status == 401
    assert "up_1" in house.log.getvalue()
    assert said not in house.log.getvalue()


@pytest.mark.parametrize("case", [case for case in HOSTILE if case != "a lone surrogate"])
def test_a_hostile_model_is_one_line_of_the_running_gateway(case: str) -> None:
    with running([]) as house:
        name = HOSTILE[case][:100_000]
        told = house.post("/v1/messages", {"model": name, "max_tokens": 1, "messages": []})
        assert told.status == 404
        assert told.json()["type"] == "error"
    assert only(house.log)["status"] == 404


def test_a_line_of_several_targets_tells_how_it_was_chosen_and_every_call() -> None:
    first = CallEntry(
        provider="a",
        model="m",
        protocol="openai-chat",
        ended=500_000,
        kind="first_byte_timeout",
        maybe_billed=True,
    )
    second = replace(
        first, provider="b", kind="answered", status=200, tokens=TokenCounts(input=7, output=9), maybe_billed=False
    )
    told = replace(record(), route="fast", policy="fastest", reason="pinned", attempts=(first, second))
    out = io.StringIO()
    Log(out, json=True).exchange(*logged(told))
    line = only(out)
    assert (line["route"], line["policy"], line["reason"], line["attempt_count"]) == ("fast", "fastest", "pinned", 2)
    assert line["attempts"] == [
        {"target": "a/m", "kind": "first_byte_timeout", "status": 0, "duration": 0.5, "maybe_billed": True},
        {"target": "b/m", "kind": "answered", "status": 200, "duration": 0.5, "input": 7, "output": 9},
    ]


def test_those_that_were_ranked_are_told_with_what_was_known_of_them() -> None:
    candidates = (
        CandidateEntry("a/m", "", 1_500_000, 0, 250_000, 80.5),
        CandidateEntry("b/" + "m" * 500, "left out: in cooldown"),
    )
    out = io.StringIO()
    Log(out, json=True).exchange(*logged(replace(record(), candidates=candidates, candidates_more=3)))
    line = only(out)
    assert line["candidates"] == [
        {"target": "a/m", "cost": "0.0015", "losses": 0, "first_token": 0.25, "tokens_per_second": 80.5},
        {"target": "b/" + "m" * 118, "reason": "left out: in cooldown"},
    ]
    assert line["candidates_more"] == 3


def test_a_name_with_one_target_says_nothing_of_a_choice() -> None:
    out = io.StringIO()
    Log(out, json=True).exchange(*logged(record()))
    assert not {"route", "policy", "reason", "attempts", "candidates"} & set(only(out))


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_name_stays_in_its_place_among_the_calls(case: str) -> None:
    call = CallEntry(provider="a", model=HOSTILE[case], protocol="openai-chat", started=1, ended=2, kind="answered")
    out = io.StringIO()
    Log(out, json=True).exchange(*logged(replace(record(), route=HOSTILE[case], attempts=(call,))))
    told = only(out)
    assert told["event"] == "exchange" and "forged" not in told
    assert all(line.isprintable() for line in lines(out))
    assert len(out.getvalue()) < 2000


def test_who_is_speaking_is_told() -> None:
    out, terminal = io.StringIO(), Terminal()
    Log(out, json=True).exchange(*logged(replace(record(), facts=SPOKEN)))
    told = json.loads(out.getvalue())
    assert (told["session"], told["thread"]) == ("s1", "subagent")
    Log(terminal).exchange(*logged(replace(record(), facts=SPOKEN)))
    assert "  subagent" in terminal.getvalue()
    silent = io.StringIO()
    Log(silent, json=True).exchange(*logged(record()))
    assert not {"session", "thread"} & set(json.loads(silent.getvalue()))


def test_every_field_of_a_line_is_documented() -> None:
    out = io.StringIO()
    told = record(address="203.0.113.9", key="laptop", provider_request_id="up_1", failure="rate_limited", route="line")
    money = CostBreakdown(input=1, reported=2, unpriced=("model",))
    told = replace(
        told,
        facts=SPOKEN,
        cost=money,
        tokens=TokenCounts(input=1),
        estimated=True,
        first_content=100.1,
        queue_full=("a/b",),
    )
    told = replace(told, program="codex/1.0", launch="one", refusal="none", advice="none")
    Log(out, json=True).exchange(*logged(told))
    page = ROOT / "docs" / "monitoring.md"
    table = page.read_text("utf-8").partition("| Field of an exchange |")[2].partition("\n\n")[0]
    assert {f"`{name}`" for name in only(out)} - {"`time`", "`level`", "`event`"} <= set(re.findall(r"`\w+`", table))


@pytest.mark.parametrize("text", list(HOSTILE.values()), ids=list(HOSTILE))
def test_a_session_of_any_name_stays_within_its_field(text: str) -> None:
    out = io.StringIO()
    Log(out, json=True).exchange(
        *logged(replace(record(), facts=header_facts([(b"x-dragoman-session", text.encode("utf-8", "replace"))])))
    )
    assert len(out.getvalue().splitlines()) == 1
    assert len(json.loads(out.getvalue())["session"]) <= 128


@contextmanager
def piped(log_out: list[TextIO]) -> Iterator[TextIO]:
    """The end of a pipe that is read; the log has the other."""
    ours, theirs = os.pipe()
    with os.fdopen(ours) as reader, os.fdopen(theirs, "w") as out:
        log_out.append(out)
        yield reader


def test_exchanges_are_logged_and_counted_by_a_thread_in_their_order_and_events_stand_behind_them() -> None:
    outs: list[TextIO] = []
    with piped(outs) as reader:
        log, metrics = Log(outs[0], json=True), Metrics()
        log.count, log.count_lock = metrics.count, metrics.lock
        for number in range(500):
            log.exchange(*logged(replace(record(), id=f"req_{number}")))
            if number % 100 == 99:
                log.event("info", f"event {number}")
        log.exchange(*logged(record(key="last")))
        found = [json.loads(reader.readline()) for _ in range(506)]
        # The last line was written by the thread, without a flush.
        assert found[-1]["key"] == "last"
        log.close()
    named = [line["id"] if line["event"] == "exchange" else line["event"] for line in found[:-1]]
    expected = [[f"req_{number}" for number in range(first, first + 100)] for first in range(0, 500, 100)]
    assert named == [each for ids in expected for each in (*ids, f"event {ids[-1].removeprefix('req_')}")]
    assert total(read(render([metrics.snapshot()])), "dragoman_requests_total") == 501


def test_a_scrape_includes_what_ended_before_it_although_nobody_reads_the_log() -> None:
    outs: list[TextIO] = []
    with piped(outs) as reader:
        log, metrics = Log(outs[0], json=True), Metrics()
        log.count, log.count_lock, metrics.log = metrics.count, metrics.lock, log
        for number in range(1, 10_001):
            log.exchange(*logged(record(key="k" * 100)))
            assert len(log._ended) <= MAX_ENDED
            if number % 1000 == 0:
                assert total(read(render([metrics.snapshot()])), "dragoman_requests_total") == number
        assert log.lines_dropped > 0
        reader.close()
        log.close()


def test_a_line_waits_for_100_ms_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    written: list[float] = []
    sleep = time.sleep

    def sleeping(seconds: float) -> None:
        if threading.current_thread().name == "log":
            slept.append(seconds)
            seconds = 0
        sleep(seconds)

    outs: list[TextIO] = []
    with piped(outs) as reader:
        log = Log(outs[0], json=True)
        writer = log._writer
        assert isinstance(writer, LogWriter)
        write = writer._write

        def writing(piece: bytes) -> int:
            written.append(sum(slept))
            return write(piece)

        monkeypatch.setattr(writer, "_write", writing)
        monkeypatch.setattr(time, "sleep", sleeping)
        # As many as may wait end at once, just after the thread has begun to wait; more would not wait.
        with writer.lock:
            for _ in range(MAX_ENDED - 1):
                log.exchange(*logged(record()))
            assert not written
        for _ in range(MAX_ENDED - 1):
            reader.readline()
        monkeypatch.undo()
        log.close()
    assert 0 < written[-1] <= 0.1


def test_closing_writes_what_waits() -> None:
    outs: list[TextIO] = []
    with piped(outs) as reader:
        log = Log(outs[0], json=True)
        log.exchange(*logged(record()))
        log.close()
        outs[0].close()
        assert [json.loads(line)["id"] for line in reader] == ["req_1"]


def test_a_quiet_log_counts_and_tells_only_what_was_refused_at_the_door() -> None:
    out, counts = io.StringIO(), list[JournalEntry]()
    log = Log(out, json=True, quiet=True)
    log.count = lambda entry, thread, total: counts.append(entry)
    log.exchange(*logged(record()))
    log.exchange(*logged(replace(record(), at_door=True)))
    assert len(lines(out)) == 1 and len(counts) == 2


def test_a_line_that_cannot_be_made_ends_no_log() -> None:
    outs: list[TextIO] = []
    with piped(outs) as reader:
        log = Log(outs[0], json=True)

        def count(entry: JournalEntry, thread: str, total: int) -> None:
            if entry.id == "req_bad":
                raise ValueError(entry.id)

        log.count = count
        # The thread waits meanwhile: what it raised would be its own.
        with log._writer.lock, pytest.raises(ValueError, match="req_bad"):
            log.exchange(*logged(replace(record(), id="req_bad")))
            log.flush()
        log.exchange(*logged(record()))
        assert [json.loads(reader.readline())["id"] for _ in range(2)] == ["req_bad", "req_1"]
        log.close()
