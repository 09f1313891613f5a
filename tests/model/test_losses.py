"""The ledger and its places."""

from __future__ import annotations

import pytest

from dragoman.model.features import Feature
from dragoman.model.losses import Fate, Ledger, Loss, Place, render_place


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
