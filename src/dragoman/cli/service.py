"""`dragoman service`: runs the gateway under systemd or launchd, for this user (decision 28). It asks before
changes."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.cli import documents
from dragoman.cli.parser import refuse_windows
from dragoman.cli.terminal import printable, screen_of, wrapped
from dragoman.config.config_file import ConfigFile, FileOrigin, find_file, state_directory, write_atomically
from dragoman.config.load import read_settings
from dragoman.config.settings import Settings
from dragoman.errors import ConfigError, DragomanError
from dragoman.providers.catalogue import catalogue

if TYPE_CHECKING:
    from dragoman.system_service.init_systems import Manager, ServiceState
    from dragoman.system_service.units import Job

REFUSED = 1
# Seconds until a service must respond, before the user is referred to the log; and the interval of checks.
_READY_SECONDS, _POLL_SECONDS = 15.0, 0.2
# Seconds until an init system reports a started service.
_GRACE = 2.0
# In addition to the drain timeout of streams.
_STOP_SECONDS = 15
_LIST = " " * 4
_NOT_AGREED = ("nothing was done without confirmation (--yes confirms all of this)", "nothing was done")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "service",
        help="run the gateway as a service of systemd or launchd",
        description="A gateway that systemd or launchd starts when you log in, as a service of your own.",
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    install = actions.add_parser(
        "install",
        help="write the unit, and start the service",
        description=(
            "Show what will be written, ask, and write it: a unit, and a file with the variables of "
            "this shell that the gateway needs. Run it again after a change of keys."
        ),
    )
    install.add_argument(
        "--config", metavar="FILE", help="configuration (default: the one in your configuration directory)"
    )
    status = actions.add_parser(
        "status",
        help="show whether it runs, its configuration and variables",
        description=(
            "Show whether the service runs, its configuration, the names of its variables, missing "
            "variables and variables with another value in this shell, and the location of its log. "
            "The exit status is 1 if there is a problem."
        ),
    )
    status.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    stop = actions.add_parser(
        "stop",
        help="stop it until the next login or start",
        description="Stop the service, once its streams have ended. It stays installed.",
    )
    uninstall = actions.add_parser(
        "uninstall",
        help="stop it, and remove the files of install",
        description=("Show what will be removed, ask, stop the service, remove it, and list the remaining files."),
    )
    for action in (install, uninstall):
        action.add_argument("--yes", action="store_true", help="do it without confirmation")
        action.add_argument("--dry-run", action="store_true", help="only show what would be done")
    for action, run in ((install, run_install), (status, run_status), (stop, run_stop), (uninstall, run_uninstall)):
        action.set_defaults(run=run)


class _Plan(Struct, frozen=True, kw_only=True):
    manager: Manager
    state: ServiceState
    settings: Settings
    config: str
    env_file: Path
    values: dict[str, str]
    # Variables whose value does not fit on a line of the file.
    left_out: tuple[str, ...]
    job: Job


def run_install(options: argparse.Namespace) -> int:
    refuse_windows()
    from dragoman.config.env_file import as_env_file
    from dragoman.gateway.processes.listen_socket import bind
    from dragoman.system_service.init_systems import run_commands, state_of
    from dragoman.system_service.units import MARKER

    plan = _plan(options)
    manager = plan.manager
    _print_lines(_plan_lines(plan))
    if options.dry_run:
        _print_lines(["", f"{manager.unit}:", *manager.render_unit(plan.job).splitlines()])
        return 0
    if not plan.state.running:
        # Reject a taken port. The old service is about to release it.
        bind(plan.settings.server.host, plan.settings.server.port).close()
    if not documents.agreed("Write these, and start the service?", options.yes, *_NOT_AGREED):
        return REFUSED
    write_atomically(plan.env_file, as_env_file(plan.values, MARKER).encode())
    write_atomically(manager.unit, manager.render_unit(plan.job).encode(), 0o644)
    if manager.log is not None:
        manager.log.parent.mkdir(parents=True, exist_ok=True)
    try:
        if plan.state.loaded and manager.before_start:
            run_commands(manager, manager.before_start, os.environ)
            # It was stopped, and may not have ended yet.
            _wait_until(lambda: not state_of(manager, os.environ).loaded)
        run_commands(manager, manager.start, os.environ)
    except DragomanError as error:
        raise DragomanError(f"{error}; `dragoman service uninstall` removes the written files") from None
    return _begun(plan)


def _plan(options: argparse.Namespace) -> _Plan:
    """Check everything that could keep a service from running, before any file is written."""
    from dragoman.config.env_file import OPTION, can_be_written
    from dragoman.gateway.workers.protection import protection_at_start
    from dragoman.system_service.init_systems import ServiceState, check_manager, find_manager, state_of
    from dragoman.system_service.installed import check_free, env_file_in
    from dragoman.system_service.units import Job
    from dragoman.system_service.variables import named_variables, variables_for

    file = _own_file(options.config)
    settings = read_settings(file, os.environ, catalogue())
    protection_at_start(settings, settings.server.host, open_to_all=False)
    manager, env_file = find_manager(os.environ), env_file_in(os.environ)
    for path in (manager.unit, env_file):
        check_free(path)
    state = ServiceState(loaded=False, running=False)
    if not options.dry_run:
        check_manager(manager, os.environ)
        state = state_of(manager, os.environ)
    variables = variables_for(named_variables(file), os.environ, catalogue())
    named = ("--config", str(file)) if file is not None else ()
    job = Job(
        # Without -P, modules would be imported from the directory of the configuration.
        command=(sys.executable, "-P", "-m", "dragoman", "serve", *named, OPTION, str(env_file)),
        directory=str(env_file.parent),
        stop_seconds=round(settings.timeouts.lame_duck + settings.timeouts.drain) + _STOP_SECONDS,
        log=str(manager.log or ""),
    )
    if not all(word.isprintable() for word in (*job.command, job.directory)):
        raise DragomanError("a path of the service has a character that no unit can contain: rename the directory")
    return _Plan(
        manager=manager,
        state=state,
        settings=settings,
        config=str(file or ""),
        env_file=env_file,
        values={name: value for name, value in variables.items() if can_be_written(value)},
        left_out=tuple(name for name, value in variables.items() if not can_be_written(value)),
        job=job,
    )


def _own_file(explicit: str | None) -> ConfigFile | None:
    """The configuration of a service: a named one, or the one in the user's configuration directory."""
    file = find_file(os.environ, explicit)
    if file is None:
        return None
    if file.origin is FileOrigin.FOUND:
        raise ConfigError(
            key="",
            problem=(
                "was found in the current directory: a service that names it would trust any later file in its place"
            ),
            remedy="move it to your configuration directory, or name it with --config",
            file=str(file.path.absolute()),
        )
    if os.path.lexists(file.path) and not file.is_plain():
        raise ConfigError(key="", problem="is not a plain file", remedy="name one", file=str(file))
    return ConfigFile(path=file.path.absolute(), origin=FileOrigin.NAMED)


