"""The gateway that runs here: where, which process, which version and how many workers."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dragoman import __version__
from dragoman.cli.doctor.report import DoctorFinding, Section
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.launching.gateway import ForeignProcessError, find_running, status_of
from dragoman.launching.keys import find_key
from dragoman.launching.port_owners import processes_of


def gateway(settings: Settings, environ: Mapping[str, str] = os.environ) -> Section:
    """The gateway where the configuration says that it is."""
    title = "Gateway"
    port = settings.server.port
    if not port:
        return Section(title=title, facts=(("running", "not known: the configuration takes any free port"),))
    try:
        address = find_running(settings.server)
    except ForeignProcessError as error:
        advice = "give the gateway another port in server.port"
        return Section(title=title, findings=(DoctorFinding(message=str(error), advice=advice),))
    pids = processes_of(port)
    if address is None:
        none = (("running", f"none at port {port}"),)
        if not pids:
            return Section(title=title, facts=none)
        words = f"port {port} is taken by another program (process {_listed(pids)})"
        finding = DoctorFinding(message=words, advice="end that, or start with `dragoman serve --port …`")
        return Section(title=title, facts=none, findings=(finding,))
    facts = (("running", address), ("process", _listed(pids) if pids else "not known"))
    try:
        key = find_key(settings, environ)
        status = status_of(address, "" if key.is_placeholder else key.text)
    except DragomanError as error:
        words = f"it does not report its status: {error}"
        note = DoctorFinding(message=words, advice="set DRAGOMAN_KEY to a key of it", wrong=False)
        return Section(title=title, facts=facts, findings=(note,))
    version, workers = str(status.get("version")), str(status.get("workers"))
    more = (("version", version), ("workers", workers))
    return Section(title=title, facts=(*facts, *more), findings=_findings(version))


def _findings(version: str) -> tuple[DoctorFinding, ...]:
    if version == __version__:
        return ()
    words = f"it runs version {version}, and this is {__version__}"
    return (DoctorFinding(message=words, advice="start it again", wrong=False),)


def _listed(pids: list[int]) -> str:
    return ", ".join(map(str, pids))
