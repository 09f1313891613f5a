"""`[storage.contents]`: everything in it is checked when it is read, and its key is in no message."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config.settings import Contents
from dragoman.config.trust_summary import describe
from tests.config.support import SECRET, problems_of, settings_of

WHOLE = """
[storage]
path = "state.db"
[storage.contents]
record = "on"
days = 7
size = "1 GB"
redact = ["ACME-[0-9]{8}"]
key = "$CONTENTS_KEY"
"""


def test_everything_can_be_configured(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, WHOLE, {"CONTENTS_KEY": SECRET})
    assert settings.contents == Contents(record="on", days=7, size=10**9, redact=("ACME-[0-9]{8}",), key=SECRET)
    assert settings.records_contents
    assert SECRET not in repr(settings.contents)


def test_nothing_is_stored_by_default(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "")
    assert settings.contents == Contents() and not settings.records_contents


def test_without_a_file_nothing_is_stored(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[storage]\npath = ":memory:"\n[storage.contents]\nrecord = "on"\n')
    assert not settings.records_contents
    assert any("no contents are stored" in warning for warning in settings.warnings)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('record = "sometimes"', "expected one of off, on"),
        ('redact = ["(a+)+b"]', "has the pattern '(a+)+b', which cannot be used"),
        ('redact = ["("]', "it is no regular expression"),
        ('key = "short"', "fewer than 16"),
        ('key = "$MISSING"', "MISSING"),
        ("unknown = 1", "not a known key"),
    ],
)
def test_each_problem_has_its_line_and_remedy(tmp_path: Path, line: str, problem: str) -> None:
    (found,) = problems_of(tmp_path, f"[storage.contents]\n{line}\n")
    assert found.startswith("2: storage.contents.") and problem in found


def test_the_key_is_not_shown_when_a_file_is_to_be_trusted() -> None:
    lines = describe({"storage": {"contents": {"record": "on", "key": SECRET}}}, {})
    assert lines[:2] == ["sets storage.contents.record = on", "sets storage.contents.key = a key in the file"]
