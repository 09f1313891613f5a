"""What can be configured is asked for by somebody: a setting that is read and checked, and then forgotten, is a lie."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from dragoman.config import file_schema
from tools.configuration_page import SECTIONS

SOURCES = Path(__file__).parents[2] / "src/dragoman"
# What a table's values are called by those who ask for a member of them.
CALLED = {
    "[server]": ("server",),
    "[providers.NAME]": ("provider",),
    "[[providers.NAME.capabilities]]": ("row",),
    "[models]": ("route", "target_route", "nested"),
    '[prices."PROVIDER/MODEL"]': ("override", "rates"),
    "[[models.NAME.rules]]": ("rule",),
    "when": ("when",),
    "[keys.NAME]": ("key", "rights", "identity", "maker"),
    "[timeouts]": ("timeouts",),
    "[routing]": ("routing",),
    "[limits]": ("limits",),
    "[storage]": ("storage",),
    "[storage.contents]": ("contents",),
    "[telemetry]": ("telemetry",),
}
# What the reading itself uses up: it goes into other members.
USED_UP = {
    "[server]": {"discover", "echo"},
    "[providers.NAME]": {"protocol", "base_url", "api_key", "allow_plaintext_key", "vendor"},
    "[[providers.NAME.capabilities]]": {"set"},
    "[models]": {"to", "targets", "strict"},
    "[[models.NAME.rules]]": {"targets"},
    '[prices."PROVIDER/MODEL"]': {"context_window", "per_request", "per_search"},
    "[keys.NAME]": {"key", "hash"},
    "[storage.contents]": {"record"},
    "[storage]": {"machine", "journal_keep", "allow_unverified_database"},
}
TABLES = {**{section.heading: section.kinds for section in SECTIONS}, "when": file_schema.WHEN}


@cache
def asked_for() -> frozenset[tuple[str, str]]:
    """Every member that is read, with what its value is called, beyond reading and resolving the configuration."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        place = path.relative_to(SOURCES)
        if place.parts[0] == "config" or place == Path("gateway/model_resolver.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Attribute(attr=called) | ast.Name(id=called), attr=member):
                    found.add((called.lstrip("_"), member))
    return frozenset(found)


@pytest.mark.parametrize("table", TABLES)
def test_pitfall_337_every_setting_is_asked_for_somewhere(table: str) -> None:
    unused = {key for key in TABLES[table] if not any((called, key) in asked_for() for called in CALLED[table])}
    assert unused - USED_UP.get(table, set()) == set()
