"""What a stream says and nobody reads."""

from __future__ import annotations

from dragoman.model.features import Feature
from dragoman.model.losses import Ledger
from dragoman.rules.unknown_fields import UnknownFields, part_place


def test_a_name_is_reported_once_at_its_place() -> None:
    ledger = Ledger()
    unknowns = UnknownFields(ledger, "openai-chat")
    for _ in range(3):
        assert unknowns.members({"id": "a", "new": 1, "audio": {"data": ""}}, {"id"})
        assert unknowns.members({"new": 2}, (), part_place(4))
    assert [(loss.feature, loss.at) for loss in ledger.losses] == [
        (Feature.UNKNOWN_FIELD, "extras.new"),
        (Feature.MODALITIES, "extras.audio"),
        (Feature.UNKNOWN_FIELD, "parts[4].extras.new"),
    ]
    assert ledger.losses[0].note == "only openai-chat knows 'new'"


def test_a_member_that_says_nothing_may_say_something_later() -> None:
    ledger = Ledger()
    unknowns = UnknownFields(ledger, "openai-chat")
    assert not unknowns.members({"new": None}, ())
    assert not unknowns.members({"status": "completed"}, ())
    assert len(ledger) == 0
    assert unknowns.members({"new": 1}, ())
    assert [loss.at for loss in ledger.losses] == ["extras.new"]


def test_an_event_is_reported_by_its_name() -> None:
    ledger = Ledger()
    assert UnknownFields(ledger, "openai-responses").name("response.new.thing")
    assert [loss.at for loss in ledger.losses] == ["extras.response.new.thing"]


def test_a_part_that_was_not_announced_has_no_place() -> None:
    assert part_place(None) == part_place(-1) == ()
    assert part_place(0) == ("parts", 0)
