"""The gateway and the service that run here: process, version, variables, and how they are stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from dragoman import __version__
from dragoman.cli.doctor.report import SERVICE, DoctorFinding, Section
from dragoman.config.config_file import ConfigFile, FileOrigin
from dragoman.config.settings import Settings
from dragoman.errors import ConfigError, DragomanError
from dragoman.launching.gateway import ForeignProcessError, find_running, status_of
from dragoman.launching.keys import find_key
from dragoman.launching.port_owners import processes_of
from dragoman.providers.catalogue import catalogue
from dragoman.system_service.init_systems import ServiceState, state_of
from dragoman.system_service.installed import Installed
from dragoman.system_service.variables import named_variables, variables_for

_AGAIN = "run `dragoman service install` again"


def service(installed: Installed, environ: Mapping[str, str]) -> tuple[bool, Section]:
    """Whether the service runs, and all that is known of it: of variables their names alone."""
    manager = installed.manager
    findings: list[DoctorFinding] = []
    try:
        state = state_of(manager, environ)
    except DragomanError as error:
        state = ServiceState(loaded=False, running=False, description=str(error))
    if not state.running:
        words = f"the service does not run: {state.description}"
        findings.append(DoctorFinding(words, f"{manager.start_again}; or look at the log", wrong=False))
    values: dict[str, str] = {}
    try:
        values = installed.variables()
    except ConfigError as error:
        findings.append(DoctorFinding(str(error), _AGAIN, heading=SERVICE))
    else:
        findings += _compared(installed, values, environ)
    facts = (
        ("unit", str(manager.unit)),
        ("state", state.description + (f", process {state.pid}" if state.pid else "")),
        ("configuration", installed.config or "none: environment variables only"),
        ("variables", f"{', '.join(values) or 'none'} (in {installed.env_file or 'no file'})"),
        ("log", manager.show_log),
        ("read again", manager.reload),
        ("stop", "dragoman service stop"),
        ("uninstall", "dragoman service uninstall"),
    )
    return state.running, Section("Service", facts, findings=tuple(findings))


def _compared(installed: Installed, values: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Differences between the variables of the shell and of the service, which does not read the shell's."""
    file = ConfigFile(path=Path(installed.config), origin=FileOrigin.NAMED, again=True) if installed.config else None
    try:
        named = named_variables(file)
    except ConfigError as error:
        yield DoctorFinding(f"its configuration cannot be read: {error}", "fix it, or install the service again")
        named = ()
    missing = [name for name in named if not values.get(name)]
    if missing:
        words = f"the configuration names environment variables that the service does not have: {', '.join(missing)}"
        yield DoctorFinding(words, f"set them, and {_AGAIN}", heading=SERVICE)
    here = variables_for(named, environ, catalogue())
    other = [name for name, value in here.items() if name not in missing and values.get(name) != value]
    if other:
        words = f"set in this shell, and missing or different for the service: {', '.join(other)}"
        yield DoctorFinding(words, f"if it is to have them, {_AGAIN}", heading=SERVICE, wrong=False)


def gateway(settings: Settings, environ: Mapping[str, str] = os.environ) -> Section:
    """The gateway at the configured address."""
    title = "Gateway"
    port = settings.server.port
    if not port:
        return Section(title, (("running", "not known: the configuration takes any free port"),))
    try:
        address = find_running(settings.server)
    except ForeignProcessError as error:
        advice = "give the gateway another port in server.port"
        return Section(title, findings=(DoctorFinding(str(error), advice),))
    pids = processes_of(port)
    if address is None:
        none = (("running", f"none at port {port}"),)
        if not pids:
            return Section(title, none)
        words = f"port {port} is taken by another program (process {_listed(pids)})"
        finding = DoctorFinding(words, "end that, or start with `dragoman serve --port …`")
        return Section(title, none, findings=(finding,))
    facts = (("running", address), ("process", _listed(pids) if pids else "not known"))
    try:
        status = status_of(address, find_key(settings, environ).sent)
    except DragomanError as error:
        words = f"it does not report its status: {error}"
        note = DoctorFinding(words, "set DRAGOMAN_KEY to a key of it with the role viewer or admin", wrong=False)
        return Section(title, facts, findings=(note,))
    version, workers = str(status.get("version")), str(status.get("workers"))
    more = (("version", version), ("workers", workers))
    words = f"it runs version {version}, and this is {__version__}"
    findings = () if version == __version__ else (DoctorFinding(words, "start it again", wrong=False),)
    return Section(title, (*facts, *more), findings=findings)


def _listed(pids: list[int]) -> str:
    return ", ".join(map(str, pids))
