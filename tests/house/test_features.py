"""Every feature has a golden file, and every golden file is named after a feature."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.model.features import Feature

FILES = sorted((Path(__file__).parents[1] / "golden").glob("*.txtar"))
NAMES = {path.name.split(".")[0] for path in FILES}


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.value)
def test_every_feature_has_a_golden_file(feature: Feature) -> None:
    assert feature.value in NAMES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_golden_file_names_a_feature(path: Path) -> None:
    assert path.name.split(".")[0] in {feature.value for feature in Feature}
