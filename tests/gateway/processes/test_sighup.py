"""What a hang-up means is settled by how the process began."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import pytest

from dragoman.gateway.processes.sighup import OnHangup, hangup_of
from tests.waiting import LIMIT

_ASKED = (
    "import signal; from dragoman.gateway.processes.sighup import hangup_at_start as asked; "
    "print(asked().value, signal.getsignal(signal.SIGHUP).name)"
)
_IN_TERMINAL = f"import os; os.login_tty(0); {_ASKED}"
_IGNORED = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); "


@pytest.mark.parametrize(
    ("ignored", "terminal", "pid", "then"),
    [
        (True, True, 100, OnHangup.IGNORED),
        (True, False, 1, OnHangup.IGNORED),
        (False, True, 100, OnHangup.ENDS),
        (False, True, 1, OnHangup.RELOADS),
        (False, False, 100, OnHangup.RELOADS),
        (False, False, 1, OnHangup.RELOADS),
    ],
)
def test_a_hang_up_means_what_is_expected(ignored: bool, terminal: bool, pid: int, then: OnHangup) -> None:
    assert hangup_of(ignored=ignored, terminal=terminal, pid=pid) is then


@pytest.mark.parametrize(
    ("code", "said"),
    [
        # Until there is something to read again, nobody can be told to.
        (_ASKED, "reloads SIG_IGN"),
        (_IGNORED + _ASKED, "ignored SIG_IGN"),
        (_IN_TERMINAL, "ends SIG_DFL"),
        (_IGNORED + _IN_TERMINAL, "ignored SIG_IGN"),
    ],
    ids=["without a terminal", "without a terminal, ignored", "in a terminal", "in a terminal, ignored"],
)
def test_the_system_is_asked_and_what_was_ignored_stays_so(code: str, said: str) -> None:
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=theirs,
            stdout=theirs,
            start_new_session=True,
            # What ignores signals here must not be what is asked about.
            preexec_fn=_hearing,
        )
        assert process.wait(LIMIT) == 0
        assert os.read(ours, 1000).decode().strip() == said
    finally:
        os.close(theirs)
        os.close(ours)


def _hearing() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
