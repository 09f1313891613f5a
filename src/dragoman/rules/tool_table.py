"""ToolTable: the one mapping between tools as the client declared them and as the provider is told (N1, §7).

It is made for a request, used for definitions, history, choices and references, and turned round on every call that
comes back, so that no place can forget it.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from dragoman.model.parts import InputForm
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.rules.tool_names import flatten, wire_name, wire_name_taken

# Members of enumerations by name cost a look-up each time.
_TEXT, _JSON = InputForm.TEXT, InputForm.JSON


class Wrapped(Enum):
    """What the arguments are wrapped in on the wire: nothing, `{"input": text}` or `{"value": json}` (S16)."""

    NOT = "not"
    INPUT = "input"
    VALUE = "value"


class ToolEntry(Struct, frozen=True, kw_only=True):
    """One client tool: its name on the wire, and how the client knows it."""

    wire: str
    name: str
    namespace: str | None
    wrapped: Wrapped
    form: InputForm
    spec: FunctionTool | TextTool


class ToolTable:
    """The client's tools by both their names."""

    __slots__ = ("_by_bare_name", "_by_name", "_by_wire")

    def __init__(self) -> None:
        # None for a name that several groups have.
        self._by_bare_name: dict[str, ToolEntry | None] = {}
        self._by_wire: dict[str, ToolEntry] = {}
        self._by_name: dict[tuple[str | None, str], ToolEntry] = {}

    def add(self, spec: FunctionTool | TextTool, wrapped: Wrapped = Wrapped.NOT) -> ToolEntry:
        """Give a tool its name on the wire; a tool declared twice keeps its first one."""
        name = spec.name
        namespace = spec.namespace.name if spec.namespace is not None else None
        key = (namespace, name)
        existing = self._by_name.get(key)
        if existing is not None:
            return existing
        full = name if namespace is None else flatten(namespace, name)
        wire = wire_name(full)
        attempt = full
        while wire in self._by_wire:
            # The next form may be somebody's literal name too: names stay distinct whatever was declared.
            wire = wire_name_taken(attempt)
            attempt += "_"
        form = _TEXT if type(spec) is TextTool else _JSON
        entry = ToolEntry(wire=wire, name=name, namespace=namespace, wrapped=wrapped, form=form, spec=spec)
        self._by_wire[wire] = entry
        self._by_name[key] = entry
        self._by_bare_name[name] = None if name in self._by_bare_name else entry
        return entry

    def entry(self, name: str, namespace: str | None = None) -> ToolEntry | None:
        """The tool the client knows by this name; a bare name finds a grouped tool if only one has it."""
        exact = self._by_name.get((namespace, name))
        return self._by_bare_name.get(name) if exact is None and namespace is None else exact

    def wire(self, name: str, namespace: str | None = None) -> str:
        """The name the provider knows; undeclared names go through the same function."""
        entry = self._by_name.get((namespace, name))
        return entry.wire if entry is not None else wire_name(flatten(namespace, name))

    def restored(self, wire: str) -> ToolEntry | None:
        """The tool a provider's call names, or None if none was declared under it."""
        return self._by_wire.get(wire)

    def __contains__(self, wire: str) -> bool:
        return wire in self._by_wire

    def __len__(self) -> int:
        return len(self._by_wire)
