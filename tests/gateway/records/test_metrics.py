"""Metrics: what is counted, what Prometheus reads of it, and that names from outside cannot multiply or break it."""

from __future__ import annotations

import re

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.accounts.entry import Money, Tokens
from dragoman.gateway.admission import Load
from dragoman.gateway.records import metrics as module
from dragoman.gateway.records.metrics import DURATIONS, OTHER, Metrics, Snapshot, render
from dragoman.gateway.records.record import Attempt, Record
from dragoman.model.response import Usage
from dragoman.routing.standing import Level
from dragoman.sessions.facts import Facts
from dragoman.translate import LossLine
from tests.gateway.harness import CHAT, PATHS, PROVIDER_KEY, running, whole
from tests.gateway.says import question

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
Series = tuple[str, tuple[tuple[str, str], ...]]


def read(text: bytes) -> dict[Series, float]:
    """Prometheus text, read strictly: every line is one, and no series stands there twice."""
    found: dict[Series, float] = {}
    kinds: dict[str, str] = {}
    assert text.endswith(b"\n")
    for line in text.decode().removesuffix("\n").split("\n"):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            kinds[name] = kind
            continue
        if line.startswith("# HELP "):
            continue
        match = LINE.fullmatch(line)
        assert match, line
        series = (match[1], tuple(LABEL.findall(match[2] or "")))
        assert series not in found, line
        assert re.sub(r"_(bucket|sum|count)$", "", match[1]) in kinds or match[1] in kinds
        found[series] = float(match[3])
    return found


def total(found: dict[Series, float], name: str, **labels: str) -> float:
    """The sum of the series of one name that have these labels."""
    return sum(
        value for (series, given), value in found.items() if series == name and labels.items() <= dict(given).items()
    )


def record(model: str = "gpt-5.1", status: int = 200, *, provider: str = "openai", seconds: float = 0.2) -> Record:
    return Record(
        id="req_1",
        dialect="anthropic-messages",
        path="/messages",
        started=100.0,
        time=0.0,
        provider=provider,
        model=model,
        served="openai-chat",
        status=status,
        ended=100.0 + seconds,
    )


def counted(*records: Record) -> dict[Series, float]:
    metrics = Metrics()
    for told in records:
        metrics.count(told)
    return read(render([metrics.snapshot()]))


def test_a_gateway_that_was_asked_nothing_is_read_well() -> None:
    assert counted() == {("dragoman_in_flight", ()): 0.0, ("dragoman_log_lines_lost_total", ()): 0.0}


def test_exchanges_are_counted_by_route_and_status() -> None:
    found = counted(record(), record(), record(status=429), record(model="gpt-5.1-mini"))
    assert total(found, "dragoman_requests_total") == 4
    labels = {
        "client": "anthropic-messages",
        "provider": "openai",
        "dialect": "openai-chat",
        "model": "gpt-5.1",
        "status": "200",
    }
    assert found["dragoman_requests_total", tuple(labels.items())] == 2


def test_tokens_are_counted_by_kind() -> None:
    told = replace(record(), usage=Usage(input=100, output=20, cache_read=30, cache_write=5, thinking=7))
    found = counted(told, told, record())
    for kind, count in (("input", 200), ("output", 40), ("cache_read", 60), ("cache_write", 10), ("thinking", 14)):
        assert total(found, "dragoman_tokens_total", type=kind) == count


def test_pitfall_416_money_is_counted_and_what_has_no_price_is_too() -> None:
    priced = replace(record(), tokens=Tokens(input=9, cache_read=4), money=Money(input=1_500_000_000, output=7))
    unpriced = replace(record(), money=Money(input=3, unpriced=("output",)), estimated=True)
    found = counted(priced, priced, unpriced, record())
    assert total(found, "dragoman_cost_nano_usd_total", model="gpt-5.1", status="200") == 3_000_000_017
    assert total(found, "dragoman_unpriced_requests_total", provider="openai") == 1
    assert total(found, "dragoman_estimated_requests_total") == 1
    assert total(found, "dragoman_tokens_total", type="cache_read") == 8
    assert not [name for name, _ in found if "said" in name]


def test_pitfall_417_how_far_a_provider_is_from_our_prices_is_told() -> None:
    more = replace(record(provider="router"), money=Money(input=100, said=130))
    less = replace(record(provider="router"), money=Money(input=100, said=90))
    unknown = replace(record(provider="router"), money=Money(unpriced=("model",), said=50))
    metrics = Metrics()
    for told in (more, less, unknown):
        metrics.count(told)
    found = read(render([metrics.snapshot(), metrics.snapshot()]))
    assert total(found, "dragoman_said_cost_nano_usd_total", provider="router") == 540
    assert total(found, "dragoman_said_cost_beyond_nano_usd", provider="router") == 40


