"""Metrics: what is counted, what Prometheus reads of it, and that names from outside cannot multiply or break it."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.gateway.observability import metrics as module
from dragoman.gateway.observability.metrics import OTHER, Metrics, Snapshot
from dragoman.gateway.observability.prometheus import render
from dragoman.gateway.observability.record import Record
from dragoman.model.response import Usage
from dragoman.records.journal_entry import CallEntry, CostBreakdown, TokenCounts
from dragoman.routing.health_state import HealthLevel
from dragoman.sessions.facts import ExchangeFacts
from dragoman.translate import LossLine
from tests.gateway.harness import CHAT, PATHS, PROVIDER_KEY, running, whole
from tests.gateway.observability.scraped import count_in, counted, read, record, total
from tests.gateway.says import question


def test_exchanges_are_counted_by_route_and_status() -> None:
    found = counted(record(), record(), record(status=429), record(model="gpt-5.1-mini"))
    assert total(found, "dragoman_requests_total") == 4
    labels = {
        "client_protocol": "anthropic-messages",
        "provider": "openai",
        "provider_protocol": "openai-chat",
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
    priced = replace(
        record(), tokens=TokenCounts(input=9, cache_read=4), cost=CostBreakdown(input=1_500_000_000, output=7)
    )
    unpriced = replace(record(), cost=CostBreakdown(input=3, unpriced=("output",)), estimated=True)
    found = counted(priced, priced, unpriced, record())
    assert total(found, "dragoman_cost_nano_usd_total", model="gpt-5.1", status="200") == 3_000_000_017
    assert total(found, "dragoman_unpriced_requests_total", provider="openai") == 1
    assert total(found, "dragoman_estimated_requests_total") == 1
    assert total(found, "dragoman_tokens_total", type="cache_read") == 8
    assert not [name for name, _ in found if "said" in name]


def test_cost_is_counted_in_dollars_and_by_key() -> None:
    spent = replace(record(), cost=CostBreakdown(input=1_500_000_000, output=7), key="ann")
    found = counted(spent, spent, replace(spent, key="bob"), record())
    assert total(found, "dragoman_cost_usd_total", key="ann") == 3.000000014
    assert total(found, "dragoman_cost_usd_total", key="bob") == 1.500000007
    assert total(found, "dragoman_cost_nano_usd_total", key="ann") == 3_000_000_014
    assert total(found, "dragoman_requests_total", key="ann") == 2
    assert [labels for name, labels in found if name == "dragoman_requests_total" and "key" not in dict(labels)] == [
        (
            *(("client_protocol", "anthropic-messages"), ("provider", "openai"), ("provider_protocol", "openai-chat")),
            *(("model", "gpt-5.1"), ("status", "200")),
        )
    ]


def test_keys_without_number_are_other_and_leave_the_labels_of_models() -> None:
    metrics = Metrics()
    for key in range(300):
        for model in range(60):
            count_in(metrics, replace(record(f"m{model}"), key=f"key{key}"))
    found = read(render([metrics.snapshot()]))
    series = [dict(labels) for name, labels in found if name == "dragoman_requests_total"]
    assert {labels["model"] for labels in series} == {f"m{model}" for model in range(60)}
    assert len(series) <= module._KEY_CELLS_LIMIT + 60
    assert len({labels["key"] for labels in series}) <= module._KEYS_LIMIT + 1
    assert total(found, "dragoman_requests_total", key=OTHER) >= 60 * 200
    assert total(found, "dragoman_requests_total", key="key0") == 60
    assert total(found, "dragoman_requests_total") == 300 * 60


def test_pitfall_417_how_far_a_provider_is_from_our_prices_is_told() -> None:
    more = replace(record(provider="router"), cost=CostBreakdown(input=100, reported=130))
    less = replace(record(provider="router"), cost=CostBreakdown(input=100, reported=90))
    unknown = replace(record(provider="router"), cost=CostBreakdown(unpriced=("model",), reported=50))
    metrics = Metrics()
    for told in (more, less, unknown):
        count_in(metrics, told)
    found = read(render([metrics.snapshot(), metrics.snapshot()]))
    assert total(found, "dragoman_provider_reported_cost_nano_usd_total", provider="router") == 540
    assert total(found, "dragoman_cost_discrepancy_nano_usd", provider="router") == 40


@pytest.mark.parametrize("odd", [-5, 10**30])
def test_counts_that_no_provider_should_report_break_no_counter(odd: int) -> None:
    strange = replace(record(), usage=Usage(input=odd, output=odd, cache_read=odd))
    plain = replace(record(), usage=Usage(input=7))
    metrics = Metrics()
    count_in(metrics, plain)
    count_in(metrics, strange)
    found = read(render([metrics.snapshot()]))
    assert total(found, "dragoman_tokens_total", type="input") >= 7
    # Siblings must still be able to read it.
    assert msgspec.json.decode(msgspec.json.encode(metrics.snapshot()), type=Snapshot)


def test_the_first_content_is_timed_only_where_there_was_one() -> None:
    told = replace(record(), first_content=100.1)
    found = counted(told, record())
    assert total(found, "dragoman_time_to_first_token_seconds_count") == 1
    assert total(found, "dragoman_request_duration_seconds_count") == 2


def test_losses_and_failures_are_counted_by_kind() -> None:
    losses = (
        LossLine(fate="dropped", feature="sampling", weight="changes_response", at="secret place", note="secret note"),
    ) * 3
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
    count_in(metrics, record(HOSTILE[case]))
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
            count_in(metrics, record(f"m{model}", status))
    found = read(render([metrics.snapshot()]))
    cells = [name for name, _ in found if name == "dragoman_requests_total"]
    assert len(cells) < 5010
    assert total(found, "dragoman_requests_total") == 200 * 195
    assert total(found, "dragoman_requests_total", model=OTHER, status="500") > 0


def test_pitfall_353_attempts_are_counted_by_what_became_of_them() -> None:
    calls = [("a", "overloaded"), ("a", "overloaded"), ("b", "answered"), ("b", "")]
    attempts = tuple(CallEntry(provider=name, model="m", protocol="openai-chat", kind=kind) for name, kind in calls)
    one, other = Metrics(), Metrics()
    for metrics in (one, other):
        count_in(metrics, replace(record(provider="b"), attempts=attempts))
    found = read(render([one.snapshot(), msgspec.json.decode(msgspec.json.encode(other.snapshot()), type=Snapshot)]))
    assert {(*dict(labels).values(), value) for (name, labels), value in found.items() if "attempts" in name} == {
        ("a", "overloaded", 4.0),
        ("b", "answered", 2.0),
        ("b", "other", 2.0),
    }


def test_pitfall_353_how_targets_stand_and_how_many_keys_rest() -> None:
    one, other = Metrics(), Metrics()
    one.levels = lambda: {"p/m": HealthLevel.HEALTHY, "q/n": HealthLevel.SUSPECT}
    # Who heard of it first is believed.
    other.levels = lambda: {"p/m": HealthLevel.COOLDOWN}
    one.keys_in_cooldown, other.keys_in_cooldown = lambda: {"p": 1, "q": 0}, lambda: {"p": 2, "q": 0}
    heard = msgspec.json.decode(msgspec.json.encode(other.snapshot()), type=Snapshot)
    found = read(render([one.snapshot(), heard]))
    standings = {dict(labels)["target"]: dict(labels)["state"] for (name, labels), value in found.items() if value == 1}
    assert standings == {"p/m": "cooldown", "q/n": "suspect"}
    assert total(found, "dragoman_target_health") == 2
    assert total(found, "dragoman_target_health", target="p/m", state="healthy") == 0
    assert sum(name == "dragoman_target_health" for name, _ in found) == 2 * len(HealthLevel)
    assert total(found, "dragoman_keys_in_cooldown", provider="p") == 2
    assert total(found, "dragoman_keys_in_cooldown", provider="q") == 0


def test_pitfall_354_checks_are_counted_under_a_name_of_their_own() -> None:
    one, other = Metrics(), Metrics()
    assert b"checks" not in render([one.snapshot()])
    one.record_health_check("p", "failing", 1.0)
    for now in (2.0, 3.0):
        other.record_health_check("p", "alive", now)
    heard = msgspec.json.decode(msgspec.json.encode(other.snapshot()), type=Snapshot)
    assert heard.last_health_checks == {"p": ("alive", 3.0)}
    found = read(render([one.snapshot(), heard]))
    assert total(found, "dragoman_health_checks_total", provider="p", result="failing") == 1
    assert total(found, "dragoman_health_checks_total", provider="p", result="alive") == 2
    assert total(found, "dragoman_attempts_total") == total(found, "dragoman_requests_total") == 0


def test_pitfall_454_names_that_clients_make_up_do_not_multiply_series() -> None:
    metrics = Metrics()
    metrics.levels = lambda: {"p/real": HealthLevel.COOLDOWN}
    few = len(read(render([metrics.snapshot()])))
    metrics.levels = lambda: (
        {"p/real": HealthLevel.COOLDOWN} | {f"p/junk-{n}": HealthLevel.HEALTHY for n in range(10_000)}
    )
    found = read(render([metrics.snapshot()]))
    assert len(found) == few + 200 * len(HealthLevel)
    assert total(found, "dragoman_target_health", target="p/real", state="cooldown") == 1
    assert total(found, "dragoman_target_health", target=OTHER, state="healthy") == 10_000 - 199
    metrics.levels = lambda: {f"p/more-{n}": HealthLevel.SUSPECT for n in range(10_000)}
    again = read(render([metrics.snapshot()]))
    assert len(again) <= len(found)


def test_pitfall_353_a_running_gateway_tells_what_became_of_its_calls() -> None:
    with running([whole({"error": {"message": "no"}}, 503)]) as house:
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 503
        found = read(house.get("/metrics").body)
        assert total(found, "dragoman_attempts_total", provider="chat", kind="overloaded") == 1
        assert total(found, "dragoman_target_health", target="chat/served", state="suspect") == 1
        assert total(found, "dragoman_keys_in_cooldown", provider="chat") == 0
        assert PROVIDER_KEY.encode() not in house.get("/metrics").body


def test_a_model_whose_name_may_not_be_told_is_one_of_others() -> None:
    metrics = Metrics()
    metrics.may_name = lambda target: not target.endswith("/secret")
    for model in ("open", "secret", "secret"):
        count_in(metrics, record(model))
    found = read(render([metrics.snapshot()]))
    assert total(found, "dragoman_requests_total", model="open") == 1
    assert total(found, "dragoman_requests_total", model=OTHER) == 2
    assert total(found, "dragoman_requests_total", model="secret") == 0


def test_what_a_collector_was_told_is_counted_over_all_workers() -> None:
    one, other = Metrics(), Metrics()
    assert b"telemetry" not in render([one.snapshot(), other.snapshot()])
    one.count_exports("sent", 3)
    one.count_exports("sent", 2)
    other.count_exports("sent", 1)
    other.count_exports("dropped", 7)
    lines = render([one.snapshot(), other.snapshot()]).decode().splitlines()
    assert 'dragoman_telemetry_exports_total{result="sent"} 6' in lines
    assert 'dragoman_telemetry_exports_total{result="dropped"} 7' in lines


def test_threads_are_counted_by_client_and_class_and_words_of_clients_are_no_labels() -> None:
    metrics = Metrics()
    base = Record(id="r", client_protocol=CHAT, path="", started=0, time=0, status=200)
    for facts in (
        ExchangeFacts(client="claude-code", thread="a", session="s"),
        ExchangeFacts(client="claude-code", thread="b", session="t"),
        *(ExchangeFacts(client="codex", said_class=f"invented-{number}") for number in range(100)),
        ExchangeFacts(session="nightly"),
        ExchangeFacts(),
    ):
        count_in(metrics, replace(base, facts=facts))
    found = read(render([metrics.snapshot(), metrics.snapshot()]))
    named = {labels: value for (name, labels), value in found.items() if name == "dragoman_thread_requests_total"}
    assert named == {
        (("client", "claude-code"), ("thread", "subagent")): 4,
        (("client", "codex"), ("thread", "other")): 200,
        (("client", ""), ("thread", "main")): 2,
    }
