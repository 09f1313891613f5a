"""How much a name takes and says, from several sources and for several targets."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.model_limits import Facts, FactsOf, first_known, smallest
from dragoman.routing.route import Route, Rule, When
from dragoman.routing.target import Target

ENDPOINT = Endpoint(protocol="openai-chat", base_url="http://127.0.0.1:1")
PROVIDER = Provider(name="p", endpoints=(ENDPOINT,))


def target(model: str) -> Target:
    """A target of the one provider."""
    return Target(provider=PROVIDER, endpoint=ENDPOINT, model=model, strict=False)


def table(facts: Mapping[str, tuple[int | None, int | None]]) -> FactsOf:
    """Facts by the name of the model."""

    def facts_of(target: Target) -> Facts:
        window, cap = facts.get(target.model, (None, None))
        return Facts(window=window, cap=cap)

    return facts_of


def test_each_fact_is_from_the_first_source_that_knows_it() -> None:
    known = first_known(table({"a": (5, None)}), table({"a": (9, 3), "b": (None, 4)}), table({"b": (7, 8)}))
    assert known(target("a")) == Facts(window=5, cap=3)
    assert known(target("b")) == Facts(window=7, cap=4)
    assert known(target("c")) == Facts()


def test_a_source_is_not_asked_for_what_is_known() -> None:
    asked: list[Target] = []

    def last(target: Target) -> Facts:
        asked.append(target)
        return Facts()

    known = first_known(table({"a": (5, 3)}), last)
    assert (known(target("a")), asked) == (Facts(window=5, cap=3), [])


def test_the_smallest_of_all_targets_counts_rules_and_nested_routes_included() -> None:
    nested = Route(name="n", members=(target("b"),))
    rule = Rule(when=When(images=True), to=Route(name="r", members=(target("c"),)))
    route = Route(name="x", members=(target("a"), nested), rules=(rule,))
    facts_of = table({"a": (9, 5), "b": (8, None), "c": (7, 6)})
    assert smallest(map(facts_of, route.targets)) == Facts(window=7, cap=5)
    assert smallest([facts_of(target("nobody knows")), Facts(cap=3)]) == Facts(cap=3)
    assert smallest([]) == Facts()
