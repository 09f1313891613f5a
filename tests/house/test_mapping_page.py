"""docs/mapping.md says what the golden files show."""

from __future__ import annotations

from dragoman.model.features import Feature
from tools.mapping_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_feature_has_a_row() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f'<a id="{feature.value}"></a>' in text for feature in Feature)
