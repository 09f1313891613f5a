"""The one table of tool names: N1 and the namespace row of mapping.md §7."""

from __future__ import annotations

import pytest

from dragoman.model.parts import InputForm
from dragoman.model.tools import FunctionTool, Namespace, TextTool
from dragoman.rules.tool_table import ToolTable, Wrapped


def tool(name: str, namespace: str | None = None) -> FunctionTool:
    return FunctionTool(name=name, namespace=Namespace(name=namespace) if namespace else None)


def test_pitfall_045_one_table_serves_both_ways() -> None:
    table = ToolTable()
    entry = table.add(tool("mcp.server/tool"))
    assert entry.wire == "mcp_server_tool_9ab4336b"
    assert table.wire("mcp.server/tool") == entry.wire
    back = table.restored(entry.wire)
    assert back is not None
    assert back.name == "mcp.server/tool"


def test_pitfall_157_equal_names_in_two_namespaces_survive() -> None:
    table = ToolTable()
    first, second = table.add(tool("find", "crm")), table.add(tool("find", "wiki"))
    assert (first.wire, second.wire) == ("crm__find", "wiki__find")
    restored = [table.restored(wire) for wire in ("crm__find", "wiki__find")]
    assert [(entry.namespace, entry.name) for entry in restored if entry] == [("crm", "find"), ("wiki", "find")]


def test_a_flattened_name_that_is_taken_is_hashed() -> None:
    table = ToolTable()
    plain, grouped = table.add(tool("crm__find")), table.add(tool("find", "crm"))
    assert plain.wire == "crm__find"
    assert grouped.wire != plain.wire
    back = table.restored(grouped.wire)
    assert back is not None
    assert (back.namespace, back.name) == ("crm", "find")


@pytest.mark.parametrize("name", ["undeclared", "un declared"])
def test_undeclared_names_go_through_the_same_function(name: str) -> None:
    declared, empty = ToolTable(), ToolTable()
    wire = declared.add(tool(name)).wire
    assert empty.wire(name) == wire
    assert empty.restored(wire) is None


def test_a_free_text_tool_keeps_its_form() -> None:
    table = ToolTable()
    entry = table.add(TextTool(name="apply_patch"), Wrapped.INPUT)
    assert entry.form is InputForm.TEXT
    assert table.entry("apply_patch") is entry


def test_a_bare_name_finds_a_grouped_tool_only_if_it_is_the_only_one() -> None:
    table = ToolTable()
    table.add(tool("find", "crm"))
    assert table.entry("find") is not None
    table.add(tool("find", "wiki"))
    assert table.entry("find") is None


def test_names_stay_distinct_whatever_was_declared() -> None:
    table = ToolTable()
    names = ["a_b_c8687a08", "a_b_c8687a08aa5d", "a b"]
    wires = [table.add(tool(name)).wire for name in names]
    assert len(set(wires)) == 3
    assert [entry.name for wire in wires if (entry := table.restored(wire))] == names
