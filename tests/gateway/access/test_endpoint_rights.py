"""Endpoint rights: roles and lists of keys before a body is read; `test_limited_keys.py` sends requests."""

from __future__ import annotations

import pytest

from dragoman.errors import ClientError, NotPermitted
from dragoman.gateway.access.endpoint_rights import (
    ENDPOINT_ROLES,
    check_endpoint,
    check_path,
    check_query,
    is_stated_path,
    may_use,
)
from dragoman.gateway.paths import EndpointKind, api_path_of, relayed_rule, rule_of
from dragoman.identities.identity import ADMIN, CLIENT, ROLES, VIEWER, Rights

# Open to requests without a key, or with a table of their own.
OTHERS = {EndpointKind.ADMIN, EndpointKind.INDEX, EndpointKind.HELLO, EndpointKind.HEALTH, EndpointKind.READY}


def test_the_table_of_roles_is_total() -> None:
    assert {*ENDPOINT_ROLES} | OTHERS == {*EndpointKind}
    assert all({*roles} <= {*ROLES} for roles in ENDPOINT_ROLES.values())


def test_only_an_admin_changes_the_status() -> None:
    assert [may_use(role, "POST", EndpointKind.STATUS) for role in (CLIENT, VIEWER, ADMIN)] == [False, False, True]
    assert [may_use(role, "GET", EndpointKind.STATUS) for role in (CLIENT, VIEWER, ADMIN)] == [False, True, True]
    assert not may_use("another", "GET", EndpointKind.MODELS)
    assert not may_use(ADMIN, "GET", EndpointKind.READY)


@pytest.mark.parametrize(
    ("query", "is_refused"),
    [
        ("", False),
        ("beta=true", False),
        ("limit=1&after=model", False),
        ("modelling=1", False),
        ("model=x", True),
        ("MODEL", True),
        ("a=1;model=x", True),
        ("%6D%6F%64%65%6C=x", True),
        ("%256Dodel=x", True),
        ("model%5B0%5D=x", True),
        ("+model+=x", True),
        ("deployment_id=x", True),
    ],
)
def test_a_query_is_searched_for_what_chooses_a_model(query: str, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(NotPermitted):
            check_query(query)
    else:
        check_query(query)


def test_a_list_of_paths_says_what_is_open() -> None:
    rights = Rights(paths=("files", "responses:read"))
    read, made = relayed_rule("GET", "/files/x", shared=True), relayed_rule("POST", "/files", shared=True)
    assert read is not None and made is not None
    check_path(rights, made)
    check_path(Rights(), made)
    for refused in (read, None, rule_of("POST", "/messages")):
        with pytest.raises(ClientError):
            check_path(rights, refused)
    check_path(Rights(paths=("files:read",)), read)
    assert is_stated_path(rights, read) and not is_stated_path(Rights(), read)
    with pytest.raises(ClientError):
        check_endpoint(rights, "POST", api_path_of("/v1/messages"), "")
    check_endpoint(rights, "GET", api_path_of("/v1/responses/resp_1"), "")
    check_endpoint(rights, "GET", api_path_of("/metrics"), "")


def test_a_path_that_no_rule_has_is_closed_to_a_list() -> None:
    with pytest.raises(ClientError):
        check_endpoint(Rights(paths=("responses",)), "DELETE", api_path_of("/v1/responses/resp_1/cancel"), "")
