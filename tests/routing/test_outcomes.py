"""What became of attempts, and what follows."""

from __future__ import annotations

from dragoman.routing.outcomes import Chances, Heard, Kind, Then


def test_the_words_of_the_table_are_few() -> None:
    assert len({kind.value for kind in Kind}) == len(Kind)
    assert {then.value for then in Then} == {"again", "next", "tell"}
    assert {heard.value for heard in Heard} == {"nothing", "status", "content"}
    assert Chances().retries == 0
