"""Whom a request may go to, and what is left of all that is bounded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Routing, Timeouts
from dragoman.errors import ClientError, StrictError
from dragoman.gateway.exchange.attempt import Attempt, Missed
from dragoman.gateway.exchange.retry_state import MAX_UPSTREAM_CALLS, RetryState
from dragoman.gateway.forwarding.redaction import Redactor
from dragoman.gateway.forwarding.target_settings import TargetSettings, compute_settings
from dragoman.gateway.routing_state import RoutingState
from dragoman.http.upstream_call import HeaderList
from dragoman.model.failure import Failure, FailureKind
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.attempt_outcome import AttemptOutcome, NextStep, SentSoFar
from dragoman.routing.candidate import Deprioritized, Plan, Why
from dragoman.routing.health import CONSECUTIVE_FAILURES, Health
from dragoman.routing.health_state import HealthLevel, HealthState
from dragoman.routing.needs import Requirements
from dragoman.routing.plan import Lead, plan, plan_behind
from dragoman.routing.plan_inputs import Affinity, RandomDraws
from dragoman.routing.rotation import Rotation
from dragoman.routing.route import Route
from dragoman.routing.route_summary import RouteSummary
from dragoman.routing.speed import Speed
from dragoman.routing.target import Target
from tests.gateway.harness import CHAT
from tests.routing.lines import Told

ENDPOINT = Endpoint(protocol=CHAT, base_url="http://127.0.0.1")
# Bytes that a model takes in, by its name.
WINDOWS = {"small": 1000, "large": 9000, "huge": 90_000}


def target(model: str) -> Target:
    provider = Provider(name="p", endpoints=(ENDPOINT,), keys=("sk-1",))
    return Target(provider=provider, endpoint=ENDPOINT, model=model, strict=False)


def windows(outline: RouteSummary) -> list[int | None]:
    return [WINDOWS.get(found.model) for _, found, _, _ in outline.leaves]


def _settings_of(aim: Target) -> TargetSettings:
    rotation = Rotation("p", (), Health(), lambda: 0.0)
    return compute_settings(aim, rotation, Redactor(aim.provider), pooled_limits=False)


def course_of(*models: str, routing: Routing | None = None, retries: int = 0) -> RetryState:
    route = Route(name="line", members=tuple(map(target, models)), retries=retries)
    planned = plan(route, Requirements(size=1), Told(windows_of=windows), RandomDraws())
    return RetryState(planned.order, routing or Routing(), route, planned)


def missed(course: RetryState, kind: AttemptOutcome, headers: HeaderList | None = None) -> Missed:
    """The next target is asked, and fails."""
    aim = course.next()
    assert aim is not None
    course.tries += 1
    attempt = Attempt(aim, _settings_of(aim))
    attempt.headers = headers or []
    found = Missed(failure=Failure(kind=FailureKind.OTHER, message=aim.model), attempt=attempt, kind=kind)
    course.miss(found)
    return found


def then(course: RetryState, found: Missed, *, calls: int = 1, seconds: float = 100.0) -> NextStep:
    decided = course.next_step(found, SentSoFar.NOTHING, calls=calls, seconds=seconds, wall=0.0)
    course.take(decided, found)
    return decided


def test_pitfall_310_targets_are_taken_in_their_order_and_once() -> None:
    course = course_of("a", "b")
    assert [found.model for found in iter(course.next, None)] == ["a", "b"]


def test_on_a_calm_day_the_others_are_ranked_only_once_the_first_failed() -> None:
    asked: list[int] = []

    def speeds(outline: RouteSummary, size: int) -> list[Speed | None]:
        asked.append(size)
        return [Speed(first_token=seconds, rate=1.0, samples=9) for seconds in (3.0, 9.0, 1.0)]

    route = Route(name="line", members=(target("a"), target("b"), target("c")), policy="fastest")
    planned = plan(route, Requirements(size=1), Told(affinity=Affinity("p/b"), speeds_of=speeds), RandomDraws())
    course = RetryState(None, Routing(), route, planned)
    first = missed(course, AttemptOutcome.OVERLOADED)
    assert first.attempt is not None and first.attempt.target.model == "b"
    assert asked == []
    assert then(course, first) is NextStep.NEXT_TARGET
    assert [found.model for found in iter(course.next, None)] == ["c", "a"]
    assert asked == [1]


def test_whoever_led_is_not_asked_twice_when_others_are_the_faster_ones_by_then() -> None:
    seconds = [1.0, 3.0, 2.0]

    def speeds(_: RouteSummary, __: int) -> list[Speed | None]:
        return [Speed(first_token=each, rate=1.0, samples=9) for each in seconds]

    route = Route(name="line", members=(target("a"), target("b"), target("c")), policy="fastest")
    course = RetryState(
        None, Routing(), route, plan(route, Requirements(size=1), Told(speeds_of=speeds), RandomDraws())
    )
    first = missed(course, AttemptOutcome.OVERLOADED)
    assert first.attempt is not None and first.attempt.target.model == "a"
    seconds[0] = 9.0
    assert then(course, first) is NextStep.NEXT_TARGET
    assert [found.model for found in iter(course.next, None)] == ["c", "b"]


def resting(kind: AttemptOutcome, seconds: float) -> tuple[RoutingState, Route]:
    """A line of two targets, of which the first is in cooldown for failures that took so long."""
    traffic = RoutingState(lambda: 100.0, lambda: 0.5)
    route = Route(name="line", members=(target("a"), target("b")), first_byte=None)
    for _ in range(CONSECUTIVE_FAILURES):
        traffic.health.record("p/a", kind, 100.0, 100.0 - seconds)
    return traffic, route


@pytest.mark.parametrize("first_byte", [None, 20.0, 900.0])
def test_item_22_b10_a_permit_outlives_the_timeout_of_its_probe(first_byte: float | None) -> None:
    traffic, route = resting(AttemptOutcome.FIRST_BYTE_TIMEOUT, 20.0)
    timeouts = Timeouts()
    course = RetryState(
        (target("a"), target("b")), Routing(), replace(route, first_byte=first_byte), None, traffic, timeouts
    )
    course.several = True
    assert course.next() == target("a")
    standing = traffic.health.state("p/a", 100.0)
    assert standing.level is HealthLevel.PROBING
    longest = target("a").provider.queue_timeout + timeouts.connect + (first_byte or timeouts.first_byte)
    assert standing.until > 100.0 + longest
    # Another request does not wait for it.
    other = RetryState((target("a"), target("b")), Routing(), route, None, traffic, timeouts)
    other.several = True
    assert other.next() == target("b")


def test_item_22_b9_a_target_whose_errors_come_back_quickly_is_asked_when_all_others_have_failed() -> None:
    traffic, route = resting(AttemptOutcome.CONNECTION_LOST, 0.1)
    courses = []
    for _ in range(30):
        planned = plan(
            route, Requirements(size=1), Told(now=100.0, standings_of=standings(traffic)), RandomDraws(slow_start=0.5)
        )
        course = RetryState(None, Routing(), route, planned, traffic)
        assert [candidate.deprioritized for candidate in planned.candidates] == [Deprioritized.COOLDOWN, None]
        first = missed(course, AttemptOutcome.CONNECTION_LOST)
        assert first.attempt is not None and first.attempt.target.model == "b"
        assert then(course, first) is NextStep.NEXT_TARGET
        assert course.next() == target("a")
        courses.append(course)
    # One of them is the probe.
    assert [course.use_permit() is not None for course in courses] == [True] + [False] * 29


@pytest.mark.parametrize(
    "kind", [AttemptOutcome.FIRST_BYTE_TIMEOUT, AttemptOutcome.CONNECTION_LOST], ids=["silence", "slow errors"]
)
def test_a_target_whose_errors_take_long_is_asked_by_one_request_at_a_time_when_all_others_have_failed(
    kind: AttemptOutcome,
) -> None:
    traffic, route = resting(kind, 20.0)
    courses = []
    for _ in range(3):
        planned = plan(
            route, Requirements(size=1), Told(now=100.0, standings_of=standings(traffic)), RandomDraws(slow_start=0.5)
        )
        assert [candidate.deprioritized for candidate in planned.candidates] == [Deprioritized.COOLDOWN, None]
        course = RetryState(None, Routing(), route, planned, traffic)
        first = missed(course, AttemptOutcome.CONNECTION_LOST)
        assert first.attempt is not None and first.attempt.target.model == "b"
        assert then(course, first) is NextStep.NEXT_TARGET
        courses.append(course)
    assert [course.next() for course in courses] == [target("a"), None, None]
    # One that gave up lets the next one ask.
    courses[0].give_back()
    again = RetryState((target("b"), target("a")), Routing(), route, None, traffic)
    again.several = True
    missed(again, AttemptOutcome.CONNECTION_LOST)
    assert again.next() == target("a")


def test_pitfall_324_a_last_resort_that_fails_slowly_is_asked_as_often_as_its_budget_allows() -> None:
    traffic, route = resting(AttemptOutcome.FIRST_BYTE_TIMEOUT, 20.0)
    asked = 0
    for _ in range(30):
        planned = plan(
            route, Requirements(size=1), Told(now=100.0, standings_of=standings(traffic)), RandomDraws(slow_start=0.5)
        )
        course = RetryState(None, Routing(), route, planned, traffic)
        missed(course, AttemptOutcome.CONNECTION_LOST)
        asked += course.next() is not None
        course.give_back()
    assert asked == 10


def standings(traffic: RoutingState) -> Callable[[RouteSummary], list[HealthState]]:
    return lambda outline: [traffic.health.state(name, traffic.clock()) for name in outline.ids]


def test_a_plan_of_other_days_is_followed_as_it_is() -> None:
    route = Route(name="line", members=(target("small"), target("b")))
    planned = plan(route, Requirements(size=5000), Told(windows_of=windows), RandomDraws())
    assert not planned.is_unranked
    course = RetryState(None, Routing(), route, planned)
    assert course.others == 2
    assert [found.model for found in iter(course.next, None)] == ["b", "small"]


def test_a_target_is_asked_again_as_often_as_its_line_says() -> None:
    course = course_of("a", "b", retries=2)
    found = missed(course, AttemptOutcome.OVERLOADED)
    assert [then(course, found) for _ in range(3)] == [NextStep.RETRY, NextStep.RETRY, NextStep.NEXT_TARGET]
    assert course.pauses == 2
    assert then(course, missed(course, AttemptOutcome.OVERLOADED)) is NextStep.RETRY


@pytest.mark.parametrize(
    ("calls", "seconds", "tries"), [(MAX_UPSTREAM_CALLS, 9.0, 0), (1, 0.0, 0), (1, 9.0, Routing().max_attempts)]
)
def test_nothing_follows_once_something_is_used_up(calls: int, seconds: float, tries: int) -> None:
    course = course_of("a", "b")
    found = missed(course, AttemptOutcome.OVERLOADED)
    assert course.next_step(found, SentSoFar.NOTHING, calls=1, seconds=9.0, wall=0.0) is NextStep.NEXT_TARGET
    course.tries += tries
    assert then(course, found, calls=calls, seconds=seconds) is NextStep.RETURN_ERROR


def test_what_a_provider_says_of_waiting_is_heard() -> None:
    course = course_of("a", retries=3)
    assert then(course, missed(course, AttemptOutcome.OVERLOADED, [(b"retry-after", b"99")])) is NextStep.RETURN_ERROR
    course = course_of("a", retries=3)
    assert (
        then(course, missed(course, AttemptOutcome.OVERLOADED, [(b"x-should-retry", b"false")]))
        is NextStep.RETURN_ERROR
    )
    course = course_of("a", retries=3)
    found = missed(course, AttemptOutcome.OVERLOADED, [(b"retry-after", b"9")])
    assert (then(course, found), course.hint(found, 0.0).wait) == (NextStep.RETRY, 9.0)


def test_pitfall_318_too_long_goes_only_to_who_takes_in_more() -> None:
    course = course_of("large", "small", "unknown", "huge")
    assert then(course, missed(course, AttemptOutcome.CONTEXT_LENGTH_EXCEEDED)) is NextStep.NEXT_TARGET
    assert (aim := course.next()) is not None and aim.model == "huge"
    course = course_of("large", "small")
    assert then(course, missed(course, AttemptOutcome.CONTEXT_LENGTH_EXCEEDED)) is NextStep.RETURN_ERROR


def test_what_may_have_been_billed_is_replayed_as_often_as_it_may_be() -> None:
    course = course_of("a", "b", "c", routing=Routing(max_billed_retries=1))
    assert then(course, missed(course, AttemptOutcome.STREAM_BROKEN)) is NextStep.NEXT_TARGET
    assert then(course, missed(course, AttemptOutcome.FIRST_BYTE_TIMEOUT)) is NextStep.RETURN_ERROR


def test_the_first_failure_is_decisive_and_a_bad_key_of_ours_is_not_the_clients() -> None:
    course = course_of("a", "b")
    missed(course, AttemptOutcome.INVALID_KEY)
    missed(course, AttemptOutcome.OVERLOADED)
    decisive = course.decisive()
    assert decisive is not None and decisive.failure.message == "a"
    assert (decisive.failure.kind, decisive.failure.status) == (FailureKind.UPSTREAM_AUTH, 502)
    assert course_of("a", "b").decisive() is None


def test_who_is_left_out_did_not_fail_and_is_named() -> None:
    course = course_of("a", "b")
    for _ in range(2):
        aim = course.next()
        assert aim is not None
        course.tries += 1
        assert course.leave_out(aim, StrictError(()))
    assert (course.tries, course.decisive()) == (0, None)
    assert str(course.no_target_error()) == (
        "no target of `line` can take this request: p/a: 0 losses refused: ; p/b: 0 losses refused: "
    )
    assert not course_of("a").leave_out(target("a"), StrictError(()))


def test_who_was_left_out_by_a_filter_is_named_with_the_reason_in_words() -> None:
    route = Route(name="line", members=(target("small"), target("dear"), target("strange")), max_cost=5)
    prices = {"small": 1, "dear": 10}
    needs = Requirements(size=10_000_000)
    view = Told(windows_of=windows, cost_at=lambda found, _: prices.get(found.model), affinity=None)
    planned = plan(route, needs, view, RandomDraws())
    told = RetryState(planned.order, Routing(), route, planned).no_target_error()
    assert isinstance(told, ClientError) and told.status == 400
    assert str(told) == (
        "no target of `line` can take this request: p/small: its window is too small; "
        "p/dear: its estimated cost exceeds max_cost; p/strange: its price is unknown, and there is a max_cost"
    )


def test_a_leader_is_called_without_a_plan_which_is_made_when_it_fails() -> None:
    route = Route(name="line", members=tuple(map(target, ("a", "b", "c"))))
    made = plan(route, Requirements(size=1), Told(windows_of=windows), RandomDraws())
    plans: list[Plan] = []

    def make() -> Plan:
        lead = Lead(route.targets[0], Why.POLICY, now=0.0)
        plans.append(plan_behind(lead, route, Requirements(size=1), Told(windows_of=windows)))
        return plans[-1]

    led = RetryState(None, Routing(), route, _later=make, _lead=route.targets[0])
    planned = RetryState(None, Routing(), route, made)
    assert (led.policy, led.several, led.is_sticky, led.is_unranked) == (
        planned.policy,
        planned.several,
        planned.is_sticky,
        planned.is_unranked,
    )
    missed(led, AttemptOutcome.UNREACHABLE)
    assert (plans, led.moved(route.targets[0]), led.stays) == ([], False, False)
    missed(planned, AttemptOutcome.UNREACHABLE)
    others = [led.next(), led.next(), led.next()]
    assert others == [planned.next(), planned.next(), planned.next()] == [*route.targets[1:], None]
    assert (len(plans), led.moved(route.targets[1]), led.stays) == (1, True, True)
    assert (plans[0].order, plans[0].candidates, plans[0].why) == (made.order, made.candidates, made.why)
