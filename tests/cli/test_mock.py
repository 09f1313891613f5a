"""`dragoman mock` as a process: it says where it is, answers the lines it gives to try, and stops when told."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.mock import curl_lines
from dragoman.gateway.processes import port_conflict

TIMEOUT = 60.0


def tried(line: str) -> dict[str, object]:
    """What a line to try gives, without the program it names."""
    words = shlex.split(line.strip())
    headers = dict(words[at + 1].split(": ", 1) for at, word in enumerate(words) if word == "-H")
    body = words[words.index("-d") + 1].encode()
    with urllib.request.urlopen(urllib.request.Request(words[1], body, headers), timeout=TIMEOUT) as reply:
        value = json.loads(reply.read())
    assert isinstance(value, dict)
    return value


def test_the_mock_answers_the_lines_that_it_gives_and_stops_when_told(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    command = [sys.executable, "-m", "dragoman", "mock", "--port", "0", "--record", str(record)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(7)]
            assert said[0].startswith("dragoman mock listens on http://127.0.0.1:")
            for line in said[4:]:
                assert "Hello from the script" in json.dumps(tried(line))
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0
    assert len(record.read_text().splitlines()) == 3


def test_a_lenient_mock_says_so() -> None:
    command = [sys.executable, "-m", "dragoman", "mock", "--port", "0", "--lenient"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().endswith(", lenient\n")
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0


def test_a_port_in_use_is_told_in_one_line(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # Seconds that whoever has the port gets to say whether it is a gateway.
    monkeypatch.setattr(port_conflict, "_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["mock", "--port", str(taken.getsockname()[1])]) == 1
    told = capfd.readouterr()
    assert told.out == "" and "in use" in told.err and "Traceback" not in told.err


def test_a_record_that_cannot_be_written_is_told_in_one_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["mock", "--port", "0", "--record", str(tmp_path / "nowhere" / "record")]) == 1
    assert "nowhere" in capfd.readouterr().err


def test_there_is_a_line_for_each_protocol() -> None:
    lines = curl_lines("http://127.0.0.1:1")
    assert [line.split()[1].rpartition("/v1/")[2] for line in lines] == ["messages", "chat/completions", "responses"]
