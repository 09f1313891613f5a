"""The OpenAPI document has every endpoint, and nothing in it leads nowhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from dragoman.gateway.admin.endpoints import ENDPOINTS
from dragoman.gateway.admin.framework import PREFIX
from dragoman.gateway.admin.openapi import openapi_document, parameters_of
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.wire.json import encode
from tests.gateway.admin.key_requests import send
from tests.gateway.admin.recorded_gateway import ask, recorded_gateway
from tests.gateway.harness import House

DOCUMENT = openapi_document(ENDPOINTS)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with recorded_gateway(tmp_path_factory.mktemp("recorded")) as house:
        yield house


def member(value: JsonValue, *names: str) -> JsonValue:
    """What stands at a path in a document."""
    for name in names:
        assert isinstance(value, dict)
        value = value[name]
    return value


def operations() -> Iterator[tuple[str, str, JsonObject]]:
    """Each operation with its method and path."""
    paths = member(DOCUMENT, "paths")
    assert isinstance(paths, dict)
    for path, methods in paths.items():
        assert isinstance(methods, dict)
        for method, operation in methods.items():
            assert isinstance(operation, dict)
            yield method.upper(), path, operation


def _references(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        address = value.get("$ref")
        if isinstance(address, str):
            yield address
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def test_every_endpoint_is_an_operation_with_a_name_of_its_own() -> None:
    found = {(method, path): operation["operationId"] for method, path, operation in operations()}
    assert found == {(each.method, PREFIX + each.path): each.name for each in ENDPOINTS}
    assert len(set(found.values())) == len(ENDPOINTS)


def test_every_name_in_a_path_is_a_parameter_and_every_change_needs_if_match() -> None:
    endpoints = {(each.method, PREFIX + each.path): each for each in ENDPOINTS}
    for method, path, operation in operations():
        given = operation.get("parameters", [])
        assert isinstance(given, list)
        places = {str(each["name"]): each["in"] for each in given if isinstance(each, dict)}
        assert [name for name, place in places.items() if place == "path"] == re.findall(r"{(\w+)}", path)
        endpoint = endpoints[method, path]
        assert ("If-Match" in places) == endpoint.needs_match
        assert [name for name, place in places.items() if place == "query"] == [
            *endpoint.parameters.__struct_encode_fields__
        ]
        assert ("requestBody" in operation) == (endpoint.body is not None)


def test_every_reference_leads_to_a_schema_and_every_schema_is_used() -> None:
    schemas = member(DOCUMENT, "components", "schemas")
    assert isinstance(schemas, dict)
    assert {address.rpartition("/")[2] for address in _references(DOCUMENT)} == set(schemas)


def test_a_parameter_is_absent_rather_than_null() -> None:
    class Sought(Struct):
        text: str
        n: Annotated[int, Meta(ge=1)] | None = None
        both: int | str | None = None

    assert parameters_of(Sought) == [
        {"name": "text", "in": "query", "required": True, "schema": {"type": "string"}},
        {"name": "n", "in": "query", "required": False, "schema": {"type": "integer", "minimum": 1}},
        {
            "name": "both",
            "in": "query",
            "required": False,
            "schema": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        },
    ]


def test_the_document_is_served_to_every_key(house: House) -> None:
    assert ask(house, "/openapi.json", "alice") == json.loads(encode(DOCUMENT))
    assert send(house, "GET", "/openapi.json").header("content-type") == "application/json"
