"""`dragoman init` as a process on a terminal, which asks a person."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.config.load import read_settings
from dragoman.providers.catalogue import catalogue
from tests.cli.machine import SECRET
from tests.cli.test_init import KEY, OWN, WHICH
from tests.cli.transcripts import Transcript
from tests.config.support import named
from tests.gateway.harness import running, whole
from tests.server.local_ports import environment_with
from tests.server.process import PATIENCE, Process
from tests.waiting import wait_until

LIST = {"object": "list", "data": [{"id": "qwen3"}, {"id": "x" * 90}]}


class Dialogue:
    """The command on a terminal of 80 columns."""

    def __init__(self, place: Path, environment: Mapping[str, str], *words: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dragoman", "init", *words],
            cwd=place,
            env={**environment, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._transcript = Transcript(self._ours)

    @property
    def screen(self) -> str:
        """What was shown so far."""
        return self._transcript.text

    def until(self, text: str, count: int = 1) -> None:
        """Wait until a text was shown so often."""
        self._transcript.wait(text, count)

    def say(self, text: str) -> None:
        """Type something."""
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        """What Ctrl-C does to a program that waits for an answer; before that it would be heard a moment later."""
        state = Path(f"/proc/{self._process.pid}/stat")
        wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "S", "the command waits for an answer")
        os.kill(self._process.pid, signal.SIGINT)

    def end(self) -> int:
        """Read to the end; give the exit status."""
        self._transcript.finish()
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        """Leave nothing behind."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._ours)


@contextmanager
def dialogue(place: Path, *words: str) -> Iterator[Dialogue]:
    """A person with a key and a local server."""
    with running(lambda _: whole(LIST)) as house:
        environment = environment_with(place, ollama=house.provider.port) | {"OPENAI_API_KEY": SECRET}
        talk = Dialogue(place, environment, *words)
        try:
            yield talk
        finally:
            talk.close()


def test_a_person_is_asked_what_is_left(tmp_path: Path) -> None:
    with dialogue(tmp_path) as talk:
        talk.until(WHICH)
        talk.say("3\n")
        talk.until(WHICH, 2)
        assert "3 is none of them." in talk.screen
        talk.say("ollama\n")
        talk.until(KEY)
        talk.say("perhaps\n")
        talk.until(KEY, 2)
        talk.say("y\n")
        assert talk.end() == 0, talk.screen
    lines = talk.screen.replace("\r", "").splitlines()
    # A path is as long as it is.
    assert max(len(line) for line in lines if not line.startswith("Written: ")) <= 80
    assert lines[0] == "Found:"
    assert lines[1] == "   1  openai      OPENAI_API_KEY is set"
    assert lines[2].startswith("   2  ollama      answers at 127.0.0.1:")
    assert "  dragoman serve" in lines
    settings = read_settings(named(tmp_path / OWN), {"OPENAI_API_KEY": SECRET}, catalogue())
    assert [provider.name for provider in settings.listed()] == ["ollama"]
    assert len(settings.keys) == 1


def test_the_file_starts(tmp_path: Path) -> None:
    with dialogue(tmp_path, "--yes") as talk:
        assert talk.end() == 0
        process = Process(["--port", "0"], tmp_path, {"OPENAI_API_KEY": SECRET})
        try:
            process.listening()
            process.out.wait("  ollama ")
            # A SIGTERM would have it serve on for a while.
            process.send(signal.SIGINT)
            assert process.wait() == 0
        finally:
            process.end()


@pytest.mark.parametrize("answers", [0, 1], ids=["the first question", "the second"])
def test_whoever_interrupts_in_the_middle_leaves_nothing(tmp_path: Path, answers: int) -> None:
    with dialogue(tmp_path) as talk:
        talk.until(WHICH)
        if answers:
            talk.say("\n")
            talk.until(KEY)
        talk.interrupt()
        assert talk.end() == 130
        assert "Traceback" not in talk.screen
    assert not (tmp_path / OWN.parent).exists()
