"""The exchange as a table: it is what runs, it is whole, and what it says of itself is true.

That every dialogue makes only transitions of the page is asserted where dialogues are played: `tests/playbooks`.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.gateway.exchange.events_commands import (
    Begin,
    ClientDisconnected,
    Done,
    HeartbeatDue,
    Stored,
    Translated,
    WaitFailed,
)
from dragoman.gateway.exchange.state_machine import TRANSITIONS
from dragoman.gateway.exchange.states import State
from tests.gateway.exchange.observed import ENDS, not_on_page, observed_transitions, transitions_on_page
from tests.playbooks.stage import START
from tests.playbooks.test_playbooks import SCENES, played
from tests.virtual_time import run

# States in which the provider is being heard, and those in which nothing is waited for that is done or fails.
HEARD = {State.STREAMING, State.MISSED, State.FINALIZING, State.ENDING}
RESTING = {State.FRESH, State.STORING, State.BREAKING}
# A few dialogues that visit every state.
VISITS = (
    "responses_to_responses/failover_kept_here",
    "messages_to_responses/stop_watched",
    "chat_to_messages/paused_then_streamed",
    "messages_to_chat/key_refused_inside",
    "responses_to_chat/background_stream",
    "messages_to_chat/mislabelled",
    "responses_to_messages/pause_refused",
    "messages_to_messages/reasoning_refused",
    "messages_to_chat/failover_held_in_a_pause",
    "responses_to_messages/failover_kept_and_weighed",
)


def test_every_state_is_on_the_page_and_leads_on() -> None:
    page = transitions_on_page()
    assert page.keys() == set(State)
    assert all(page[state] for state in State if state is not State.OVER)


def test_every_state_has_a_move_for_everything_that_can_come() -> None:
    for state in State:
        assert {(state, HeartbeatDue), (state, ClientDisconnected)} <= TRANSITIONS.keys()
        assert state in RESTING or {(state, Done), (state, WaitFailed)} <= TRANSITIONS.keys()
        assert ((state, Translated) in TRANSITIONS) == (state in HEARD | ENDS)
    assert {state for state, event in TRANSITIONS if event is Stored} == {State.FINALIZING, State.STORING, *ENDS}
    assert {state for state, event in TRANSITIONS if event is Begin} == {State.FRESH}


def test_dialogues_visit_every_state(tmp_path: Path) -> None:
    with observed_transitions() as made:
        for name in VISITS:
            folder = tmp_path / name
            folder.mkdir(parents=True)
            run(played(SCENES[name], folder), START)
    assert {before for before, _ in made} | {State.OVER} == set(State)
    assert not_on_page(made) == set()


def test_a_transition_that_the_page_does_not_name_is_found() -> None:
    assert not_on_page({(State.FRESH, State.READING), (State.FRESH, State.STREAMING), (State.FRESH, State.OVER)}) == {
        (State.FRESH, State.STREAMING)
    }
