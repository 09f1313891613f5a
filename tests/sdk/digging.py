"""Reaching into JSON that a test knows the shape of."""

from __future__ import annotations

Object = dict[str, object]


def dig(value: object, *steps: str | int) -> object:
    """The value at the end of a path of member names and positions; a path that does not exist fails the test."""
    for step in steps:
        if isinstance(step, str):
            assert isinstance(value, dict) and step in value, f"no member {step!r} in {value!r}"
            value = value[step]
        else:
            assert isinstance(value, list) and len(value) > step, f"no item {step} in {value!r}"
            value = value[step]
    return value


def dig_object(value: object, *steps: str | int) -> Object:
    """The object at the end of a path."""
    found = dig(value, *steps)
    assert isinstance(found, dict), f"no object: {found!r}"
    return found


def dig_objects(value: object, *steps: str | int) -> list[Object]:
    """The list of objects at the end of a path."""
    found = dig(value, *steps)
    assert isinstance(found, list) and all(isinstance(item, dict) for item in found), f"no objects: {found!r}"
    return found


def dig_text(value: object, *steps: str | int) -> str:
    """The text at the end of a path."""
    found = dig(value, *steps)
    assert isinstance(found, str), f"no text: {found!r}"
    return found
