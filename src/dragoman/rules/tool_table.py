"""Tool table: maps the client's tools to the provider's (N1, §7). It is built per request and serves definitions,
history, tool choices and references, and the calls that return. Wire names are deterministic: a name that any protocol
would reject gets a readable, hashed replacement, the same in history and definition."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from hashlib import sha256

from msgspec import Struct

from dragoman.model.features import Feature
from dragoman.model.losses import Ledger
from dragoman.model.parts import InputForm
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.rules.input_wrapping import InputUnwrapper, ValueUnwrapper

_conforms = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch
_replace_others = re.compile(r"[^a-zA-Z0-9_-]").sub


def wire_name(name: str) -> str:
    """The wire name of a tool, unchanged if it is valid."""
    return name if _conforms(name) else _hashed(name, 55, 8)


def wire_name_taken(name: str) -> str:
    """The wire name of a tool whose first choice another tool of the request has."""
    return _hashed(name, 51, 12)


def flatten(namespace: str | None, name: str) -> str:
    return f"{namespace}__{name}" if namespace else name


def _hashed(name: str, cut: int, digits: int) -> str:
    # Long names are not cached, so that many of them cannot fill the memory.
    return _remembered(name, cut, digits) if len(name) <= _REMEMBERED else _digested(name, cut, digits)


_REMEMBERED = 256


def _digested(name: str, cut: int, digits: int) -> str:
    # A lone surrogate has no UTF-8 form, but needs a stable name, too.
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_replace_others('_', name[:cut])}_{digest[:digits]}"


_remembered = lru_cache(maxsize=4096)(_digested)


# No client runs more calls, and data is stored per call, so a response with more fails. Chat frames that a relay
# forwards unread are not counted.
MAX_CALLS = 1024
TOO_MANY_CALLS = f"the provider's response has more than {MAX_CALLS} tool calls"


# Bound once: looking up an enum member is slow.
_TEXT, _JSON = InputForm.TEXT, InputForm.JSON


class Wrapped(Enum):
    """The wrapping of arguments on the wire: none, `{"input": text}` or `{"value": json}` (S16)."""

    NOT = "not"
    INPUT = "input"
    VALUE = "value"


class ToolEntry(Struct, frozen=True):
    """One client tool: its name on the wire and its names at the client."""

    wire: str
    name: str
    namespace: str | None
    wrapped: Wrapped
    form: InputForm
    spec: FunctionTool | TextTool


def unwrapper_for(entry: ToolEntry) -> InputUnwrapper | ValueUnwrapper | None:
    """The unwrapper for arguments of a function call, if its tool was declared with a wrapping."""
    if entry.wrapped is Wrapped.INPUT or entry.form is _TEXT:
        return InputUnwrapper()
    return ValueUnwrapper() if entry.wrapped is Wrapped.VALUE else None


def report_bent(index: int, ledger: Ledger) -> None:
    """Report a call whose arguments are not the one member that its tool was declared with (S16)."""
    ledger.approximated(Feature.ARGUMENTS, ("parts", index), "the call's arguments were not the object asked for")


class ToolTable(Struct, eq=False):
    _by_wire: dict[str, ToolEntry] = {}
    _by_name: dict[tuple[str | None, str], ToolEntry] = {}
    # None for a name that several groups have.
    _by_bare_name: dict[str, ToolEntry | None] = {}

    def add(self, spec: FunctionTool | TextTool, wrapped: Wrapped = Wrapped.NOT) -> ToolEntry:
        """Assign a tool its wire name. A tool declared twice keeps its first one."""
        name = spec.name
        namespace = None if spec.namespace is None else spec.namespace.name
        key = (namespace, name)
        if key in self._by_name:
            return self._by_name[key]
        full = name if namespace is None else flatten(namespace, name)
        wire = full if _conforms(full) else wire_name(full)
        attempt = full
        while wire in self._by_wire:
            # The next form may also be the name of a tool. Names stay distinct whatever was declared.
            wire = wire_name_taken(attempt)
            attempt += "_"
        form = _TEXT if type(spec) is TextTool else _JSON
        entry = ToolEntry(wire, name, namespace, wrapped, form, spec)
        self._by_wire[wire] = entry
        self._by_name[key] = entry
        self._by_bare_name[name] = None if name in self._by_bare_name else entry
        return entry

    def entry(self, name: str, namespace: str | None = None) -> ToolEntry | None:
        """The tool under this client name. A bare name finds a grouped tool if only one has it."""
        exact = self._by_name.get((namespace, name))
        return self._by_bare_name.get(name) if exact is None and namespace is None else exact

    def wire(self, name: str, namespace: str | None = None) -> str:
        """The wire name of a tool. Undeclared names go through the same function."""
        entry = self._by_name.get((namespace, name))
        return entry.wire if entry is not None else wire_name(flatten(namespace, name))

    def restored(self, wire: str) -> ToolEntry | None:
        """The tool that a provider's call names, or None if none was declared under it."""
        return self._by_wire.get(wire)

    @property
    def entries(self) -> tuple[ToolEntry, ...]:
        return tuple(self._by_wire.values())

    def __contains__(self, wire: str) -> bool:
        return wire in self._by_wire

    def __len__(self) -> int:
        return len(self._by_wire)
