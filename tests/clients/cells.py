"""Cells of the matrix: which client did what through the gateway, on a provider of which protocol.

A module of tests declares its client, or several, and each test says which cell it proves:

    CLIENT = Client(name="Codex", package="@openai/codex", gaps={"image": "its headless mode takes none"})

    def test_codex_runs_a_tool(desk: Desk, protocol: str, cell: Claim) -> None:
        cell(CLIENT, "tool")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from msgspec import Struct

from tests.sdk.names import CHAT, MESSAGES, RESPONSES

PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
# What every client is asked to do, unless it has no such feature.
SCENARIOS = (
    "tool",
    "thinking",
    "parallel tools",
    "several steps",
    "structured output",
    "image",
    "429 first",
    "empty response",
)


def one_by_day(chosen: str) -> pytest.MarkDecorator:
    """A test that starts a slow program for each protocol: on one by day, on the others in `make nightly`."""
    marks = [() if protocol == chosen else pytest.mark.nightly for protocol in PROTOCOLS]
    cases = [pytest.param(protocol, marks=mark) for protocol, mark in zip(PROTOCOLS, marks, strict=True)]
    return pytest.mark.parametrize("protocol", cases)


class Client(Struct, frozen=True, kw_only=True):
    """A program that nobody here wrote. `package` is what it is pinned as in requirements/."""

    name: str
    package: str
    # What it is asked beside the scenarios that all are.
    more: tuple[str, ...] = ()
    # Scenarios that it has no feature for, and why.
    gaps: Mapping[str, str] = {}

    @property
    def scenarios(self) -> tuple[str, ...]:
        """What it has to do, on providers of every protocol."""
        return tuple(name for name in (*SCENARIOS, *self.more) if name not in self.gaps)


class Cell(Struct, frozen=True, order=True):
    """One place of the matrix."""

    client: str
    scenario: str
    protocol: str


Claim = Callable[[Client, str], None]
# The name under which a test's report carries its cells.
PROPERTY = "cell"