@pytest.mark.parametrize("odd", [-5, 10**30])
def test_counts_that_no_provider_should_report_break_no_counter(odd: int) -> None:
    strange = replace(record(), usage=Usage(input=odd, output=odd, cache_read=odd))
    plain = replace(record(), usage=Usage(input=7))
    metrics = Metrics()
    metrics.count(plain)
    metrics.count(strange)
    found = read(render([metrics.snapshot()]))
    assert total(found, "dragoman_tokens_total", type="input") >= 7
    # Siblings must still be able to read it.
    assert msgspec.json.decode(msgspec.json.encode(metrics.snapshot()), type=Snapshot)


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.051, 3.0, 600.0, 86_400.0])
def test_a_duration_is_in_every_bucket_from_its_own_upwards(seconds: float) -> None:
    found = counted(record(seconds=seconds))
    for bound in DURATIONS:
        # Loop times are not exact.
        if abs(seconds - bound) > 1e-6:
            assert total(found, "dragoman_duration_seconds_bucket", le=str(bound)) == (seconds < bound)
    assert total(found, "dragoman_duration_seconds_bucket", le="+Inf") == 1
    assert total(found, "dragoman_duration_seconds_count") == 1
    assert total(found, "dragoman_duration_seconds_sum") == pytest.approx(seconds, abs=1e-5)


def test_the_first_content_is_timed_only_where_there_was_one() -> None:
    told = replace(record(), first=100.1)
    found = counted(told, record())
    assert total(found, "dragoman_first_token_seconds_count") == 1
    assert total(found, "dragoman_duration_seconds_count") == 2


def test_losses_and_failures_are_counted_by_kind() -> None:
    losses = (LossLine(fate="dropped", feature="sampling", at="secret place", note="secret note"),) * 3
    told = replace(record(status=429), losses=losses, failure="rate_limited")
    found = counted(told)
    assert total(found, "dragoman_losses_total", feature="sampling", fate="dropped") == 3
    assert total(found, "dragoman_failures_total", kind="rate_limited", provider="openai") == 1
    assert "secret" not in str(found)


