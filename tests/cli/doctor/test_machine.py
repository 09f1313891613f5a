"""Which Dragoman this is, on which Python."""

from __future__ import annotations

import platform

from dragoman import __version__
from dragoman.cli.doctor.configuration import machine


def test_versions_are_told() -> None:
    section = machine()
    facts = dict(section.facts)
    assert facts["dragoman"].startswith(f"{__version__}, in ")
    assert platform.python_version() in facts["python"]
    assert section.findings == ()
