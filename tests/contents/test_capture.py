"""Captures hold bytes by reference, within one budget."""

from __future__ import annotations

from dragoman.contents.capture import QUEUE_FULL, Capture, CaptureBudget
from dragoman.contents.exchange_contents import BodySide, StoredBody


def test_bodies_are_joined_from_their_chunks() -> None:
    budget = CaptureBudget(100)
    capture = Capture("a", 5, "ann", budget)
    capture.add(BodySide.CLIENT_REQUEST, b"request")
    response = capture.body(BodySide.PROVIDER_RESPONSE, 1)
    take = capture.receiver(response)
    take(b"one ")
    take(b"two")
    broken = capture.body(BodySide.PROVIDER_RESPONSE, 2)
    capture.receiver(broken)(b"x")
    broken.reason = "framed"
    contents = capture.contents()
    assert (contents.id, contents.time, contents.key, contents.reason) == ("a", 5, "ann", "")
    assert contents.bodies == (
        StoredBody(side=BodySide.CLIENT_REQUEST, data=b"request"),
        StoredBody(side=BodySide.PROVIDER_RESPONSE, attempt=1, data=b"one two"),
        StoredBody(side=BodySide.PROVIDER_RESPONSE, attempt=2, reason="framed"),
    )
    assert budget.left == 100 - capture.size == 100 - 15
    capture.clear()
    budget.settle()
    assert (budget.left, capture.size) == (100, 0)


def test_beyond_the_budget_all_of_an_exchange_is_dropped_and_others_stay() -> None:
    budget = CaptureBudget(10)
    first, second = Capture("a", 0, "", budget), Capture("b", 0, "", budget)
    first.add(BodySide.CLIENT_REQUEST, b"1234")
    take = second.receiver(second.body(BodySide.CLIENT_REQUEST))
    take(b"12345")
    take(b"67")
    assert (second.reason, second.size, budget.left) == (QUEUE_FULL, 0, 6)
    # It goes on, and is held within the budget.
    for _ in range(10):
        take(b"12345")
    assert second.size <= 6 and budget.left >= 0
    assert second.contents().bodies == () and second.contents().reason == QUEUE_FULL
    assert first.contents().bodies[0].data == b"1234"
    second.clear()
    budget.settle()
    assert budget.left == 6
