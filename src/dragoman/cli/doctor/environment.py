"""The environment: which variables are set that matter here, by their names alone."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.cli.doctor.report import AUTH_CONFLICT, BLOCKED, DoctorFinding, Section
from dragoman.config.config_file import FILE_VARIABLE
from dragoman.launching.clients import KEY_VARIABLE
from dragoman.providers.catalogue import catalogue

# A local machine responds at once. A missing machine, or a slow name server, may never respond.
_TIMEOUT = 2.0
_PORTS = {"http": 80, "https": 443}
_LATE = "nothing responds there in time"


def problem_at(url: str, timeout: float = _TIMEOUT) -> str:
    """Why an address cannot be reached, in words without the address; "" if it can be reached."""
    try:
        place = urlsplit(url)
        host, port = place.hostname, place.port or _PORTS.get(place.scheme)
    except ValueError:
        host, port = None, None
    if not host or port is None:
        return "it is not an address"
    problems: list[str] = []
    # A name lookup cannot be cancelled. The caller stops waiting after the timeout.
    thread = threading.Thread(target=lambda: problems.append(_tried(host, port, timeout)), daemon=True)
    thread.start()
    thread.join(timeout)
    return problems[0] if problems else _LATE


def _tried(host: str, port: int, timeout: float) -> str:
    try:
        socket.create_connection((host, port), timeout=timeout).close()
    except ConnectionRefusedError:
        return "nothing listens there"
    except TimeoutError:
        return _LATE
    except socket.gaierror:
        return "its host has no address"
    except OSError as error:
        return f"it cannot be reached: {error.strerror}"
    return ""


# Where clients and SDKs look for the address to call.
BASE_URLS = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE")
_OWN = (FILE_VARIABLE, KEY_VARIABLE, "XDG_CONFIG_HOME", "XDG_STATE_HOME")
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
_CONFLICT = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
# Files in which shells set variables, below the home.
_SHELL_FILES = (
    ".profile",
    ".bash_profile",
    ".bashrc",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".config/fish/config.fish",
    ".config/environment.d/dragoman.conf",
)
_MAX_FILE_BYTES = 1024 * 1024


def environment(environ: Mapping[str, str], problem: Callable[[str], str] = problem_at) -> Section:
    """Environment variables, and findings about variables that lead a client to another address; `problem` describes
    the problem of an address."""
    keys = [
        f"{variable} ({name})"
        for name, listing in catalogue().items()
        for variable in listing.env
        if environ.get(variable, "").strip()
    ]
    either = tuple(name for pair in _PROXIES for name in (pair, pair.lower()))
    facts = (
        ("keys of providers", ", ".join(keys) or "none is set"),
        ("of Dragoman", _names(_OWN, environ)),
        ("proxies", _names(either, environ)),
        ("certificates", _names(_CERTIFICATES, environ)),
        ("addresses for clients", _names(BASE_URLS, environ)),
    )
    return Section("Environment", facts, findings=tuple(_findings(environ, problem)))


def _names(names: tuple[str, ...], environ: Mapping[str, str]) -> str:
    return ", ".join(name for name in names if environ.get(name)) or "none is set"


def _findings(environ: Mapping[str, str], problem: Callable[[str], str]) -> Iterator[DoctorFinding]:
    for name in BASE_URLS:
        if not environ.get(name):
            continue
        where = _where(name, environ)
        advice = f"unset {name}" + (f", and take it out of {where}" if where else ", and look where it is set")
        why = problem(environ[name])
        if why:
            yield DoctorFinding(f"{name} is set, and {why}", advice, heading=BLOCKED)
        else:
            words = f"{name} is set: every client started here goes to that address, launched or not"
            yield DoctorFinding(words, f"if that is not meant, {advice}", wrong=False)
    caught = [name for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy") if environ.get(name)]
    if caught and not _past_proxy(environ):
        words = f"{' and '.join(caught)} may catch what clients send to this machine"
        advice = "add 127.0.0.1 to NO_PROXY; `dragoman launch` and `dragoman env` do it by themselves"
        yield DoctorFinding(words, advice, heading=BLOCKED, wrong=False)
    if all(environ.get(name) for name in _CONFLICT):
        words = f"{' and '.join(_CONFLICT)} are both set, of which Claude Code wants one"
        yield DoctorFinding(words, f"unset the one that is not meant: unset {_CONFLICT[1]}", heading=AUTH_CONFLICT)


def _past_proxy(environ: Mapping[str, str]) -> bool:
    """Whether clients go past the proxy to this machine."""
    listed = ",".join(environ.get(name, "") for name in ("NO_PROXY", "no_proxy")).split(",")
    return any(name.strip() in ("*", "127.0.0.1", "localhost") for name in listed)


def _where(name: str, environ: Mapping[str, str]) -> str:
    """The shell files that mention a variable, with their lines."""
    home = Path(environ.get("HOME", ""))
    if not home.is_absolute():
        return ""
    pattern = re.compile(rf"(?<![A-Za-z0-9_]){name}(?![A-Za-z0-9_])")
    locations = []
    for file in (home / below for below in _SHELL_FILES):
        if not file.is_file():
            continue
        try:
            with file.open(encoding="utf-8", errors="replace") as stream:
                lines = stream.read(_MAX_FILE_BYTES).splitlines()
        except OSError:
            continue
        for number, line in enumerate(lines, 1):
            if pattern.search(line) and not line.lstrip().startswith("#"):
                locations.append(f"{file}:{number}")
    return ", ".join(locations)
