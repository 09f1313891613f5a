"""Counts words of the old private vocabulary in the source, per package: identifiers with certain parts, and prose
(docstrings, comments, help texts, messages) with certain phrases.

`plain_words.toml` has the counts that are allowed. They may only fall: `python -m tests.house.plain_words` writes lower
counts and refuses higher ones. Use the standard term instead: a target is in cooldown, the gateway sends a response, a
provider reports its usage.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import msgspec

SOURCES = Path(__file__).parents[2] / "src/dragoman"
COUNTS = Path(__file__).with_name("plain_words.toml")

PARTS = [
    "told",
    "said",
    "abroad",
    "rests",
    "resting",
    "standing",
    "course",
    "haste",
    "veil",
    "heard",
    "hearing",
    "spoken",
    "speaker",
    "whom",
    "kept",
    "made_up",
    "dice",
    "spot",
    "doing",
]
PHRASES = ("whoever", "somebody", "nobody", "anybody", "what of that", "is told", "came to", "those that", "of late")
IDENTIFIERS, PROSE = "identifiers", "prose"
# Name of the modules beside the packages.
ROOT = "dragoman"

# Counts by kind, package and word.
Counts = dict[str, dict[str, dict[str, int]]]

_TOKEN = re.compile(
    r"""(?P<string>"{3}(?:[^\\]|\\.)*?"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"|(?P<comment>(?:\#[^\n]*(?:\n[ ]*(?=\#))?)+)"
    r"|(?P<name>[A-Za-z_]\w*)",
    re.DOTALL,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BLANKS = re.compile(r"[\s#]+")
_PART = re.compile(rf"(?:^|_)({'|'.join(PARTS)})(?=_|$)")
_PHRASE = re.compile(rf"\b({'|'.join(phrase.replace(' ', ' +') for phrase in PHRASES)})\b", re.IGNORECASE)
_WORD = re.compile(r" +")


def words_of(source: str) -> tuple[Counter[str], Counter[str]]:
    """Count the parts in identifiers and the phrases in strings and comments of a module."""
    names: Counter[str] = Counter()
    prose: Counter[str] = Counter()
    for token in _TOKEN.finditer(source):
        text = token[0]
        if token.lastgroup == "name":
            names.update(_PART.findall(_HUMP.sub("_", text).lower()))
        elif len(text) > 6:
            prose.update(_WORD.sub(" ", found.lower()) for found in _PHRASE.findall(_BLANKS.sub(" ", text)))
    return names, prose


def counted(sources: Path = SOURCES) -> Counts:
    """Count the words of all modules."""
    counts: Counts = {IDENTIFIERS: {}, PROSE: {}}
    for path in sorted(sources.rglob("*.py")):
        relative = path.relative_to(sources)
        package = relative.parts[0] if len(relative.parts) > 1 else ROOT
        for kind, found in zip(counts, words_of(path.read_text(encoding="utf-8")), strict=True):
            words = counts[kind].setdefault(package, {})
            for word, count in found.items():
                words[word] = words.get(word, 0) + count
    return {
        kind: {package: dict(sorted(words.items())) for package, words in sorted(packages.items()) if words}
        for kind, packages in counts.items()
    }


def allowed(path: Path = COUNTS) -> Counts:
    """Read the counts that are allowed."""
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, dict[str, dict[str, int]]])


def rendered(counts: Counts) -> str:
    """Write counts as TOML."""
    lines = ["# Written by `python -m tests.house.plain_words`; the numbers only get smaller."]
    for kind, packages in counts.items():
        for package, words in packages.items():
            lines += ["", f"[{kind}.{package}]"]
            lines += [
                f"{word if word.isidentifier() else msgspec.json.encode(word).decode()} = {count}"
                for word, count in words.items()
            ]
    return "\n".join(lines) + "\n"


def totals(counts: Counts) -> dict[tuple[str, str], int]:
    """Sum up the counts of each word over all packages."""
    sums: dict[tuple[str, str], int] = {}
    for kind, packages in counts.items():
        for words in packages.values():
            for word, count in words.items():
                sums[kind, word] = sums.get((kind, word), 0) + count
    return sums


def differences(now: Counts, before: Counts) -> list[str]:
    """Name every count that differs from the allowed one."""
    lines: list[str] = []
    for kind in (IDENTIFIERS, PROSE):
        mine, theirs = now.get(kind, {}), before.get(kind, {})
        for package in sorted({*mine, *theirs}):
            words, limits = mine.get(package, {}), theirs.get(package, {})
            for word in sorted({*words, *limits}):
                count, limit = words.get(word, 0), limits.get(word, 0)
                if count > limit:
                    lines.append(f'{package}, {kind}: "{word}" {count} times, allowed {limit}: use the standard term')
                elif count < limit:
                    lines.append(f'{package}, {kind}: "{word}" {count} times, no longer {limit}: write the lower count')
    return lines


def main(sources: Path = SOURCES, path: Path = COUNTS) -> int:
    """Write the counts of today, unless a word occurs more often in the whole source than before."""
    now, before = counted(sources), allowed(path)
    limits = totals(before)
    if more := [key for key, count in totals(now).items() if count > limits.get(key, 0)]:
        print("refused: more of " + ", ".join(f'"{word}" in {kind}' for kind, word in more), file=sys.stderr)
        print(*differences(now, before), sep="\n", file=sys.stderr)
        return 1
    path.write_text(rendered(now), encoding="utf-8")
    for (kind, word), count in sorted(totals(now).items()):
        print(f"{kind:<11} {word:<12} {count:>5}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
