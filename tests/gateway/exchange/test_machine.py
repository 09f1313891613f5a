"""The exchange as a table: it is what runs, it is whole, and what it says of itself is true."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.gateway.exchange import machine as module
from dragoman.gateway.exchange.machine import MOVES, Machine
from dragoman.gateway.exchange.states import State
from dragoman.gateway.exchange.steps import (
    Begin,
    Command,
    Done,
    Due,
    Event,
    Failed,
    Gone,
    Kept,
    Took,
)
from tests.playbooks.stage import START
from tests.playbooks.test_playbooks import SCENES, played
from tests.virtual_time import run

# States in which the provider is being heard, and those in which nothing is waited for that is done or fails.
HEARD = {State.HEARING, State.MISSED, State.SETTLING, State.ENDING}
RESTING = {State.FRESH, State.STORING, State.BREAKING}
# What fails, or goes away, leads there from everywhere.
ENDS = {State.BREAKING, State.OVER}


def told_of_itself() -> dict[State, set[State]]:
    """Where the page at the head of the file says that each state leads."""
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
            found[state] |= {State.CALLING, State.BACKING_OFF, State.RECALLING, State.PREPARING, State.OVER}
    return found


def test_every_state_is_on_the_page_and_leads_on() -> None:
    page = told_of_itself()
    assert page.keys() == set(State)
    assert all(page[state] for state in State if state is not State.OVER)


def test_every_state_has_a_move_for_everything_that_can_come() -> None:
    for state in State:
        assert {(state, Due), (state, Gone)} <= MOVES.keys()
        assert state in RESTING or {(state, Done), (state, Failed)} <= MOVES.keys()
        assert ((state, Took) in MOVES) == (state in HEARD | ENDS)
    assert {state for state, event in MOVES if event is Kept} == {State.SETTLING, State.STORING, *ENDS}
    assert {state for state, event in MOVES if event is Begin} == {State.FRESH}


def test_what_the_page_says_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: set[tuple[State, State]] = set()
    # Where each machine was last seen: also those states are that it passes through without waiting in them.
    seen: dict[int, State] = {}
    handle: Callable[[Machine, Event], list[Command]] = Machine.handle
    move: Callable[[Machine, Event], None] = Machine._move

    def passed(machine: Machine) -> None:
        made.add((seen[id(machine)], machine.state))
        seen[id(machine)] = machine.state

    def handled(machine: Machine, event: Event) -> list[Command]:
        seen[id(machine)] = machine.state
        commands = handle(machine, event)
        passed(machine)
        return commands

    def moved(machine: Machine, event: Event) -> None:
        passed(machine)
        move(machine, event)

    monkeypatch.setattr(Machine, "handle", handled)
    monkeypatch.setattr(Machine, "_move", moved)
    for count, scene in enumerate(SCENES.values()):
        folder = tmp_path / str(count)
        folder.mkdir()
        run(played(scene, folder), START)
    page = told_of_itself()
    # What fails, and whoever goes, ends everywhere.
    untold = {(before, after) for before, after in made if after not in {before, *ENDS} | page[before]}
    assert untold == set()
    assert {before for before, _ in made} | {State.OVER} == set(State)