HOSTILE = {
    "a label's end": 'x",status="200"} 1\ndragoman_requests_total{model="y',
    "line breaks": "a\nb\r\nc",
    "backslashes": 'a\\"b\\',
    "a backslash at the end": "a\\",
    "an escape sequence": "\x1b[2J",
    "line separators of Unicode": "a\u2028b\u0085",
    "a lone surrogate": "a\ud800",
    "braces": "{}}{",
    "ten million letters": "x" * 10_000_000,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_model_is_one_label(case: str) -> None:
    metrics = Metrics()
    metrics.count(record(HOSTILE[case]))
    text = render([metrics.snapshot()])
    found = read(text)
    assert total(found, "dragoman_requests_total") == 1
    assert total(found, "dragoman_requests_total", status="200", provider="openai") == 1
    assert len(text) < 10_000
    # Nor does it stay in memory, or keep siblings from reading.
    assert all(len(model) <= 120 for _, model in metrics._models)
    assert msgspec.json.decode(msgspec.json.encode(metrics.snapshot()), type=Snapshot)


@pytest.mark.parametrize(
    ("one", "other"), [("a\nb", "a\rb"), ("x" * 120 + "1", "x" * 120 + "2"), ("a\x00", "a\u2028"), ("a\n", "a?")]
)
def test_names_that_are_shown_alike_are_one_series(one: str, other: str) -> None:
    found = counted(record(one), record(other), record(one))
    assert [value for (name, _), value in found.items() if name == "dragoman_requests_total"] == [3.0]


def test_names_without_number_are_other() -> None:
    found = counted(*(record(f"m{count}") for count in range(1000)))
    models = {dict(labels)["model"] for name, labels in found if name == "dragoman_requests_total"}
    assert len(models) == module._MODELS_LIMIT + 1
    assert total(found, "dragoman_requests_total", model=OTHER) == 1000 - module._MODELS_LIMIT
    assert total(found, "dragoman_requests_total") == 1000


@pytest.mark.parametrize("status", [400, 404])
def test_names_that_no_provider_knows_take_nobodys_label(status: int) -> None:
    guesses = [record(f"guess{count}", status) for count in range(1000)]
    found = counted(*guesses, record("real"), record("real", status))
    assert total(found, "dragoman_requests_total", model=OTHER, status=str(status)) == 1000
    assert total(found, "dragoman_requests_total", model="real") == 2


def test_what_led_to_no_model_has_no_models_name() -> None:
    assert total(counted(record("", 404, provider="")), "dragoman_requests_total", model="", provider="") == 1


def test_processes_are_added_up() -> None:
    one, other = Metrics(), Metrics()
    losses = (LossLine(fate="dropped", feature="sampling", at="", note=""),)
    told = replace(record(), usage=Usage(input=5), failure="timeout", losses=losses)
    for metrics in (one, other, other):
        metrics.count(told)
    one.in_flight, other.in_flight = 1, 2
    found = read(render([one.snapshot(), other.snapshot()]))
    assert total(found, "dragoman_requests_total") == 3
    assert total(found, "dragoman_tokens_total", type="input") == 15
    assert total(found, "dragoman_duration_seconds_count") == 3
    assert total(found, "dragoman_losses_total") == 3
    assert total(found, "dragoman_failures_total") == 3
    assert total(found, "dragoman_in_flight") == 3


def test_adding_up_does_not_change_what_was_counted() -> None:
    metrics = Metrics()
    metrics.count(record())
    assert render([metrics.snapshot()]) == render([metrics.snapshot()])
    assert total(read(render([metrics.snapshot()] * 2)), "dragoman_requests_total") == 2
    assert total(read(render([metrics.snapshot()])), "dragoman_requests_total") == 1


def test_a_hostile_model_is_scraped_from_the_running_gateway() -> None:
    reply = whole({"error": {"message": "no such model", "type": "invalid_request_error"}}, 404)
    with running([reply]) as house:
        name = 'chat/x"} 1\ndragoman_forged 1'
        assert house.post("/v1/chat/completions", {"model": name, "messages": []}).status == 404
        found = read(house.get("/metrics").body)
    assert total(found, "dragoman_requests_total", provider="chat", status="404") == 1
    assert "dragoman_forged" not in {name for name, _ in found}


def test_statuses_that_a_provider_invents_are_told_by_their_class() -> None:
    metrics = Metrics()
    for model in range(200):
        for status in range(405, 600):
            metrics.count(record(f"m{model}", status))
    found = read(render([metrics.snapshot()]))
    cells = [name for name, _ in found if name == "dragoman_requests_total"]
    assert len(cells) < 5010
    assert total(found, "dragoman_requests_total") == 200 * 195
    assert total(found, "dragoman_requests_total", model=OTHER, status="500") > 0


def test_calls_and_waits_of_providers_with_a_limit_are_added_up() -> None:
    one, other = Metrics(), Metrics()
    one.loads = lambda: {"p": Load(3, 4, 2), "free": Load(9, None, 0)}
    other.loads = lambda: {"p": Load(1, 4, 0)}
    lines = render([one.snapshot(), other.snapshot()]).decode().splitlines()
    assert 'dragoman_provider_calls{provider="p"} 4' in lines
    assert 'dragoman_provider_waiting{provider="p"} 2' in lines
    assert not any("free" in line for line in lines)
    # Where nobody has a limit there is nothing to tell.
    assert b"provider_calls" not in render([Metrics().snapshot()])


def test_pitfall_353_attempts_are_counted_by_what_became_of_them() -> None:
    calls = [("a", "overloaded"), ("a", "overloaded"), ("b", "answered"), ("b", "")]
    attempts = tuple(
        Attempt(provider=name, model="m", protocol="openai-chat", started=0.0, kind=kind) for name, kind in calls
    )
    one, other = Metrics(), Metrics()
    for metrics in (one, other):
        metrics.count(replace(record(provider="b"), attempts=attempts))
    found = read(render([one.snapshot(), msgspec.json.decode(msgspec.json.encode(other.snapshot()), type=Snapshot)]))
    assert {(*dict(labels).values(), value) for (name, labels), value in found.items() if "attempts" in name} == {
        ("a", "overloaded", 4.0),
        ("b", "answered", 2.0),
        ("b", "other", 2.0),
    }


def test_pitfall_353_how_targets_stand_and_how_many_keys_rest() -> None:
    one, other = Metrics(), Metrics()
    one.levels = lambda: {"p/m": Level.GOOD, "q/n": Level.SUSPECT}
    # Who heard of it first is believed.
    other.levels = lambda: {"p/m": Level.RESTING}
    one.resting, other.resting = lambda: {"p": 1, "q": 0}, lambda: {"p": 2, "q": 0}
    heard = msgspec.json.decode(msgspec.json.encode(other.snapshot()), type=Snapshot)
    found = read(render([one.snapshot(), heard]))
    standings = {dict(labels)["target"]: dict(labels)["level"] for (name, labels), value in found.items() if value == 1}
    assert standings == {"p/m": "resting", "q/n": "suspect"}
    assert total(found, "dragoman_target_standing") == 2
    assert total(found, "dragoman_target_standing", target="p/m", level="good") == 0
    assert sum(name == "dragoman_target_standing" for name, _ in found) == 2 * len(Level)
    assert total(found, "dragoman_keys_resting", provider="p") == 2
    assert total(found, "dragoman_keys_resting", provider="q") == 0


def test_pitfall_354_checks_are_counted_under_a_name_of_their_own() -> None:
    one, other = Metrics(), Metrics()
    assert b"checks" not in render([one.snapshot()])
    one.note_check("p", "failing", 1.0)
    for now in (2.0, 3.0):
        other.note_check("p", "alive", now)
    heard = msgspec.json.decode(msgspec.json.encode(other.snapshot()), type=Snapshot)
    assert heard.checked == {"p": ("alive", 3.0)}
    found = read(render([one.snapshot(), heard]))
    assert total(found, "dragoman_checks_total", provider="p", result="failing") == 1
    assert total(found, "dragoman_checks_total", provider="p", result="alive") == 2
    assert total(found, "dragoman_attempts_total") == total(found, "dragoman_requests_total") == 0


def test_pitfall_454_names_that_clients_make_up_do_not_multiply_series() -> None:
    metrics = Metrics()
    metrics.levels = lambda: {"p/real": Level.RESTING}
    few = len(read(render([metrics.snapshot()])))
    metrics.levels = lambda: {"p/real": Level.RESTING} | {f"p/junk-{n}": Level.GOOD for n in range(10_000)}
    found = read(render([metrics.snapshot()]))
    assert len(found) == few + 200 * len(Level)
    assert total(found, "dragoman_target_standing", target="p/real", level="resting") == 1
    assert total(found, "dragoman_target_standing", target=OTHER, level="good") == 10_000 - 199
    metrics.levels = lambda: {f"p/more-{n}": Level.SUSPECT for n in range(10_000)}
    again = read(render([metrics.snapshot()]))
    assert len(again) <= len(found)


@pytest.mark.parametrize("name", ["p/" + "x" * 500, 'p/"quoted"\\', "p/line\nbreak"])
def test_a_hostile_target_is_one_label(name: str) -> None:
    metrics = Metrics()
    metrics.levels = lambda: (
        {name: Level.RESTING, name + "x" * 300: Level.GOOD} if len(name) > 200 else {name: Level.GOOD}
    )
    found = read(render([metrics.snapshot()]))
    assert sum(name == "dragoman_target_standing" for name, _ in found) == len(Level)


def test_pitfall_353_a_running_gateway_tells_what_became_of_its_calls() -> None:
    with running([whole({"error": {"message": "no"}}, 503)]) as house:
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 503
        found = read(house.get("/metrics").body)
        assert total(found, "dragoman_attempts_total", provider="chat", kind="overloaded") == 1
        assert total(found, "dragoman_target_standing", target="chat/served", level="suspect") == 1
        assert total(found, "dragoman_keys_resting", provider="chat") == 0
        assert PROVIDER_KEY.encode() not in house.get("/metrics").body


def test_a_model_whose_name_may_not_be_told_is_one_of_others() -> None:
    metrics = Metrics()
    metrics.may_name = lambda target: not target.endswith("/secret")
    for model in ("open", "secret", "secret"):
        metrics.count(record(model))
    found = read(render([metrics.snapshot()]))
    assert total(found, "dragoman_requests_total", model="open") == 1
    assert total(found, "dragoman_requests_total", model=OTHER) == 2
    assert total(found, "dragoman_requests_total", model="secret") == 0


def test_what_a_collector_was_told_is_counted_over_all_workers() -> None:
    one, other = Metrics(), Metrics()
    assert b"telemetry" not in render([one.snapshot(), other.snapshot()])
    one.count_told("sent", 3)
    one.count_told("sent", 2)
    other.count_told("sent", 1)
    other.count_told("dropped", 7)
    lines = render([one.snapshot(), other.snapshot()]).decode().splitlines()
    assert 'dragoman_telemetry_total{result="sent"} 6' in lines
    assert 'dragoman_telemetry_total{result="dropped"} 7' in lines


def test_threads_are_counted_by_program_and_class_and_words_of_clients_are_no_labels() -> None:
    metrics = Metrics()
    base = Record(id="r", dialect=CHAT, path="", started=0, time=0, status=200)
    for facts in (
        Facts(client="claude-code", thread="a", session="s"),
        Facts(client="claude-code", thread="b", session="t"),
        *(Facts(client="codex", said_class=f"invented-{number}") for number in range(100)),
        Facts(session="nightly"),
        Facts(),
    ):
        metrics.count(replace(base, facts=facts))
    found = read(render([metrics.snapshot(), metrics.snapshot()]))
    named = {labels: value for (name, labels), value in found.items() if name == "dragoman_thread_requests_total"}
    assert named == {
        (("program", "claude-code"), ("thread", "subagent")): 4,
        (("program", "codex"), ("thread", "other")): 200,
        (("program", ""), ("thread", "main")): 2,
    }
