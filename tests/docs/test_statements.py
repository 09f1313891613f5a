"""What pages say of behaviour is held by tests: by those named here, or by what is measured here."""

from __future__ import annotations

import json
import re
import urllib.request
from functools import cache
from pathlib import Path

import pytest

from tests.docs.bare import ROOT, ask, gateway

# A page, words that stand there, and the test that would fail if they were wrong.
HELD = (
    (
        "requests.md",
        "a member `dragoman` of a JSON body",
        "test_the_report_is_the_last_member_and_the_rest_is_untouched",
    ),
    ("requests.md", "a comment behind the last event of a stream", "test_the_report_of_a_stream_is_one_comment"),
    ("requests.md", "there the bytes are the provider's", "test_the_relay_has_no_report_in_its_bytes"),
    (
        "requests.md",
        "whom a path without a model in its body is meant for",
        "test_a_request_without_a_model_goes_to_the_provider_it_names_or_the_only_one",
    ),
    (
        "requests.md",
        "needed where several providers have that path",
        "test_a_request_that_names_nobody_among_several_is_a_404",
    ),
    ("requests.md", "the longest literal prefix first", "test_the_longest_literal_prefix_wins_then_the_longest_end"),
    (
        "load-balancer.md",
        "gets a heartbeat after 15 s of silence",
        "test_pitfall_205_a_silent_provider_is_covered_by_keep_alives",
    ),
    (
        "load-balancer.md",
        "`/readyz` fails and everybody is served",
        "test_a_gateway_that_stops_soon_is_not_ready_and_serves",
    ),
    (
        "load-balancer.md",
        "believed of `trusted_proxies` alone",
        "test_pitfall_587_without_trusted_proxies_nobody_is_believed",
    ),
    (
        "team.md",
        "the next is refused at once",
        "test_pitfall_370_a_key_at_its_limit_is_told_so_at_once_and_others_go_on",
    ),
    ("many-providers.md", "A conversation stays on its target", "test_sticky_is_sticky"),
    ("many-providers.md", "an unknown price is not a low one", "test_pitfall_369_an_unknown_price_is_not_free"),
    ("local-models.md", "clients guess", "test_a_window_that_nobody_knows_is_said_to_be_unknown_in_one_line"),
    (
        "watching.md",
        "Prompts and answers are in none of it",
        "test_whatever_happens_no_line_holds_a_prompt_an_answer_or_a_key",
    ),
)
_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
# Kept responses, and between how many bytes a thousand of them may come to where a page says "some 6 MB".
RESPONSES = 60
LEAST, MOST = 3_000_000, 12_000_000


@cache
def _tests() -> frozenset[str]:
    paths = (ROOT / "tests").rglob("test_*.py")
    return frozenset(name for path in paths for name in _TEST.findall(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("page", "words", "test"), HELD, ids=[f"{page}: {words}" for page, words, _ in HELD])
def test_pitfall_673_what_a_page_says_has_a_test(page: str, words: str, test: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    assert words in text
    assert test in _tests()


def test_pitfall_674_what_is_kept_comes_to_as_much_as_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert "a thousand short responses take some 6 MB" in page
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
