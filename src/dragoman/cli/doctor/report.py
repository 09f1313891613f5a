"""Doctor report: sections of facts and findings, as text and as JSON, and the headings of its help page. It holds no
value of the environment and no key; paths below the home begin with `~`, since they may contain a user's name."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from dragoman.cli.terminal import BOLD, GREEN, RED, YELLOW, OutputScreen, printable
from dragoman.model.jsonvalue import JsonObject

PAGE = "docs/troubleshooting.md"

BLOCKED = "A firewall or proxy may be blocking it"
AUTH_CONFLICT = "Auth conflict: both a token and an API key are set"
REFUSED_KEY = "It does not take the key"
REFUSED_CONNECTION = "Connection refused"
NOT_TRUSTED = "You have not trusted it with this content"
CLOCK = "The clock is wrong"
DATABASE = "The file cannot be opened"
SERVER = "The database cannot be used"
READABLE = "It can be read by others"
SERVICE = "The service does not see the variables of the shell"

ALL = (BLOCKED, AUTH_CONFLICT, REFUSED_KEY, REFUSED_CONNECTION, NOT_TRUSTED, CLOCK, DATABASE, SERVER, READABLE, SERVICE)


_INDENT = "  "
_WIDEST_NAME = 24


class DoctorFinding(Struct, frozen=True):
    """A finding: problem, remedy and heading of the troubleshooting page; one that is not `wrong` is only a note."""

    message: str
    advice: str
    heading: str = ""
    wrong: bool = True


class Section(Struct, frozen=True):
    """The findings of one collector."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    findings: tuple[DoctorFinding, ...] = ()

    @property
    def wrong(self) -> int:
        return sum(finding.wrong for finding in self.findings)


class ReportRedactor(Struct, frozen=True, kw_only=True):
    """What the report must not contain: the home directory, and secrets."""

    home: str = ""
    secrets: tuple[str, ...] = ()

    def redact(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "[secret]")
        if len(self.home) > 1:
            text = text.replace(self.home + os.sep, "~" + os.sep)
            text = "~" if text == self.home else text
        return text


def redactor_for(environ: Mapping[str, str], secrets: Sequence[str]) -> ReportRedactor:
    """The veil of a user; short texts are no secrets, and would blank out ordinary words."""
    long = sorted({secret for secret in secrets if len(secret) >= 8}, key=len, reverse=True)
    return ReportRedactor(home=environ.get("HOME", "").rstrip(os.sep), secrets=tuple(long))


def as_text(sections: Sequence[Section], screen: OutputScreen, redactor: ReportRedactor) -> str:
    """The report for people; it is the same in a pipe, where it goes into an issue."""
    lines = [line for section in sections for line in (*_section(section, screen, redactor), "")]
    wrong = sum(section.wrong for section in sections)
    if not wrong:
        return "\n".join([*lines, screen.painted("Nothing is wrong.", GREEN)])
    things = "One thing is" if wrong == 1 else f"{wrong} things are"
    return "\n".join([*lines, screen.painted(f"{things} wrong.", RED)])


def _section(section: Section, screen: OutputScreen, redactor: ReportRedactor) -> Iterator[str]:
    state = "wrong" if section.wrong else "ok"
    yield f"{screen.painted(section.title, BOLD)}: {screen.painted(state, RED if section.wrong else GREEN)}"
    width = min(max((len(name) for name, _ in section.facts), default=0), _WIDEST_NAME)
    before = ""
    for name, words in section.facts:
        # Several of one kind have their name once.
        head = f"{_INDENT}{'' if name == before else printable(redactor.redact(name)):{width}}{_INDENT}"
        yield from _wrapped(head, redactor.redact(words), screen)
        before = name
    for finding in section.findings:
        mark = "wrong" if finding.wrong else "note"
        yield from _wrapped(
            f"{_INDENT}{screen.painted(mark, RED if finding.wrong else YELLOW)}: ",
            redactor.redact(finding.message),
            screen,
        )
        yield from _wrapped(f"{_INDENT * 2}do: ", redactor.redact(finding.advice), screen)
        if finding.heading:
            yield from _wrapped(f"{_INDENT * 2}see: ", f'{PAGE}, "{finding.heading}"', screen)


def _wrapped(head: str, words: str, screen: OutputScreen) -> Iterator[str]:
    """Words behind a head, on as many lines as they take on a terminal."""
    text = printable(words)
    if not screen.terminal:
        yield (head + text).rstrip()
        return
    # Colours take no room.
    size = len(head) if "\x1b" not in head else len(_INDENT) + len("wrong: ")
    # Paths are not cut, so that they can be copied.
    room = max(screen.width - size, 20)
    rows = textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]
    yield (head + rows[0]).rstrip()
    yield from (" " * size + row for row in rows[1:])


def as_json(sections: Sequence[Section], redactor: ReportRedactor) -> JsonObject:
    return {
        "wrong": sum(section.wrong for section in sections),
        "sections": [
            {
                "title": section.title,
                "facts": [
                    {"name": redactor.redact(name), "value": redactor.redact(value)} for name, value in section.facts
                ],
                "findings": [
                    {
                        "wrong": finding.wrong,
                        "words": redactor.redact(finding.message),
                        "do": redactor.redact(finding.advice),
                        "see": finding.heading or None,
                    }
                    for finding in section.findings
                ],
            }
            for section in sections
        ],
    }
