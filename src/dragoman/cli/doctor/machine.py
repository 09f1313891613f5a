"""The machine: which Dragoman this is, on which Python and system."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import dragoman
from dragoman.cli.doctor.report import DoctorFinding, Section

_LEAST = (3, 11)


def machine() -> Section:
    """What runs here."""
    facts = (
        ("dragoman", f"{dragoman.__version__}, in {Path(dragoman.__file__).parent}"),
        ("python", f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
    )
    findings = []
    if sys.platform == "win32":
        findings.append(DoctorFinding(message="the gateway does not run on Windows itself", advice="use it within WSL"))
    if sys.version_info < _LEAST:
        findings.append(DoctorFinding(message="this Python is too old", advice="use Python 3.11 or a later one"))
    return Section(title="Machine", facts=facts, findings=tuple(findings))
