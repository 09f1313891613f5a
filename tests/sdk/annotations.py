"""A strict reading of the SDKs' own types: does a JSON value have exactly the shape that an annotation describes?

The SDKs' TypedDicts (what a client may send) and pydantic models (what it understands) are walked member by member:
members the type does not know, members it demands and does not find, wrong literals and wrong JSON types are faults,
each with its path. Nothing is coerced.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import typing_extensions
from msgspec import Struct
from pydantic import BaseModel

UNKNOWN = "unknown member"
MISSING = "missing member"
WRONG = "wrong value"


class Fault(Struct, frozen=True):
    """One disagreement: where it is, which kind it is of, and what was expected."""

    path: str
    kind: str
    note: str = ""

    @property
    def place(self) -> str:
        """The path without positions, as tables name it."""
        return re.sub(r"\[\d+\]", "[]", self.path)

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}{f' ({self.note})' if self.note else ''}"


class Member(Struct, frozen=True):
    """One member of an object type."""

    annotation: object
    required: bool


def faults(annotation: object, value: object, path: str = "", models: bool = True) -> list[Fault]:
    """Everything that keeps a value from having the annotated shape.

    Without `models`, pydantic models inside the annotation are passed over: request types list them only so that a
    caller may hand a parsed object back, and what then goes over the wire is described by the TypedDicts beside them.
    """
    annotation, origin = _seen(annotation)
    if annotation is object or annotation is typing.Any:
        return []
    if origin is typing.Union or origin is types.UnionType:
        return _union_faults(annotation, value, path, models)
    if origin is typing.Literal:
        literals = typing.get_args(annotation)
        known = any(value == literal and type(value) is type(literal) for literal in literals)
        return [] if known else [_wrong(path, " | ".join(map(repr, literals)), value)]
    if _members(annotation) is not None:
        return _object_faults(annotation, value, path, models)
    if origin is dict or origin is Mapping:
        if not isinstance(value, dict):
            return [_wrong(path, "object", value)]
        inner = typing.get_args(annotation)[1]
        return [fault for name, item in value.items() for fault in faults(inner, item, _at(path, name), models)]
    if origin in (list, Iterable, Sequence):
        if not isinstance(value, list):
            return [_wrong(path, "array", value)]
        inner = typing.get_args(annotation)[0]
        return [fault for count, item in enumerate(value) for fault in faults(inner, item, f"{path}[{count}]", models)]
    return [] if _is_scalar(annotation, value) else [_wrong(path, _name(annotation), value)]


def _union_faults(annotation: object, value: object, path: str, models: bool) -> list[Fault]:
    """The faults against the branch that fits best: objects are told apart by their literal members first."""
    branches, objects = _branches(annotation, models)
    if isinstance(value, dict):
        meant = objects if len(objects) == 1 else tuple(one for one in objects if _is_meant(_bare(one), value))
        if objects and not meant and not any(_takes_any_object(branch) for branch in branches):
            told = {name: value[name] for name in ("type", "role", "object") if name in value}
            return [Fault(path, WRONG, f"no branch of the union is told by {told or sorted(value)}")]
        branches = meant + tuple(branch for branch in branches if branch not in objects)
    tried = [faults(branch, value, path, models) for branch in branches]
    if not tried:
        return [_wrong(path, _name(annotation), value)]
    # A branch of another JSON type explains nothing: prefer one whose faults lie inside the value.
    return min(tried, key=lambda found: (any(fault.path == path for fault in found), len(found)))


@cache
def _branches(annotation: object, models: bool) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """The branches of a union and of the unions in it; and those of them that are objects."""
    outer = [branch for branch in map(_bare, typing.get_args(annotation)) if models or not _is_model(branch)]
    branches = tuple(
        inner
        for branch in outer
        for inner in (typing.get_args(branch) if typing.get_origin(branch) is typing.Union else (branch,))
        if models or not _is_model(_bare(inner))
    )
    return branches, tuple(branch for branch in branches if _members(_bare(branch)) is not None)


def _is_meant(annotation: object, value: Mapping[str, object]) -> bool:
    """Whether no literal member says that another branch is meant."""
    for name, words, demanded in _literals(annotation):
        if name in value and value[name] not in words:
            return False
        if name not in value and demanded and name == "type":
            return False
    return True


@cache
def _literals(annotation: object) -> tuple[tuple[str, tuple[object, ...], bool], ...]:
    """The members of an object type that have a list of words, and whether each is required."""
    bare = ((name, _bare(member.annotation), member.required) for name, member in (_members(annotation) or {}).items())
    return tuple(
        (name, typing.get_args(inner), required)
        for name, inner, required in bare
        if typing.get_origin(inner) is typing.Literal
    )


def _takes_any_object(annotation: object) -> bool:
    bare = _bare(annotation)
    return bare is object or typing.get_origin(bare) in (dict, Mapping)


def _object_faults(annotation: object, value: object, path: str, models: bool) -> list[Fault]:
    members = _members(annotation) or {}
    if not isinstance(value, dict):
        return [_wrong(path, _name(annotation), value)]
    found: list[Fault] = []
    for name, item in value.items():
        member = members.get(name)
        if member is None:
            found.append(Fault(_at(path, name), UNKNOWN, f"of {_name(annotation)}"))
        else:
            found += faults(member.annotation, item, _at(path, name), models)
    for name, member in members.items():
        if member.required and name not in value:
            found.append(Fault(_at(path, name), MISSING, f"of {_name(annotation)}"))
    return found


@cache
def _members(annotation: object) -> dict[str, Member] | None:
    """The members of a TypedDict or a pydantic model; None for every other annotation."""
    if _is_model(annotation):
        assert isinstance(annotation, type) and issubclass(annotation, BaseModel)
        return {
            field.alias or name: Member(field.annotation, field.is_required())
            for name, field in annotation.model_fields.items()
        }
    if not (isinstance(annotation, type) and typing_extensions.is_typeddict(annotation)):
        return None
    # With postponed annotations, the class itself does not know which members are `Required`: the hints do.
    hints = typing_extensions.get_type_hints(annotation, include_extras=True)
    always: frozenset[str] = getattr(annotation, "__required_keys__", frozenset())
    return {name: Member(hint, _is_required(hint, name in always)) for name, hint in hints.items()}


def _is_required(hint: object, otherwise: bool) -> bool:
    origin = typing.get_origin(hint)
    if origin is typing_extensions.Required:
        return True
    return otherwise and origin is not typing_extensions.NotRequired


def _bare(annotation: object) -> object:
    """An annotation without `Annotated`, `Required` and their like."""
    return _seen(annotation)[0]


def _seen(annotation: object) -> tuple[object, object]:
    """An annotation without wrappers, and its origin; by identity, since hashing a long union takes longer."""
    found = _SEEN.get(id(annotation))
    if found is None:
        bare = annotation
        while typing.get_origin(bare) in _WRAPPERS:
            bare = typing.get_args(bare)[0]
        # The annotation is kept, so that its identity stays its own.
        found = _SEEN[id(annotation)] = (bare, typing.get_origin(bare), annotation)
    return found[0], found[1]


_SEEN: dict[int, tuple[object, object, object]] = {}
_WRAPPERS = (typing.Annotated, typing_extensions.Required, typing_extensions.NotRequired)


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_scalar(annotation: object, value: object) -> bool:
    if annotation is None or annotation is type(None):
        return value is None
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return annotation in (str, bool) and isinstance(annotation, type) and isinstance(value, annotation)


def _wrong(path: str, expected: str, value: object) -> Fault:
    return Fault(path, WRONG, f"expected {expected}, found {repr(value)[:60]}")


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _name(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)[:80]
