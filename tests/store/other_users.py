"""Users who may not write everywhere, also where the tests are run by root, who may."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def unwritable_folder() -> Iterator[Path]:
    """A folder that everybody may look into, and nobody but root write to."""
    place = Path(tempfile.mkdtemp(prefix="dragoman-volume-"))
    try:
        place.chmod(0o555)
        yield place
    finally:
        place.chmod(0o755)
        shutil.rmtree(place)


@contextmanager
def as_nobody() -> Iterator[str]:
    """As a user who is not root, which may write anywhere; gives who that is."""
    if os.geteuid() != 0:
        yield f"{os.geteuid()}:{os.getegid()}"
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield f"{NOBODY}:{NOBODY}"
    finally:
        os.seteuid(0)
        os.setegid(0)
