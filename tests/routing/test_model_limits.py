"""How much a name takes and says, from several sources and for several targets."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.model_limits import LimitsOf, ModelLimits, combine_limits, smallest
from dragoman.routing.route import Route, RoutingRule, RuleCondition
from dragoman.routing.target import Target

ENDPOINT = Endpoint(protocol="openai-chat", base_url="http://127.0.0.1:1")
PROVIDER = Provider(name="p", endpoints=(ENDPOINT,))


def target(model: str) -> Target:
    """A target of the one provider."""
    return Target(provider=PROVIDER, endpoint=ENDPOINT, model=model, strict=False)


def table(facts: Mapping[str, tuple[int | None, int | None]]) -> LimitsOf:
    """Facts by the name of the model."""

    def facts_of(target: Target) -> ModelLimits:
        window, cap = facts.get(target.model, (None, None))
        return ModelLimits(window=window, cap=cap)

    return facts_of


def test_each_fact_is_from_the_first_source_that_knows_it() -> None:
    known = combine_limits(table({"a": (5, None)}), table({"a": (9, 3), "b": (None, 4)}), table({"b": (7, 8)}))
    assert known(target("a")) == ModelLimits(window=5, cap=3)
    assert known(target("b")) == ModelLimits(window=7, cap=4)
    assert known(target("c")) == ModelLimits()


def test_a_source_is_not_asked_for_what_is_known() -> None:
    asked: list[Target] = []

    def last(target: Target) -> ModelLimits:
        asked.append(target)
        return ModelLimits()

    known = combine_limits(table({"a": (5, 3)}), last)
    assert (known(target("a")), asked) == (ModelLimits(window=5, cap=3), [])


def test_the_smallest_of_all_targets_counts_rules_and_nested_routes_included() -> None:
    nested = Route(name="n", members=(target("b"),))
    rule = RoutingRule(when=RuleCondition(images=True), to=Route(name="r", members=(target("c"),)))
    route = Route(name="x", members=(target("a"), nested), rules=(rule,))
    facts_of = table({"a": (9, 5), "b": (8, None), "c": (7, 6)})
    assert smallest(map(facts_of, route.targets)) == ModelLimits(window=7, cap=5)
    assert smallest([facts_of(target("nobody knows")), ModelLimits(cap=3)]) == ModelLimits(cap=3)
    assert smallest([]) == ModelLimits()