def _plan_lines(plan: _Plan) -> list[str]:
    """The files, commands and consequences of the plan."""
    from dragoman.system_service.variables import SHORT_LIVED

    manager = plan.manager
    begins = "anew" if os.path.lexists(manager.unit) else "here"
    names = ", ".join(plan.values) or "none is set that it needs"
    lines = [
        f"A service of {manager.name}, for this user only, is installed {begins}. It writes",
        f"  {manager.unit}: the unit, which contains no secret",
        f"  {plan.env_file}: for this user only (mode 0600), the values of these variables:",
        f"    {names}",
        *([f"  {manager.log}: the log, by the service itself"] if manager.log is not None else []),
        "and runs",
        *(f"  {_command_text(manager, words)}" for words in manager.start),
        "so that this is started now and at every login, and again if it fails:",
        f"  {shlex.join(plan.job.command)}",
        f"configured by {plan.config or 'environment variables only'}; {manager.note}.",
    ]
    unset = {each.variable: each.left_out for each in plan.settings.missing if each.variable}
    if unset:
        lines.append("Not set in this shell, so missing for the service (set them, and run this again):")
        lines += [f"  {variable}: without it {what} is left out" for variable, what in unset.items()]
    if plan.left_out:
        lines.append(f"Left out, because they do not fit on one line: {', '.join(plan.left_out)}.")
    if SHORT_LIVED in plan.values:
        lines.append(f"{SHORT_LIVED} expires within hours, and the service fails then: use a profile (AWS_PROFILE).")
    if "/uv/archive-" in sys.executable:
        lines.append(f"{sys.executable} is in a cache, which may be emptied: install it first, with `uv tool install`.")
    return lines


def _command_text(manager: Manager, words: Sequence[str]) -> str:
    return shlex.join([Path(manager.program).name, *words])


def _begun(plan: _Plan) -> int:
    """Wait until the service responds, and print the next steps."""
    from dragoman.launching.gateway import addresses_of, find_running
    from dragoman.system_service.init_systems import state_of

    manager, server = plan.manager, plan.settings.server
    begins = time.monotonic()

    def is_ready_or_ended() -> bool:
        if server.port and find_running(server) is not None:
            return True
        running = state_of(manager, os.environ).running
        # A service that has already ended is not waited for.
        return (running and not server.port) or (not running and time.monotonic() > begins + _GRACE)

    _wait_until(is_ready_or_ended)
    address, state = find_running(server), state_of(manager, os.environ)
    begun = address is not None if server.port else state.running
    if begun:
        _print_lines([f"The service runs, at {address or 'a port that its log names'}."])
    else:
        where = addresses_of(server)[0] if server.port else "any port"
        documents.complain(
            f"the service was started, but no gateway responds at {where} ({state.description}): see its log"
        )
    _print_lines(
        [
            f"  see its log        {manager.show_log}",
            f"  reload the file    {manager.reload}",
            "  show its state     dragoman service status",
            "  stop it            dragoman service stop",
            "  remove it          dragoman service uninstall",
            "Variables are read at its start: after a change of keys run `dragoman service install` again.",
        ]
    )
    return 0 if begun else REFUSED


