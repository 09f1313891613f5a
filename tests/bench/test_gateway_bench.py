"""The gateway's benchmark measures what it says: marks come back to their askers, wrong answers end it, tables add up.

Times are not asserted: they measure the machine.
"""

from __future__ import annotations

import re
import tomllib
from itertools import product
from pathlib import Path

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from msgspec import json, structs
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from bench.gateway import report, run, serving, standing
from bench.gateway.answers import CHUNKS, PLACE, streamed, streamed_text, whole, whole_text
from bench.gateway.cases import CASES, PACED, TLS_CASES, WHOLE, Case, chosen
from bench.gateway.hearing import complaint
from bench.gateway.questions import MARK_LENGTH, SIGN, body, find_mark, new_mark, question
from bench.gateway.report import PAGE, SUMMARY, Result, Standing, summary, tables, verdict
from bench.gateway.rounds import APART, TOGETHER, Cost, Delay, Effort, Quantiles, sample
from bench.workloads import CHAT, MESSAGES, PROTOCOLS, RESPONSES, request
from dragoman.translate import translate_request

ANSWER_TYPES: dict[str, TypeAdapter[object]] = {
    MESSAGES: TypeAdapter(Message),
    CHAT: TypeAdapter(ChatCompletion),
    RESPONSES: TypeAdapter(Response),
}
EVENT_TYPES: dict[str, TypeAdapter[object]] = {
    MESSAGES: TypeAdapter(RawMessageStreamEvent),
    CHAT: TypeAdapter(ChatCompletionChunk),
    RESPONSES: TypeAdapter(ResponseStreamEvent),
}
CASE_IDS = [case.label for case in CASES]
MODES = (WHOLE, PACED)


def said(protocol: str, mode: str, mark: bytes) -> bytes:
    """The body of the mock provider's answer to that mark."""
    answer = whole(protocol) if mode == WHOLE else streamed(protocol)
    body = b"".join(answer.filled(mark)).partition(b"\r\n\r\n")[2]
    if mode == WHOLE:
        return body
    return b"".join(re.split(rb"[0-9a-f]+\r\n", body.replace(b"\n\n\r\n", b"\n\n").removesuffix(b"0\r\n\r\n")))


def test_the_cases_are_those_with_bounds_and_nginx_stands_beside_the_relays() -> None:
    assert [case.label for case in CASES] == [
        *("S1", "S2", "S3 burst", "S3 paced", "S4 burst", "S4 paced"),
        *("S5 burst", "S5 paced", "S6", "S7 burst", "S7 paced", "S8", "S9", "S10", "S11"),
    ]
    assert all(case.aim < case.must for case in CASES)
    assert {case.name for case in CASES if case.floor is not None} == {"S1", "S7"}
    assert all(case.client == case.provider for case in CASES if case.floor is not None)


def test_names_choose_cases() -> None:
    assert [case.label for case in chosen(("s1", "S7"), tls=False)] == ["S1", "S7 burst", "S7 paced"]
    assert [case.label for case in chosen(("S1",), tls=True)] == ["S1", "S1 TLS"]
    assert chosen((), tls=False) == list(CASES)
    assert chosen(("S99",), tls=True) == []


@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
def test_a_request_carries_its_mark_in_the_users_words(case: Case) -> None:
    mark = new_mark(case.mode)
    written = question(case, 1).marked(mark)
    head, _, sent = written.partition(b"\r\n\r\n")
    assert b"content-length: %d\r\n" % len(sent) in head + b"\r\n"
    assert sent.count(SIGN) == 1
    assert find_mark(sent) == mark
    assert json.decode(sent).get("stream", False) is (case.mode != WHOLE)


@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
def test_a_mark_survives_translation_to_the_provider(case: Case) -> None:
    mark = new_mark(case.mode)
    translated = translate_request(body(case).replace(SIGN, mark), source=case.client, target=case.provider)
    assert find_mark(translated.body) == mark


def test_no_two_marks_are_alike() -> None:
    marks = {new_mark(WHOLE) for _ in range(100)}
    assert len(marks) == 100
    assert {len(mark) for mark in marks} == {MARK_LENGTH} == {len(PLACE)}
    assert find_mark(b"nothing of the kind") is None


