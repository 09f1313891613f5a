"""The ledger and its places."""

from __future__ import annotations

import pytest

from dragoman.model.features import BOOKKEEPING, Feature, weight_of
from dragoman.model.losses import Fate, Ledger, Loss, Place, Strict, render_place, strictest


@pytest.mark.parametrize(
    ("place", "written"),
    [((), ""), (("sampling", "seed"), "sampling.seed"), (("messages", 3, "parts", 0), "messages[3].parts[0]")],
)
def test_places_are_written_as_people_do(place: Place, written: str) -> None:
    assert render_place(place) == written


def test_three_fates_in_order() -> None:
    ledger = Ledger()
    ledger.dropped(Feature.PENALTIES, ("sampling",), "a")
    ledger.approximated(Feature.EFFORT, ("reasoning", "effort"), "b")
    ledger.invented(Feature.MAX_TOKENS, ("max_tokens",), "c")
    assert ledger.losses == (
        Loss(Fate.DROPPED, Feature.PENALTIES, "sampling", "a"),
        Loss(Fate.APPROXIMATED, Feature.EFFORT, "reasoning.effort", "b"),
        Loss(Fate.INVENTED, Feature.MAX_TOKENS, "max_tokens", "c"),
    )
    assert len(ledger) == 3


def test_features_are_one_word_each() -> None:
    assert len({feature.value for feature in Feature}) == len(Feature)
    assert all(feature.value == feature.name.lower() for feature in Feature)


def test_every_feature_has_a_weight_and_an_unknown_one_changes_the_response() -> None:
    assert {feature for feature in Feature if weight_of(feature.value) == "bookkeeping"} == BOOKKEEPING
    assert weight_of("of_another_release") == "changes_response"


@pytest.mark.parametrize(
    ("values", "strict"),
    [
        ((), False),
        ((False, False), False),
        ((False, True), True),
        ((True, "all"), "all"),
        (("all", False, True), "all"),
    ],
)
def test_the_strictest_of_several_places_holds(values: tuple[Strict, ...], strict: Strict) -> None:
    assert strictest(*values) == strict


def test_strict_mode_refuses_by_weight() -> None:
    ledger = Ledger()
    assert ledger.refused_by("all") == ()
    ledger.dropped(Feature.CACHE_BREAKPOINT, ("cache",), "a")
    assert (ledger.changes, ledger.refused_by(True), len(ledger.refused_by("all"))) == (0, (), 1)
    ledger.dropped(Feature.TOP_K, ("sampling",), "b")
    assert (ledger.changes, ledger.refused_by(False)) == (1, ())
    assert [loss.feature for loss in ledger.refused_by(True)] == [Feature.TOP_K]
    assert [loss.feature for loss in ledger.refused_by("all")] == [Feature.CACHE_BREAKPOINT, Feature.TOP_K]
