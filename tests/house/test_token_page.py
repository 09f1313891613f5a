"""docs/token-counting.md says what the samples show."""

from __future__ import annotations

from tools.token_page import COUNTS, PAGE, SAMPLES, errors, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_sample_has_a_row() -> None:
    assert set(errors()) == {path.stem for path in SAMPLES.glob("*.txt")}
    assert COUNTS.exists()
