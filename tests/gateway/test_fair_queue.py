"""Fair queue: keys take turns, the items of a key keep their order, and the largest key is found."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.fair_queue import FairQueue


def filled(items: str) -> FairQueue[str]:
    """Items such as `a1 a2 b1`, each of the key that its first letter is."""
    queue: FairQueue[str] = FairQueue()
    for item in items.split():
        queue.append(item[0], item)
    return queue


def test_keys_take_turns() -> None:
    queue = filled("a1 a2 a3 b1 b2 c1")
    assert [queue.pop() for _ in range(len(queue))] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert not queue


def test_what_is_removed_is_not_served() -> None:
    queue = filled("a1 a2 b1")
    assert queue.remove("a", "a1") and queue.remove("b", "b1")
    assert not queue.remove("a", "a1") and not queue.remove("c", "c1")
    assert (len(queue), queue.pop()) == (1, "a2")


def test_the_largest_key_is_another_than_the_one_that_comes_only_if_it_has_more() -> None:
    queue = filled("a1 a2 a3 b1 b2")
    assert [*queue.largest("b")] == []
    assert [*queue.largest("c")] == ["a1", "a2", "a3"]
    assert [*queue.largest("a")] == []
    assert [*queue.largest("c", 9, lambda row: sum(5 * (item[0] == "b") for item in row))] == ["b1", "b2"]
    assert [*FairQueue[str]().largest("a")] == []


@given(st.lists(st.sampled_from("abc")))
def test_each_key_is_served_in_its_order_and_no_key_waits_for_more_than_one_item_of_another(keys: list[str]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for number, key in enumerate(keys):
        queue.append(key, (key, number))
    served = [queue.pop() for _ in range(len(queue))]
    for key in set(keys):
        assert [item for item in served if item[0] == key] == [
            (other, number) for number, other in enumerate(keys) if other == key
        ]
    counts = Counter(keys)
    for key, number in served:
        before = [other for other, _ in served[: served.index((key, number))]]
        for other in counts:
            assert before.count(other) <= before.count(key) + 1
