"""No test uses a port of a listener that it closed: the system may give that port to another process at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def test_no_port_of_a_closed_listener_is_used() -> None:
    remedy = "use CLOSED_PORT or free_port of tests/ports.py"
    assert {f"{path.relative_to(TESTS)}:{line}" for path in TESTS.rglob("*.py") for line in _closed(path)} == set(), (
        remedy
    )


def _closed(path: Path) -> Iterator[int]:
    source = path.read_text(encoding="utf-8")
    if "getsockname" in source:
        yield from closed_listeners(source)


def closed_listeners(source: str) -> Iterator[int]:
    """Yield the lines of `with` blocks that do nothing but read the port of their socket."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.With(
                body=[ast.Assign(value=ast.Subscript(value=ast.Call(func=ast.Attribute(attr="getsockname"))))]
            ):
                yield node.lineno
            case ast.With(
                body=[*_, ast.Return(value=ast.Subscript(value=ast.Call(func=ast.Attribute(attr="getsockname"))))]
            ):
                yield node.lineno


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("port = s.getsockname()[1]", [1]),
        ("s.bind(x)\n    return s.getsockname()[1]", [1]),
        ("port = s.getsockname()[1]\n    connect(port)", []),
        ("yield s.getsockname()[1]", []),
    ],
)
def test_blocks_that_close_their_listener(body: str, lines: list[int]) -> None:
    assert list(closed_listeners(f"with create_server() as s:\n    {body}\n")) == lines
