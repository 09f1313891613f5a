"""What Sphinx reads: which files are pages, how they look, and what is a mistake. Run by `make site`."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tools.site.navigation import INDEX, with_navigation  # noqa: E402 - the path above comes first

project = "Dragoman"
author = "the authors of Dragoman"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
root_doc = INDEX
extensions = ["myst_parser"]
include_patterns = ["docs/**.md", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "bench/results/*.md"]
exclude_patterns = [".*", "build", "dist", "src", "tests", "tools", "requirements"]
# Headings are linked to as other readers of Markdown name them.
myst_heading_anchors = 6
# A language that nobody can colour is no mistake: client pages show configurations of many programs.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
html_theme = "furo"
html_title = "Dragoman"
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
html_additional_pages = {"index": "redirect.html"}
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["dragoman.css"]


class Generator(Protocol):
    """What is asked of Sphinx, which only `make site` installs."""

    def connect(self, event: str, callback: Callable[[object, str, list[str]], None], /) -> int:
        """Have a function called at an event."""


def setup(app: Generator) -> None:
    """Add to pages what they do not say themselves."""

    def read(_: object, name: str, source: list[str]) -> None:
        source[0] = with_navigation(name, source[0])

    app.connect("source-read", read)
