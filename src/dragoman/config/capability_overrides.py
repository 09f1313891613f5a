"""Capability overrides: `[[providers.NAME.capabilities]]`, the operator's overrides of capabilities."""

from __future__ import annotations

from dragoman.config import file_schema
from dragoman.config.file_schema import CapabilityTable
from dragoman.config.tables import ConfigTable
from dragoman.config.values import quoted, type_name
from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonValue
from dragoman.rules.capabilities import Capabilities, CapabilityRow, capabilities_of

# Capabilities whose type allows more than their rule.
CHOICES = {"echo_thinking": ("calls", "turns", "all", "none"), "call_ids": ("standard", "mistral", "any")}


def read_capability_rows(provider: ConfigTable) -> tuple[CapabilityRow, ...]:
    """The capability rows of one provider's table. Unusable rows are reported."""
    tables = provider.values.get("capabilities", [])
    if not isinstance(tables, list):
        provider.complain(
            "capabilities", f"expected an array of tables, got {type_name(tables)}", "write [[…]] around its name"
        )
        return ()
    rows = []
    for position, values in enumerate(tables):
        path = (*provider.path, "capabilities", position)
        if not isinstance(values, dict):
            provider.problems.add(path, f"expected a table, got {type_name(values)}", "write [[…]] around its name")
            continue
        row = _read_row(ConfigTable(values, path, provider.problems))
        if row is not None:
            rows.append(row)
    return tuple(rows)


def _read_row(table: ConfigTable) -> CapabilityRow | None:
    table.refuse_others(file_schema.CAPABILITY)
    entry = table.fill(CapabilityTable, file_schema.CAPABILITY)
    for name in ("protocol", "set"):
        if not table.has(name):
            table.complain(name, "is missing", f"example: {name} = {file_schema.CAPABILITY[name].example}")
    if entry.protocol is None or entry.set is None:
        return None
    changes = table.table("set")
    changes.refuse_others(Capabilities.__struct_fields__)
    for name, value in entry.set.items():
        if name in Capabilities.__struct_fields__:
            _check(changes, name, value, entry.protocol)
    return CapabilityRow(protocol=entry.protocol, model=entry.model.lower(), changes=entry.set)


def _check(table: ConfigTable, name: str, value: JsonValue, protocol: str) -> None:
    """Report a capability whose value violates its rule."""
    choices = CHOICES.get(name)
    if choices is not None:
        if value not in choices:
            got = quoted(value) if isinstance(value, str) else type_name(value)
            table.complain(
                name, f"expected one of {', '.join(choices)}, got {got}", f'example: {name} = "{choices[0]}"'
            )
        return
    try:
        capabilities_of(protocol, "", rows=(CapabilityRow(protocol=protocol, changes={name: value}),))
    except DragomanError:
        remedy = "see the capabilities in docs/configuration.md"
        table.complain(name, f"expected {expected_of(name)}, got {type_name(value)}", remedy)


def expected_of(capability: str) -> str:
    """The type of a capability, as TOML calls it."""
    choices = CHOICES.get(capability)
    return f"one of {', '.join(choices)}" if choices else _TYPE_NAMES[Capabilities.__annotations__[capability]]


_TYPE_NAMES = {
    "bool": "a boolean",
    "bool | None": "a boolean",
    "int | None": "an integer",
    "str": "a string",
    "tuple[str, ...]": "an array of strings",
    "tuple[str, ...] | None": "an array of strings",
}
