"""Log file of `serve --log-file`, readable by its owner alone and bounded in size. A full file becomes `FILE.1`,
replacing the one before. Workers share it: the second one finds it rotated already."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import TextIO

# The file and the one before it together are twice this at most.
MAX_LOG_BYTES = 16 * 1024 * 1024
_MODE = 0o600
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class LogFile:
    """One file, opened for as long as the process runs."""

    def __init__(self, path: str | Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        # A worker may have another current directory some day.
        self._path = Path(path).absolute()
        self._max_bytes = max_bytes
        self._descriptor = _opened(self._path)
        self.out: TextIO = os.fdopen(self._descriptor, "w", encoding="utf-8", closefd=False)

    def make_room(self, size: int) -> None:
        """Begin a new file if this one would become too large."""
        now = os.fstat(self._descriptor)
        if now.st_size and now.st_size + size > self._max_bytes:
            # Held until the descriptor refers to another file. Not `flock`, which is shared by all forked processes.
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            if self._is_current(now):
                self._path.replace(self._path.with_name(self._path.name + ".1"))
            new = _opened(self._path)
            os.dup2(new, self._descriptor, inheritable=False)
            os.close(new)

    def _is_current(self, ours: os.stat_result) -> bool:
        """Whether the file of that name is still the one that is written to."""
        try:
            return os.path.samestat(ours, self._path.lstat())
        except FileNotFoundError:
            return False


def _opened(path: Path) -> int:
    descriptor = os.open(path, _FLAGS, _MODE)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(descriptor)
        raise OSError(errno.EPERM, "the log is written to a file of one's own alone", str(path))
    # One that was there may have been readable for others.
    os.fchmod(descriptor, _MODE)
    return descriptor
