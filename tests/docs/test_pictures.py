"""The pictures of the README: colours of a terminal become classes, and each picture is SVG for both themes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.bare import ROOT
from tools.pictures import PICTURES, svg

FILES = sorted(PICTURES.glob("*.svg"))


def _texts(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_colours_become_classes_and_text_stays() -> None:
    picture = svg("show <it>", "\x1b[1mHEAD\x1b[0m\r\n\x1b[31ma & b\x1b[0m \x1b[?25lc\n")
    assert _texts(picture) == ["$ show <it>", "HEAD", "a & b c"]
    assert '<tspan class="b">HEAD</tspan>' in picture
    assert '<tspan class="r">a &amp; b</tspan> c' in picture


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_pictures_are_of_real_output_for_light_and_dark(file: Path) -> None:
    picture = file.read_text(encoding="utf-8")
    assert _texts(picture)[0].startswith("$ dragoman ")
    assert "prefers-color-scheme: dark" in picture


def test_the_readme_shows_them() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(FILES) >= 2
    assert [file.name for file in FILES if f"(docs/pictures/{file.name})" not in readme] == []
