"""docs/losses.md has one short paragraph for each feature, under the heading of its weight."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman.model.features import Feature, weight_of

PAGE = Path(__file__).parents[2] / "docs/losses.md"
SECTIONS = {"Changes the response": "changes_response", "Bookkeeping": "bookkeeping"}
MOST_WORDS = 70


def paragraphs() -> list[tuple[str, str, str]]:
    """Weight, feature and text of each paragraph, in the order of the page."""
    found = []
    for section in PAGE.read_text().split("\n## ")[1:]:
        heading, _, rest = section.partition("\n")
        for part in rest.split("\n### ")[1:]:
            name, _, text = part.partition("\n")
            found.append((SECTIONS[heading], name, text.strip()))
    return found


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.value)
def test_every_feature_has_its_paragraph_under_its_weight(feature: Feature) -> None:
    (found,) = [part for part in paragraphs() if part[1] == feature.value]
    weight, _, text = found
    assert weight == weight_of(feature.value)
    assert "\n\n" not in text
    assert 0 < len(re.findall(r"\S+", text)) <= MOST_WORDS


def test_the_page_names_no_other_feature() -> None:
    assert {name for _, name, _ in paragraphs()} == {feature.value for feature in Feature}
