"""Item 22 A5: silence has an end. Streams without content end, whatever else their providers send."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.config.settings import Limits, Timeouts
from dragoman.routing.attempt_outcome import AttemptOutcome as Outcome
from dragoman.routing.attempt_outcome import counts_for_health
from tests.gateway.exchange.test_failover import play
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES
from tests.gateway.says import PAIRS, is_finished, stream_failure, streamed_text
from tests.playbooks.bodies import brief, parts
from tests.playbooks.failover_scenes import LINES
from tests.playbooks.kinds import Setup, Steps, briefly, streamed
from tests.playbooks.steps import EVENTS, answers, asks, ends, passes, says

COMMENT = b": still here\n\n"
BLANK = b"\n\n"
# What a provider may send for ever without a word of an answer.
SILENT: dict[str, list[bytes]] = {
    MESSAGES: [
        COMMENT,
        BLANK,
        b'event: ping\ndata: {"type":"ping"}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":""}}\n\n',
    ],
    CHAT: [
        COMMENT,
        BLANK,
        b'data: {"choices":[],"usage":null}\n\n',
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":null}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n',
        b'data: {"choices": [{"index": 0, "delta": {"content": null, "tool_calls": []}}]}\n\n',
    ],
    RESPONSES: [
        COMMENT,
        BLANK,
        b'event: keepalive\ndata: {"type":"keepalive","sequence_number":9}\n\n',
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":9,'
        b'"output_index":0,"content_index":0,"item_id":"msg_1","delta":""}\n\n',
    ],
}
BRIEF = Setup(timeouts=Timeouts(content=60.0, idle=20.0))
# As much as an event may be, so that few bytes are many.
SMALL = Limits(stream_event=16 * 1024)


def opened(client: str, provider: str) -> Steps:
    """A stream of which something was said, and which is not stored."""
    opening, words, _ = parts(provider)
    asked = brief(client, provider, stream=True)
    if client == RESPONSES:
        asked["store"] = False
    return [asks(PATHS[client], asked), answers(200, EVENTS), says(opening), says(words)]


def beating(frame: bytes, seconds: int) -> Steps:
    """The same frame every five seconds."""
    return [step for _ in range(seconds // 5) for step in (passes(5), says(frame))]


@pytest.mark.parametrize(
    ("client", "provider", "frame"),
    [(client, provider, frame) for client, provider in PAIRS for frame in SILENT[provider]],
)
def test_item_22_a5_signs_of_life_do_not_keep_a_dead_stream_alive(
    client: str, provider: str, frame: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [*opened(client, provider), *beating(frame, 65)]
    course = play(steps, tmp_path, monkeypatch, BRIEF)
    [record] = course.records
    assert (record.status, record.failure, record.ended - record.started) == (200, "timeout", 60.0)
    assert stream_failure(client, course.body)["message"] == f"{record.provider} sent no content for 60 s"
    assert "timeouts.content" in record.advice
    [kind] = course.kinds
    assert counts_for_health(Outcome(kind))


@pytest.mark.parametrize("provider", PROTOCOLS)
def test_item_22_a5_a_stream_for_a_client_that_asked_for_none_ends_as_well(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, words, _ = parts(provider)
    steps = [briefly(MESSAGES, provider), answers(200, EVENTS), says(opening), says(words), *beating(COMMENT, 65)]
    course = play(steps, tmp_path, monkeypatch, BRIEF)
    [record] = course.records
    assert (course.status, record.failure, record.ended - record.started) == (504, "timeout", 60.0)
    assert json.loads(course.body)["type"] == "error"


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_item_22_a5_content_among_signs_of_life_goes_on_for_as_long_as_it_likes(
    client: str, provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, words, rest = parts(provider)
    again = words.split(b"\n\n")[-2] + b"\n\n"
    steps = [*opened(client, provider)]
    for _ in range(4):
        # The sign of life comes in the same read as the content, before and behind it.
        steps += [*beating(COMMENT, 50), says(COMMENT + again + COMMENT)]
    course = play([*steps, says(rest), ends()], tmp_path, monkeypatch, BRIEF)
    [record] = course.records
    assert (record.failure, course.kinds, record.ended - record.started) == ("", ["answered"], 200.0)
    assert is_finished(client, course.body)


@pytest.mark.parametrize(
    ("provider", "delta"),
    [
        (MESSAGES, {"type": "thinking_delta", "thinking": "Hm."}),
        (MESSAGES, {"type": "input_json_delta", "partial_json": "{"}),
        (MESSAGES, {"type": "a_later_delta", "words": "Hm."}),
        (CHAT, {"reasoning_content": "Hm."}),
        (CHAT, {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}),
        (CHAT, {"a_later_member": {"words": "Hm."}}),
    ],
)
def test_item_22_a5_every_delta_that_says_something_is_content_on_the_relay(
    provider: str, delta: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if provider == MESSAGES:
        event = {"type": "content_block_delta", "index": 0, "delta": delta}
        frame = b"event: content_block_delta\ndata: " + json.dumps(event).encode() + b"\n\n"
    else:
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        frame = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    steps = [*opened(provider, provider), *beating(frame, 200), says(parts(provider)[2]), ends()]
    course = play(steps, tmp_path, monkeypatch, BRIEF)
    assert (course.records[0].failure, course.kinds) == ("", ["answered"])


def test_item_22_a5_a_quarter_of_an_hour_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Timeouts().content == 900.0
    course = play([*opened(CHAT, CHAT), *beating(COMMENT, 905)], tmp_path, monkeypatch, Setup())
    [record] = course.records
    assert (record.failure, record.ended - record.started) == ("timeout", 900.0)


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("nothing", [BLANK, COMMENT, b"\r\n\r\n"])
def test_item_22_a5_blank_lines_are_no_answer_that_has_begun(
    client: str, nothing: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 27 MB of them passed `first_byte`, since an opening as long as an event may be was taken for an answer.
    flood = nothing * (SMALL.stream_event // len(nothing) + 1)
    steps = [briefly(client, client, stream=True), answers(200, EVENTS), passes(1), says(flood)]
    course = play(steps, tmp_path, monkeypatch, Setup(limits=SMALL))
    [record] = course.records
    assert (course.status, record.failure) == (502, "bad_gateway")
    assert counts_for_health(Outcome(course.kinds[0]))


def test_item_22_a5_after_blank_lines_the_next_target_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flood = BLANK * SMALL.stream_event
    body = {**brief(CHAT, CHAT, stream=True), "model": "chat-first"}
    steps = [asks(PATHS[CHAT], body), answers(200, EVENTS), says(flood), *streamed(RESPONSES)]
    course = play(steps, tmp_path, monkeypatch, Setup(limits=SMALL, lines=LINES))
    assert (course.status, course.kinds[-1]) == (200, "answered")
    assert len(course.targets) == 2 and BLANK * 8 not in course.body
    assert streamed_text(CHAT, course.body)


@pytest.mark.parametrize("client", PROTOCOLS)
def test_item_22_a5_an_opening_however_long_does_not_end_the_wait_for_content(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = parts(client)[0]
    flood = SILENT[client][2] * (SMALL.stream_event // len(SILENT[client][2]) + 1)
    steps = [briefly(client, client, stream=True), answers(200, EVENTS), says(opening), says(flood)]
    course = play([*steps, *beating(COMMENT, 35)], tmp_path, monkeypatch, _quick())
    [record] = course.records
    assert (record.status, record.failure, record.ended - record.started) == (200, "timeout", 30.0)
    assert stream_failure(client, course.body)


@pytest.mark.parametrize("client", PROTOCOLS)
def test_item_22_a5_content_after_a_long_opening_is_heard(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, words, rest = parts(client)
    flood = SILENT[client][2] * (SMALL.stream_event // len(SILENT[client][2]) + 1)
    steps = [briefly(client, client, stream=True), answers(200, EVENTS), says(opening), says(flood), passes(25)]
    steps += [says(words), passes(18), says(words.split(b"\n\n")[-2] + b"\n\n"), says(rest), ends()]
    course = play(steps, tmp_path, monkeypatch, _quick())
    assert (course.records[0].failure, course.kinds) == ("", ["answered"])
    assert course.body.startswith(opening + flood + words)


def _quick() -> Setup:
    return Setup(limits=SMALL, timeouts=Timeouts(first_byte=30.0, idle=20.0, content=60.0, heartbeat=100.0))


def test_item_22_a5_a_stream_of_another_path_ends_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asks("/v1/completions", {"model": "chat/served", "prompt": "Hello.", "stream": True})
    words = b'data: {"choices":[{"text":"Hi"}]}\n\n'
    steps = [asked, answers(200, EVENTS), says(words), *beating(COMMENT, 40), says(words), *beating(COMMENT, 65)]
    course = play(steps, tmp_path, monkeypatch, BRIEF)
    [record] = course.records
    assert (record.failure, record.ended - record.started, course.kinds) == ("truncated", 100.0, ["stream_broken"])
