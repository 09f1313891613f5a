"""Writes docs/admin-api.md: what the admin API takes and sends, from its table of endpoints.

python tools/admin_api_page.py          writes the page
python tools/admin_api_page.py --check  exits with status 1 if the page is not what it would write
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec.inspect as inspected
from msgspec import NODEFAULT, Struct

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from dragoman.gateway.admin.endpoints import ENDPOINTS  # noqa: E402 - the paths above come first
from dragoman.gateway.admin.framework import (  # noqa: E402 - the paths above come first
    ERROR_TYPES,
    PREFIX,
    AdminEndpoint,
    ErrorBody,
    Nothing,
)
from dragoman.gateway.admin.openapi import (  # noqa: E402 - the paths above come first
    description_of,
    parameters_of,
    schemas_of,
)
from dragoman.model.jsonvalue import JsonObject, JsonValue  # noqa: E402 - the paths above come first
from dragoman.wire.json import encode_text  # noqa: E402 - the paths above come first
from tools.configuration_page import comments_of  # noqa: E402 - the paths above come first
from tools.writing import write_or_check  # noqa: E402 - the paths above come first

PAGE = ROOT / "docs/admin-api.md"
_REF = "#/components/schemas/"

HEAD = """# Admin API

Read records, status and permissions of a gateway over HTTP, and manage its keys. This command reads the usage of the
last week in groups:

```sh
curl -s 'http://127.0.0.1:8484/admin/v1/usage?by=model&since=7d' -H "Authorization: Bearer $DRAGOMAN_KEY"
```

If a gateway requires no keys, clients on its machine can read everything and change nothing.

`make docs` generates this page from the table of endpoints. `/admin/v1/openapi.json` is the same as
an OpenAPI 3.1 document, for client generators.

## Requests and responses

- **Key.** Send the text of a key as `Authorization: Bearer` or as `x-api-key`. Each endpoint names the least role that
  may use it. A key with the role `client` gets only its own records, and below `/admin/v1/me` each key does.
- **Parameters.** Unknown parameters of a query, and unknown members of a body, are rejected.
- **Pages.** A list ends with `next`. Send its value as the parameter that the endpoint names to get the next page.
  `null` marks the last page.
- **Contents.** No response has contents of requests and responses. Only the response that creates a
  key contains its text.
- **Browsers.** Web pages of other origins cannot read responses, because there are no CORS headers.

An error is a JSON object with a type, a message and a remedy. The type follows from the status:

| Status | Type |
| --- | --- |
"""

CHANGES = """
## Change a key

A change needs the header `If-Match` with the `ETag` of the key, which is its `generation` in quotes. Without the header
the status is 428. If the key was changed meanwhile, it is 412: read the key again. These commands make a key and read
it with its `ETag`:

```sh
curl -s http://127.0.0.1:8484/admin/v1/keys -H "Authorization: Bearer $DRAGOMAN_KEY" \\
    -d '{"name":"ann","models":["claude-*"],"tags":{"team":"web"}}'
curl -si http://127.0.0.1:8484/admin/v1/keys/ann -H "Authorization: Bearer $DRAGOMAN_KEY"
```

A member that is `null` is removed, and an absent member stays as it is. This command removes the list of models, if
the `ETag` was `"2"`:

```sh
curl -s -X PATCH http://127.0.0.1:8484/admin/v1/keys/ann -H "Authorization: Bearer $DRAGOMAN_KEY" \\
    -H 'If-Match: "2"' -d '{"models":null}'
```

The rights of a key before and after a change must be covered by the rights of the key that makes the change: its role,
its lists, its tags, its end, `concurrency` and `strict`. Keys of the configuration file are shown, and changed there
alone. The first administrator's key is made on the gateway's machine.

If an entry of a list matches no name of the configuration, the response has the header `x-dragoman-warnings`: a JSON
array of sentences.

If the response with a new text was lost, read the key and rotate it again. That replaces the lost text, and the former
text keeps its end.

## Endpoints

