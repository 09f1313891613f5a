"""Whom a request goes to."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.providers.provider import Endpoint
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


def test_what_a_provider_could_keep_is_kept_here_where_others_may_go_on() -> None:
    endpoint = Endpoint(protocol="openai-responses", base_url="http://127.0.0.1")
    native = replace(A, endpoint=endpoint, provider=replace(A.provider, endpoints=(endpoint,), stores_responses=True))
    assert native.can_store and native.stores_at_provider
    here = replace(native, stored_here=True)
    assert here.can_store and not here.stores_at_provider
    assert not A.can_store and not A.stores_at_provider
    assert not replace(native, provider=replace(native.provider, stores_responses=False)).can_store
