"""The counters of all processes as Prometheus' text."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.gateway.admission import Load
from dragoman.gateway.observability.metrics import DURATIONS, Metrics
from dragoman.gateway.observability.prometheus import render
from dragoman.model.response import Usage
from dragoman.routing.health_state import HealthLevel
from dragoman.translate import LossLine
from tests.gateway.observability.scraped import count_in, counted, read, record, total


def test_a_gateway_that_was_asked_nothing_is_read_well() -> None:
    assert counted() == {("dragoman_requests_in_flight", ()): 0.0, ("dragoman_log_lines_dropped_total", ()): 0.0}


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.051, 3.0, 600.0, 86_400.0])
def test_a_duration_is_in_every_bucket_from_its_own_upwards(seconds: float) -> None:
    found = counted(record(seconds=seconds))
    for bound in DURATIONS:
        # Loop times are not exact.
        if abs(seconds - bound) > 1e-6:
            assert total(found, "dragoman_request_duration_seconds_bucket", le=str(bound)) == (seconds < bound)
    assert total(found, "dragoman_request_duration_seconds_bucket", le="+Inf") == 1
    assert total(found, "dragoman_request_duration_seconds_count") == 1
    assert total(found, "dragoman_request_duration_seconds_sum") == pytest.approx(seconds, abs=1e-5)


def test_processes_are_added_up() -> None:
    one, other = Metrics(), Metrics()
    losses = (LossLine(fate="dropped", feature="sampling", weight="changes_response", at="", note=""),)
    told = replace(record(), usage=Usage(input=5), failure="timeout", losses=losses)
    for metrics in (one, other, other):
        count_in(metrics, told)
    one.in_flight, other.in_flight = 1, 2
    found = read(render([one.snapshot(), other.snapshot()]))
    assert total(found, "dragoman_requests_total") == 3
    assert total(found, "dragoman_tokens_total", type="input") == 15
    assert total(found, "dragoman_request_duration_seconds_count") == 3
    assert total(found, "dragoman_losses_total") == 3
    assert total(found, "dragoman_losses_total", weight="changes_response") == 3
    assert total(found, "dragoman_failures_total") == 3
    assert total(found, "dragoman_requests_in_flight") == 3


def test_adding_up_does_not_change_what_was_counted() -> None:
    metrics = Metrics()
    count_in(metrics, record())
    assert render([metrics.snapshot()]) == render([metrics.snapshot()])
    assert total(read(render([metrics.snapshot()] * 2)), "dragoman_requests_total") == 2
    assert total(read(render([metrics.snapshot()])), "dragoman_requests_total") == 1


def test_calls_and_waits_of_providers_with_a_limit_are_added_up() -> None:
    one, other = Metrics(), Metrics()
    one.loads = lambda: {"p": Load(3, 4, 2), "free": Load(9, None, 0)}
    other.loads = lambda: {"p": Load(1, 4, 0)}
    lines = render([one.snapshot(), other.snapshot()]).decode().splitlines()
    assert 'dragoman_provider_calls_in_flight{provider="p"} 4' in lines
    assert 'dragoman_provider_queue_length{provider="p"} 2' in lines
    assert not any("free" in line for line in lines)
    # Where nobody has a limit there is nothing to tell.
    assert b"provider_calls" not in render([Metrics().snapshot()])


@pytest.mark.parametrize("name", ["p/" + "x" * 500, 'p/"quoted"\\', "p/line\nbreak"])
def test_a_hostile_target_is_one_label(name: str) -> None:
    metrics = Metrics()
    metrics.levels = lambda: (
        {name: HealthLevel.COOLDOWN, name + "x" * 300: HealthLevel.HEALTHY}
        if len(name) > 200
        else {name: HealthLevel.HEALTHY}
    )
    found = read(render([metrics.snapshot()]))
    assert sum(name == "dragoman_target_health" for name, _ in found) == len(HealthLevel)
