"""Calls as they were meant, and the fragments that a server of any habits makes of them.

Habits that leave nothing to tell calls apart by are not combined (`_told_apart`): no reader could know what was meant.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject, JsonValue

NAMES = ("f", "get_it")
VALUES: tuple[dict[str, Any], ...] = (
    {},
    {"x": 1},
    {"y": "a{b"},
    {"o": {"p": [1, {"q": ""}]}},
    {"x": 2, "z": "}{"},
    {"city": "Faro", "n": {}},
)
Meant = tuple[str, dict[str, Any]]


class Habits(Struct, frozen=True, kw_only=True):
    """How a server tells calls; each member is one of the words below."""

    ids: str
    names: str
    index: str
    arguments: str
    again: str
    stand_in: str | None
    order: str


HABITS = st.builds(
    Habits,
    # `fresh` is another id in each fragment, `one` is the same for all calls, `late` comes with the second fragment.
    ids=st.sampled_from(("first", "every", "late", "none", "empty", "fresh", "one")),
    names=st.sampled_from(("first", "every", "empty", "null", "pieces")),
    # `next` is one more for all but the opening, `back` is 0 for those, `count` numbers the fragments.
    index=st.sampled_from(("place", "none", "zero", "one", "far", "next", "back", "count", "text", "float")),
    arguments=st.sampled_from(("pieces", "whole", "so far", "object", "at once")),
    # What is said again: the arguments without a name, the whole call, or all calls in a message at the end.
    again=st.sampled_from(("nothing", "arguments", "call", "message")),
    stand_in=st.sampled_from((None, "", "{}", "null")),
    order=st.sampled_from(("one by one", "openings first", "mixed")),
)


class Case(Struct, frozen=True, kw_only=True):
    """What was meant, how it is told, and where texts are cut and calls take turns."""

    meant: list[Meant]
    habits: Habits
    cuts: list[int]
    turns: list[int]


def _told_apart(case: Case) -> bool:
    """Whether a reader can know what was meant."""
    habits, meant = case.habits, case.meant
    numbered = habits.index in ("place", "one", "far", "text", "float")
    nameless = habits.ids in ("none", "empty", "late")
    often, pieces = habits.names == "every", habits.names == "pieces"
    stands_in = bool(habits.stand_in)
    return not (
        # Nothing says to which call more arguments belong.
        (habits.order != "one by one" and (habits.ids in ("one", "fresh") or not (numbered or habits.ids == "every")))
        or (habits.ids == "fresh" and (not numbered or often or pieces or habits.again != "nothing"))
        or (habits.ids == "one" and not numbered)
        or (nameless and (habits.index == "zero" or (habits.index == "none" and stands_in)))
        # One id, one tool and equal arguments are one call; no arguments are those that were not yet said.
        or (
            habits.ids == "one" and (any(meant.count(one) > 1 for one in meant) or any(not value for _, value in meant))
        )
        or (pieces and (stands_in or not numbered or habits.order != "one by one"))
        # A name beside arguments opens a call; a server without ids may well mean two.
        or (nameless and often and (stands_in or not numbered or habits.again == "arguments"))
        # Indexes that mislead, and no arguments, or such as stand in for others.
        or (not numbered and habits.index != "none" and (stands_in or any(not value for _, value in meant)))
        or (
            not numbered
            and habits.ids == "late"
            and (habits.again != "nothing" or any(not value for _, value in meant))
        )
        or (not numbered and often and habits.again != "nothing")
    )


CASES = st.builds(
    Case,
    meant=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), min_size=1, max_size=3),
    habits=HABITS,
    cuts=st.lists(st.integers(1, 30), min_size=4, max_size=4),
    turns=st.lists(st.integers(0, 2), max_size=20),
).filter(_told_apart)


def fragments(case: Case) -> tuple[list[JsonObject], JsonObject | None]:
    """The fragments in their order, and the message at the end if there is one."""
    told = [_of_call(case, place) for place in range(len(case.meant))]
    if case.habits.order == "one by one":
        ordered = [one for call in told for one in call]
    elif case.habits.order == "openings first":
        ordered = [call[0] for call in told] + [one for call in told for one in call[1:]]
    else:
        ordered = _mixed(told, case.turns)
    if case.habits.index == "count":
        ordered = [{**one, "index": number} for number, one in enumerate(ordered)]
    return ordered, _message(case) if case.habits.again == "message" else None


def _of_call(case: Case, place: int) -> list[JsonObject]:
    habits, (name, value) = case.habits, case.meant[place]
    text = json.dumps(value)
    said: list[JsonValue]
    if habits.arguments in ("object", "at once"):
        said = [value if habits.arguments == "object" else text]
    else:
        opening: list[JsonValue] = [habits.stand_in]
        if habits.names == "pieces" and len(name) > 2:
            opening *= 2
        said = [*opening, *_pieces(text, habits.arguments, case.cuts)]
    if habits.again == "arguments":
        said.append(text)
    told = [_fragment(habits, place, number, name, more) for number, more in enumerate(said)]
    if habits.names == "pieces" and habits.arguments not in ("object", "at once"):
        for one, piece in zip(told, (name[:2], name[2:]), strict=False):
            if piece:
                one["function"] = {**_inner(one), "name": piece}
    if habits.again == "call" and habits.ids in ("first", "every"):
        told.append(_fragment(habits, place, 0, name, text))
    return told


def _fragment(habits: Habits, place: int, number: int, name: str, arguments: JsonValue) -> JsonObject:
    inner: JsonObject = {} if arguments is None else {"arguments": arguments}
    if number == 0 or habits.names == "every":
        inner["name"] = name
    elif habits.names in ("empty", "null"):
        inner["name"] = "" if habits.names == "empty" else None
    one: JsonObject = {"function": inner}
    where: dict[str, JsonValue] = {
        "zero": 0,
        "one": place + 1,
        "far": place * 1000 - 7,
        "next": place + bool(number),
        "back": 0 if number else place,
        "text": str(place),
        "float": float(place),
    }
    if habits.index != "none":
        one["index"] = where.get(habits.index, place)
    given = {"one": "same", "fresh": f"c{place}-{number}", "empty": ""}.get(habits.ids, f"c{place}")
    first, late = habits.ids in ("first", "one"), habits.ids == "late"
    if habits.ids in ("every", "fresh", "empty") or (first and number == 0) or (late and number == 1):
        one["id"] = given
    return one


def _pieces(text: str, way: str, cuts: list[int]) -> list[JsonValue]:
    if way == "whole":
        return [text]
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    begins = [0] * len(ends) if way == "so far" else [0, *ends]
    return [text[begin:end] for begin, end in zip(begins, ends, strict=False)]


def _mixed(told: list[list[JsonObject]], turns: list[int]) -> list[JsonObject]:
    """Calls taking turns, each after those before it have begun."""
    waiting = [list(call) for call in told]
    ordered: list[JsonObject] = []
    begun = 0
    for turn in [*turns, *([0, 1, 2] * 20)]:
        place = min(turn, begun, len(told) - 1)
        if waiting[place]:
            begun = max(begun, place + 1)
            ordered.append(waiting[place].pop(0))
    return ordered


def _message(case: Case) -> JsonObject:
    known = case.habits.ids in ("first", "every", "late")
    calls: list[JsonValue] = [
        {
            "id": f"c{place}" if known else "",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(value)},
        }
        for place, (name, value) in enumerate(case.meant)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _inner(fragment: JsonObject) -> JsonObject:
    inner = fragment["function"]
    assert isinstance(inner, dict)
    return inner
