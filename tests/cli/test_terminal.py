"""What a stream can show, and tables and colours as a person sees them on one."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from dragoman.cli.terminal import GREEN, Column, OutputScreen, folded, progress, screen_of, table
from dragoman.terminal import Choice, cells
from tests.cli.machine import put_trusted
from tests.cli.screens import on_screen, piped
from tests.server.process import clean_environment

XTERM = {"TERM": "xterm-256color"}
COLUMNS = (
    Column(heading="NAME", least=10),
    Column(heading="COUNT", right=True),
    Column(heading="STATE", styles={"good": GREEN}),
    Column(heading="NOTE", below=True),
)
ROWS = (
    ("anthropic/claude-sonnet-4-5", "12", "good", "a note that is rather long, and goes on"),
    ("  x/a-model", "1", "resting", ""),
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal, without being one that has a width."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


# What is known, and whether there are colours.
COLOURS: dict[str, tuple[bool, dict[str, str], Choice, bool]] = {
    "a terminal": (True, XTERM, "auto", True),
    "a file": (False, XTERM, "auto", False),
    "NO_COLOR": (True, {**XTERM, "NO_COLOR": "1"}, "auto", False),
    "NO_COLOR with nothing in it": (True, {**XTERM, "NO_COLOR": ""}, "auto", True),
    "a dumb terminal": (True, {"TERM": "dumb"}, "auto", False),
    "a terminal nothing is known of": (True, {}, "auto", False),
    "always, in a file": (False, XTERM, "always", True),
    "always, in spite of NO_COLOR": (True, {**XTERM, "NO_COLOR": "1"}, "always", True),
    "never": (True, XTERM, "never", False),
}


@pytest.mark.parametrize("case", COLOURS)
def test_colours_are_for_who_can_see_them(case: str) -> None:
    is_terminal, environ, choice, expected = COLOURS[case]
    stream = Terminal() if is_terminal else io.StringIO()
    assert screen_of(stream, choice, environ).colour is expected


@pytest.mark.parametrize(
    ("environ", "width"), [({}, 80), ({"COLUMNS": "132"}, 132), ({"COLUMNS": "0"}, 80), ({"COLUMNS": "x"}, 80)]
)
def test_a_terminal_without_a_width_has_the_usual_one(environ: dict[str, str], width: int) -> None:
    assert screen_of(Terminal(), environ=environ).width == width


def test_a_table_fits_and_what_has_no_room_goes_below() -> None:
    screen = OutputScreen(terminal=True, width=40)
    assert table(screen, COLUMNS, ROWS) == [
        "NAME                      COUNT  STATE",
        "anthropic/claude-sonnet-     12  good",
        "4-5",
        "      a note that is rather long, and",
        "      goes on",
        "  x/a-model                   1  resting",
    ]
    beside = OutputScreen(terminal=True, width=80)
    assert table(beside, COLUMNS, ROWS) == [
        "NAME                         COUNT  STATE    NOTE",
        "anthropic/claude-sonnet-4-5     12  good     a note that is rather long, and",
        "                                             goes on",
        "  x/a-model                      1  resting",
    ]


def test_colours_do_not_count_as_columns() -> None:
    screen = OutputScreen(terminal=True, width=80, colour=True)
    lines = table(screen, COLUMNS, ROWS)
    assert lines[0].startswith("\x1b[1mNAME\x1b[0m                         \x1b[1mCOUNT\x1b[0m  ")
    assert lines[1].startswith("anthropic/claude-sonnet-4-5     12  \x1b[32mgood\x1b[0m     a note")


def test_wide_signs_take_two_columns() -> None:
    assert (cells("模型"), cells("e\u0301"), cells("é")) == (4, 1, 1)
    lines = table(OutputScreen(terminal=True), COLUMNS[:2], [("模型", "1"), ("abcd", "2")])
    assert lines == ["NAME  COUNT", "模型      1", "abcd      2"]


def test_a_cell_without_marks_is_cut_where_it_must_be() -> None:
    assert folded("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert folded("  abcdef", 4) == ["  ab", "  cd", "  ef"]
    assert folded("模型模型", 5) == ["模型", "模型"]


def test_an_id_that_fits_into_a_cell_is_not_cut() -> None:
    assert folded("ours req_0a1b, provider's req_2c3d-4e", 20) == ["ours req_0a1b,", "provider's", "req_2c3d-4e"]
    assert folded("at /srv/models/qwen3", 12) == ["at /srv/", "models/qwen3"]


def test_a_table_commands_no_terminal_and_has_no_tab_of_a_stranger() -> None:
    for screen in (OutputScreen(terminal=True), OutputScreen()):
        text = "\n".join(table(screen, COLUMNS, [("a\x1b[2J", "1", "good", "b\tc\nd")]))
        assert "\x1b" not in text
        assert "b\\tc\\nd" in text


def test_progress_is_told_on_a_terminal_and_nowhere_else() -> None:
    streams = {"terminal": (Terminal(), XTERM), "dumb": (Terminal(), {"TERM": "dumb"}), "file": (io.StringIO(), XTERM)}
    for stream, environ in streams.values():
        with progress(stream, environ) as say:
            say("fetching …")
    told = {name: stream.getvalue() for name, (stream, _) in streams.items()}
    assert told["terminal"] == "\rfetching …\x1b[K\r\x1b[K"
    assert told["dumb"] == "fetching ...\n"
    assert told["file"] == ""


@pytest.mark.parametrize("columns", [80, 140])
def test_pitfall_615_colours_are_on_the_terminal_alone(columns: int, tmp_path: Path) -> None:
    put_trusted(tmp_path, "[server]\ndiscover = false\n", clean_environment(tmp_path))
    seen = on_screen(["providers"], tmp_path, columns=columns)
    assert seen.coloured and "\x1b[1mNAME\x1b[0m" in seen.raw
    plain = {
        "never": on_screen(["providers", "--color", "never"], tmp_path, columns=columns),
        "before the command": on_screen(["--color", "never", "providers"], tmp_path, columns=columns),
        "NO_COLOR": on_screen(["providers"], tmp_path, columns=columns, environ={"NO_COLOR": "1"}),
    }
    for name, other in plain.items():
        assert not other.coloured, name
        assert other.plain == seen.plain, name
    _, out, _ = piped(["providers"], tmp_path)
    assert "\x1b" not in out
    _, out, _ = piped(["providers", "--color", "always"], tmp_path)
    assert out.startswith("\x1b[1mNAME\x1b[0m\t")


def test_pitfall_615_each_stream_is_judged_by_itself(tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    body = {"model": "m", "logit_bias": {"1": 1}, "messages": [{"role": "user", "content": "Hi"}]}
    request.write_text(json.dumps(body))
    words = ["translate", "--to", "anthropic-messages", str(request)]
    ledger = on_screen(words, tmp_path, stream="stderr")
    assert ledger.coloured and ledger.plain.startswith("FATE ")
    assert "\x1b" not in ledger.other
    data = on_screen(words, tmp_path, stream="stdout")
    assert not data.coloured
    assert data.other.startswith("FATE\t")


def test_pitfall_618_json_is_one_document_whatever_is_warned_of(tmp_path: Path) -> None:
    put_trusted(
        tmp_path,
        '[server]\nport = 0\n[providers.a]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\n'
        '[models]\nfast = "a/small"\n',
        clean_environment(tmp_path),
    )
    status, out, err = piped(["models", "--json", "--live"], tmp_path)
    assert status == 0
    assert "cannot list the models of a" in err
    assert "fast" in [name["name"] for name in json.loads(out)]


# Why signs cannot be shown.
PLAIN: dict[str, dict[str, str]] = {
    "a locale": {"LC_ALL": "C"},
    "a dumb terminal": {"TERM": "dumb"},
}


@pytest.mark.parametrize("case", PLAIN)
def test_pitfall_619_signs_that_cannot_be_shown_are_said_in_ascii(case: str, tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}))
    rich = on_screen(["explain", str(request)], tmp_path)
    assert "─" in rich.plain
    plain = on_screen(["explain", str(request)], tmp_path, environ=PLAIN[case])
    assert plain.raw.isascii()
    assert plain.plain == rich.plain.replace("─", "-")


def test_help_is_said_in_ascii_too(tmp_path: Path) -> None:
    seen = on_screen(["launch", "--help"], tmp_path, environ={"LC_ALL": "C"})
    assert seen.raw.isascii() and "[OPTION ...]" in seen.plain
