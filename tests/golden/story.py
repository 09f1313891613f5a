"""The format of the golden files: a text archive that reads as a story.

A file opens with a sentence or two that tell the rule, then come sections, each headed by a line `-- … --`:

    -- in request openai-chat --            said by a client; translated for the other two protocols as providers
    -- asked request openai-responses --    the question to the next answer or stream (optional, repeatable)
    -- in answer anthropic-messages --      said by a provider; translated for the clients that asked, else both others
    -- in stream openai-chat --             likewise; one event per line, or the bare event-stream text
    -- in failure openai-chat status=429 -- likewise; an error answer
    -- in headers anthropic-messages --     rate-limit headers of a provider, one per line
    -- again … --                           the input before it once more, with other options

Options on the header line: `to=<protocol>` (only this one), `model=`, `upstream=` and `abilities={"late_system":true}`
(whom a request is translated for, without blanks), `as=stream` or `as=answer` (an answer for a client that streams, a
stream for one that does not), `status=`, and `full` (print what is left out otherwise, see `printing.py`).

Everything else is expected and follows its input: `out`, `refused`, `headers`, `losses` (absent: none) and `resume`.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

INPUTS = ("in", "asked", "again")


class Section(Struct, frozen=True):
    """One section: the words of its header and its text, without the line end that closes it."""

    header: str
    text: str = ""

    @property
    def words(self) -> list[str]:
        return [word for word in self.header.split() if "=" not in word]

    @property
    def options(self) -> dict[str, str]:
        return dict(word.split("=", 1) for word in self.header.split() if "=" in word)


class Story(Struct, frozen=True):
    """A golden file: its opening sentences and its sections."""

    opening: str
    sections: tuple[Section, ...]

    @property
    def inputs(self) -> tuple[Section, ...]:
        """What is given; the other sections are expectations."""
        return tuple(section for section in self.sections if section.words[0] in INPUTS)


def read(path: Path) -> Story:
    """Read a golden file."""
    opening: list[str] = []
    sections: list[tuple[str, list[str]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("-- ") and line.endswith(" --"):
            sections.append((line[3:-3], []))
        elif sections:
            sections[-1][1].append(line)
        else:
            opening.append(line)
    told = tuple(Section(header, "\n".join(lines).strip("\n")) for header, lines in sections)
    return Story("\n".join(opening).strip(), told)


def written(story: Story) -> str:
    """A golden file as text: a blank line before each input, so that its consequences stand with it."""
    lines = [story.opening]
    after_asked = False
    for section in story.sections:
        kind = section.words[0]
        if kind in INPUTS and not after_asked:
            lines.append("")
        after_asked = kind == "asked"
        lines.append(f"-- {section.header} --")
        if section.text:
            lines.append(section.text)
    return "\n".join(lines) + "\n"