| Endpoint | Role | Does |
| --- | --- | --- |
"""

TYPES = """
## Types
"""


def page() -> str:
    """The whole page."""
    parts = [
        HEAD,
        *(f"| {status} | `{name}` |\n" for status, name in ERROR_TYPES.items()),
        CHANGES,
        *(f"| [`{_title(each)}`](#{_anchor(_title(each))}) | {each.role} | {each.summary} |\n" for each in ENDPOINTS),
        *(_endpoint(each) for each in ENDPOINTS),
        TYPES,
    ]
    schemas = schemas_of(ENDPOINTS)
    kinds = {kind.__name__: kind for kind in structs()}
    return "".join([*parts, *(_type(kind, schemas[name]) for name, kind in kinds.items())])


def structs() -> Iterator[type[Struct]]:
    """The structs of bodies and results and what they contain, each once, in the order of the endpoints."""
    seen: set[type[Struct]] = set()
    for kind in [kind for each in ENDPOINTS for kind in (each.body, each.result) if kind is not None] + [ErrorBody]:
        yield from _contained(inspected.type_info(kind), seen)


def _contained(kind: inspected.Type, seen: set[type[Struct]]) -> Iterator[type[Struct]]:
    match kind:
        case inspected.StructType():
            if kind.cls not in seen:
                seen.add(kind.cls)
                yield kind.cls
                for field in kind.fields:
                    yield from _contained(field.type, seen)
        case inspected.UnionType():
            for each in kind.types:
                yield from _contained(each, seen)
        case inspected.ListType() | inspected.VarTupleType():
            yield from _contained(kind.item_type, seen)
        case inspected.DictType():
            yield from _contained(kind.value_type, seen)
        case inspected.Metadata():
            yield from _contained(kind.type, seen)
        case _:
            pass


def _title(each: AdminEndpoint) -> str:
    return f"{each.method} {PREFIX}{each.path}"


def _anchor(heading: str) -> str:
    return "".join(char for char in heading.lower() if char.isalnum() or char in "-_ ").replace(" ", "-")


def _endpoint(each: AdminEndpoint) -> str:
    lines = [f"\n### {_title(each)}\n"]
    summary = each.summary[:1].upper() + each.summary[1:]
    lines.append(f"{summary}. Role: `{each.role}`.{' Needs `If-Match`.' if each.needs_match else ''}")
    first = next(other for other in ENDPOINTS if other.parameters is each.parameters)
    if each.parameters is not Nothing and first is not each:
        lines.append(f"It has the parameters of [`{_title(first)}`](#{_anchor(_title(first))}).")
    elif each.parameters is not Nothing:
        lines.append(description_of(each.parameters))
        parameters = parameters_of(each.parameters)
        if parameters:
            lines.append("\n| Parameter | Type | Default |\n| --- | --- | --- |")
        for parameter in parameters:
            schema = parameter["schema"]
            assert isinstance(schema, dict)
            default = "required" if parameter["required"] else _default(schema)
            lines.append(f"| `{parameter['name']!s}` | {_words(schema)} | {default} |")
    lines.append("")
    if each.body is not None:
        lines.append(f"Body: {_link(each.body.__name__)}.")
    if each.result is None:
        lines.append(f"Response: {each.status}, server-sent events. `Last-Event-ID` goes on behind an event.")
    else:
        lines.append(f"Response: {each.status}, {_link(each.result.__name__)}.")
    return "\n".join(lines) + "\n"


def _type(kind: type[Struct], schema: JsonObject) -> str:
    properties = schema["properties"]
    assert isinstance(properties, dict)
    described = inspected.type_info(kind)
    assert isinstance(described, inspected.StructType)
    is_body = described.forbid_unknown_fields
    presence = {field.encode_name: _presence(field, is_body=is_body) for field in described.fields}
    comments = {name: text for base in reversed(kind.__mro__) for name, text in _comments(base).items()}
    has_comments = any(comments.values())
    lines = [f"\n### {kind.__name__}\n", description_of(kind), ""]
    lines += ["| Member | Type |" + " Meaning |" * has_comments, "| --- | --- |" + " --- |" * has_comments]
    for name, each in properties.items():
        assert isinstance(each, dict)
        meaning = f" {comments.get(name) or '–'} |" if has_comments else ""
        lines.append(f"| `{name}` | {_words(each)}{presence[name]} |{meaning}")
    return "\n".join(lines) + "\n"


def _presence(field: inspected.Field, *, is_body: bool) -> str:
    """Whether a member must be sent, and whether it is always there."""
    can_be_absent = not field.required and field.default is NODEFAULT and field.default_factory is NODEFAULT
    if not is_body:
        return ", may be absent" if can_be_absent else ""
    if field.required:
        return ", required"
    return "" if can_be_absent else f", `{field.default:g}` if absent"


def _comments(kind: type) -> dict[str, str]:
    if not issubclass(kind, Struct) or kind is Struct:
        return {}
    return {name: text.replace("|", "\\|") for name, text in comments_of(kind).items()}


def _link(name: str) -> str:
    return f"[`{name}`](#{name.lower()})"


def _default(schema: JsonObject) -> str:
    default = schema.get("default")
    return "–" if default in (None, "") else f"`{default if isinstance(default, str) else encode_text(default)}`"


def _words(schema: JsonObject) -> str:
    """The type of a member in words."""
    match schema:
        case {"$ref": str() as address}:
            return _link(address.removeprefix(_REF))
        case {"anyOf": list() as kinds}:
            return " or ".join(_words(kind) for kind in kinds if isinstance(kind, dict))
        case {"enum": list() as values}:
            return " or ".join(f"`{encode_text(value)}`" for value in values)
        case {"type": "array", "items": dict() as items}:
            return f"array of {_words(items)}"
        case {"type": "object", "additionalProperties": dict() as values}:
            return f"object of {_words(values)}"
        case {"type": "string", "format": "date-time"}:
            return "string, an RFC 3339 time with its offset"
        case {"type": "null"}:
            return "`null`"
        case {"type": str() as name}:
            return name + _range(schema)
    return "any value"


def _range(schema: JsonObject) -> str:
    least: JsonValue = schema.get("minimum")
    most: JsonValue = schema.get("maximum")
    if least is None:
        return ""
    return f" from {_number(least)}" + ("" if most is None or most == (1 << 63) - 1 else f" to {_number(most)}")


def _number(value: JsonValue) -> str:
    assert isinstance(value, int | float)
    return f"{value:.0f}"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page()))
