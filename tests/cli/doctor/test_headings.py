"""Headings that findings lead to are on the page."""

from __future__ import annotations

import re

from dragoman.cli.doctor.report import ALL, PAGE
from tests.server.process import ROOT


def test_pitfall_671_every_heading_is_on_the_page() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert [heading for heading in ALL if heading not in re.findall(r"^## (.+)$", page, re.M)] == []
