"""Keys take turns, and those that were refused rest."""

from __future__ import annotations

from dragoman.providers.rotation import Rotation


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def taken(rotation: Rotation, count: int) -> list[str | None]:
    return [rotation.next() for _ in range(count)]


def test_without_keys_there_is_none() -> None:
    assert (Rotation(()).next(), Rotation(()).count) == (None, 0)


def test_keys_take_turns() -> None:
    rotation = Rotation(("a", "b", "c"), Clock())
    assert taken(rotation, 7) == ["a", "b", "c", "a", "b", "c", "a"]
    assert rotation.count == 3


def test_a_resting_key_is_passed_over_until_it_has_recovered() -> None:
    clock = Clock()
    rotation = Rotation(("a", "b", "c"), clock)
    rotation.cool("b", 10)
    assert taken(rotation, 4) == ["a", "c", "a", "c"]
    clock.now += 9.9
    assert taken(rotation, 2) == ["a", "c"]
    clock.now += 0.1
    assert taken(rotation, 3) == ["a", "b", "c"]


def test_if_all_rest_the_one_that_recovers_first_goes_on() -> None:
    clock = Clock()
    rotation = Rotation(("a", "b", "c"), clock)
    for key, seconds in (("a", 30), ("b", 5), ("c", 20)):
        rotation.cool(key, seconds)
    assert taken(rotation, 2) == ["b", "b"]
    clock.now += 6
    assert taken(rotation, 2) == ["b", "b"]
    clock.now += 15
    assert taken(rotation, 2) == ["c", "b"]


def test_a_shorter_rest_does_not_end_a_longer_one() -> None:
    clock = Clock()
    rotation = Rotation(("a", "b"), clock)
    rotation.cool("a", 60)
    rotation.cool("a", 1)
    clock.now += 2
    assert taken(rotation, 2) == ["b", "b"]


def test_a_single_key_is_used_although_it_rests() -> None:
    rotation = Rotation(("a",), Clock())
    rotation.cool("a", 60)
    assert taken(rotation, 2) == ["a", "a"]


def test_a_key_that_is_no_longer_there_may_be_cooled() -> None:
    rotation = Rotation(("a",), Clock())
    rotation.cool("gone", 60)
    assert rotation.next() == "a"


def test_item_12_a_rotation_in_place_of_another_knows_who_rests_and_whose_turn_it_is() -> None:
    clock = Clock()
    former = Rotation(("a", "b", "c"), clock)
    assert taken(former, 1) == ["a"]
    former.cool("c", 10)
    rotation = Rotation(("new", "c", "b"), clock, former)
    assert taken(rotation, 3) == ["b", "new", "b"]
    # What still runs under the former one finds out things, too.
    former.cool("b", 5)
    assert taken(rotation, 2) == ["new", "new"]
    clock.now += 6
    assert taken(rotation, 2) == ["b", "new"]
    clock.now += 5
    assert taken(rotation, 3) == ["c", "b", "new"]


def test_a_rotation_in_place_of_another_that_had_other_keys_begins_anew() -> None:
    former = Rotation(("a",), Clock())
    former.cool("a", 10)
    assert taken(Rotation(("x", "y"), Clock(), former), 3) == ["x", "y", "x"]
    assert Rotation((), Clock(), former).next() is None
