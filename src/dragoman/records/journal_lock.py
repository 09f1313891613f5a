"""Journal lock: its holder is the only writer of a journal; the kernel releases it with the last open descriptor."""

from __future__ import annotations

import os


def lock(descriptor: int) -> bool:
    """Take the lock of an open journal; False if another process has the lock."""
    # Here, since commands look at journals also on systems where no gateway writes any.
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_one_that_is_there(descriptor: int) -> bool:
    """The same; False also if the journal was removed meanwhile and could not be found."""
    return lock(descriptor) and os.fstat(descriptor).st_nlink > 0
