"""JSON values: numbers keep their spelling, objects keep their order."""

from __future__ import annotations

from typing import TypeAlias, Union

from msgspec import Raw


class Number:
    """A JSON number that is not a plain integer, in its original spelling."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __float__(self) -> float:
        return float(self.text)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Number):
            return self.text == other.text
        return isinstance(other, int | float) and float(self.text) == other

    def __hash__(self) -> int:
        return hash(float(self.text))

    def __repr__(self) -> str:
        return f"Number({self.text})"


# `Raw` is validated JSON text that is written unchanged.
JsonValue: TypeAlias = Union[bool, int, float, str, Number, Raw, "list[JsonValue]", "dict[str, JsonValue]", None]
JsonObject: TypeAlias = dict[str, JsonValue]
JsonList: TypeAlias = list[JsonValue]


def present(members: JsonObject) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}
