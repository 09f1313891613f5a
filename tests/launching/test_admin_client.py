"""The admin API as commands call it: structs of the gateway, its errors with their remedies, no key in an address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.identities.views import IssuedKey, KeysView, KeyView
from dragoman.launching.admin_client import AdminApiError, AdminClient
from tests.gateway.admin.recorded_gateway import recorded_gateway, text_of
from tests.gateway.harness import House
from tests.launching.test_gateway import at


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with recorded_gateway(tmp_path) as house:
        yield house


def client(house: House, name: str = "ada") -> AdminClient:
    return AdminClient(at(house.port), text_of(name))


def test_results_are_the_structs_of_the_gateway(house: House) -> None:
    ada = client(house)
    issued = ada.send("POST", "/keys", IssuedKey, b'{"name":"ann"}')
    assert ada.get("/keys/ann", KeyView) == issued.identity
    page = ada.get("/keys", KeysView, {"n": 2, "after": "ada"})
    assert ([view.name for view in page.keys], page.next) == (["alice", "ann"], "ann")


def test_a_change_names_the_state_that_it_was_made_from(house: House) -> None:
    ada = client(house)
    ada.send("POST", "/keys", IssuedKey, b'{"name":"ann"}')
    assert ada.send("PATCH", "/keys/ann", KeyView, b'{"strict":true}', generation=1).strict is True
    with pytest.raises(AdminApiError, match="the key ann was changed meanwhile") as caught:
        ada.send("DELETE", "/keys/ann", KeyView, generation=1)
    assert caught.value.status == 412


@pytest.mark.parametrize(
    ("name", "path", "status", "problem"),
    [
        ("ada", "/keys/nope", 404, r"there is no key nope \(.+\)"),
        ("ada", "/nope", 404, r"there is nothing at this path \(.+\)"),
        ("vera", "/keys", 403, r"this path needs a key with the role admin \(.+\)"),
    ],
)
def test_an_error_is_the_gateways_with_its_remedy(
    house: House, name: str, path: str, status: int, problem: str
) -> None:
    with pytest.raises(AdminApiError, match=f"^{problem}$") as caught:
        client(house, name).get(path, KeyView)
    assert caught.value.status == status


def test_an_unknown_key_is_refused_and_not_repeated(house: House) -> None:
    with pytest.raises(AdminApiError) as caught:
        AdminClient(at(house.port), "sk-no-gateway-has-this").get("/keys", KeysView)
    assert caught.value.status == 401
    assert "sk-no" not in str(caught.value)


def test_where_no_key_was_sent_the_places_of_one_are_named(house: House) -> None:
    with pytest.raises(
        AdminApiError, match=r"^the gateway requires a key \(set DRAGOMAN_KEY, or name the file"
    ) as caught:
        AdminClient(at(house.port), "").get("/keys", KeysView)
    assert caught.value.status == 401


def test_another_form_is_named(house: House) -> None:
    with pytest.raises(DragomanError, match="another form than this version knows"):
        client(house).get("/keys", IssuedKey)


def test_an_address_without_a_gateway_is_named() -> None:
    with pytest.raises(DragomanError, match=r"the gateway at http://127\.0\.0\.1:1 did not answer: "):
        AdminClient("http://127.0.0.1:1", "").get("/keys", KeysView)


def test_another_server_has_no_admin_api(house: House) -> None:
    with pytest.raises(AdminApiError, match="there is nothing at this path"):
        AdminClient(f"{at(house.port)}/nowhere", text_of("ada")).get("/keys", KeysView)
    page = AdminClient("http://llm.example.org", "")._refused(404, b"<html>not found</html>")
    assert str(page) == "there is no admin API at http://llm.example.org: status 404"
