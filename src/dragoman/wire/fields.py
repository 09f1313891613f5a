"""Typed reader of a JSON object that records which members were read. A member of the wrong type raises `WireError`
with its location. Null counts as absent (mapping.md §3, "Null"), except for `raw`. Unread members become `Extras`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue, Number
from dragoman.model.parts import Extras
from dragoman.wire.json import kind_of

# The position of a reader: its parent's path and its own step. It is rendered only for an error.
Path: TypeAlias = "tuple[Path, str | int] | None"

ROOT: Path = None


def render_path(path: Path) -> str:
    """Format a path as a JSON pointer: `/messages/2/content`."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(str(step).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{step}" for step in reversed(steps))


class Fields(Struct, eq=False):
    value: JsonObject
    path: Path = ROOT
    _read: list[str] = []

    def fail(self, key: str | int | None, expected: str, actual: JsonValue) -> WireError:
        """Make the error for a member. `actual` is the value; a string is used as it is."""
        path = self.path if key is None else (self.path, key)
        return WireError(render_path(path), expected, kind_of(actual))

    def wrong(self, key: str | None, expected: str, actual: str) -> WireError:
        """Make the error for a member with the right type and an invalid value."""
        path = self.path if key is None else (self.path, key)
        return WireError(render_path(path), expected, actual)

    def optional_text(self, key: str) -> str | None:
        value = self.value.get(key)
        if value is None:
            return None
        if type(value) is str:
            self._read.append(key)
            return value
        raise self.fail(key, "string", value)

    def text(self, key: str) -> str:
        value = self.value.get(key)
        if type(value) is str:
            self._read.append(key)
            return value
        raise self._missing(key, "string", value)

    def name(self, key: str) -> str:
        """Return a required non-empty string."""
        value = self.text(key)
        if value:
            return value
        raise self.wrong(key, "a name", "an empty string")

    def kind(self) -> str | None:
        """Return `type`, or None if it is absent, null or empty."""
        value = self.value.get("type")
        if type(value) is str and value:
            self._read.append("type")
            return value
        return self.name("type") if "type" in self.value else None

    def optional_cap(self, key: str, least: int = 1) -> int | None:
        given = self.value.get(key)
        if type(given) is int and given >= least:
            self._read.append(key)
            return given
        value = self.optional_integer(key)
        if value is not None and value < least:
            raise self.wrong(key, f"at least {least}", str(value))
        return value

    def demand(self, *keys: str) -> None:
        """Reject null in members that are optional but not nullable."""
        members = self.value
        for key in keys:
            if members.get(key, key) is None:
                raise self.fail(key, "a value", None)

    def optional_flag(self, key: str) -> bool | None:
        value = self.value.get(key)
        if value is None:
            return None
        if type(value) is bool:
            self._read.append(key)
            return value
        raise self.fail(key, "boolean", value)

    def optional_integer(self, key: str) -> int | None:
        value = self.value.get(key)
        if value is None:
            return None
        self._read.append(key)
        if type(value) is int:
            return value
        whole = _as_integer(value)
        if whole is not None:
            return whole
        raise self.fail(key, "integer", value)

    def optional_number(self, key: str) -> int | float | Number | None:
        """Return a number in its original spelling, or None."""
        value = self.value.get(key)
        if value is None:
            return None
        if type(value) is int or type(value) is float or type(value) is Number:
            self._read.append(key)
            return value
        raise self.fail(key, "number", value)

    def optional_object(self, key: str) -> JsonObject | None:
        value = self.value.get(key)
        if value is None:
            return None
        if type(value) is dict:
            self._read.append(key)
            return value
        raise self.fail(key, "object", value)

    def object(self, key: str) -> JsonObject:
        value = self.value.get(key)
        if type(value) is dict:
            self._read.append(key)
            return value
        raise self._missing(key, "object", value)

    def optional_list(self, key: str) -> JsonList | None:
        value = self.value.get(key)
        if value is None:
            return None
        if type(value) is list:
            self._read.append(key)
            return value
        raise self.fail(key, "array", value)

    def raw(self, key: str) -> JsonValue:
        """Return any value, null included; None if it is absent."""
        self._read.append(key)
        return self.value.get(key)

    def optional_fields(self, key: str) -> Fields | None:
        value = self.optional_object(key)
        return None if value is None else Fields(value, (self.path, key))

    def fields(self, key: str) -> Fields:
        return Fields(self.object(key), (self.path, key))

    def each(self, key: str) -> Sequence[Fields]:
        """Return a reader for every object of an array; nothing if the array is absent."""
        values = self.optional_list(key)
        if not values:
            return ()
        path = (self.path, key)
        readers: list[Fields] = []
        for index, value in enumerate(values):
            if type(value) is not dict:
                raise WireError(render_path((path, index)), "object", kind_of(value))
            readers.append(Fields(value, (path, index)))
        return readers

    def texts(self, key: str) -> tuple[str, ...]:
        """Return an array of strings; empty if it is absent."""
        values = self.optional_list(key)
        if not values:
            return ()
        strings: list[str] = []
        for index, value in enumerate(values):
            if type(value) is not str:
                raise WireError(render_path(((self.path, key), index)), "string", kind_of(value))
            strings.append(value)
        return tuple(strings)

    def choice(self, key: str, allowed: tuple[str, ...]) -> str | None:
        """Return a string of a closed set, or None."""
        value = self.optional_text(key)
        if value is not None and value not in allowed:
            raise self.wrong(key, " or ".join(repr(word) for word in allowed), repr(value))
        return value

    def skip(self, *keys: str) -> None:
        self._read.extend(keys)

    def rest(self, origin: str) -> Extras | None:
        """Return unread members, to be sent back only to their origin. Null counts as read."""
        read = frozenset(self._read)
        # Nearly always all members were read. This check needs no set of their names.
        if read.issuperset(self.value):
            return None
        unread = self.value.keys() - read
        if len(unread) == len(self.value):
            return Extras(origin=origin, fields=dict(self.value))
        return Extras(origin=origin, fields={key: member for key, member in self.value.items() if key in unread})

    def _missing(self, key: str, expected: str, value: JsonValue) -> WireError:
        if key not in self.value:
            return WireError(render_path((self.path, key)), expected, "nothing")
        return self.fail(key, expected, value)


def _as_integer(value: JsonValue) -> int | None:
    if isinstance(value, float | Number):
        try:
            number = float(value)
        except (OverflowError, ValueError):
            return None
        if number.is_integer() and abs(number) < 2**53:
            return int(number)
    return None
