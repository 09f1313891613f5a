"""Service units: writes the unit file by which an init system starts the gateway, and reads its command back. The unit
contains no secret, because `systemctl cat` shows it: variables are in a file of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

# This line marks a unit as written by Dragoman. Other units are never overwritten.
MARKER = "Written by `dragoman service install`; `dragoman service uninstall` takes it back."
UNIT = "dragoman.service"
LABEL = "local.dragoman"
# Restart limits: attempts, the period in seconds, and the delay in seconds.
_TRIES, _WITHIN, _RESTART_SECONDS = 5, 60, 2
_PLAIN = re.compile(r"[A-Za-z0-9_@:,=+/.-]+")
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s"]+)')
_XML_HEAD = re.compile(r"<plist ")


class Job(Struct, frozen=True, kw_only=True):
    """A service to run: its command, directory, stop timeout, and log file, if it needs one."""

    command: tuple[str, ...]
    directory: str
    stop_seconds: int
    log: str = ""


def systemd_unit(job: Job) -> str:
    """A unit of systemd: https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html"""
    return f"""\
# {MARKER}
[Unit]
Description=Dragoman, one endpoint for several LLM protocols
StartLimitIntervalSec={_WITHIN}
StartLimitBurst={_TRIES}

[Service]
Type=exec
WorkingDirectory={job.directory.replace("%", "%%")}
ExecStart={" ".join(map(_quoted, job.command))}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec={_RESTART_SECONDS}
# The first process is told, and tells its workers itself.
KillMode=mixed
TimeoutStopSec={job.stop_seconds}
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def _quoted(word: str) -> str:
    """Quote a word of a command line for systemd, which would expand `%` and `$`."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return text if _PLAIN.fullmatch(text) else f'"{text}"'


def launchd_agent(job: Job) -> str:
    """A launchd agent, as `man launchd.plist` describes it."""
    # Imported here and below, because a gateway that looks for its own unit needs no XML parser.
    import plistlib

    plist = plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(job.command),
            "WorkingDirectory": job.directory,
            "RunAtLoad": True,
            # A requested stop must not lead to a restart.
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ExitTimeOut": job.stop_seconds,
            "StandardOutPath": job.log,
            "StandardErrorPath": job.log,
            "Umask": 0o077,
        },
        sort_keys=False,
    ).decode()
    return _XML_HEAD.sub(f"<!-- {MARKER} -->\n<plist ", plist, count=1)


def is_ours(text: str) -> bool:
    return MARKER in text


def command_of(text: str) -> tuple[str, ...]:
    """Return the command of a unit that Dragoman wrote; empty if it was edited too much."""
    return tuple(_agent_command(text) if text.lstrip().startswith("<?xml") else _unit_command(text))


def _agent_command(text: str) -> list[str]:
    import plistlib
    from xml.parsers.expat import ExpatError

    try:
        plist = plistlib.loads(text.encode())
    except (ExpatError, ValueError):
        return []
    words = plist.get("ProgramArguments") if isinstance(plist, dict) else None
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []


def _unit_command(text: str) -> Iterator[str]:
    line = next((line for line in text.splitlines() if line.startswith("ExecStart=")), "")
    for quoted, plain in _WORD.findall(line.removeprefix("ExecStart=")):
        word = plain or re.sub(r"\\(.)", r"\1", quoted)
        yield word.replace("%%", "%").replace("$$", "$")


def option_of(words: tuple[str, ...], name: str) -> str:
    return next((words[at + 1] for at, word in enumerate(words[:-1]) if word == name), "")
