"""OpenAPI 3.1 document of the admin API, generated from the table of endpoints and from the structs that parse requests
and encode responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from dragoman import __version__
from dragoman.gateway.admin.framework import ERROR_TYPES, PREFIX, AdminEndpoint, ErrorBody, Nothing
from dragoman.model.jsonvalue import JsonObject, JsonValue

_REF = "#/components/schemas/{name}"
_JSON, _EVENTS = "application/json", "text/event-stream"
_DESCRIPTION = (
    "Keys, records and status of a gateway. Send the text of a key as `Authorization: Bearer`, or as `x-api-key`. Each"
    " operation names the role that it needs at least: client, viewer or admin. A client gets records of its own key"
    " alone."
)
_MATCH: JsonObject = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "description": 'The `ETag` of the key as it was read last: its `generation` in quotes, as `"7"`.',
    "schema": {"type": "string", "pattern": '^"[0-9]+"$'},
}
_LAST_EVENT: JsonObject = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last event that was received, to go on behind it.",
    "schema": {"type": "string"},
}


class OpenApiDocument(Struct, frozen=True, kw_only=True):
    """An OpenAPI document: the version of OpenAPI, and its members by that version."""

    openapi: str


def openapi_document(endpoints: Sequence[AdminEndpoint]) -> JsonObject:
    paths: dict[str, JsonObject] = {}
    for each in endpoints:
        paths.setdefault(PREFIX + each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Dragoman admin API",
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "the gateway that this document comes from"}],
        "security": [{"bearer": []}, {"header": []}],
        "paths": {**paths},
        "components": {
            "schemas": {**schemas_of(endpoints)},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def schemas_of(endpoints: Iterable[AdminEndpoint]) -> dict[str, JsonObject]:
    """The JSON Schemas of bodies and results, with nested ones, by name."""
    kinds = [kind for each in endpoints for kind in (each.body, each.result) if kind is not None]
    return dict(sorted(_components([*kinds, ErrorBody]).items()))


def parameters_of(kind: type[Struct]) -> list[JsonObject]:
    """The query parameters of an endpoint in OpenAPI form."""
    schema = _components([kind])[kind.__name__]
    properties, required = schema["properties"], schema["required"]
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(each)}
        for name, each in properties.items()
        if isinstance(each, dict)
    ]


def _components(kinds: Iterable[type[Struct]]) -> dict[str, JsonObject]:
    components: dict[str, JsonObject] = msgspec.json.schema_components(kinds, ref_template=_REF)[1]
    # The title is the schema's name, and the docstring has line breaks.
    return {
        name: {
            member: " ".join(value.split()) if member == "description" and isinstance(value, str) else value
            for member, value in schema.items()
            if member != "title"
        }
        for name, schema in components.items()
    }


def _without_null(schema: JsonObject) -> JsonObject:
    """The schema of a parameter, which is absent rather than null."""
    kinds = schema.get("anyOf")
    if not isinstance(kinds, list):
        return schema
    given = [kind for kind in kinds if isinstance(kind, dict) and kind.get("type") != "null"]
    return given[0] if len(given) == 1 else {"anyOf": [*given]}


def description_of(kind: type[Struct]) -> str:
    """The docstring of a struct on one line."""
    return " ".join((kind.__doc__ or "").split())


def _operation(each: AdminEndpoint) -> JsonObject:
    parameters: list[JsonValue] = [
        *(_path_parameter(part[1:-1]) for part in each.path.split("/") if part.startswith("{")),
        *parameters_of(each.parameters),
        *([_MATCH] if each.needs_match else []),
        *([_LAST_EVENT] if each.result is None else []),
    ]
    operation: JsonObject = {
        "operationId": each.name,
        "tags": [each.path.split("/")[1].partition(".")[0]],
        "summary": each.summary,
        "description": " ".join(filter(None, [f"Needs the role {each.role}.", _parameters_described(each)])),
        "x-role": each.role,
        "responses": _responses(each),
    }
    if parameters:
        operation["parameters"] = parameters
    if each.body is not None:
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": _reference(each.body)}}}
    return operation


def _path_parameter(name: str) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _parameters_described(each: AdminEndpoint) -> str:
    return "" if each.parameters is Nothing else description_of(each.parameters)


def _responses(each: AdminEndpoint) -> JsonObject:
    content: JsonObject
    if each.result is None:
        content = {_EVENTS: {"schema": {"type": "string"}}}
    else:
        content = {_JSON: {"schema": _reference(each.result)}}
    kinds = ", ".join(f"{status} {name}" for status, name in ERROR_TYPES.items())
    return {
        str(each.status): {"description": each.summary, "content": content},
        "default": {
            "description": f"An error, whose type follows from the status: {kinds}.",
            "content": {_JSON: {"schema": _reference(ErrorBody)}},
        },
    }


def _reference(kind: type[Struct]) -> JsonObject:
    return {"$ref": _REF.format(name=kind.__name__)}
