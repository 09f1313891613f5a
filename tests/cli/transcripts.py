"""Transcript of a process: what it writes to a pipe or a terminal, read while a test waits for some text in it."""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder
from collections.abc import Callable

from tests.waiting import reporting_state, wait_until


class Transcript:
    """Reads a descriptor, which stays its owner's."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ended = False
        # A piece may end in the middle of a character.
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self.text = ""

    def wait(self, text: str, count: int = 1) -> None:
        """Wait until a text was written so often, anywhere in the transcript."""
        self._wait(lambda: self.text.count(text) >= count, repr(text))

    def take(self, text: str) -> str:
        """Wait for a text, and remove everything up to its end from the transcript, which is returned."""
        self.wait(text)
        taken, _, self.text = self.text.partition(text)
        return taken + text

    def finish(self) -> str:
        """Wait for the end; return the whole transcript."""
        self._wait(lambda: self._ended, "the end", beyond_end=True)
        return self.text

    def _wait(self, done: Callable[[], bool], what: str, *, beyond_end: bool = False) -> None:
        def read_and_look() -> bool:
            self._read()
            found = done()
            assert found or not self._ended or beyond_end, f"{what} was not written, but {self.text!r}"
            return found

        with reporting_state(lambda: f"written so far: {self.text!r}"):
            wait_until(read_and_look, f"{what} in what a process writes")

    def _read(self) -> None:
        """Read everything that is there."""
        while not self._ended and select.select([self._descriptor], [], [], 0)[0]:
            try:
                piece = os.read(self._descriptor, 65536)
            except OSError:
                # The end of a terminal is an error to its reader.
                piece = b""
            self.text += self._decoder.decode(piece)
            self._ended = not piece
