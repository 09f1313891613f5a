"""Settings files: override a client's own files for one launch without changing them (decision 30). Claude Code prefers
the variables in its settings to its environment, so it gets them in a settings file as well: command lines are visible
to other users. The user's other settings stay in force. The next launch removes the file of a killed one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import DragomanError, WireError
from dragoman.launching.clients import CLAUDE_HEADERS, LaunchPlan, merged
from dragoman.model.jsonvalue import JsonObject
from dragoman.wire.json import decode, encode

# Settings of the machine's administrator, which win over all others.
MANAGED = (
    Path("/etc/claude-code/managed-settings.json"),
    Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
)
_MANAGED_DIRECTORY = "managed-settings.d"
# A user's program that prints a key would win over the launch's key.
_HELPER = "apiKeyHelper"
_MAX_FILE_BYTES = 1024 * 1024
_PREFIX, _FILE = "dragoman-launch-", "settings.json"
# Variables that exclude this machine from a proxy.
_EXCEPTIONS = ("NO_PROXY", "no_proxy")


def own_variables(plan_option: str, arguments: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The user's variables as the client sees them: those of its settings win over the environment."""
    if not plan_option:
        return dict(environ)
    given, _ = taken_out(plan_option, arguments)
    directory = Path(environ.get("CLAUDE_CONFIG_DIR") or Path(environ.get("HOME", "")) / ".claude")
    headers = _env(given).get(CLAUDE_HEADERS) or _env(_read(directory / "settings.json")).get(CLAUDE_HEADERS)
    return {**environ, CLAUDE_HEADERS: headers} if isinstance(headers, str) else dict(environ)


def settings_of(plan: LaunchPlan, environment: Mapping[str, str], given: JsonObject) -> JsonObject:
    """The settings of a launch: its environment, merged over the settings of the user's command line."""
    names = (*plan.environment, plan.key_variable, *_EXCEPTIONS)
    env: JsonObject = {name: environment[name] for name in names if name in environment}
    # Set to empty, because a file cannot remove variables of another one.
    env |= dict.fromkeys(plan.removed, "")
    return merged(given, {"env": env, _HELPER: ""})


@contextmanager
def command_line(
    program: str, plan: LaunchPlan, arguments: Sequence[str], environment: Mapping[str, str]
) -> Iterator[list[str]]:
    """Yield the command that starts the client. Its settings file exists until the end of the block."""
    remove_stale()
    if not plan.settings:
        yield [program, *plan.arguments, *arguments]
        return
    given, rest = taken_out(plan.settings, arguments)
    with _own_directory() as directory:
        file = directory / _FILE
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(encode(settings_of(plan, environment, given)))
        yield [program, plan.settings, str(file), *plan.arguments, *rest]


@contextmanager
def _own_directory() -> Iterator[Path]:
    """A directory for this user alone, locked for as long as this process or the client runs."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        if os.name == "nt":
            yield Path(name)
            return
        import fcntl

        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Locked before the key is written: a locked file is in use. The client inherits the lock, and may outlive
            # this process.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.set_inheritable(descriptor, True)
            yield Path(name)
        finally:
            os.close(descriptor)


def remove_stale() -> None:
    """Delete the files of killed launches: those in directories whose lock no process holds."""
    if os.name == "nt":
        return
    import fcntl

    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            # Another user's, removed meanwhile, or no directory.
            continue
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(_FILE, dir_fd=descriptor)
                shutil.rmtree(directory, ignore_errors=True)
        except (BlockingIOError, FileNotFoundError):
            # In use, or about to be.
            continue
        finally:
            os.close(descriptor)


def taken_out(option: str, arguments: Sequence[str]) -> tuple[JsonObject, list[str]]:
    """The settings in the user's arguments, by file or inline, and the arguments without them."""
    rest: list[str] = []
    given: str | None = None
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == option:
            given = next(words, None)
            if given is None:
                raise DragomanError(f"{option} wants a file or a document behind it")
        elif word.startswith(f"{option}="):
            given = word.partition("=")[2]
        else:
            rest.append(word)
    if given is None:
        return {}, rest
    try:
        text = given.encode() if given.lstrip().startswith("{") else Path(given).expanduser().read_bytes()
        settings = decode(text)
    except (OSError, WireError) as error:
        raise DragomanError(f"{option} {given}: {error}") from None
    if not isinstance(settings, dict):
        raise DragomanError(f"{option} {given}: these are no settings")
    return settings, rest


def managed_notes(plan: LaunchPlan, places: Sequence[Path] = MANAGED) -> list[str]:
    """Notes about managed settings for the same keys, which win over the launch."""
    if not plan.settings:
        return []
    ours = {*plan.environment, plan.key_variable, *plan.removed} - {CLAUDE_HEADERS}
    notes = []
    for file in [
        each for place in places for each in (place, *sorted(place.with_name(_MANAGED_DIRECTORY).glob("*.json")))
    ]:
        settings = _read(file)
        names = sorted(ours & set(_env(settings))) + [_HELPER] * (_HELPER in settings)
        if names:
            notes.append(f"{file} is managed by an administrator and sets {', '.join(names)}, which wins over launch")
    return notes


def _env(settings: JsonObject) -> JsonObject:
    variables = settings.get("env")
    return variables if isinstance(variables, dict) else {}


def _read(file: Path) -> JsonObject:
    """A settings file; empty if it is missing or unreadable, which its client reports."""
    try:
        settings = decode(file.read_bytes()) if file.is_file() and file.stat().st_size <= _MAX_FILE_BYTES else {}
    except (OSError, WireError):
        return {}
    return settings if isinstance(settings, dict) else {}
