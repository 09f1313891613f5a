"""Keys take turns, and those that were refused rest."""

from __future__ import annotations

from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health import Health
from dragoman.routing.rotation import Rotation, digest_of


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def rotating(
    *keys: str, clock: Clock | None = None, former: Rotation | None = None, health: Health | None = None
) -> Rotation:
    """A rotation that shares the cooldowns of the former one."""
    shared = health or (Health() if former is None else former._health)
    return Rotation("p", keys, shared, clock or Clock(), former)


def taken(rotation: Rotation, count: int) -> list[str | None]:
    return [rotation.next() for _ in range(count)]


def test_without_keys_there_is_none() -> None:
    assert (rotating().next(), rotating().count) == (None, 0)


def test_keys_take_turns() -> None:
    rotation = rotating("a", "b", "c")
    assert taken(rotation, 7) == ["a", "b", "c", "a", "b", "c", "a"]
    assert rotation.count == 3


def test_a_resting_key_is_passed_over_until_it_has_recovered() -> None:
    clock = Clock()
    rotation = rotating("a", "b", "c", clock=clock)
    rotation.cool("b", 10)
    assert taken(rotation, 4) == ["a", "c", "a", "c"]
    clock.now += 9.9
    assert taken(rotation, 2) == ["a", "c"]
    clock.now += 0.1
    assert taken(rotation, 3) == ["a", "b", "c"]


def test_if_all_rest_the_one_that_recovers_first_goes_on() -> None:
    clock = Clock()
    rotation = rotating("a", "b", "c", clock=clock)
    for key, seconds in (("a", 30), ("b", 5), ("c", 20)):
        rotation.cool(key, seconds)
    assert taken(rotation, 2) == ["b", "b"]
    clock.now += 6
    assert taken(rotation, 2) == ["b", "b"]
    clock.now += 15
    assert taken(rotation, 2) == ["c", "b"]


def test_a_shorter_rest_does_not_end_a_longer_one() -> None:
    clock = Clock()
    rotation = rotating("a", "b", clock=clock)
    rotation.cool("a", 60)
    rotation.cool("a", 1)
    clock.now += 2
    assert taken(rotation, 2) == ["b", "b"]


def test_a_single_key_is_used_although_it_rests() -> None:
    rotation = rotating("a")
    rotation.cool("a", 60)
    assert taken(rotation, 2) == ["a", "a"]


def test_a_key_that_is_no_longer_there_may_be_cooled() -> None:
    rotation = rotating("a")
    rotation.cool("gone", 60)
    assert rotation.next() == "a"


def test_item_12_a_rotation_in_place_of_another_knows_who_rests_and_whose_turn_it_is() -> None:
    clock = Clock()
    former = rotating("a", "b", "c", clock=clock)
    assert taken(former, 1) == ["a"]
    former.cool("c", 10)
    rotation = rotating("new", "c", "b", clock=clock, former=former)
    assert taken(rotation, 3) == ["b", "new", "b"]
    # What still runs under the former one finds out things, too.
    former.cool("b", 5)
    assert taken(rotation, 2) == ["new", "new"]
    clock.now += 6
    assert taken(rotation, 2) == ["b", "new"]
    clock.now += 5
    assert taken(rotation, 3) == ["c", "b", "new"]


def test_a_rotation_in_place_of_another_that_had_other_keys_begins_anew() -> None:
    former = rotating("a")
    former.cool("a", 10)
    assert taken(rotating("x", "y", former=former), 3) == ["x", "y", "x"]
    assert rotating(former=former).next() is None


def test_pitfall_346_a_key_rests_for_one_model_or_for_all() -> None:
    clock = Clock()
    rotation = rotating("a", "b", clock=clock)
    rotation.cool("a", 60, "small")
    assert [rotation.next(model="small") for _ in range(3)] == ["b", "b", "b"]
    assert {rotation.next(model="large") for _ in range(2)} == {"a", "b"}
    rotation.cool("b", 60)
    assert [rotation.next(model=model) for model in ("large", "large", "")] == ["a", "a", "a"]


def test_pitfall_357_a_key_that_is_preferred_goes_before_its_turn_unless_it_rests() -> None:
    rotation = rotating("a", "b", "c")
    wanted = rotation.digest("b")
    assert [rotation.next(preferred=wanted) for _ in range(3)] == ["b", "b", "b"]
    # The others' turns go on as if nothing had been.
    assert taken(rotation, 2) == ["a", "b"]
    rotation.cool("b", 60, "m")
    assert rotation.next(preferred=wanted, model="m") == "c"
    assert rotation.next(preferred=wanted, model="n") == "b"
    assert rotation.next(preferred="of a key that is gone") == "a"


def test_pitfall_309_311_a_request_walks_the_keys_once() -> None:
    rotation = rotating("a", "b", "c")
    tried: list[str] = []
    while (key := rotation.next(without=tried)) is not None:
        tried.append(key)
        # Others take their turns meanwhile.
        rotation.next()
    assert sorted(tried) == ["a", "b", "c"]


def test_pitfall_309_a_key_that_was_tried_is_not_used_again_although_all_rest() -> None:
    rotation = rotating("a", "b")
    rotation.cool("a", 5)
    rotation.cool("b", 50)
    assert rotation.next() == "a"
    assert rotation.next(without=["a"]) == "b"
    assert rotation.next(without=["a", "b"]) is None


def test_it_is_known_when_the_first_key_wakes_if_all_rest() -> None:
    clock = Clock()
    rotation = rotating("a", "b", clock=clock)
    assert rotation.wakes() is None
    rotation.cool("a", 30)
    assert rotation.wakes("m") is None
    rotation.cool("b", 10, "m")
    assert (rotation.wakes("m"), rotation.wakes("n")) == (110.0, None)
    clock.now += 10
    assert rotation.wakes("m") is None
    assert rotating(clock=clock).wakes() is None


def test_pitfall_343_a_rest_is_known_to_the_rotation_of_another_worker() -> None:
    clock = Clock()
    ours, theirs = Health(), Health()
    here, there = rotating("a", "b", clock=clock, health=ours), rotating("a", "b", clock=clock, health=theirs)
    here.cool("a", 60)
    theirs.merge(ours.take_updates())
    assert taken(there, 2) == ["b", "b"]
    theirs.reset_keys("p", clock())
    ours.merge(theirs.take_updates())
    assert set(taken(here, 2)) == {"a", "b"}


def test_pitfall_353_rests_are_shown_by_the_places_of_their_keys() -> None:
    clock, health = Clock(), Health()
    rotation = rotating("a", "b", clock=clock, health=health)
    assert rotation.active_cooldowns() == []
    rotation.cool("b", 900, kind=AttemptOutcome.INSUFFICIENT_QUOTA, hint=86400.0)
    rotation.cool("b", 60, "m", AttemptOutcome.RATE_LIMITED)
    health.cool_key("p", "of nobody here", "", 1000.0, clock())
    health.cool_key("another", digest_of("a"), "", 1000.0, clock())
    shown = [
        (place, report.model, report.since, report.health.until, report.last, report.hint)
        for place, report in rotation.active_cooldowns()
    ]
    assert shown == [
        (1, "", 100.0, 1000.0, AttemptOutcome.INSUFFICIENT_QUOTA, 86400.0),
        (1, "m", 100.0, 160.0, AttemptOutcome.RATE_LIMITED, 0.0),
    ]
    clock.now += 60
    assert [report.model for _, report in rotation.active_cooldowns()] == [""]
