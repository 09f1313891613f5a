"""What is learned from one exchange for the next ones."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.gateway import routing_state as traffic_module
from dragoman.gateway.routing_state import RoutingState
from dragoman.gateway.runtime import Runtime
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.model.response import Usage
from dragoman.prices.book import Override
from dragoman.prices.table import Rates
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.candidate import Plan, Why
from dragoman.routing.explanation import explain
from dragoman.routing.health import PROMPT
from dragoman.routing.health_entry import Permit
from dragoman.routing.health_state import HealthLevel
from dragoman.routing.needs import Requirements
from dragoman.routing.plan import plan
from dragoman.routing.plan_inputs import Affinity, PlanInputs, RandomDraws
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from tests.gateway.harness import CHAT, MESSAGES, PATHS, House, Received, Reply, running, settings_for, whole
from tests.gateway.observability.kept import recorded
from tests.gateway.says import question, tells

LINES = (
    RouteConfig(pattern="two", targets=("chat/m", "messages/m")),
    RouteConfig(pattern="turns", targets=("chat/m", "messages/m"), policy="round-robin", sticky=False),
    RouteConfig(pattern="fast", targets=("chat/m", "messages/m"), policy="fastest"),
    RouteConfig(pattern="restless", targets=("chat/m", "messages/m"), policy="fastest", sticky=False),
    RouteConfig(pattern="abroad", targets=("messages/m", "messages/n")),
)
NEEDS = Requirements(size=100)
# Most requests are answered.
OUTCOMES = (*[AttemptOutcome.ANSWERED] * 20, AttemptOutcome.CONNECTION_LOST)


def _lined(settings: Settings) -> Settings:
    return replace(settings, routes=(*settings.routes, *LINES))


class _Line:
    """A line of a running gateway, and its traffic."""

    def __init__(self, house: House, name: str) -> None:
        self.service: Runtime = house.app.runtime
        self.route: Route = self.service.routes.route(name, CHAT, ALL_RIGHTS)
        self.first, self.second = self.route.targets

    @property
    def traffic(self) -> RoutingState:
        return self.service.routing_state

    def order(self, conversation: str = "") -> list[Target]:
        return [*self.traffic.plan(self.route, NEEDS, self.service.target_info, conversation).order]

    def ended(
        self,
        target: Target,
        kind: AttemptOutcome,
        *,
        seconds: float = 1.0,
        first: float = 0.0,
        permit: Permit | None = None,
    ) -> None:
        now = self.traffic.clock()
        usage = Usage(input=10, output=100)
        self.traffic.record_outcome(
            target,
            kind,
            began=now - seconds,
            first=now - seconds + first if first else 0.0,
            usage=usage,
            size=100,
            charged=set(),
            slowed=False,
            permit=permit,
        )


def test_a_failure_moves_a_target_behind_at_once() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        line = _Line(house, "two")
        assert line.order() == [line.first, line.second]
        line.ended(line.first, AttemptOutcome.CONNECTION_LOST)
        assert line.order() == [line.second, line.first]
        line.ended(line.second, AttemptOutcome.INVALID_REQUEST)
        assert line.order() == [line.second, line.first]


def test_a_conversation_stays_with_whoever_answered() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        line = _Line(house, "two")
        line.traffic.set_affinity("", "c", Affinity(line.second.id))
        plan = line.traffic.plan(line.route, NEEDS, line.service.target_info, "c")
        assert plan.order == (line.second, line.first)
        assert plan.why is Why.AFFINITY
        assert line.order("d") == [line.first, line.second]
        line.ended(line.second, AttemptOutcome.STREAM_BROKEN)
        assert line.order("c") == [line.first, line.second]


def test_turns_are_taken_by_plans_and_not_by_glances() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        line = _Line(house, "turns")
        known = line.service.target_info
        led = [line.order()[0] for _ in range(4)]
        assert led == [line.first, line.second] * 2
        glances = {line.traffic.glance(line.route, NEEDS, known).order[0].id for _ in range(3)}
        assert glances == {line.first.id}
        assert line.order()[0] is line.first


def test_the_quicker_one_leads_once_both_are_known() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        line = _Line(house, "fast")
        line.traffic.rng = lambda: 0.5
        for _ in range(3):
            line.ended(line.first, AttemptOutcome.ANSWERED, seconds=10.0, first=5.0)
            line.ended(line.second, AttemptOutcome.ANSWERED, seconds=2.0, first=0.2)
        assert line.order()[0] is line.second


def test_one_request_at_a_time_finds_out_whether_a_target_is_well_again() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        line = _Line(house, "two")
        now = line.traffic.clock()
        line.ended(line.first, AttemptOutcome.FIRST_BYTE_TIMEOUT, seconds=20.0)
        assert line.traffic.health.state(line.first.id, now).level is HealthLevel.COOLDOWN
        assert line.order() == [line.second, line.first]
        assert not line.traffic.is_healthy(line.first)
        assert 0.0 < line.traffic.wakes_in(line.first) <= 5.0
        permit = line.traffic.permits(line.first, 60.0)
        assert permit is not None
        assert line.traffic.permits(line.first, 60.0) is None
        # Another client that leaves changes nothing.
        line.ended(line.first, AttemptOutcome.CLIENT_DISCONNECTED)
        assert line.traffic.permits(line.first, 60.0) is None
        # Its own has found nothing out by that, and gives the permit back.
        line.ended(line.first, AttemptOutcome.CLIENT_DISCONNECTED, permit=permit)
        permit = line.traffic.permits(line.first, 60.0)
        assert permit is not None
        # So does one that made no call at all, and one that could not.
        line.traffic.give_back(line.first, permit)
        permit = line.traffic.permits(line.first, 60.0)
        assert permit is not None
        line.ended(line.first, AttemptOutcome.UNRESOLVED, permit=permit)
        permit = line.traffic.permits(line.first, 60.0)
        line.ended(line.first, AttemptOutcome.ANSWERED, permit=permit)
        assert line.traffic.health.state(line.first.id, now).level is HealthLevel.SLOW_START


def test_pitfall_324_going_on_to_a_target_is_paid_for_only_where_it_rests() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        line = _Line(house, "two")
        traffic, second = line.traffic, line.second
        line.ended(second, AttemptOutcome.CONNECTION_LOST)
        assert traffic.health.state(second.id, traffic.clock()).level is HealthLevel.SUSPECT
        assert all(traffic.may_try_next(second) for _ in range(30))
        for _ in range(4):
            line.ended(second, AttemptOutcome.CONNECTION_LOST, seconds=PROMPT)
        assert not traffic.is_last_resort(second)
        assert [traffic.may_try_next(second) for _ in range(11)] == [True] * 10 + [False]
        permit = traffic.permits(second, 60.0)
        assert permit is not None
        assert not traffic.may_try_next(second)
        line.ended(second, AttemptOutcome.ANSWERED, permit=permit)
        assert all(traffic.may_try_next(second) for _ in range(30))


def test_item_22_b9_a_target_whose_errors_come_back_quickly_is_asked_last_and_without_end() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        line = _Line(house, "two")
        traffic, first = line.traffic, line.first
        for _ in range(5):
            line.ended(first, AttemptOutcome.CONNECTION_LOST, seconds=0.0)
        assert traffic.health.state(first.id, traffic.clock()).level is HealthLevel.COOLDOWN
        assert line.order() == [line.second, first]
        assert all(traffic.may_try_next(first) and traffic.is_last_resort(first) for _ in range(30))
        # One of them is the probe, which changes nothing for the others.
        permit = traffic.permits(first, 60.0)
        assert permit is not None and traffic.permits(first, 60.0) is None
        assert traffic.may_try_next(first) and traffic.is_last_resort(first)
        assert line.order() == [line.second, first]


def test_what_is_known_outlives_a_reload() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        service = house.app.runtime
        line = _Line(house, "two")
        line.ended(line.first, AttemptOutcome.CONNECTION_LOST)

        async def again() -> Runtime:
            return Runtime(service.settings, service.metrics, service.log, service.state, former=service)

        assert house.run(again()).routing_state is service.routing_state


def test_nothing_is_remembered_of_names_that_are_longer_than_any() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        line = _Line(house, "two")
        long = replace(line.first, model="x" * 10_000)
        line.ended(long, AttemptOutcome.CONNECTION_LOST)
        line.traffic.set_affinity("", "c", Affinity(long.id))
        assert not line.traffic.health.has_target(long.id) and not len(line.traffic.affinities)


def test_a_request_that_made_no_call_gives_its_permit_back() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        line = _Line(house, "abroad")
        for target in (line.first, line.second):
            for _ in range(5):
                line.ended(target, AttemptOutcome.UNREACHABLE, seconds=0.0)
        lossy = {"model": "abroad", "seed": 7, "messages": [{"role": "user", "content": "Hello."}]}
        for _ in range(2):
            assert house.post("/v1/chat/completions", lossy, x_dragoman_strict="1").status == 400
        reports = line.traffic.health.reports(line.traffic.clock())
        assert {report.health.level for report in reports} == {HealthLevel.COOLDOWN}


@pytest.mark.parametrize("name", ["two", "fast", "turns"])
def test_whom_a_glance_finds_is_whom_a_look_at_everybody_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calm = []

    def both(route: Route, needs: Requirements, view: PlanInputs, dice: RandomDraws) -> Plan:
        made = plan(route, needs, view, dice)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(view), "are_all_available", lambda *_: False)
            looked = plan(route, needs, view, dice)
        assert (made.first, made.why, made.order, made.candidates) == (
            looked.first,
            looked.why,
            looked.order,
            looked.candidates,
        )
        calm.append(made.is_unranked)
        return made

    monkeypatch.setattr(traffic_module, "plan", both)
    random, now = Random(7), 1000.0
    with running((), lambda port: _lined(settings_for(port))) as house:
        line = _Line(house, name)
        line.traffic.rng = random.random
        line.traffic.clock = lambda: now
        for _ in range(400):
            now += random.choice([0.0, 0.01, 1.0, 30.0])
            needs = replace(NEEDS, size=random.choice([100, 20_000]))
            said = random.choice(["", "one", "other"])
            made = line.traffic.plan(line.route, needs, line.service.target_info, said, line.traffic.draw(0.2))
            assert made.first is not None
            kind = random.choices(
                [AttemptOutcome.ANSWERED, AttemptOutcome.CONNECTION_LOST, AttemptOutcome.SLOW_RESPONSE], [30, 1, 1]
            )[0]
            line.ended(made.first, kind, seconds=random.random(), first=random.choice([0.0, 0.1]))
            if said and kind is AttemptOutcome.ANSWERED:
                line.traffic.set_affinity("", said, Affinity(made.first.id))
    assert {True, False} <= set(calm)


def test_a_cheaper_target_that_was_never_asked_leads_however_short_the_answers_of_others_were() -> None:
    cheap = Override(rates=Rates(input=10**6, output=2 * 10**6))
    dear = Override(rates=Rates(input=10**6, output=8 * 10**6))

    def settings(port: int) -> Settings:
        line = RouteConfig(pattern="cheap", targets=("chat/m", "messages/m"), policy="cheapest")
        return replace(settings_for(port), routes=(line,), prices={"chat/m": dear, "messages/m": cheap})

    with running((), settings) as house:
        line = _Line(house, "cheap")
        assert line.order() == [line.second, line.first]
        # As it does while the cheaper one is away, or under another name.
        for _ in range(20):
            line.ended(line.first, AttemptOutcome.ANSWERED)
        assert line.order() == [line.second, line.first]


def _asked_last(received: Received) -> Reply:
    """The second target fails; the first one answers."""
    if received.target == PATHS[CHAT]:
        return tells(CHAT)
    return whole({"type": "error", "error": {"type": "api_error", "message": "no"}}, 500)


def _failed(line: _Line, seconds: float) -> None:
    """The first target fails five times in a row, each time after some seconds."""
    for _ in range(5):
        line.ended(line.first, AttemptOutcome.CONNECTION_LOST, seconds=seconds)


COOLDOWNS: dict[str, Callable[[_Line], None]] = {
    "silence": lambda line: line.ended(line.first, AttemptOutcome.FIRST_BYTE_TIMEOUT, seconds=20.0),
    "slow errors": lambda line: _failed(line, PROMPT),
    "quick errors": lambda line: _failed(line, 0.0),
    "a rate limit": lambda line: line.service.rotation(line.first.provider).cool(
        line.first.provider.keys[0], 600.0, "", AttemptOutcome.RATE_LIMITED, 600.0
    ),
}


@pytest.mark.parametrize("cooldown", COOLDOWNS)
def test_a_target_in_any_cooldown_is_asked_when_all_others_have_failed_the_request(cooldown: str) -> None:
    def settings(port: int) -> Settings:
        line = RouteConfig(pattern="pair", targets=("chat/m", "messages/m"))
        return replace(settings_for(port), routes=(line,))

    with running(_asked_last, settings) as house:
        line = _Line(house, "pair")
        COOLDOWNS[cooldown](line)
        assert line.order() == [line.second, line.first]
        told = house.post(PATHS[CHAT], question(CHAT, CHAT, model="pair"))
        assert told.status == 200, told.body
        assert [received.target for received in house.provider.received] == [PATHS[MESSAGES], PATHS[CHAT]]


def test_a_first_target_leads_without_a_plan_while_targets_are_healthy_and_free() -> None:
    with running(settings=lambda port: _lined(settings_for(port))) as house:
        two, fast, turns, abroad = (_Line(house, name) for name in ("two", "fast", "turns", "abroad"))
        info, traffic = two.service.target_info, two.traffic
        # The order of a policy that takes turns depends on more.
        assert [line.route.leads for line in (two, fast, turns, abroad)] == [True, True, False, True]
        assert traffic.leads(two.route, 100, info, None)
        # The request takes its turn, as with a plan.
        traffic.lead(two.route, 100, "", None)
        assert traffic._turns["two"] == 1
        traffic.set_affinity("", "conversation", Affinity(two.second.id))
        leads = [traffic.lead(two.route, 100, conversation, None) for conversation in ("conversation", "other")]
        assert [lead and lead.target for lead in leads] == [two.second, two.first]
        assert traffic._turns["two"] == 2
        # A request that explores has a plan, and so has one while a speed is in doubt.
        assert traffic.leads(fast.route, 100, info, RandomDraws(explore=0.5, exploration_rate=0.5))
        assert not traffic.leads(fast.route, 100, info, RandomDraws(explore=0.4, exploration_rate=0.5))
        for seconds in (1.0, 9.0):
            fast.ended(fast.second, AttemptOutcome.ANSWERED, seconds=seconds)
        curious, settled = (RandomDraws(explore=0.5, exploration_rate=rate) for rate in (0.5, 0.0))
        # Unless it is the speed of the target that leads anyway.
        assert traffic.lead(fast.route, 100, "", curious) is not None
        fast.ended(fast.first, AttemptOutcome.ANSWERED, seconds=0.1)
        assert traffic.lead(fast.route, 100, "", curious) is None
        assert traffic.lead(fast.route, 100, "", settled) is not None
        for _ in range(9):
            two.ended(two.second, AttemptOutcome.UNREACHABLE)
        assert not traffic.leads(two.route, 100, info, None)
        # The same target is in cooldown in another route, too.
        assert not traffic.leads(abroad.route, 100, info, None)


def _shown(made: Plan) -> tuple[object, ...]:
    """All of a plan that explains it, and what follows a failure."""
    told = made.order, made.candidates, made.first, made.written, made.policy, made.why, made.rule, made.held, made.now
    return (*told, made.affinity, made.is_unranked, made.requirements, explain(made))


@pytest.mark.parametrize("name", ["two", "fast", "abroad", "restless"])
def test_a_lead_is_the_first_of_the_plan_which_is_the_same_one_later(name: str) -> None:
    random, now, reasons = Random(name), 1000.0, set()
    with running((), lambda port: _lined(settings_for(port))) as house:
        line = _Line(house, name)
        route, known = line.route, line.service.target_info
        # The same happens to both; one always plans.
        planning, leading = both = [RoutingState(lambda: now, random.random) for _ in range(2)]
        for _ in range(600):
            now += random.choice([0.0, 0.01, 1.0, 30.0])
            needs = replace(NEEDS, size=random.choice([100, 20_000]))
            said = random.choice(["", "one", "other", "third"]) if route.summary.follows else ""
            draws = planning.draw(random.choice([0.0, 0.2])) if route.timed else None
            made = planning.plan(route, needs, known, said, draws)
            usage = Usage(input=10, output=random.choice([10, 1000]))
            seconds, first, outcome = random.random(), random.choice([0.0, 0.1]), random.choice(OUTCOMES)
            lead = None
            if leading.leads(route, needs.size, known, draws):
                lead = leading.lead(route, needs.size, said, draws)
            if lead is not None:
                assert (lead.target, lead.why) == (made.first, made.why)
                reasons.add(lead.why)
            else:
                leading.plan(route, needs, known, said, draws)
            assert made.first is not None
            for traffic in both:
                traffic.record_outcome(
                    made.first,
                    outcome,
                    began=now - seconds,
                    first=now - seconds + first if first else 0.0,
                    usage=usage,
                    size=needs.size,
                    charged=set(),
                    slowed=False,
                )
            if said and outcome is AttemptOutcome.ANSWERED:
                there = Affinity(random.choice(route.targets).id)
                for traffic in both:
                    traffic.set_affinity("", said, there)
            # The plan is made after the target has failed, and other requests were answered.
            assert lead is None or _shown(leading.plan_behind(lead, route, needs, known)) == _shown(made)
            assert planning._turns == leading._turns
            assert planning.affinities.snapshot() == leading.affinities.snapshot()
    assert reasons == {Why.POLICY} | ({Why.AFFINITY} if route.summary.follows else set())


@pytest.mark.parametrize("name", ["two", "fast", "abroad", "restless"])
def test_clients_and_records_are_told_the_same_with_and_without_a_plan(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _dialogue(name, monkeypatch) == (told := _dialogue(name, monkeypatch))
    monkeypatch.setattr(Route, "leads", False)
    assert _dialogue(name, monkeypatch) == told


def _dialogue(name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Requests of three conversations, whose second target fails, and then answers as the first one fails."""
    failing = [PATHS[MESSAGES]]

    def script(received: Received) -> Reply:
        if received.target in failing:
            return whole({"type": "error", "error": {"type": "api_error", "message": "no"}}, 500)
        return tells(CHAT if received.target == PATHS[CHAT] else MESSAGES)

    told: list[tuple[object, ...]] = []
    with recorded(script, lambda port: _lined(settings_for(port))) as (house, records):
        traffic = house.app.runtime.routing_state
        traffic.rng = lambda: 0.5
        measure = traffic.speeds.record_response

        def measured(target: str, size: int, now: float, *, seconds: float, tokens: float, first: float | None) -> None:
            # The second target is the faster one, however long this machine takes.
            measure(target, size, now, seconds=1.0 if target == "chat/m" else 0.5, tokens=tokens, first=first)

        monkeypatch.setattr(traffic.speeds, "record_response", measured)
        for number in range(12):
            if number == 8:
                failing[:] = [PATHS[CHAT]]
            asked = question(CHAT, CHAT, model=name, user=str(number))
            asked["messages"] = [{"role": "user", "content": f"Conversation {number % 3}."}]
            response = house.post(PATHS[CHAT], asked)
            record = records[-1]
            held = [(update.conversation, update.affinity) for update in traffic.affinities.snapshot()]
            told.append((response.status, response.header("x-dragoman-route"), held))
            considered = [(candidate.target, candidate.why != "") for candidate in record.candidates]
            told.append((record.route, record.policy, record.reason, considered))
            told.append(tuple((call.provider, call.kind) for call in record.attempts))
    return told
