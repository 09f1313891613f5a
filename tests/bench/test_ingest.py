"""A short look at the measurement of ingestion."""

from __future__ import annotations

import pytest

from bench import ingest


def test_what_was_measured_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert ingest.main(["--rows", "20", "--outside", "50"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("20 conversations: ingestion ")
    assert second.startswith("50 unassigned outside of an hour with 500: ")
    assert second.endswith("50 shown, 0 left")
