"""Which rules take the members' place."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.model.request_features import RequestFeatures
from dragoman.routing.explanation import explain
from dragoman.routing.needs import Requirements
from dragoman.routing.plan import plan
from dragoman.routing.plan_inputs import Affinity, RandomDraws
from dragoman.routing.route import Route, RoutingRule, RuleCondition
from dragoman.routing.rule_matching import decide, fits
from tests.routing.lines import ALL_DICE, DICE, POLICY_NAMES, TARGETS, A, B, C, D, line, names, seen

SHORT = Requirements(size=4 * 1000)
LONG = Requirements(size=4 * 70_000)


def ruled(when: RuleCondition, to: Route, *members: Route, name: str = "claude-*") -> Route:
    return Route(name=name, members=members or (A,), rules=(RoutingRule(when=when, to=to),))


OVER = RuleCondition(input_tokens_over=60_000)
BIG = ruled(OVER, line(B, C, name="big"))


@pytest.mark.parametrize(
    ("when", "needs", "fit"),
    [
        pytest.param(RuleCondition(), Requirements(size=0), True, id="a rule that asks for nothing fits"),
        pytest.param(OVER, Requirements(size=4 * 60_000), False, id="as many tokens are not over"),
        pytest.param(OVER, Requirements(size=4 * 60_001), True, id="more are"),
        pytest.param(
            OVER,
            Requirements(size=10**9, request_features=RequestFeatures(media=10**9)),
            False,
            id="media are no tokens",
        ),
        pytest.param(
            RuleCondition(thinking=True),
            Requirements(size=0, request_features=RequestFeatures(thinking=True)),
            True,
            id="thinking",
        ),
        pytest.param(
            RuleCondition(thinking=False),
            Requirements(size=0, request_features=RequestFeatures(thinking=True)),
            False,
            id="no thinking",
        ),
        pytest.param(RuleCondition(images=True), Requirements(size=0), False, id="images"),
        pytest.param(
            RuleCondition(documents=True),
            Requirements(size=0, request_features=RequestFeatures(documents=True)),
            True,
            id="documents",
        ),
        pytest.param(RuleCondition(tools=False), Requirements(size=0), True, id="no tools"),
        pytest.param(
            RuleCondition(structured_output=True),
            Requirements(size=0, request_features=RequestFeatures(tools=True)),
            False,
            id="structured",
        ),
        pytest.param(
            RuleCondition(client="claude-cli"),
            Requirements(size=0, program="claude-cli/2.1"),
            True,
            id="a program begins so",
        ),
        pytest.param(
            RuleCondition(client="codex"), Requirements(size=0, program=""), False, id="an unknown program is no other"
        ),
        pytest.param(
            RuleCondition(client="claude-code"),
            Requirements(size=0, program="wrapped/1", client="claude-code"),
            True,
            id="a client's name here",
        ),
        pytest.param(
            RuleCondition(client="claude-c"),
            Requirements(size=0, client="claude-code"),
            False,
            id="is the whole name, too",
        ),
        pytest.param(
            RuleCondition(thread="subagent"), Requirements(size=0, thread="subagent"), True, id="a class of threads"
        ),
        pytest.param(RuleCondition(thread="subagent"), Requirements(size=0, thread="main"), False, id="is no other"),
        pytest.param(
            RuleCondition(thread="subagent"), Requirements(size=0), False, id="a class that nobody knows is none"
        ),
        pytest.param(
            RuleCondition(thread="other"), Requirements(size=0, thread="other:x"), True, id="what has no name here"
        ),
        pytest.param(
            RuleCondition(thread="other:y"), Requirements(size=0, thread="other:x"), False, id="and by its own name"
        ),
        pytest.param(RuleCondition(key="team"), Requirements(size=0, key="team"), True, id="a key's name"),
        pytest.param(RuleCondition(key="team"), Requirements(size=0, key="teams"), False, id="is the whole name"),
        pytest.param(
            RuleCondition(tools=True, images=True),
            Requirements(size=0, request_features=RequestFeatures(tools=True)),
            False,
            id="all must be so",
        ),
    ],
)
def test_a_rule_fits(when: RuleCondition, needs: Requirements, fit: bool) -> None:
    assert fits(when, needs) is fit


def test_the_first_that_fits_takes_the_members_place() -> None:
    route = Route(
        name="line",
        members=(A,),
        rules=(
            RoutingRule(when=RuleCondition(images=True), to=line(B)),
            RoutingRule(when=RuleCondition(tools=True), to=line(C)),
            RoutingRule(when=RuleCondition(), to=line(D)),
        ),
    )
    for signs, led in [
        (RequestFeatures(images=True, tools=True), "b"),
        (RequestFeatures(tools=True), "c"),
        (RequestFeatures(), "d"),
    ]:
        assert names(plan(route, Requirements(size=1, request_features=signs), seen(), DICE)) == led


def test_where_none_fits_the_members_are_asked() -> None:
    made = plan(BIG, SHORT, seen(), DICE)
    assert (names(made), made.rule) == ("a", "")


def test_a_rules_route_has_its_own_policy() -> None:
    route = ruled(OVER, line(B, C, policy="cheapest", name="big"))
    made = plan(route, LONG, seen(costs={"b": 2, "c": 1}), DICE)
    assert (names(made), made.policy) == ("c b", "cheapest")
    assert explain(made)[0].startswith("c/m leads (by rule claude-*#0): it is the cheapest")


def test_rules_of_nested_routes_are_their_own() -> None:
    inner = Route(name="inner", members=(B,), rules=(RoutingRule(when=RuleCondition(tools=True), to=line(C)),))
    route = Route(name="outer", members=(A, inner), rules=(RoutingRule(when=RuleCondition(images=True), to=inner),))
    tools, both = RequestFeatures(tools=True), RequestFeatures(tools=True, images=True)
    assert names(plan(route, Requirements(size=1), seen(), DICE)) == "a b"
    assert names(plan(route, Requirements(size=1, request_features=tools), seen(), DICE)) == "a c"
    made = plan(route, Requirements(size=1, request_features=both), seen(), DICE)
    assert (names(made), made.rule) == ("c", "outer#0\ninner#0")
    # The conversation stays with both.
    assert names(plan(route, Requirements(size=1), seen(pin=Affinity("c/m", "", made.rule)), DICE)) == "c"


def test_pitfall_361_a_conversation_goes_to_a_rule_once_and_never_back() -> None:
    first = plan(BIG, SHORT, seen(), DICE)
    pin = Affinity("a/m", "", first.rule)
    grown = plan(BIG, LONG, seen(pin=pin), DICE)
    assert (names(grown), grown.rule) == ("b c", "claude-*#0")
    compacted = plan(BIG, SHORT, seen(pin=Affinity("b/m", "", grown.rule)), DICE)
    assert (names(compacted), compacted.rule) == ("b c", grown.rule)


def test_a_rule_stays_although_an_earlier_one_would_fit_now() -> None:
    rules = (
        RoutingRule(when=RuleCondition(images=True), to=line(B)),
        RoutingRule(when=RuleCondition(tools=True), to=line(C)),
    )
    route = Route(name="line", members=(A,), rules=rules)
    needs = Requirements(size=1, request_features=RequestFeatures(images=True, tools=True))
    assert names(plan(route, needs, seen(pin=Affinity("c/m", "", "line#1")), DICE)) == "c"


@pytest.mark.parametrize("rule", ["claude-*#7", "other#0", "claude-*#-1", "claude-*#x", "#", "\n", "9" * 5000])
def test_a_rule_that_is_no_more_is_decided_afresh(rule: str) -> None:
    assert names(plan(BIG, SHORT, seen(pin=Affinity("b/m", "", rule)), DICE)) == "a"


def test_pitfall_361_a_pin_holds_what_a_rule_says_and_not_where_it_stands() -> None:
    rules = [
        RoutingRule(when=RuleCondition(images=True), to=line(B)),
        RoutingRule(when=RuleCondition(tools=True), to=line(C)),
    ]
    route = Route(name="line", members=(A,), rules=tuple(rules))
    made = plan(route, Requirements(size=1, request_features=RequestFeatures(tools=True)), seen(), DICE)
    assert (names(made), made.rule) == ("c", "line#1")
    pin = Affinity("c/m", "", made.held)
    after_reload = [
        ((*rules[::-1],), "c"),
        ((RoutingRule(when=RuleCondition(documents=True), to=line(D)), *rules), "c"),
        # It is no more, or says something else.
        ((rules[0], RoutingRule(when=RuleCondition(tools=False, images=True), to=line(C))), "a"),
        ((rules[0], RoutingRule(when=RuleCondition(tools=True), to=line(D))), "a"),
        ((rules[0],), "a"),
    ]
    for changed, led in after_reload:
        assert names(plan(replace(route, rules=changed), Requirements(size=1), seen(pin=pin), DICE)) == led


NUMBERS = itertools.count()
WHENS = st.builds(
    RuleCondition,
    input_tokens_over=st.none() | st.integers(0, 3),
    tools=st.none() | st.booleans(),
    images=st.none() | st.booleans(),
)
SOME_NEEDS = st.builds(
    Requirements,
    size=st.integers(0, 20),
    request_features=st.builds(RequestFeatures, tools=st.booleans(), images=st.booleans()),
)


@st.composite
def ruled_routes(draw: st.DrawFn, depth: int = 2) -> Route:
    """Any route with rules, and with routes with rules in it."""
    inner = TARGETS if depth == 0 else st.one_of(TARGETS, ruled_routes(depth=depth - 1))
    members = draw(st.lists(inner, min_size=1, max_size=3))
    to = draw(st.lists(inner, min_size=1, max_size=2))
    whens = draw(st.lists(WHENS, max_size=2))
    # Of two routes with one name a pin could not tell whose rule it holds.
    name = f"{depth} {next(NUMBERS)}"
    rules = tuple(RoutingRule(when=when, to=line(*to, name=f"{name} {place}")) for place, when in enumerate(whens))
    return Route(name=name, members=tuple(members), policy=draw(POLICY_NAMES), rules=rules)


@given(ruled_routes(), st.lists(SOME_NEEDS, min_size=2, max_size=6), ALL_DICE)
def test_a_conversation_never_loses_a_rule(route: Route, turns: list[Requirements], dice: RandomDraws) -> None:
    pin: Affinity | None = None
    for needs in turns:
        made = plan(route, needs, replace(seen(), affinity=pin), dice)
        before = set(pin.rule.splitlines()) if pin is not None else set()
        # A rule that leads elsewhere may hide others, but none that decided is replaced by another of its route.
        now = dict(rule.split("#") for rule in made.held.splitlines())
        assert all(now.get(held.split("#")[0], held.split("#")[1]) == held.split("#")[1] for held in before)
        assert {rule for rule in before if rule.startswith(f"{route.name}#")} <= set(made.held.splitlines())
        assert {found.id for found in made.order} <= {found.id for found in route.targets}
        pin = Affinity(made.order[0].id, "", made.held)


def test_what_was_decided_is_worked_out_once() -> None:
    assert decide(BIG, LONG, None) is decide(BIG, Requirements(size=10**6), None)


def test_pitfall_305_whoever_is_behind_a_name_a_rule_or_both_can_be_failed_over() -> None:
    alias = line(line(B, C, name="real"), name="alias")
    behind_a_rule = ruled(OVER, alias)
    for route in (line(B, C), alias, behind_a_rule):
        assert names(plan(route, LONG, seen(), DICE)) == "b c"
