"""The matrix: which client did what on a provider of which protocol, gathered from the reports of the tests.

It is printed at the end of every run that had cells in it. A run of all tests fails if a cell that a client declares
was not proved. With WRITE_MATRIX=1 a run of the clients does so as well, and otherwise writes
docs/internals/client-matrix.md.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest

from tests.clients.cells import PROPERTY, PROTOCOLS, SCENARIOS, Cell, Client
from tests.clients.installing import PINS, ROOT

PAGE = ROOT / "docs/internals/client-matrix.md"
LETTERS = dict(zip(PROTOCOLS, "MCR", strict=True))
PASSED, FAILED, MISSING = "passed", "failed", "missing"
INTRODUCTION = """# Client matrix

`make clients` writes this page. It runs the real clients against a gateway with a [scripted mock provider](../mock.md)
that is as strict as the service it imitates. **M**, **C** and **R** are providers of Messages, Chat Completions and
Responses. A letter means that the client completed the scenario on that provider. – means that the client does not have
the feature. The last table states the reason.
"""
Outcomes = Mapping[Cell, str]


# Gathering


class Gathered:
    """What the tests of a run proved."""

    def __init__(self) -> None:
        self.outcomes: dict[Cell, str] = {}

    def take(self, report: pytest.TestReport) -> None:
        """Take what one phase of a test reports; a failure of any phase stays."""
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, list):
                cell = Cell(*value)
                better = report.passed and self.outcomes.get(cell, PASSED) == PASSED
                self.outcomes[cell] = PASSED if better else FAILED


GATHERED = pytest.StashKey[Gathered]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin to gather."""
    config.stash[GATHERED] = gathered = Gathered()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Listener(gathered), "dragoman-matrix")


class _Listener:
    """Hears every report, also those of other processes."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take it."""
        self._gathered.take(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that was to prove everything and did not."""
    if _proves_all(session.config) and session.exitstatus == 0 and _unproved(_outcomes(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the matrix, and write it if that was asked for."""
    outcomes = _outcomes(config)
    if not outcomes and not _proves_all(config):
        return
    known = {cell.client for cell in outcomes}
    clients = [client for client in declared() if client.name in known]
    terminalreporter.section("clients")
    for line in printed(clients, outcomes):
        terminalreporter.write_line(line)
    if _proves_all(config) and (unproved := _unproved(outcomes)):
        terminalreporter.write_line("these cells were not proved:")
        for cell in unproved:
            terminalreporter.write_line(f"  {cell.client}, {cell.scenario}, on {cell.protocol}")
        return
    if not _writes(config):
        return
    PAGE.write_text(page(declared(), outcomes), encoding="utf-8")
    terminalreporter.write_line(f"written: {PAGE.relative_to(ROOT)}")


def _outcomes(config: pytest.Config) -> Outcomes:
    return config.stash[GATHERED].outcomes


def _writes(config: pytest.Config) -> bool:
    return bool(os.environ.get("WRITE_MATRIX")) and not hasattr(config, "workerinput")


def _proves_all(config: pytest.Config) -> bool:
    """Whether every cell is owed: by a run that writes the matrix, and by one of all tests without a choice."""
    if hasattr(config, "workerinput") or config.option.collectonly:
        return False
    chosen = any(config.getoption(name) for name in ("keyword", "markexpr", "ignore", "deselect", "ring"))
    return _writes(config) or (config.args_source is not pytest.Config.ArgsSource.ARGS and not chosen)


def _unproved(outcomes: Outcomes) -> list[Cell]:
    return [cell for cell in cells_of(declared()) if outcomes.get(cell) != PASSED]


# Declared


def declared() -> list[Client]:
    """Every client that a module of tests declares, in the order of their names."""
    clients: list[Client] = []
    for path in sorted((ROOT / "tests/clients").glob("test_*.py")):
        module = importlib.import_module(f"tests.clients.{path.stem}")
        clients += [value for value in vars(module).values() if isinstance(value, Client)]
    return sorted(clients, key=lambda client: client.name.lower())


def cells_of(clients: Iterable[Client]) -> Iterator[Cell]:
    """Every cell that has to be proved."""
    for client in clients:
        for scenario in client.scenarios:
            for protocol in PROTOCOLS:
                yield Cell(client.name, scenario, protocol)


def version_of(package: str) -> str:
    """What a package is pinned at; `FILE:PACKAGE` where several files have one of its name."""
    file, _, package = package.rpartition(":")
    dependencies: dict[str, str] = json.loads((PINS / "package.json").read_text())["dependencies"]
    if not file and package in dependencies:
        return dependencies[package]
    paths = (*sorted(PINS.glob("*.txt")), ROOT / "requirements/dev.txt")
    pins = [path.read_text() for path in paths if file in ("", path.name)]
    found = re.search(rf"^{re.escape(package)}(?:\[.*\])?==(\S+)$", "\n".join(pins), re.MULTILINE)
    assert found is not None, f"{package} is pinned nowhere in requirements"
    return found[1]


# Written


def mark(client: Client, scenario: str, outcomes: Outcomes) -> str:
    """What stands in the matrix for a client and a scenario: letters in lower case where it did not work."""
    if scenario in client.gaps:
        return "–"
    marks = []
    for protocol in PROTOCOLS:
        outcome = outcomes.get(Cell(client.name, scenario, protocol), MISSING)
        letter = LETTERS[protocol]
        marks.append({PASSED: letter, FAILED: letter.lower() + "!", MISSING: "?"}[outcome])
    return " ".join(marks)


def printed(clients: Sequence[Client], outcomes: Outcomes) -> Iterator[str]:
    """The matrix for a terminal: `m!` is a cell that failed, `?` one that nobody ran."""
    width = max(len(client.name) for client in clients) if clients else 0
    for client in clients:
        shown = ", ".join(f"{scenario} {mark(client, scenario, outcomes)}" for scenario in (*SCENARIOS, *client.more))
        yield f"{client.name:{width}}  {shown}"


def page(clients: Sequence[Client], outcomes: Outcomes) -> str:
    """The matrix as a page."""
    lines = [INTRODUCTION]
    lines += _table(
        ("Client", "Version", *SCENARIOS),
        [
            (client.name, version_of(client.package), *(mark(client, scenario, outcomes) for scenario in SCENARIOS))
            for client in clients
        ],
    )
    more = [(client.name, scenario, mark(client, scenario, outcomes)) for client in clients for scenario in client.more]
    if more:
        lines += ["\n## Features of single clients\n", *_table(("Client", "Feature", "Providers"), more)]
    gaps = [(client.name, scenario, why) for client in clients for scenario, why in client.gaps.items()]
    if gaps:
        lines += ["\n## Missing features\n", *_table(("Client", "Feature", "Reason"), gaps)]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