@pytest.mark.parametrize(("protocol", "mode"), list(product(PROTOCOLS, MODES)))
def test_an_answer_of_the_mock_is_legal_and_passes(protocol: str, mode: str) -> None:
    mark = new_mark(mode)
    told = said(protocol, mode, mark)
    assert complaint(protocol, mode, mark, 200, told) is None
    assert PLACE.encode() not in told
    if mode == WHOLE:
        ANSWER_TYPES[protocol].validate_json(told)
        assert whole_text(mark.decode()).startswith(mark.decode())
        return
    frames = [frame.split(b"data: ", 1)[1] for frame in told.split(b"\n\n") if frame]
    assert CHUNKS < len(frames) < CHUNKS + 12
    for data in frames:
        # The types know neither the terminator nor pings: the SDKs pass over both.
        if data not in (b"[DONE]", b'{"type":"ping"}'):
            EVENT_TYPES[protocol].validate_json(data)


@pytest.mark.parametrize(("protocol", "mode"), list(product(PROTOCOLS, MODES)))
def test_a_wrong_answer_is_complained_about(protocol: str, mode: str) -> None:
    mark = new_mark(mode)
    told = said(protocol, mode, mark)
    last = told.rstrip(b"\n").rfind(b"\n\n")
    wrong = {
        "another's answer": (200, said(protocol, mode, new_mark(mode))),
        "a failure": (502, told),
        "no JSON": (200, b"data: {\n\n" if mode != WHOLE else b"{"),
        "nothing": (200, b""),
        "a cut": (200, told[: last if mode != WHOLE else -10]),
    }
    for name, (status, heard) in wrong.items():
        assert complaint(protocol, mode, mark, status, heard) is not None, name


def test_a_responses_stream_may_end_as_chat_does() -> None:
    mark = new_mark(PACED)
    assert complaint(RESPONSES, PACED, mark, 200, said(RESPONSES, PACED, mark) + b"data: [DONE]\n\n") is None


def test_a_stream_that_was_joined_into_fewer_chunks_is_complained_about() -> None:
    mark = new_mark(PACED)
    told = said(CHAT, PACED, mark)
    frames = told.split(b"\n\n")
    text = json.encode(streamed_text(mark.decode()))
    joined = frames[1].replace(b'"%b"' % mark, text)
    assert joined != frames[1]
    fewer = b"\n\n".join([frames[0], joined, *frames[CHUNKS + 1 :]])
    assert complaint(CHAT, PACED, mark, 200, fewer) == "came in 1 chunks"


def test_the_gateways_settings_are_toml_and_name_every_model(tmp_path: Path) -> None:
    tls = serving.Secured(certificate=tmp_path / "c", authority=tmp_path / "a", port=3)
    settings = tomllib.loads(serving.gateway_settings(1, 2, tls))
    assert settings["server"]["port"] == 1
    asked = {json.decode(body(case))["model"] for case in (*CASES, *TLS_CASES)}
    assert set(settings["models"]) == asked
    targets = [target for line in settings["models"].values() for target in _targets(line)]
    assert {target.split("/")[0] for target in targets} <= set(settings["providers"])
    assert len(tomllib.loads(serving.gateway_settings(1, 2, None))["models"]) == 6


def test_what_a_choice_costs_is_measured_beside_the_same_without() -> None:
    plain = {case.name: case for case in CASES if not case.line}
    for name, other in (("S8", "S1"), ("S9", "S1"), ("S10", "S2"), ("S11", "S2")):
        (case,) = chosen((name,), tls=False)
        assert (case.client, case.provider, case.exchanges) == (
            plain[other].client,
            plain[other].provider,
            plain[other].exchanges,
        )
        assert (case.must, case.aim) == (plain[other].must + 10, plain[other].aim + 10)
    settings = tomllib.loads(serving.gateway_settings(1, 2, None))
    sizes = {name: len(_targets(line)) for name, line in settings["models"].items()}
    assert {size for name, size in sizes.items() if name.endswith("-two")} == {2}
    assert {size for name, size in sizes.items() if name.endswith("-four")} == {4}


def _targets(line: str | list[str] | dict[str, list[str]]) -> list[str]:
    if isinstance(line, dict):
        return line["targets"]
    return [line] if isinstance(line, str) else line


