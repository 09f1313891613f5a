"""The disk and the store: free space, sizes, permissions, and whether the database file can be used."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from dragoman.cli.doctor.report import DATABASE, READABLE, DoctorFinding, Section
from dragoman.config.config_file import state_directory
from dragoman.config.settings import Settings, Storage
from dragoman.database_location import PostgresDatabase, is_persistent
from dragoman.store.file_state import inspect

# With less than this a store or a log may soon not be written.
_LEAST = 200 * 1024 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MAX_FILES = 20


def disk(settings: Settings | None, environ: Mapping[str, str], least: int = _LEAST) -> Section:
    """The state directory, and the file of the store if that is elsewhere."""
    directory = state_directory(environ)
    store = settings.storage.path if settings is not None and _is_used(settings.storage) else ""
    places = [directory] if directory is not None else []
    if is_persistent(store) and Path(store).parent not in places:
        places.append(Path(store).parent)
    if not places:
        finding = DoctorFinding(
            "there is no home directory to store anything in", "set HOME or XDG_STATE_HOME to an absolute path"
        )
        return Section("Disk", findings=(finding,))
    facts: list[tuple[str, str]] = []
    findings: list[DoctorFinding] = []
    for place in places:
        if not place.is_dir():
            facts.append(("directory", f"{place}, does not exist yet"))
            continue
        free = shutil.disk_usage(place).free
        facts.append(("directory", f"{place}, {_size(free)} free"))
        if free < least:
            findings.append(DoctorFinding(f"only {_size(free)} free in {place}", "make room there"))
        # Of a shared directory only the store and its files.
        files = _list_files(place, "*" if place == directory else f"{Path(store).name}*")
        files |= {} if place == directory else _list_files(place, f"{Path(store).name}.records/*")
        largest = sorted(files, key=lambda file: files[file].st_size, reverse=True)
        facts += [("file", f"{path}, {_size(files[path].st_size)}") for path in largest[:_MAX_FILES]]
        rest = largest[_MAX_FILES:]
        if rest:
            facts.append(("files", f"{len(rest)} more, {_size(sum(files[path].st_size for path in rest))}"))
        own = {place: place.stat()} if place == directory else {}
        findings += _exposed({**own, **files})
    return Section("Disk", tuple(facts), findings=tuple(findings))


def _list_files(place: Path, pattern: str) -> dict[Path, os.stat_result]:
    """The files of a directory; one that goes meanwhile is none."""
    files: dict[Path, os.stat_result] = {}
    for path in sorted(place.rglob(pattern)):
        with suppress(FileNotFoundError):
            state = path.stat()
            if stat.S_ISREG(state.st_mode):
                files[path] = state
    return files


def _exposed(files: Mapping[Path, os.stat_result]) -> Iterator[DoctorFinding]:
    """Files that other users of this machine may read or write."""
    if os.name != "posix":
        return
    for path, state in files.items():
        mode = stat.S_IMODE(state.st_mode)
        if mode & _OTHERS:
            wanted = "700" if stat.S_ISDIR(state.st_mode) else "600"
            words = f"{path} has mode {mode:04o}: other users of this machine can access it"
            yield DoctorFinding(words, f"chmod {wanted} {path}", heading=READABLE)


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


def _is_used(storage: Storage) -> bool:
    """Whether the file is used: for stored Responses, or for records."""
    return storage.store_responses or storage.record_requests


def store(settings: Settings) -> Section:
    """Whether the database can be used, and its version."""
    if isinstance(settings.storage.location, PostgresDatabase):
        # The driver is loaded if there is such a database.
        from dragoman.cli.doctor.database import database

        return database(settings, settings.storage.location)
    title, path = "Store", settings.storage.path
    if not _is_used(settings.storage) or not settings.storage.is_persistent:
        why = "in memory, while the process runs" if settings.storage.store_responses else "nothing is stored"
        return Section(title, (("stored", why),))
    place = Path(path)
    if not place.exists():
        return Section(title, (("file", f"{path}, which the first start creates"),))
    state = inspect(path)
    facts = (("file", path), ("version", f"{state.version} of {state.newest}"))
    if not state.problem:
        return Section(title, facts)
    advice = "run the version that wrote it, name another file in storage.path, or move this one away"
    finding = DoctorFinding(f"{path}: {state.problem}", advice, heading=DATABASE)
    return Section(title, facts, findings=(finding,))
