"""The golden values of the mapping, as the tests of the rules read them."""

from pathlib import Path

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.wire.json import decode

_FILE = Path(__file__).parent.parent / "data" / "mapping-vectors.json"


def section(name: str) -> JsonValue:
    """Give one section of the golden values."""
    document = decode(_FILE.read_bytes())
    assert isinstance(document, dict)
    return document[name]


def objects(name: str) -> list[JsonObject]:
    """Give a section that is a list of objects."""
    rows = section(name)
    assert isinstance(rows, list)
    found = [row for row in rows if isinstance(row, dict)]
    assert len(found) == len(rows) > 0
    return found


def rows(name: str) -> list[list[JsonValue]]:
    """Give a section that is a list of rows."""
    lines = section(name)
    assert isinstance(lines, list)
    found = [line for line in lines if isinstance(line, list)]
    assert len(found) == len(lines) > 0
    return found


def text(value: JsonValue) -> str:
    """Narrow a golden value to text."""
    assert isinstance(value, str)
    return value


def number(value: JsonValue) -> int:
    """Narrow a golden value to an integer."""
    assert isinstance(value, int)
    return value
