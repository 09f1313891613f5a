"""Rows: `[[providers.NAME.capabilities]]`, what an operator knows better about what models take."""

from __future__ import annotations

from dragoman.config import file_schema
from dragoman.config.file_schema import CapabilityTable
from dragoman.config.tables import ConfigTable
from dragoman.config.values import type_name
from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonValue
from dragoman.rules.capabilities import Capabilities, CapabilityRow, capabilities_of

# Abilities whose type says less than their rule.
CHOICES = {"echo_thinking": ("calls", "turns", "all", "none"), "call_ids": ("standard", "mistral", "any")}


def read_capability_rows(provider: ConfigTable) -> tuple[CapabilityRow, ...]:
    """The rows of one provider's table; those that cannot be used are noted."""
    tables = provider.values.get("capabilities", [])
    if not isinstance(tables, list):
        provider.complain(
            "capabilities", f"expected a list of tables, found {type_name(tables)}", "write [[…]] around its name"
        )
        return ()
    rows = []
    for position, values in enumerate(tables):
        path = (*provider.path, "capabilities", position)
        if not isinstance(values, dict):
            provider.problems.add(path, f"expected a table, found {type_name(values)}", "write [[…]] around its name")
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
            table.complain(name, "is missing", f"for example {name} = {file_schema.CAPABILITY[name].example}")
    if entry.protocol is None or entry.set is None:
        return None
    changes = table.table("set")
    changes.refuse_others(Capabilities.__struct_fields__)
    for name, value in entry.set.items():
        if name in Capabilities.__struct_fields__:
            _check(changes, name, value, entry.protocol)
    return CapabilityRow(protocol=entry.protocol, model=entry.model.lower(), changes=entry.set)


def _check(table: ConfigTable, name: str, value: JsonValue, protocol: str) -> None:
    """Note an ability whose value is not what the rules want."""
    choices = CHOICES.get(name)
    if choices is not None:
        if value not in choices:
            table.complain(name, f"expected one of {', '.join(choices)}, found another", f'write "{choices[0]}"')
        return
    try:
        capabilities_of(protocol, "", rows=(CapabilityRow(protocol=protocol, changes={name: value}),))
    except DragomanError:
        remedy = "docs/configuration.md lists the abilities"
        table.complain(name, f"expected {expected_of(name)}, found {type_name(value)}", remedy)


def expected_of(capability: str) -> str:
    """The type of an ability in plain words."""
    choices = CHOICES.get(capability)
    return f"one of {', '.join(choices)}" if choices else _TYPE_NAMES[Capabilities.__annotations__[capability]]


_TYPE_NAMES = {
    "bool": "true or false",
    "bool | None": "true or false",
    "int | None": "a whole number",
    "str": "a text",
    "tuple[str, ...]": "a list of texts",
    "tuple[str, ...] | None": "a list of texts",
}
