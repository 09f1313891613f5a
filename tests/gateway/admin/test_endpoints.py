"""The paths of the admin API have one spelling, and each takes its methods alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman.gateway.paths import EndpointKind, api_path_of
from tests.gateway.admin.recorded_gateway import ask, error_of, recorded_gateway, text_of
from tests.gateway.harness import House


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with recorded_gateway(tmp_path_factory.mktemp("recorded")) as house:
        yield house


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/admin/v1/me", EndpointKind.ADMIN),
        ("/admin/v2", EndpointKind.ADMIN),
        ("/v1/admin/v1/me", EndpointKind.NOWHERE),
        ("//admin/v1/me", EndpointKind.NOWHERE),
        ("/openai/admin/v1/me", EndpointKind.NOWHERE),
        ("/%61dmin/v1/me", EndpointKind.NOWHERE),
        ("/openai/ADMIN/v1/me", EndpointKind.NOWHERE),
        ("/openai/admin", EndpointKind.NOWHERE),
    ],
)
def test_the_admin_api_has_no_second_spelling(path: str, kind: EndpointKind) -> None:
    assert api_path_of(path).kind is kind


@pytest.mark.parametrize("path", ["/me/", "//me", "/m%65", "/me/x", "/", "", "/exchanges/", "/ME"])
def test_a_path_that_differs_from_the_table_is_not_found(house: House, path: str) -> None:
    assert error_of(ask(house, path, status=404))["type"] == "not_found"


def test_another_method_is_refused_with_the_methods_of_the_path(house: House) -> None:
    answer = house.ask("DELETE", "/admin/v1/me", b"", authorization=f"Bearer {text_of('ada')}")
    assert answer.status == 405
    assert answer.header("allow") == "GET"
    assert error_of(answer.json())["type"] == "method_not_allowed"