def test_the_pace_is_the_median_time_per_byte_against_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(request("agent", MESSAGES))
    reference = size * standing.REFERENCE / 1e6
    # Three readings that take 9, 2 and 1 times as long as on the reference machine.
    instants = iter(reference * instant for instant in (0, 9, 20, 22, 30, 31))
    monkeypatch.setattr(standing, "process_time", lambda: next(instants))
    assert standing.pace(3) == pytest.approx(2)


def test_an_effort_has_one_exchange_for_each_client_at_least() -> None:
    effort = Effort(rounds=1, share=0.01, starts=1)
    assert effort.exchanges(3000, 16) == 30
    assert effort.exchanges(100, 16) == 16


def test_a_verdict_names_how_far_off_a_figure_is() -> None:
    assert [verdict(value, 10, 5) for value in (5, 10, 12.5)] == ["aim", "yes", "no, 1.25×"]


def result() -> Result:
    """A run that found one figure of each kind."""
    slow, fast = sample([30.0, 20.0, 40.0]), sample([10.0])
    times = Quantiles(median=100, p95=200)
    return Result(
        costs=[
            Cost(layout=APART, case=CASES[0], gateway=slow, nginx=fast),
            Cost(layout=TOGETHER, case=CASES[0], gateway=fast, nginx=None),
            Cost(layout=TOGETHER, case=CASES[2], gateway=fast, nginx=None),
        ],
        delays=[
            Delay(
                layout=APART,
                case=CASES[0],
                concurrent=32,
                taken={"direct": times, "gateway": Quantiles(median=150, p95=290)},
            )
        ],
        standing=Standing(cold_start=0.5, install=None, idle=70.0, loaded=80.0),
        pace=2.0,
        rounds=3,
        paced_chunks_a_read=1.0,
        exchanges=10,
        log_lines=10,
        versions={"Python": "3"},
    )


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_tables_show_what_was_measured_beside_what_must_be() -> None:
    shown = [cells(line) for line in tables(result()).splitlines() if line.startswith("| S")]
    assert shown[0][1:] == ["request", "30.0", "20.0–40.0", "15.0", "240", "70", "aim", "aim", "10.0", "3.0"]
    assert shown[1][1:] == ["32", "100 / 200", "–", "150 / 290", "50 / 90"]
    assert shown[2][-2:] == ["not installed", "–"]
    assert shown[3][1:] == ["chunk", "10.0", "10.0–10.0", "5.00", "8", "7", "no, 1.25×", "aim", "–", "–"]


def test_the_tables_show_what_costs_once() -> None:
    lines = tables(result()).splitlines()
    once = {cells(line)[0].split(",")[0]: cells(line)[1:] for line in lines if re.match(r"\| (cold|mem|inst)", line)}
    assert once["cold start to the first 200 on /healthz"] == ["0.50", "0.25", "0.7", "0.4", "yes", "aim"]
    assert once["memory when idle"] == ["70.0", "", "60", "45", "no, 1.17×", "no, 1.17×"]
    assert once["installation"] == ["not measured", "", "60", "40", "", ""]


def test_a_log_that_was_off_is_said_aloud() -> None:
    assert "flatter" not in tables(result())
    assert "flatter" in tables(structs.replace(result(), log_lines=3))


def test_the_page_keeps_its_words_and_gets_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "performance.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    shown = tmp_path / "summary.md"
    shown.write_text(SUMMARY.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "SUMMARY", shown)
    monkeypatch.setattr(report, "RESULTS", tmp_path / "gateway.json")
    report.write(result())
    once = page.read_text(encoding="utf-8")
    report.write(result())
    assert page.read_text(encoding="utf-8") == once
    assert tables(result()) in once
    assert summary(result()) in shown.read_text(encoding="utf-8")
    assert once.startswith("# Benchmarks")
    assert once.rstrip().endswith(PAGE.read_text(encoding="utf-8").rstrip()[-80:])
    assert json.decode((tmp_path / "gateway.json").read_bytes(), type=Result) == result()


def test_the_page_for_users_shows_the_last_run() -> None:
    last = json.decode(report.RESULTS.read_bytes(), type=Result)
    assert summary(last) in SUMMARY.read_text(encoding="utf-8")


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--case", "S99"]) == 2
    assert "no case is called S99" in capsys.readouterr().err
