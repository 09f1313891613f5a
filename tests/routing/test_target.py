"""Whom a request goes to."""

from __future__ import annotations

from msgspec.structs import replace

from tests.routing.lines import A, target


def test_an_id_is_worked_out_once_and_anew_for_another() -> None:
    assert A.id == "a/m"
    assert A.id is A.id
    assert replace(A, model="n").id == "a/n"


def test_what_it_denies_is_only_what_is_known() -> None:
    assert A.denies == frozenset()
    assert target("x", {"tool_limit": 0, "images": False, "reasons": False}).denies == {"tools", "images", "thinking"}
    assert target("x", {"output_schema": False}).denies == frozenset()
    assert target("x", {"output_schema": False, "json_mode": False}).denies == {"structured"}
