"""SIGHUP: the effect of the signal on a gateway, decided once at its start (decision 28).

it is ignored already, as by nohup            stays ignored
a controlling terminal, and not process 1     the terminal is gone: end, as at the first Ctrl-C
none: a service, a container                  reload the configuration, as daemons do"""

from __future__ import annotations

import os
import signal
from enum import Enum


class OnHangup(Enum):
    IGNORED = "ignored"
    ENDS = "ends"
    RELOADS = "reloads"


def hangup_of(*, ignored: bool, terminal: bool, pid: int) -> OnHangup:
    """The effect of SIGHUP on a process that was started like this."""
    if ignored:
        return OnHangup.IGNORED
    # Process 1 belongs to a container, whose terminal only shows output. A container would not be restarted.
    return OnHangup.ENDS if terminal and pid != 1 else OnHangup.RELOADS


def hangup_at_start() -> OnHangup:
    """The effect of SIGHUP on this process. Call it before its handler is changed."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    hangup = hangup_of(ignored=ignored, terminal=_has_terminal(), pid=os.getpid())
    if hangup is OnHangup.RELOADS:
        # Without a configuration file there is nothing to reload.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return hangup


def _has_terminal() -> bool:
    """Whether this process has a controlling terminal, wherever its streams go."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
