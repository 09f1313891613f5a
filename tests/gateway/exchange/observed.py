"""The transitions of the state machine: those that its page names, and those that a dialogue makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from dragoman.gateway.exchange import state_machine as module
from dragoman.gateway.exchange.events_commands import Command, ExchangeEvent
from dragoman.gateway.exchange.state_machine import Machine
from dragoman.gateway.exchange.states import State

# A failure, and a client that leaves, lead to these from every state.
ENDS = {State.BREAKING, State.OVER}
Transition = tuple[State, State]


def transitions_on_page() -> dict[State, set[State]]:
    """Where each state leads, as the docstring of the module says."""
    page = (module.__doc__ or "").partition("state         ")[2].partition("\n\nMissed:")[0]
    found: dict[State, set[State]] = {}
    state = State.FRESH
    for line in page.splitlines()[1:]:
        if first := re.match(r" {4}([A-Z_]+) ", line):
            state = State[first[1]]
            found[state] = set()
        behind = line[56:]
        found[state] |= {State[name] for name in re.findall(r"[A-Z_]{4,}", behind)}
        if "missed" in behind:
            # Another key is tried, or the same target again, or the next one is asked, or there is none.
            found[state] |= {State.CALLING, State.BACKING_OFF, State.RESOLVING, State.PREPARING, State.OVER}
    return found


@contextmanager
def observed_transitions() -> Iterator[set[Transition]]:
    """Collect the transitions of every machine that runs meanwhile."""
    made: set[Transition] = set()
    # Where each machine was last seen: a machine also passes through states without waiting in them.
    seen: dict[int, State] = {}
    handle: Callable[[Machine, ExchangeEvent], list[Command]] = Machine.handle
    move: Callable[[Machine, ExchangeEvent], None] = Machine._dispatch

    def passed(machine: Machine) -> None:
        made.add((seen[id(machine)], machine.state))
        seen[id(machine)] = machine.state

    def handled(machine: Machine, event: ExchangeEvent) -> list[Command]:
        seen[id(machine)] = machine.state
        commands = handle(machine, event)
        passed(machine)
        return commands

    def moved(machine: Machine, event: ExchangeEvent) -> None:
        passed(machine)
        move(machine, event)

    with patch.object(Machine, "handle", handled), patch.object(Machine, "_dispatch", moved):
        yield made


def not_on_page(made: set[Transition]) -> set[Transition]:
    """The transitions that the page does not name."""
    page = transitions_on_page()
    return {(before, after) for before, after in made if after not in {before, *ENDS} | page[before]}
