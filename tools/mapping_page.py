"""Writes docs/mapping.md: one row per feature, one column per direction, as the golden files show it.

python tools/mapping_page.py          writes the page
python tools/mapping_page.py --check  exits with status 1 if the page is not what it would write
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from dragoman.model.features import Feature  # noqa: E402 - the paths above come first
from tests.golden.story import Story, read  # noqa: E402 - the paths above come first
from tools.writing import write_or_check  # noqa: E402 - the paths above come first

PAGE = ROOT / "docs/mapping.md"
GOLDEN = ROOT / "tests/golden"
LETTERS = {"anthropic-messages": "A", "openai-chat": "C", "openai-responses": "R"}
DIRECTIONS = tuple((source, target) for source in LETTERS for target in LETTERS if source != target)
MARKS = {"approximated": "≈", "dropped": "✗", "invented": "+"}
ORDER = "=≈+✗!"

HEAD = """# Translation matrix

Look up what happens to a feature in each direction. `dragoman explain FILE` shows the same for one request.

**A** is Anthropic Messages, **C** OpenAI Chat Completions, **R** OpenAI Responses; X→Y is content of X, encoded for
Y. `=` exact · `≈` approximated · `+` invented · `✗` dropped · `!` rejected. Several marks: it depends, see the
golden file.

`make docs` generates this page from the features (`src/dragoman/model/features.py`) and the golden files
(`tests/golden/`). The normative rules are in [internals/mapping.md](internals/mapping.md).
"""


def marks_of(feature: Feature, stories: list[Story]) -> dict[tuple[str, str], set[str]]:
    """What became of a feature in each direction, over all its stories."""
    found: dict[tuple[str, str], set[str]] = {}
    for story in stories:
        source = ""
        seen: dict[tuple[str, str], set[str]] = {}
        for section in story.sections:
            words = section.words
            if words[0] in ("in", "again"):
                _keep(seen, found)
                source = words[2] if len(words) > 2 else source
                seen = {}
            elif words[0] in ("out", "headers", "refused", "losses"):
                target = next((word for word in words if word in LETTERS), "")
                if not target or target == source:
                    continue
                fates = seen.setdefault((source, target), set())
                if words[0] == "refused":
                    fates.add("!")
                elif words[0] == "losses":
                    lines = [line.split() for line in section.text.splitlines()]
                    fates.update(MARKS[line[0]] for line in lines if len(line) > 1 and line[1] == feature.value)
        _keep(seen, found)
    return found


def _keep(seen: dict[tuple[str, str], set[str]], found: dict[tuple[str, str], set[str]]) -> None:
    for direction, fates in seen.items():
        found.setdefault(direction, set()).update(fates or {"="})


def page() -> str:
    """The whole page."""
    heads = " | ".join(f"{LETTERS[source]}→{LETTERS[target]}" for source, target in DIRECTIONS)
    lines = [HEAD, f"| Feature | {heads} | Rule |", f"| --- {'| --- ' * len(DIRECTIONS)}| --- |"]
    for feature in Feature:
        files = sorted(GOLDEN.glob(f"{feature.value}.txtar")) + sorted(GOLDEN.glob(f"{feature.value}.*.txtar"))
        files = list(dict.fromkeys(files))
        stories = [read(file) for file in files]
        marks = marks_of(feature, stories)
        cells = ["".join(sorted(marks.get(direction, {"–"}), key=ORDER.find)) for direction in DIRECTIONS]
        rule = " ".join(stories[0].opening.split()).replace("|", "\\|") if stories else ""
        link = f"[{feature.value}](../tests/golden/{files[0].name})" if files else feature.value
        lines.append(f'| <a id="{feature.value}"></a>{link} | {" | ".join(cells)} | {rule} |')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page()))
