"""Pages without the marks of a careless merge: a passage that stands twice, a sentence that is cut in the middle."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.house.test_pages import PAGES, ROOT

# A run of words as long as this does not stand in a page twice by chance.
RUN = 12
# Words of a paragraph that may not stand in two pages.
PARAGRAPH = 20
# Runs that are meant to stand twice, by page.
MEANT: dict[str, tuple[str, ...]] = {}
_FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_words = re.compile(r"[\w`'-]+").findall
_ends = re.compile(r"[.!?]$").search
# What a paragraph may end with: the end of a sentence, perhaps of one in brackets or with a link, or a colon.
_closes = re.compile(r"""[.:!?)*`|>”"]$""").search
_NO_PROSE = ("|", "#", "-", "*", ">", "<", "Status:", "    ")
# Names that a sentence may begin with.
_NAMES = ("aider", "systemd", "nginx")
# The reference of the protocols is written as notes.
_PROSE = [page for page in PAGES if page.parent.name != "internals"]
each_page = pytest.mark.parametrize("page", _PROSE, ids=lambda page: str(page.relative_to(ROOT)))


def paragraphs(text: str) -> Iterator[tuple[list[str], str, str]]:
    """The paragraphs of prose in a page, as lines, each with what it goes on from and what goes on from it."""
    blocks = [block.strip("\n") for block in re.split(r"\n\s*\n", _FENCED.sub("\n```\n\n", text))]
    blocks = [block for block in blocks if block.strip()]
    for before, block, behind in zip(["", *blocks], blocks, [*blocks[1:], ""], strict=False):
        if not block.startswith(_NO_PROSE) and not re.match(r"\d+\. ", block) and block != "```":
            lines = block.splitlines()
            # Prose may go on behind code, and behind a list that is a part of its sentence.
            goes_on = before.endswith("```") or before.startswith("-")
            shown = "```" if lines[-1] == "```" else behind[:3]
            yield [line for line in lines if line != "```"], "```" if goes_on else "", shown


def _goes_on(line: str) -> bool:
    return line[0].islower() and not line.startswith(_NAMES)


def repeated_runs(text: str) -> list[str]:
    """The runs of words that stand in a text twice, tables and code left out."""
    prose = "\n".join(line for line in _FENCED.sub("", text).splitlines() if not line.startswith("|"))
    words = _words(prose)
    first: dict[tuple[str, ...], int] = {}
    found: list[str] = []
    last = -RUN
    for place in range(len(words) - RUN + 1):
        run = tuple(words[place : place + RUN])
        if first.setdefault(run, place) + RUN <= place and place - last >= RUN:
            last = place
            found.append(" ".join(run))
    return found


def cut_sentences(text: str) -> list[str]:
    """Where a sentence ends and the next line goes on in its middle, or where a paragraph ends without an end."""
    found = []
    for lines, before, behind in paragraphs(text):
        for line, following in pairwise(lines):
            if _ends(line) and _goes_on(following):
                found.append(f"{line[-40:]} | {following[:40]}")
        if behind != "```" and behind[:1] not in ("-", "|") and not _closes(lines[-1].rstrip()):
            found.append(f"{lines[-1][-60:]} | (nothing)")
        if before != "```" and _goes_on(lines[0]):
            found.append(f"(nothing) | {lines[0][:60]}")
    return found


@each_page
def test_no_passage_stands_in_a_page_twice(page: Path) -> None:
    meant = MEANT.get(str(page.relative_to(ROOT)), ())
    found = repeated_runs(page.read_text(encoding="utf-8"))
    assert [run for run in found if not run.startswith(meant or ("\0",))] == []


@each_page
def test_no_sentence_is_cut_in_the_middle(page: Path) -> None:
    assert cut_sentences(page.read_text(encoding="utf-8")) == []


def test_no_paragraph_stands_in_two_pages() -> None:
    pages: dict[str, list[str]] = defaultdict(list)
    for page in PAGES:
        for lines, _, _ in paragraphs(page.read_text(encoding="utf-8")):
            words = _words(" ".join(lines))
            if len(words) >= PARAGRAPH:
                pages[" ".join(words)].append(str(page.relative_to(ROOT)))
    assert {text[:80]: names for text, names in pages.items() if len(names) > 1} == {}


def test_what_a_merge_leaves_behind_is_found() -> None:
    spliced = "One two three four five six seven eight nine ten eleven twelve. Here\nit ends.\n"
    assert repeated_runs(spliced + "\n" + spliced) == ["One two three four five six seven eight nine ten eleven twelve"]
    assert repeated_runs(spliced) == []
    assert cut_sentences("All of it is on one line.\ninvented, two more.\n") == [
        "All of it is on one line. | invented, two more."
    ]
    assert cut_sentences("This ends in the\n\nNext.\n") == ["This ends in the | (nothing)"]
    assert cut_sentences("First.\n\nand then what.\n") == ["(nothing) | and then what."]
    assert cut_sentences("A command:\n\n```sh\nmake\n```\n\ninstalls it, with\n\n```\nthat\n```\n") == []
