"""`dragoman doctor`: one report of common faults, to paste into an issue. Each file collects one subject. It changes
nothing and is free; it contains no key and no value of the environment."""

from __future__ import annotations

import argparse
import os

from dragoman.cli import documents
from dragoman.cli.terminal import progress

WRONG = 1


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "doctor",
        help="diagnose common problems in one report",
        description="Look at configuration, environment, providers, clock, disk, store, clients, and the gateway "
        "and the service that run here. The report holds no key and no value of the environment, and can be pasted "
        "into an issue. The exit status is 1 if something is wrong.",
    )
    parser.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    parser.add_argument("--offline", action="store_true", help="call no provider")
    parser.add_argument("--config", metavar="FILE", help="the file to read instead of the one that would be found")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    # Here, so that the other commands start without all this.
    from dragoman.cli.doctor.clients import clients
    from dragoman.cli.doctor.configuration import configuration, machine
    from dragoman.cli.doctor.disk import disk, store
    from dragoman.cli.doctor.environment import environment
    from dragoman.cli.doctor.providers import clock, probe_providers, providers
    from dragoman.cli.doctor.report import as_json, as_text, redactor_for
    from dragoman.cli.doctor.service import gateway, service
    from dragoman.system_service.installed import find_installed

    with progress() as show_step:
        show_step("reading the configuration …")
        settings, section = configuration(options.config, os.environ)
        sections = [machine(), section]
        show_step("looking at the environment …")
        sections.append(environment(os.environ))
        if settings is not None:
            show_step(f"calling {len(settings.providers)} providers …")
            responses = None if options.offline else probe_providers(settings)
            sections.append(providers(settings, responses, os.environ))
            sections += [clock(responses)] if responses is not None else []
        show_step("looking at the disk …")
        sections.append(disk(settings, os.environ))
        if settings is not None:
            sections += [store(settings), gateway(settings)]
        installed = find_installed(os.environ)
        if installed is not None:
            sections.append(service(installed, os.environ)[1])
        show_step("reading the versions of clients …")
        sections.append(clients(os.environ))
    # Commands above this one report none of them.
    called = settings.providers.values() if settings is not None else ()
    secrets = [secret for provider in called for secret in (*provider.keys, *provider.headers.values())]
    redactor = redactor_for(os.environ, [*secrets, os.environ.get("DRAGOMAN_KEY", "")])
    documents.show(options, as_json(sections, redactor), lambda screen: as_text(sections, screen, redactor))
    return WRONG if any(section.wrong for section in sections) else 0
