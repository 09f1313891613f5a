"""Who may use the admin API, and how it refuses the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.gateway.admin.endpoints import ENDPOINTS
from tests.gateway.admin.recorded_gateway import ask, error_of, recorded_gateway, text_of
from tests.gateway.harness import House, running


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with recorded_gateway(tmp_path_factory.mktemp("recorded")) as house:
        yield house


def test_a_client_without_a_key_gets_the_error_of_the_admin_api(house: House) -> None:
    answer = house.get("/admin/v1/me")
    assert answer.status == 401
    assert answer.header("www-authenticate") == "Bearer"
    assert error_of(answer.json())["type"] == "unauthenticated"


def test_no_page_of_another_origin_reads_the_admin_api(house: House) -> None:
    for method in ("GET", "OPTIONS"):
        answer = house.ask(
            method,
            "/admin/v1/me",
            b"",
            authorization=f"Bearer {text_of('ada')}",
            origin="https://elsewhere.example",
            access_control_request_method="GET",
        )
        assert answer.status == 403
        assert not [name for name, _ in answer.headers if name.startswith("access-control")]


def test_each_endpoint_has_its_least_role(house: House) -> None:
    ranks = {"client": 0, "viewer": 1, "admin": 2}
    for endpoint in ENDPOINTS:
        if endpoint.method != "GET" or "{" in endpoint.path or endpoint.result is None:
            continue
        for name, role in (("alice", "client"), ("vera", "viewer"), ("ada", "admin")):
            allowed = ranks[role] >= ranks[endpoint.role]
            document = ask(house, endpoint.path, name, 200 if allowed else 403)
            if not allowed:
                assert endpoint.role in error_of(document)["message"]


def test_a_gateway_without_keys_serves_records_to_this_machine_alone(tmp_path: Path) -> None:
    with running() as house:
        assert house.get("/admin/v1/status").status == 200
        assert house.get("/admin/v1/status", x_forwarded_for="192.0.2.1").status == 403
