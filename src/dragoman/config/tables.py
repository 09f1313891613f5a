"""Tables: reading a TOML table key by key, so that every problem is found at once, with its line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from dragoman.config.nearest_name import nearest
from dragoman.config.renamed_keys import new_name, new_value
from dragoman.config.settings import Missing
from dragoman.config.toml_lines import KeyPath, Lines, dotted
from dragoman.config.values import ValueType, type_name
from dragoman.errors import ConfigError, ConfigErrors

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


class Problems:
    """The collected problems of one file."""

    def __init__(self, file: str, lines: Lines | None = None) -> None:
        self._file = file
        self._lines = lines
        self._errors: list[ConfigError] = []

    def add(self, path: KeyPath, problem: str, remedy: str) -> None:
        error = ConfigError(key=dotted(path), problem=problem, remedy=remedy, file=self._file, line=self.line_of(path))
        self._errors.append(error)

    def line_of(self, path: KeyPath) -> int:
        """The line that a key is on; 0 if there is none."""
        return 0 if self._lines is None else self._lines.of(path)

    def add_missing(self, missing: Iterable[Missing]) -> None:
        """Add missing items if there are problems, to report all at once, unless the value has a problem."""
        reported_keys = self.keys()
        if reported_keys:
            self._errors += [each.as_error(self._file) for each in missing if each.key not in reported_keys]

    def keys(self) -> frozenset[str]:
        """The keys that something is wrong with so far."""
        return frozenset(error.key for error in self._errors)

    def raise_if_any(self) -> None:
        """Raise everything that was found, in the order of the file."""
        if self._errors:
            raise ConfigErrors(sorted(self._errors, key=lambda error: error.line))


class ConfigTable:
    """One table with its location. Keys that were never read are unknown keys."""

    def __init__(self, values: Mapping[str, object], path: KeyPath, problems: Problems) -> None:
        self.values = values
        self.path = path
        self.problems = problems

    def has(self, name: str) -> bool:
        """Whether the key is written down."""
        return name in self.values

    def complain(self, name: str, problem: str, remedy: str) -> None:
        """Note a problem with one member."""
        self.problems.add((*self.path, name), problem, remedy)

    def take(self, name: str, kind: ValueType[T]) -> T | None:
        """A member's value; None if it is left out or cannot be used, which is noted."""
        if name not in self.values:
            return None
        value = self.values[name]
        try:
            return kind.read(value)
        except ConfigError as error:
            renamed = new_value((*self.path, name), value)
            if renamed is not None:
                self.complain(name, f'"{value}" was renamed to "{renamed}"', f'write {name} = "{renamed}"')
            else:
                self.complain(name, error.problem, error.remedy or f"example: {dotted((name,))} = {kind.example}")
            return None

    def table(self, name: str) -> ConfigTable:
        """A table within; an empty one if it is left out or something else, which is noted."""
        values = self.values.get(name, {})
        if not isinstance(values, dict):
            self.complain(
                name, f"expected a table, got {type_name(values)}", f"begin a line with [{dotted((*self.path, name))}]"
            )
            values = {}
        return ConfigTable(values, (*self.path, name), self.problems)

    def tables(self) -> dict[str, ConfigTable]:
        """Every member that is a table, by name; the others are noted."""
        tables = {name: self.table(name) for name in self.values}
        return {name: table for name, table in tables.items() if isinstance(self.values[name], dict)}

    def fill(self, struct: type[S], kinds: Mapping[str, ValueType[object]]) -> S:
        """A struct from the members that are there and usable; its own defaults for the others."""
        taken = {name: self.take(name, kind) for name, kind in kinds.items()}
        return struct(**{name: value for name, value in taken.items() if value is not None})

    def refuse_others(self, allowed: Iterable[str]) -> None:
        """Note every key that is not among the known ones, with the nearest that is."""
        names = tuple(allowed)
        for name in self.values:
            if name not in names:
                renamed = new_name(self.path, name)
                if renamed in names:
                    self._refuse_renamed(name, renamed)
                else:
                    self.complain(name, "is not a known key", did_you_mean(name, names))

    def _refuse_renamed(self, name: str, renamed: str) -> None:
        """Note a key that has another name now, and such keys in the array of tables that it may be."""
        value, path = self.values[name], (*self.path, renamed)
        tables = value if isinstance(value, list) and all(isinstance(each, dict) for each in value) else []
        value_now = new_value(path, value)
        remedy = f"write [[{dotted(path)}]]" if tables else f"write {renamed}"
        self.complain(name, f"was renamed to {renamed}", remedy if value_now is None else f'{remedy} = "{value_now}"')
        for position, table in enumerate(tables):
            for key in table:
                key_now = new_name(path, key)
                if key_now is not None:
                    at = (*self.path, name, position, key)
                    self.problems.add(at, f"was renamed to {key_now}", f"write {key_now}")


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """A remedy for a name that is not known."""
    names = tuple(choices)
    close = nearest(name, names)
    return f"did you mean {dotted((close,))}?" if close else f"known are {', '.join(names)}"
