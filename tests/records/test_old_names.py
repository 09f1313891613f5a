"""Names that earlier versions stored are read as today's."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.model.features import Feature
from dragoman.records.journal_entry import CallEntry, CandidateEntry, LossEntry
from dragoman.records.old_names import FEATURES, LEVELS, OUTCOMES, REASONS, with_current_names
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health_state import HealthLevel
from tests.records.invented import entry


def test_every_new_name_is_one_of_today_and_no_old_one_is() -> None:
    for names, values in (
        (LEVELS, {level.value for level in HealthLevel}),
        (OUTCOMES, {outcome.value for outcome in AttemptOutcome}),
        (FEATURES, {feature.value for feature in Feature}),
    ):
        assert set(names.values()) <= values
        assert not values & set(names)


@pytest.mark.parametrize(("old", "new"), OUTCOMES.items())
def test_an_old_outcome_is_read_by_its_new_name_and_its_neighbours_stay(old: str, new: str) -> None:
    first = CallEntry("a", "m", "openai-chat", "rate_limited", 429)
    stored = CallEntry("b", "n", "openai-chat", old, 500, 1, 2, 3, "req_1", 0, maybe_billed=True)
    expected = (first, replace(stored, kind=new))
    journaled = replace(entry(1), calls=(first, stored))
    assert with_current_names(journaled) == replace(journaled, calls=expected)


@pytest.mark.parametrize(("old", "new"), FEATURES.items())
def test_an_old_feature_is_read_by_its_new_name_and_its_neighbours_stay(old: str, new: str) -> None:
    stored = (LossEntry("top_k", "dropped", "top_k"), LossEntry(old, "approximated", "messages[0]"))
    expected = (stored[0], LossEntry(new, "approximated", "messages[0]"))
    journaled = replace(entry(1), losses=stored)
    assert with_current_names(journaled) == replace(journaled, losses=expected)


@pytest.mark.parametrize(("old", "new"), REASONS.items())
def test_an_old_text_about_a_candidate_is_read_in_todays_words(old: str, new: str) -> None:
    stored = (CandidateEntry("a/m", "", 5), CandidateEntry("b/m", old, 7, 1, 250_000, 80.5))
    expected = (stored[0], replace(stored[1], why=new))
    journaled = replace(entry(1), candidates=stored)
    assert with_current_names(journaled) == replace(journaled, candidates=expected)


def test_what_holds_no_old_name_is_not_copied() -> None:
    current = replace(
        entry(1),
        # What became of the exchange as a whole keeps its names.
        outcome="refused",
        calls=(CallEntry("a", "m", "openai-chat", "content_refused"),),
        losses=(LossEntry("cache_breakpoint", "dropped", "cache"),),
        candidates=(CandidateEntry("a/m", "deprioritized: failed 3 s ago"),),
    )
    assert with_current_names(current) is current
