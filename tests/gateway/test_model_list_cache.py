"""What providers listed, kept, taken over and looked up."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.gateway.model_list_cache import ModelListCache, facts_of_rules
from dragoman.model.listing import ListedModel
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.model_limits import ModelLimits
from dragoman.routing.target import Target

ENDPOINT = Endpoint(protocol="anthropic-messages", base_url="http://127.0.0.1:1")
ONE = Provider(name="one", endpoints=(ENDPOINT,))
TWO = Provider(name="two", endpoints=(ENDPOINT,))
LISTED = ListedModel(id="m", window=9, cap=4)


def target(model: str, provider: Provider = ONE) -> Target:
    """A target of a provider."""
    return Target(provider=provider, endpoint=ENDPOINT, model=model, strict=False)


def kept() -> ModelListCache:
    """Two lists."""
    lists = ModelListCache({"one": ONE, "two": TWO})
    lists.put(ONE, [LISTED], 5.0)
    lists.put(TWO, [ListedModel(id="models/g", window=7)], 5.0)
    return lists


def test_a_target_is_found_in_the_list_of_its_provider_alone() -> None:
    lists = kept()
    assert lists.model(target("m")) is LISTED
    assert lists.facts_of(target("m")) == ModelLimits(window=9, cap=4)
    assert lists.model(target("m", TWO)) is None
    assert lists.facts_of(target("n")) == ModelLimits()


def test_a_name_is_found_with_and_without_its_folder() -> None:
    lists = kept()
    assert lists.facts_of(target("g", TWO)) == lists.facts_of(target("models/g", TWO)) == ModelLimits(window=7)


def test_those_who_changed_are_asked_again() -> None:
    changed = replace(TWO, keys=("another",))
    lists = ModelListCache({"one": ONE, "two": changed}, kept())
    assert lists.of(ONE) is not None
    assert lists.of(changed) is None


def test_the_rules_of_translation_know_some_caps() -> None:
    assert facts_of_rules(target("claude-opus-5")) == ModelLimits(cap=128000)
    assert facts_of_rules(target("m")) == ModelLimits()
