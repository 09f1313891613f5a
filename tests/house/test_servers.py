"""Every habit of a server that is told of has a test that exists, or a recording; every recording shows a habit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.servers.reading import STOPS
from tests.servers.recordings import FILES, Server, read

ROOT = Path(__file__).parents[2]
EACH = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@EACH
def test_every_quirk_is_tested_or_recorded(path: Path) -> None:
    server = read(path)
    recorded = {recording.quirk for recording in server.recording}
    unproved = [quirk.id for quirk in server.quirk if not quirk.test and quirk.id not in recorded]
    assert not unproved, "neither a test nor a recording"
    missing = [quirk.test for quirk in server.quirk if quirk.test and not exists(quirk.test)]
    assert not missing, "no such test"


def exists(test: str) -> bool:
    """Whether a file of the tests defines it."""
    name, _, function = test.partition("::")
    file = ROOT / name
    return file.is_file() and bool(
        re.search(rf"^def {re.escape(function)}\(", file.read_text(encoding="utf-8"), re.MULTILINE)
    )


@EACH
def test_every_recording_shows_a_quirk_under_a_name_of_its_own(path: Path) -> None:
    server = read(path)
    known = {quirk.id for quirk in server.quirk}
    assert len(known) == len(server.quirk), "two quirks of one id"
    assert {recording.quirk for recording in server.recording} <= known
    names = [recording.name for recording in server.recording]
    assert len(set(names)) == len(names), "two recordings of one name"


@EACH
def test_what_users_read_is_whole(path: Path) -> None:
    server = read(path)
    assert server.server and server.model
    assert server.protocol in (MESSAGES, CHAT, RESPONSES)
    for quirk in server.quirk:
        assert quirk.does.endswith(".") and quirk.made.endswith("."), quirk.id
        assert quirk.source.startswith("https://"), quirk.id
        assert "\n" not in quirk.does + quirk.made, quirk.id


@EACH
def test_every_answer_of_a_recording_comes_in_one_way(path: Path) -> None:
    for recording in read(path).recording:
        ways = {(bool(turn.answer), bool(turn.stream)) for turn in recording.turns}
        assert ways in ({(True, False)}, {(False, True)}), recording.name
        assert {turn.says.stop for turn in recording.turns} <= {"", *STOPS}, recording.name


def test_a_server_has_one_file_for_each_protocol() -> None:
    names = {MESSAGES: "_messages", RESPONSES: "_responses", CHAT: ""}
    files: dict[tuple[str, str], str] = {}
    for path in FILES:
        server = read(path)
        other = files.setdefault((server.server, server.protocol), path.stem)
        assert other == path.stem, "two files of one server"
        # The plain name is that of the protocol most servers speak, or the one of whoever made it.
        assert path.stem.endswith(names[server.protocol]) or path.stem == "anthropic", path.stem


def test_there_are_servers() -> None:
    assert [server for server in map(read, FILES) if isinstance(server, Server) and server.quirk]
