"""What follows a failure on lines with several targets: played over virtual time, by what clients and hosts saw."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dragoman.config.settings import RouteConfig, Routing, Timeouts
from dragoman.gateway.observability.record import Record
from dragoman.gateway.runtime import Runtime
from dragoman.prices.book import Override
from dragoman.prices.table import Rates
from dragoman.routing.health import FIRST_COOLDOWN, SUSPICION
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES
from tests.gateway.says import NAMES, is_finished, streamed_text, text_of
from tests.playbooks.bodies import brief, error, frames, overloaded, parts, whole
from tests.playbooks.failover_scenes import KINDS, LINES, TWO
from tests.playbooks.kinds import Setup, Steps, streamed, told
from tests.playbooks.stage import START, Stage, settled
from tests.playbooks.steps import (
    EVENTS,
    JSON,
    Step,
    answers,
    asks,
    cuts,
    ends,
    hangs_up,
    is_unreachable,
    passes,
    says,
)
from tests.virtual_time import run

# Many targets of one provider, and one that has as many keys.
MANY = tuple(f"chat/served-{number}" for number in range(20))
KEYS = tuple(f"sk-{number:02}-0123456789abcdef" for number in range(30))
SAYS = "It is sunny in Ulm."


class Course:
    """What became of a dialogue: what was told to the client, what hosts got, and what was written down."""

    def __init__(self, stage: Stage, records: list[Record]) -> None:
        self.records = records
        self.lines = stage.lines
        self.calls = len(stage.provider.lines)
        self._heard = b"".join(end.heard for end in stage.clients)

    @property
    def status(self) -> int:
        return int(self._heard[9:12])

    @property
    def body(self) -> bytes:
        """All that the client was told, without what frames it."""
        head, _, body = self._heard.partition(b"\r\n\r\n")
        if b"chunked" not in head:
            return body
        return b"".join(re.findall(rb"(?s)[0-9a-f]+\r\n(.+?)\r\n(?=[0-9a-f]+\r\n)", body))

    def header(self, name: str) -> str:
        found = re.search(rb"\r\n%b: ([^\r]*)" % name.encode(), self._heard)
        return found[1].decode() if found else ""

    @property
    def kinds(self) -> list[str]:
        return [attempt.kind for record in self.records for attempt in record.attempts]

    @property
    def targets(self) -> list[str]:
        return [f"{each.provider}/{each.model}" for record in self.records for each in record.attempts]


def play(steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setup: Setup = TWO) -> Course:
    records: list[Record] = []
    finish = Runtime.finish

    def finished(service: Runtime, record: Record) -> None:
        records.append(record)
        finish(service, record)

    async def playing() -> Course:
        stage = Stage(setup.settings(), tmp_path / "state.db")
        with settled(stage):
            stage.open()
            try:
                for step in steps:
                    doing = step(stage)
                    if doing is not None:
                        await doing
                    await stage.loop.quiet()
            finally:
                await stage.close()
        return Course(stage, records)

    with monkeypatch.context() as patch:
        patch.setattr(Runtime, "finish", finished)
        return run(playing(), START)


def asked(client: str, provider: str, *, stream: bool = False, line: str = "") -> Step:
    body = {**brief(client, provider, stream=stream), "model": line or f"{NAMES[provider]}-first"}
    return asks(PATHS[client], body)


FAULTS: dict[str, tuple[str, list[Step]]] = {
    "overloaded": ("overloaded", told(error(CHAT, "overloaded_error", "no", "overloaded"), 529)),
    "a limit": ("rate_limited", told(error(CHAT, "rate_limit_error", "slower"), 429)),
    "a bad key": ("invalid_key", told(error(CHAT, "authentication_error", "who?"), 401)),
    "a page": ("connection_lost", told(b"<html>", 502, {"content-type": "text/html"})),
    "no money": ("insufficient_quota", told(error(CHAT, "insufficient_quota", "pay", "insufficient_quota"), 429)),
    "no such model": ("unknown_model", told(error(CHAT, "invalid_request_error", "?", "model_not_found"), 404)),
    "cut off": ("stream_broken", [cuts(head=False)]),
    "empty": ("connection_lost", [answers(200, JSON), ends()]),
    "an error with 200": ("overloaded", told(error(CHAT, "overloaded_error", "no", "server_is_overloaded"))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_pitfall_303_the_same_fault_makes_as_many_attempts_in_every_protocol(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, failing = FAULTS[fault]
    for count, (client, streaming) in enumerate((name, flag) for name in PROTOCOLS for flag in (False, True)):
        folder = tmp_path / str(count)
        folder.mkdir()
        answer = streamed(RESPONSES) if streaming else told(whole(RESPONSES))
        course = play([asked(client, CHAT, stream=streaming), *failing, *answer], folder, monkeypatch)
        assert (course.status, course.kinds) == (200, [kind, "answered"]), (client, streaming)
        text = streamed_text(client, course.body) if streaming else text_of(client, json.loads(course.body))
        assert text == SAYS
        assert course.header("x-dragoman-route").endswith("; policy=fallback; attempts=2")


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("beaten", [False, True], ids=["at once", "after a heartbeat"])
def test_pitfall_304_one_opening_is_told_and_it_is_the_winners(
    client: str, beaten: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = [passes(16)] if beaten else []
    steps = [asked(client, CHAT, stream=True), answers(200, EVENTS), says(parts(CHAT)[0]), *pause]
    course = play([*steps, says(overloaded(CHAT)), *streamed(RESPONSES)], tmp_path, monkeypatch)
    opening = {MESSAGES: b"event: message_start", CHAT: b'"role":"assistant"', RESPONSES: b"event: response.created"}
    assert course.body.count(opening[client]) == 1
    assert len(set(re.findall(rb'"id": ?"((?:chatcmpl-|msg_|resp_)[^"_]*)"', course.body.partition(b"output")[0]))) == 1
    assert streamed_text(client, course.body) == SAYS and is_finished(client, course.body)
    assert (course.header("x-dragoman-route") == "pending") is beaten


@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_302_what_is_held_back_is_held_for_a_while(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [asked(client, CHAT, stream=True), passes(9.9), hangs_up()]
    assert "< client is sent" not in play(steps, tmp_path, monkeypatch).lines
    other = tmp_path / "other"
    other.mkdir()
    lines = play([asked(client, CHAT, stream=True), passes(41), hangs_up()], other, monkeypatch).lines
    told_at = [lines[place - 1] for place, line in enumerate(lines) if line == "< client is sent"]
    assert told_at == ["= 10 s", "= 25 s", "= 40 s"]


def test_pitfall_306_a_silent_target_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(lines=LINES, timeouts=Timeouts(first_byte=8.0))
    steps = [asked(CHAT, CHAT, line="chat-both"), passes(9), *told(whole(RESPONSES))]
    course = play(steps, tmp_path, monkeypatch, setup)
    assert (course.targets, course.kinds) == (["chat/served", "responses/served"], ["slow_response", "answered"])


def test_pitfall_308_310_one_cap_holds_over_all_targets_and_none_is_tried_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(lines=(RouteConfig(pattern="many", targets=MANY),))
    failing = told(error(CHAT, "overloaded_error", "no", "overloaded"), 529)
    course = play([asked(CHAT, CHAT, line="many"), *(failing * 8)], tmp_path, monkeypatch, setup)
    assert course.status == 529
    assert course.targets == list(MANY[: Routing().max_attempts])
    assert course.header("x-dragoman-route") == "chat/served-0; protocol=openai-chat; policy=fallback; attempts=8"


def test_pitfall_308_one_cap_holds_over_all_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(lines=(RouteConfig(pattern="many", targets=MANY[:2]),), provider_keys=KEYS)
    failing = told(error(CHAT, "rate_limit_error", "slower"), 429)
    course = play([asked(CHAT, CHAT, line="many"), *(failing * 16)], tmp_path, monkeypatch, setup)
    # However many keys the first one has, the second is asked.
    assert (course.status, course.calls) == (429, 16)


def test_pitfall_308_326_one_deadline_holds_and_nobody_gets_less_than_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = RouteConfig(pattern="many", targets=MANY)
    setup = Setup(lines=(line,), timeouts=Timeouts(first_byte=8.0, total=20.0), routing=Routing(max_billed_retries=9))
    course = play([asked(CHAT, CHAT, line="many"), passes(21)], tmp_path, monkeypatch, setup)
    [record] = course.records
    assert (record.status, record.ended - record.started) == (504, 20.0)
    # The last one was cut by the whole, which is not held against it.
    assert [(each.kind, (each.ended - each.started) / 1_000_000) for each in record.attempts] == [
        ("slow_response", 8.0),
        ("slow_response", 8.0),
        ("gateway_error", 4.0),
    ]


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.setup.own_keys])
def test_pitfall_317_every_host_has_seen_its_own_key_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS[name]
    client, provider = kind.pairs[0]
    course = play(kind.steps(client, provider), tmp_path, monkeypatch, kind.setup)
    got = "\n".join(line for line in course.lines if line[0] == "<")
    seen = re.findall(r"host: (\w+)\.test(?:.|\n)*?-of-(\w+)", got)
    assert all(host == owner for host, owner in seen) and (seen or name == "failover_all_left_out")


def test_pitfall_318_the_first_failure_is_told_not_that_of_a_smaller_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = error(RESPONSES, "invalid_request_error", "too long", "context_length_exceeded")
    steps = [asked(CHAT, CHAT), *told(error(CHAT, "rate_limit_error", "slower"), 429), *told(long, 400)]
    course = play(steps, tmp_path, monkeypatch)
    assert (course.status, course.kinds) == (429, ["rate_limited", "context_length_exceeded"])


@pytest.mark.parametrize("refusals", [False, True], ids=["as usual", "as the line says"])
def test_pitfall_320_a_refusal_is_no_reason_to_ask_another(
    refusals: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = RouteConfig(pattern="line", targets=("chat/served", "responses/served"), fallback_on_refusal=refusals)
    filtered = told(error(CHAT, "invalid_request_error", "not that", "content_filter"), 400)
    answer = told(whole(RESPONSES)) if refusals else []
    steps = [asked(CHAT, CHAT, line="line"), *filtered, *answer]
    course = play(steps, tmp_path, monkeypatch, Setup(lines=(line,)))
    assert (course.status, course.kinds[0]) == (200 if refusals else 400, "content_refused")


def test_pitfall_325_nothing_is_begun_for_a_client_that_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = told(error(CHAT, "overloaded_error", "no", "overloaded"), 529)
    steps = [asked(CHAT, CHAT, line="chat-again"), *failing, passes(0.2), hangs_up(), passes(60)]
    course = play(steps, tmp_path, monkeypatch)
    [record] = course.records
    assert (course.calls, record.failure) == (1, "cancelled")
    assert record.ended - record.started == pytest.approx(0.2)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_pitfall_327_a_plain_success_is_one_attempt(
    streaming: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = streamed(CHAT) if streaming else told(whole(CHAT))
    course = play([asked(CHAT, CHAT, stream=streaming), *answer], tmp_path, monkeypatch)
    assert course.header("x-dragoman-route") == "chat/served; protocol=openai-chat; policy=fallback; attempts=1"
    [record] = course.records
    assert (record.route, record.policy, record.reason) == ("chat-first", "fallback", "policy")


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("provider", PROTOCOLS)
def test_pitfall_328_329_a_stream_that_stalls_or_ends_early_is_no_success(
    client: str, provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count, last in enumerate((passes(121), ends(), cuts())):
        folder = tmp_path / str(count)
        folder.mkdir()
        opening, words, _ = parts(provider)
        steps = [asked(client, provider, stream=True), answers(200, EVENTS), says(opening), says(words), last]
        course = play(steps, folder, monkeypatch)
        assert course.kinds == ["stream_broken"] and not is_finished(client, course.body)
        assert course.calls == 1 and b"error" in course.body


@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_333_no_text_is_told_twice_wherever_a_stream_is_cut(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = frames(CHAT)
    for count in range(len(said)):
        folder = tmp_path / str(count)
        folder.mkdir()
        begun = [asked(client, CHAT, stream=True), answers(200, EVENTS), *map(says, said[:count]), cuts()]
        spoken = any(b'"content":"' in frame.replace(b" ", b"") for frame in said[1:count])
        course = play([*begun, *([] if spoken else streamed(RESPONSES))], folder, monkeypatch)
        text = streamed_text(client, course.body)
        assert SAYS.startswith(text) if spoken else text == SAYS
        assert course.calls == (1 if spoken else 2)


def test_pitfall_347_after_an_outage_of_seconds_under_load_nobody_rests_for_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(lines=(RouteConfig(pattern="many", targets=MANY[:2]),))
    ends_of_rests: list[float] = []

    def is_back(stage: Stage) -> None:
        stage.provider.unreachable = False
        ends_of_rests.extend(stage.app.runtime.routing_state.health.cooldowns(stage.loop.time()).values())

    # Four requests in a second, for twelve seconds.
    outage = [asked(CHAT, CHAT, line="many"), passes(0.25)] * 48
    steps = [is_unreachable, *outage, is_back, asked(CHAT, CHAT, line="many"), *told(whole(CHAT))]
    course = play(steps, tmp_path, monkeypatch, setup)
    # Both rest after five requests, in the first second, and once more after the one that came when that was over.
    assert ends_of_rests == [START + 1.0 + FIRST_COOLDOWN + 2 * FIRST_COOLDOWN] * 2
    tried = [sorted(each.model for each in record.attempts) for record in course.records]
    # Their errors come back quickly, so both are asked each time, and the first request after the outage is answered.
    assert tried[:48] == [["served-0", "served-1"]] * 48
    assert (course.records[-2].status, course.records[-1].status) == (502, 200)


@pytest.mark.parametrize("stream", [False, True], ids=["full", "streamed"])
def test_item_22_b10_after_silence_one_request_at_a_time_waits_for_a_target(
    stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts = Timeouts()
    setup = Setup(lines=(RouteConfig(pattern="many", targets=MANY[:2], sticky=False),), timeouts=timeouts)
    body = {**brief(CHAT, CHAT, stream=stream), "model": "many"}
    answer = streamed(CHAT) if stream else told(whole(CHAT))
    steps: list[Step] = [asks(PATHS[CHAT], body), passes(timeouts.first_byte + 1), *answer, passes(FIRST_COOLDOWN)]
    # The probe waits as long as any request may, and all others are answered elsewhere meanwhile.
    steps.append(asks(PATHS[CHAT], body, client="probe"))
    others = int(timeouts.first_byte / 20)
    for number in range(others):
        steps += [asks(PATHS[CHAT], body, client=f"other {number}"), *answer, passes(20)]
    # It met silence, and so the next cooldown is longer.
    steps += [passes(1), *answer, passes(FIRST_COOLDOWN), asks(PATHS[CHAT], body, client="last"), *answer]
    course = play(steps, tmp_path, monkeypatch, setup)
    tried = [[each.model for each in record.attempts] for record in course.records]
    silence = ["served-0", "served-1"]
    assert tried == [silence, *[["served-1"]] * others, silence, ["served-1"]]
    assert {record.status for record in course.records} == {200}


@pytest.mark.parametrize("sticky", [False, True], ids=["not sticky", "sticky"])
def test_item_22_b12_the_price_with_a_warm_cache_counts_whether_conversations_stay_or_not(
    sticky: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = [Rates(input=price * 10**6, output=10**6, cache_read=price * 10**5) for price in (100, 110)]
    prices = {name: Override(rates=each) for name, each in zip(MANY, rates, strict=False)}
    line = RouteConfig(pattern="many", targets=MANY[:2], policy="cheapest", sticky=sticky)
    body = {**brief(CHAT, CHAT, stream=False), "model": "many"}
    other = {**body, "messages": [{"role": "user", "content": "Another conversation."}]}
    failing, answer = told(error(CHAT, "server_error", "no"), 500), told(whole(CHAT))
    steps: list[Step] = [asks(PATHS[CHAT], body), *failing, *answer, passes(2 * SUSPICION)]
    for number, said in enumerate((body, other, body)):
        steps += [asks(PATHS[CHAT], said, client=f"client {number}"), *answer]
    course = play(steps, tmp_path, monkeypatch, Setup(lines=(line,), prices=prices))
    # The dearer target is the cheaper one where its cache is warm.
    tried = [[each.model for each in record.attempts] for record in course.records]
    assert tried == [["served-0", "served-1"], ["served-1"], ["served-0"], ["served-1"]]
    assert [record.reason for record in course.records][1] == ("pinned" if sticky else "policy")


def test_what_may_have_been_billed_is_replayed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(lines=(RouteConfig(pattern="many", targets=MANY),), timeouts=Timeouts(first_byte=8.0))
    course = play([asked(CHAT, CHAT, line="many"), passes(30)], tmp_path, monkeypatch, setup)
    assert (course.calls, course.kinds) == (2, ["slow_response", "slow_response"])
    assert all(each.maybe_billed for record in course.records for each in record.attempts)


def test_a_target_that_is_left_out_did_not_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = KINDS["failover_left_out"]
    course = play(kind.steps(CHAT, MESSAGES), tmp_path, monkeypatch, kind.setup)
    assert (course.status, course.targets) == (200, ["chat/served"])
    assert course.header("x-dragoman-route").endswith("attempts=1")


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_item_22_b11_no_pause_is_longer_than_what_is_left_of_the_total(
    client: str, stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pauses of 0.5 s and 1 s are taken; the third, of 2 s, would end after the total: a call began at 3.5 s.
    asked = asks(PATHS[client], {**brief(client, client, stream=stream), "model": "line"})
    refused = told(error(client, "overloaded_error", "busy"), 503)
    setup = Setup(
        lines=(RouteConfig(pattern="line", targets=(f"{NAMES[client]}/served",), retries=5),),
        timeouts=Timeouts(total=2.0),
    )
    steps = [asked, *refused, passes(0.5), *refused, passes(1.0), *refused]
    course = play(steps, tmp_path, monkeypatch, setup)
    [record] = course.records
    assert (course.status, course.calls, record.ended - record.started) == (503, 3, 1.5)
    assert b"busy" in course.body


def test_item_22_b11_the_next_target_is_asked_instead_of_a_pause_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asks(PATHS[CHAT], {**brief(CHAT, CHAT), "model": "line"})
    refused = [answers(503, {**JSON, "retry-after": "2"}), says(error(CHAT, "overloaded_error", "busy")), ends()]
    line = RouteConfig(pattern="line", targets=("chat/served", "messages/served"), retries=5)
    steps = [asked, *refused, *told(whole(MESSAGES))]
    course = play(steps, tmp_path, monkeypatch, Setup(lines=(line,), timeouts=Timeouts(total=2.0)))
    assert (course.status, course.targets) == (200, ["chat/served", "messages/served"])
