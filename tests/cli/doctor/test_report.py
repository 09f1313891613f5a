"""The report as a person sees it, and what never is in it."""

from __future__ import annotations

import pytest

from dragoman.cli.doctor.report import DoctorFinding, ReportRedactor, Section, as_json, as_text, redactor_for
from dragoman.cli.terminal import OutputScreen

SECTIONS = (
    Section(title="Disk", facts=(("folder", "/home/me/.local/state/dragoman, 5 GiB free"),)),
    Section(
        title="Environment",
        findings=(
            DoctorFinding(message="A is set, with sk-0123456789", advice="unset A", heading="Connection refused"),
            DoctorFinding(message="B \x1b[2J", advice="look", wrong=False),
        ),
    ),
)
VEIL = ReportRedactor(home="/home/me", secrets=("sk-0123456789",))
TEXT = """\
Disk: ok
  folder  ~/.local/state/dragoman, 5 GiB free

Environment: wrong
  wrong: A is set, with [secret]
    do: unset A
    see: docs/troubleshooting.md, "Connection refused"
  note: B \\x1b[2J
    do: look

One thing is wrong."""


def test_it_is_the_same_on_a_terminal_and_in_a_pipe() -> None:
    assert as_text(SECTIONS, OutputScreen(), VEIL) == TEXT
    assert as_text(SECTIONS, OutputScreen(terminal=True, width=80), VEIL) == TEXT


def test_what_is_wrong_is_red_and_said_in_words() -> None:
    text = as_text(SECTIONS, OutputScreen(terminal=True, colour=True), VEIL)
    assert "\x1b[1mEnvironment\x1b[0m: \x1b[31mwrong\x1b[0m" in text
    assert "\x1b[33mnote\x1b[0m: B" in text
    assert text.endswith("\x1b[31mOne thing is wrong.\x1b[0m")


@pytest.mark.parametrize("colour", [False, True])
def test_long_words_go_on_below(colour: bool) -> None:
    finding = DoctorFinding(message="word " * 40, advice="do " * 40, wrong=False)
    section = Section(title="T", facts=(("name", "words " * 40),), findings=(finding,))
    lines = as_text([section], OutputScreen(terminal=True, width=60, colour=colour), VEIL).splitlines()
    plain = [line.replace("\x1b[33m", "").replace("\x1b[0m", "").replace("\x1b[1m", "") for line in lines[1:-1]]
    assert max(map(len, plain)) <= 60
    assert plain[1].startswith("        words")


def test_a_path_wider_than_the_screen_is_not_cut() -> None:
    path = "/var/lib/" + "a-long-name-" * 6
    section = Section(title="T", facts=(("file", f"{path}, 14 KiB"),))
    assert as_text([section], OutputScreen(terminal=True, width=60), VEIL).splitlines()[1:3] == [
        f"  file  {path},",
        "        14 KiB",
    ]


def test_nothing_wrong_is_said() -> None:
    assert as_text(SECTIONS[:1], OutputScreen(), VEIL).endswith("\n\nNothing is wrong.")


def test_for_programs() -> None:
    told = as_json(SECTIONS, VEIL)
    assert told["wrong"] == 1
    text = str(told)
    assert "sk-0123456789" not in text and "/home/me" not in text
    assert "'see': 'Connection refused'" in text and "'do': 'unset A'" in text


def test_a_home_is_hidden_and_short_words_are_no_secrets() -> None:
    veil = redactor_for({"HOME": "/home/me/"}, ["none", "sk-0123456789", ""])
    assert veil == VEIL
    assert (veil.redact("/home/me"), veil.redact("/home/me/x"), veil.redact("/home/men")) == ("~", "~/x", "/home/men")
    assert redactor_for({}, []).redact("/x/y") == "/x/y"
    assert redactor_for({"HOME": "/"}, []).redact("/x/y") == "/x/y"
