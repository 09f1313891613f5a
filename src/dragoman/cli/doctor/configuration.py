"""The machine and the configuration: versions; which file, how it was found, and each setting that is not default."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import dragoman
from dragoman.cli.doctor.report import NOT_TRUSTED, READABLE, DoctorFinding, Section
from dragoman.cli.key_report import describe_keys
from dragoman.config.config_file import FileOrigin, find_file
from dragoman.config.effective_settings import list_effective_settings
from dragoman.config.load import read_settings
from dragoman.config.settings import Settings
from dragoman.errors import ConfigError, ConfigErrors
from dragoman.providers.catalogue import catalogue
from dragoman.store import StoreError
from dragoman.store.identities import IdentityCount
from dragoman.store.identity_reader import count_identities

_TITLE = "Configuration"
_ORIGINS = {
    FileOrigin.NAMED: "named by --config or DRAGOMAN_CONFIG",
    FileOrigin.OWN: "in the user's configuration directory",
    FileOrigin.FOUND: "found in the current directory",
}


def configuration(explicit: str | None, environ: Mapping[str, str]) -> tuple[Settings | None, Section]:
    """Findings about the file and the environment. Nothing is trusted here."""
    file = find_file(environ, explicit)
    described = (
        "none: environment variables only" if file is None else f"{file.path.absolute()}, {_ORIGINS[file.origin]}"
    )
    facts = [("file", described)]
    try:
        settings = read_settings(file, environ, catalogue())
        effective_settings = list_effective_settings(settings, file, environ, catalogue())
    except (ConfigErrors, ConfigError) as error:
        problems = error.problems if isinstance(error, ConfigErrors) else [error]
        return None, Section(_TITLE, tuple(facts), tuple(map(_finding, problems)))
    facts.append(("gateway keys", describe_keys(settings, _stored_keys(settings))))
    facts += [("not default", str(setting)) for setting in effective_settings] or [("not default", "nothing")]
    missing = {str(each): each.remedy for each in settings.missing}
    findings = tuple(
        DoctorFinding(
            warning,
            missing.get(warning, "look at it in the configuration, or in the environment"),
            heading=READABLE if "can be read by others" in warning else "",
            wrong="can be read by others" in warning or warning in missing,
        )
        for warning in settings.warnings
    )
    return settings, Section(_TITLE, tuple(facts), findings=findings)


def _stored_keys(settings: Settings) -> IdentityCount | None:
    """The number of gateway keys of the database; None if it cannot be read, which another section reports."""
    try:
        return count_identities(settings.storage.location, time.time())
    except StoreError:
        return None


def _finding(error: ConfigError) -> DoctorFinding:
    place = ":".join(part for part in (error.file, str(error.line) if error.line else "") if part)
    words = ": ".join(part for part in (place, error.key, error.problem) if part)
    return DoctorFinding(words, error.remedy, heading=NOT_TRUSTED if "not trusted" in error.problem else "")


_LEAST = (3, 11)


def machine() -> Section:
    facts = (
        ("dragoman", f"{dragoman.__version__}, in {Path(dragoman.__file__).parent}"),
        ("python", f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
    )
    findings = []
    if sys.platform == "win32":
        findings.append(DoctorFinding("the gateway does not run on Windows itself", "use it within WSL"))
    if sys.version_info < _LEAST:
        findings.append(DoctorFinding("this Python is too old", "use Python 3.11 or a later one"))
    return Section("Machine", facts, findings=tuple(findings))
