"""Pages for users: short, each begins with a task and a command, and a sentence stands before each code block."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.site.navigation import doors

ROOT = Path(__file__).parents[2]
GENERATED = {"admin-api", "configuration", "mapping", "quirks", "token-counting", "variables"}
ELSEWHERE = {"README", "SECURITY", "CHANGELOG"}
SECTIONS = ("Get started", "Guides", "Reference", "Library")
NAMES = [name for section in SECTIONS for name in doors()[section] if Path(name).name not in ELSEWHERE]
WRITTEN = [ROOT / f"{name}.md" for name in NAMES if Path(name).name not in GENERATED | {"performance"}]
# Words of all hand-written pages for users together, code left out; what grows beyond it belongs in docs/internals.
MOST_WORDS = 17_500
# A page shows its first command, or its first block of any kind, within so many lines.
FIRST_BLOCK = 14
_FENCE = re.compile(r"^```")
_BLOCK = re.compile(r"^```.*?^```$|<!--.*?-->", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\([^)]*\)")
_words = re.compile(r"\w[\w./'-]*").findall
# Pronouns without a noun, and the old words of the project.
_VAGUE = re.compile(r"\b(whoever|somebody|nobody|anybody|those that|is told|came to|of late)\b", re.IGNORECASE)

each_page = pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))


def _blocks(page: Path) -> list[tuple[int, str, str]]:
    """Each fenced block: its line, the last text before it, and the first text after it."""
    lines = page.read_text(encoding="utf-8").splitlines()
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    return [
        (
            begin + 1,
            next((line for line in reversed(lines[:begin]) if line.strip()), ""),
            next((line for line in lines[end + 1 :] if line.strip()), ""),
        )
        for begin, end in zip(fences[::2], fences[1::2], strict=True)
    ]


@each_page
def test_a_page_begins_with_a_task_and_a_command(page: Path) -> None:
    first, before, _ = _blocks(page)[0]
    assert first <= FIRST_BLOCK
    assert not before.startswith("#")


@each_page
def test_a_code_block_has_a_full_sentence_before_it_and_none_goes_on_after_it(page: Path) -> None:
    found = []
    for line, before, after in _blocks(page):
        if not before.endswith((":", ".", "-->")) or before.startswith(("#", "|")):
            found.append(f"{line}: no sentence before the block")
        if after[:1].islower() and not after.startswith(("aider", "fish", "systemd", "nginx")):
            found.append(f"{line}: a sentence goes on after the block")
    assert found == []


@each_page
def test_sentences_have_concrete_subjects(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert _VAGUE.findall(_LINK.sub("", _BLOCK.sub("", text))) == []


def test_pages_for_users_stay_short() -> None:
    texts = (_BLOCK.sub("", page.read_text(encoding="utf-8")) for page in WRITTEN)
    assert sum(len(_words(text)) for text in texts) <= MOST_WORDS
