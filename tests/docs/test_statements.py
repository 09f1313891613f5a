"""What pages say of behaviour is held by tests: by those that its comments name, or by what is measured here."""

from __future__ import annotations

import json
import re
import urllib.request
from functools import cache
from pathlib import Path

import pytest

from tests.docs.bare import ROOT, ask, gateway
from tests.docs.pages import PAGES

_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
# What stands in a page behind a statement: the test that would fail if it were wrong.
_NAMED = re.compile(r"<!-- (test_\w+) -->")
# A comment at the beginning of a line ends the paragraph there: what goes on after it is rendered apart.
_SPLITS = re.compile(r"^ *(?:<!-- test_\w+ --> ?)+(?:[^\n<]+|\n *(?!\d+\. )\w.*)$", re.MULTILINE)
HELD = [(page.relative_to(ROOT).as_posix(), name) for page in PAGES for name in _NAMED.findall(page.read_text("utf-8"))]
# Pages with statements about behaviour that no command of theirs shows.
STATING = (
    "api.md",
    "cli.md",
    "deploy.md",
    "load-balancer.md",
    "local-models.md",
    "monitoring.md",
    "responses-state.md",
    "routing.md",
    "security.md",
    "several-machines.md",
    "usage-and-cost.md",
)
# Kept responses, and between how many bytes a thousand of them may come to where a page says "about 6 MB".
RESPONSES = 60
LEAST, MOST = 3_000_000, 12_000_000


@cache
def _tests() -> frozenset[str]:
    paths = (ROOT / "tests").rglob("test_*.py")
    return frozenset(name for path in paths for name in _TEST.findall(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("page", "test"), HELD)
def test_pitfall_673_what_a_page_says_has_a_test(page: str, test: str) -> None:
    assert test in _tests(), f"{page} names a test that is not there"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_comments_that_name_tests_do_not_split_paragraphs(page: Path) -> None:
    assert _SPLITS.findall(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", STATING)
def test_pitfall_673_pages_name_the_tests_that_hold_them(page: str) -> None:
    assert f"docs/{page}" in {held for held, _ in HELD}


def test_pitfall_674_what_is_kept_comes_to_as_much_as_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/responses-state.md").read_text(encoding="utf-8")
    assert "a thousand short responses take about 6 MB" in page
    with gateway(tmp_path) as address:
        for number in range(RESPONSES):
            body = json.dumps({"model": "echo/text", "input": f"Hello {number}"}).encode()
            headers = {"content-type": "application/json"}
            request = urllib.request.Request(f"http://{address}/v1/responses", body, headers)
            with urllib.request.urlopen(request, timeout=60) as reply:
                assert reply.status == 200
    size = sum(file.stat().st_size for file in tmp_path.rglob("state.db*"))
    assert LEAST < size / RESPONSES * 1000 < MOST


def test_pitfall_659_a_log_file_is_its_owners_and_says_what_happened(tmp_path: Path) -> None:
    log = tmp_path / "gateway.log"
    with gateway(tmp_path, "--log", "json", "--log-file", str(log)) as address:
        assert ask(address, "echo/text")[0] == 200
    assert log.stat().st_mode & 0o777 == 0o600
    assert '"requested_model":"echo/text"' in log.read_text(encoding="utf-8")
