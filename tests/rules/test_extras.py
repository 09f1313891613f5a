"""What only its own protocol knows: rule 2 of mapping.md §1."""

from __future__ import annotations

import pytest

from dragoman.errors import RefusedError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras, Foreign
from dragoman.model.request import Demand, Request
from dragoman.rules.extras import UnknownFields, drop_extras, foreign_text, part_place, refuse_demands, refused


def test_every_member_left_out_is_reported_at_its_place() -> None:
    ledger = Ledger()
    drop_extras(Extras(origin="openai-chat", fields={"prediction": {}, "new_thing": 1}), ("messages", 2), ledger)
    assert [(loss.feature, loss.at) for loss in ledger.losses] == [
        (Feature.PREDICTION, "messages[2].extras.prediction"),
        (Feature.UNKNOWN_FIELD, "messages[2].extras.new_thing"),
    ]


def test_a_demand_is_refused_by_name() -> None:
    demand = Demand(feature=Feature.PROMPT_TEMPLATE, member="prompt", note="stored templates stay at their provider")
    with pytest.raises(RefusedError, match="stored templates") as caught:
        refuse_demands(Request(origin="openai-responses", model="m", demands=(demand,)))
    assert caught.value.at == "prompt"


def test_pitfall_018_foreign_content_is_text_or_refused_but_never_dumped() -> None:
    ledger = Ledger()
    readable = Foreign(origin="a", kind="search_result", body={"x": 1}, text="title\nbody")
    assert foreign_text(readable, ("messages", 0), ledger, by_user=True) == "title\nbody"
    opaque = Foreign(origin="a", kind="container_upload", body={"file_id": "f"})
    assert foreign_text(opaque, ("messages", 0), ledger, by_user=False) is None
    with pytest.raises(RefusedError, match="container_upload"):
        foreign_text(opaque, ("messages", 0), ledger, by_user=True)
    assert [(loss.fate.value, loss.feature) for loss in ledger.losses] == [
        ("approximated", Feature.TEXT_DOCUMENT),
        ("dropped", Feature.UNSUPPORTED_CONTENT),
    ]


def test_an_item_that_steers_is_reported_as_applied() -> None:
    ledger = Ledger()
    steering = Foreign(origin="r", kind="additional_tools", body={}, applied="its tools are sent with the others")
    assert foreign_text(steering, ("messages", 0), ledger, by_user=True) is None
    assert ledger.losses[0].note == "its tools are sent with the others"


def test_a_context_edit_that_keeps_all_thinking_is_no_loss() -> None:
    ledger = Ledger()
    kept: JsonObject = {"type": "clear_thinking_20251015", "keep": "all"}
    drop_extras(Extras(origin="anthropic-messages", fields={"context_management": {"edits": [kept]}}), (), ledger)
    assert len(ledger) == 0
    some: JsonObject = {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}}
    for edits in ([some], [kept, {"type": "clear_tool_uses_20250919"}]):
        drop_extras(Extras(origin="anthropic-messages", fields={"context_management": {"edits": [*edits]}}), (), ledger)
    assert [loss.feature for loss in ledger.losses] == [Feature.CONTEXT_MANAGEMENT] * 2


def test_labels_of_a_client_are_metadata() -> None:
    ledger = Ledger()
    drop_extras(Extras(origin="openai-responses", fields={"client_metadata": {"turn": "1"}}), (), ledger)
    assert [loss.feature for loss in ledger.losses] == [Feature.METADATA]


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


def test_what_must_not_be_left_out_is_refused_by_its_place() -> None:
    error = refused(Feature.AUDIO, ("messages", 0, "parts", 1), "no")
    assert error.at == "messages[0].parts[1]"