def run_status(options: argparse.Namespace) -> int:
    from dragoman.cli.doctor.report import ReportRedactor, as_json, as_text
    from dragoman.cli.doctor.service import service
    from dragoman.system_service.init_systems import find_manager
    from dragoman.system_service.installed import installed_in

    installed = installed_in(find_manager(os.environ))
    if installed is None:
        raise DragomanError(
            "no service is installed: `dragoman service install` installs one, and first shows what it writes"
        )
    runs, section = service(installed, os.environ)
    document = {"running": runs, **as_json([section], ReportRedactor())}
    documents.show(options, document, lambda screen: as_text([section], screen, ReportRedactor()))
    return 0 if runs and not section.wrong else REFUSED


def run_stop(options: argparse.Namespace) -> int:
    from dragoman.system_service.init_systems import find_manager, run_commands, state_of
    from dragoman.system_service.installed import installed_in

    manager = find_manager(os.environ)
    if installed_in(manager) is None:
        raise DragomanError("no service is installed; a gateway that was started by hand ends with Ctrl-C")
    state = state_of(manager, os.environ)
    if state.loaded:
        run_commands(manager, manager.stop, os.environ)
    _print_lines(
        [
            "The service is stopped." if state.running else "The service was not running.",
            (
                f"It starts again at the next login, or with `{manager.start_again}`; `dragoman service "
                "uninstall` removes it."
            ),
        ]
    )
    return 0


def run_uninstall(options: argparse.Namespace) -> int:
    """Stop the service, delete the files of `install`, and list the remaining ones."""
    from dragoman.system_service.init_systems import check_manager, find_manager, run_commands, state_of
    from dragoman.system_service.installed import installed_in, remove, variables_files

    manager = find_manager(os.environ)
    installed = installed_in(manager)
    files = variables_files(installed, os.environ)
    removed = [*([manager.unit] if installed is not None else []), *files]
    if not removed:
        _print_lines(["No service is installed, and no files of one are left."])
        return 0
    commands = (*manager.disable, *manager.forget)
    _print_lines(["This stops the service, and removes", *(f"  {path}" for path in removed)])
    _print_lines(["by", *(f"  {_command_text(manager, words)}" for words in commands)])
    if options.dry_run:
        return 0
    if not documents.agreed("Do it?", options.yes, *_NOT_AGREED):
        return REFUSED
    if installed is not None:
        # An init system that cannot be reached would continue to run it.
        check_manager(manager, os.environ)
        if state_of(manager, os.environ).loaded:
            run_commands(manager, manager.disable, os.environ)
        manager.unit.unlink()
        run_commands(manager, manager.forget, os.environ)
    for path in files:
        remove(path)
    config = installed.config if installed is not None else ""
    _print_lines(["The service was removed. Remaining files:", *(f"  {line}" for line in _stays(manager, config))])
    return 0


def _stays(manager: Manager, config: str) -> list[str]:
    """The remaining files, some of which existed before."""
    state = state_directory(os.environ)
    lines = [f"{config}: the configuration"] if config and Path(config).exists() else []
    if state is not None and state.exists():
        lines.append(f"{state}: data of the gateway, and trusted files")
    if manager.log is None:
        lines.append("its log lines in the journal, until systemd drops them")
    elif manager.log.exists():
        lines.append(f"{manager.log}: its log")
    return lines or ["nothing"]


def _wait_until(done: Callable[[], bool]) -> None:
    """Wait for a change by another process. The caller checks the result."""
    ends = time.monotonic() + _READY_SECONDS
    while not done() and time.monotonic() < ends:
        time.sleep(_POLL_SECONDS)


def _print_lines(lines: Sequence[str]) -> None:
    """Print wrapped lines. Text to copy has an unbroken line of its own."""
    screen = screen_of(sys.stdout)
    for line in lines:
        if line.startswith(_LIST) and screen.terminal:
            parts = textwrap.wrap(line, screen.width, subsequent_indent=_LIST, break_on_hyphens=False)
        else:
            parts = [line] if line.startswith(" ") or not line else wrapped(screen, line)
        documents.write_text("\n".join(map(printable, parts)), screen)
