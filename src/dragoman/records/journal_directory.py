"""The directory of the journals of a database: its location, its permissions, and requests to the writers."""

from __future__ import annotations

import os
from pathlib import Path

from dragoman.database_location import DatabaseLocation, is_persistent, path_of

_ENDING = ".records"
# The suffix of journals, and the file that requests all writers to begin another journal.
JOURNAL = ".log"
_ROTATE = "rotate"
# The directory of journals of another machine, whose disk this one has a copy of.
ASIDE = "aside"
# The parts of a journal's name, if one of them is that of its machine.
_PARTS = 4


def directory_of(database: DatabaseLocation) -> Path:
    """The folder of the journals that belong to the file of `storage.path`; a link leads to where its file is."""
    if not is_persistent(database):
        raise ValueError("nothing is accounted for in memory")
    return Path(os.path.realpath(path_of(database)) + _ENDING)


def make_directory(directory: Path) -> None:
    """Make the folder, for its user alone."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def journals_in(directory: Path) -> list[Path]:
    """The journals that lie there, the oldest first; none if there is no such folder."""
    try:
        return sorted(path for path in directory.iterdir() if path.suffix == JOURNAL)
    except (FileNotFoundError, NotADirectoryError):
        return []


def begun(name: str) -> int:
    """The start of a journal in microseconds, by its name; 0 if the name does not contain it."""
    digits = name.partition("-")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


def journal_name(time: int, machine: str, number: int) -> str:
    """The name of a journal that begins at a time in microseconds. `machine` is the id and the epoch of the machine, ""
    where there is only one: in containers all processes have the same number."""
    return f"{time:017d}-{f'{machine}-' if machine else ''}{os.getpid()}-{number}{JOURNAL}"


def machine_of(name: str) -> tuple[str, int]:
    """The id and the epoch of the machine that a journal belongs to, by its name; "" and 0 if it has none."""
    parts = name.removesuffix(JOURNAL).split("-")
    machine, _, epoch = parts[1].partition(".") if len(parts) == _PARTS else ("", "", "")
    return (machine, int(epoch)) if epoch.isascii() and epoch.isdecimal() else ("", 0)


def request_rotation(directory: Path, now: int) -> None:
    """Make every worker begin another journal, so that entries until `now` (microseconds) can be removed."""
    temporary = directory / f"{_ROTATE}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, b"%d" % now)
    finally:
        os.close(descriptor)
    # Whole, or as it was before.
    temporary.replace(directory / _ROTATE)


def read_rotation_request(directory: Path) -> int:
    """Journals that began before this time must end; 0 without a request."""
    try:
        return int((directory / _ROTATE).read_bytes() or b"0")
    except (OSError, ValueError):
        return 0
