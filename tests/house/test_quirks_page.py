"""docs/quirks.md tells what is recorded of servers and what the rows say of them."""

from __future__ import annotations

import re

from dragoman.providers.catalogue import catalogue
from dragoman.rules.capabilities import ROWS, Capabilities
from tests.servers.recordings import FILES, read
from tools.quirks_page import PAGE, WORDS, page, said_of, sections

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    assert page() == TEXT, "run `make docs`"


def test_every_quirk_and_every_source_is_on_the_page() -> None:
    for path in FILES:
        for quirk in read(path).quirk:
            assert quirk.does.replace("|", "\\|") in TEXT
            assert quirk.source in TEXT
    told = [
        row
        for entry in catalogue().values()
        for row in entry.capabilities
        if set(row.changes) - {"reasons", "official"}
    ]
    assert [row.source for row in told if row.source not in TEXT] == []


def test_rows_of_the_rules_are_told_with_their_source() -> None:
    told = {row.vendor: row.source for row in ROWS if row.source}
    assert set(told) >= {"deepseek", "google", "mistral", "moonshot", "openai", None}
    assert [source for source in told.values() if not source.startswith("https://") or source not in TEXT] == []


def test_every_ability_in_a_row_with_a_source_has_words_of_its_own() -> None:
    rows = [*ROWS, *(row for entry in catalogue().values() for row in entry.capabilities)]
    assert {name for row in rows if row.source for name in row.changes} - set(WORDS) == set()


def test_nothing_is_told_twice_of_a_server() -> None:
    for section in sections().values():
        told = [(line.protocols, line.models, line.does) for line in section.lines]
        assert len(told) == len(set(told)), section.title


def test_a_quirk_stands_for_rows_that_there_are() -> None:
    rows = [*ROWS, *(row for entry in catalogue().values() for row in entry.capabilities)]
    capabilities = {name for row in rows for name in row.changes}
    assert {name for path in FILES for quirk in read(path).quirk for name in quirk.capabilities} - capabilities == set()


def test_words_are_for_abilities_that_exist() -> None:
    assert set(WORDS) <= set(Capabilities.__struct_fields__)


def test_an_ability_without_words_is_told_in_those_of_the_configuration() -> None:
    assert "max_output" not in WORDS
    told = said_of("max_output", 8192)
    assert told is not None and "Maximum output tokens" in told[0] and told[0].endswith("Here: `8192`.")


def test_every_ability_can_be_told() -> None:
    for name in Capabilities.__struct_fields__:
        for value in (False, True):
            words = said_of(name, value) if name not in ("efforts", "refuses", "stop_limit") else said_of(name, [])
            assert words is None or all(words), name


def test_what_is_had_is_not_told_as_missing() -> None:
    assert said_of("json_mode", True) is None
    assert said_of("json_mode", False) == ("Has no JSON mode.", "Replaced by an instruction.")
    assert said_of("top_k", True) == ("Accepts `top_k`.", "Sent.")
    assert said_of("efforts", []) == ("Accepts no reasoning effort.", "Removed.")


def test_a_server_has_one_section_whatever_its_addresses() -> None:
    titles = re.findall(r"^## <a id=\"[^\"]+\"></a>(.+)$", TEXT, re.MULTILINE)
    assert len(titles) == len(set(titles)) == len(sections())
    assert "`moonshot`, `moonshot-cn`, `kimi-coding`" in TEXT
