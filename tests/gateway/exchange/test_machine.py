"""The exchange as a table: it is what runs, it is whole, and what it says of itself is true."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.errors import TimedOut
from dragoman.gateway.exchange import machine as module
from dragoman.gateway.exchange.client import ClientRequest
from dragoman.gateway.exchange.machine import MOVES, Machine, State, Told
from dragoman.gateway.exchange.steps import (
    Begin,
    Call,
    Command,
    Done,
    Due,
    End,
    Event,
    Failed,
    Gone,
    HangUp,
    Hear,
    Kept,
    Recall,
    Reserve,
    Respond,
    Settle,
    Start,
    Took,
    Work,
    Write,
)
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.records.record import Record
from dragoman.gateway.stored_responses.memory import Memory
from dragoman.http.flight import HeaderList
from tests.gateway.harness import CHAT, MESSAGES, PATHS, House, running
from tests.playbooks.stage import START
from tests.playbooks.test_playbooks import SCENES, played
from tests.virtual_time import run

# States in which the provider is being heard, and those in which nothing is waited for that is done or fails.
HEARD = {State.HEARING, State.MISSED, State.SETTLING, State.ENDING}
RESTING = {State.FRESH, State.STORING}


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
            # The next target is asked, or there is none.
            found[state] |= {State.RECALLING, State.OVER}
    return found


def test_every_state_is_on_the_page_and_leads_on() -> None:
    page = told_of_itself()
    assert page.keys() == set(State)
    assert all(page[state] for state in State if state is not State.OVER)


def test_every_state_has_a_move_for_everything_that_can_come() -> None:
    for state in State:
        assert {(state, Due), (state, Gone)} <= MOVES.keys()
        assert state in RESTING or {(state, Done), (state, Failed)} <= MOVES.keys()
        assert ((state, Took) in MOVES) == (state in HEARD or state is State.OVER)
    assert {state for state, event in MOVES if event is Kept} == {State.SETTLING, State.STORING, State.OVER}
    assert {state for state, event in MOVES if event is Begin} == {State.FRESH}


def test_what_the_page_says_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: set[tuple[State, State]] = set()
    real: Callable[[Machine, Event], list[Command]] = Machine.handle

    def watched(machine: Machine, event: Event) -> list[Command]:
        before = machine.state
        commands = real(machine, event)
        made.add((before, machine.state))
        return commands

    monkeypatch.setattr(Machine, "handle", watched)
    for count, scene in enumerate(SCENES.values()):
        folder = tmp_path / str(count)
        folder.mkdir()
        run(played(scene, folder), START)
    page = told_of_itself()
    # What fails, and whoever goes, ends everywhere.
    untold = {(before, after) for before, after in made if after not in {before, State.OVER} | page[before]}
    assert untold == set()
    assert {before for before, _ in made} | {State.OVER} == set(State)


class Head:
    """The head of an answer."""

    def __init__(self, status: int, kind: bytes) -> None:
        self.status = status
        self.headers: HeaderList = [(b"content-type", kind)]


STREAM = Head(200, b"text/event-stream")
BODY = b'{"model":"messages/served","stream":true,"messages":[{"role":"user","content":"Hello."}]}'
OPENING = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
)
OPENING += b'"model":"served","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
CONTENT = b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text",'
CONTENT += b'"text":""}}\n\nevent: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
CONTENT += b'"delta":{"type":"text_delta","text":"Hi"}}\n\n'


class Played:
    """A machine whose commands are answered here, one by one."""

    def __init__(self, house: House, *others: str) -> None:
        service = house.app.service
        asked = ClientRequest(api_path=api_path_of(PATHS[CHAT]), headers=[])
        self.account = service.account(Record(id="req_1", dialect=CHAT, path="", started=0.0, time=0.0))
        self.machine = Machine(service, asked, self.account, Memory(service, asked.api_path))
        self.said: list[Command] = []
        self._house, self._others = house, others

    def say(self, event: Event) -> Command:
        """Let it move; give the last command."""
        self.said = self.machine.handle(event)
        return self.said[-1]

    def until_called(self, event: Event) -> Call:
        """Answer what is asked before a provider is."""
        command = self.say(event)
        while not isinstance(command, Call):
            if isinstance(command, Work):
                if self.machine.state is State.READING:
                    looked = command.work()
                    command = self.say(Done(looked))
                    continue
                command = self.say(Done(command.work()))
            elif isinstance(command, Recall):
                command = self.say(Done(None))
            else:
                assert isinstance(command, Reserve), command
                command = self.say(Done(command.prepared))
        return command

    def more_targets(self) -> None:
        """As routing will have it: the request may go to these, too."""
        routes = self._house.app.service.routes
        self.machine._targets = iter([routes.target(name, CHAT) for name in self._others])

    def told(self) -> Told:
        return self.machine.told

    def hear(self) -> Hear:
        command = self.say(Done(STREAM))
        assert isinstance(command, Hear)
        return command

    def take(self, hear: Hear, chunk: bytes) -> Command | None:
        self.said = self.machine.handle(Took(hear.feed(chunk), 1.0))
        return self.said[-1] if self.said else None


def played_by(story: Callable[[House], None]) -> None:
    async def told(house: House) -> None:
        await asyncio.sleep(0)
        story(house)

    with running() as house:
        house.run(told(house))


def kinds(said: list[Command]) -> list[type]:
    return [type(command) for command in said]


def test_a_keep_alive_commits_the_status_and_nothing_that_is_held() -> None:
    def story(house: House) -> None:
        play = Played(house)
        play.until_called(Begin(BODY))
        hear = play.hear()
        assert play.take(hear, OPENING) is None
        play.say(Due(15.0))
        assert kinds(play.said) == [Start, Write]
        assert play.told() is Told.STATUS
        play.take(hear, CONTENT)
        first, second = play.said
        assert isinstance(first, Write) and b'"role":"assistant"' in first.data
        assert isinstance(second, Write) and b"Hi" in second.data
        assert play.told() is Told.CONTENT and play.machine.flowing

    played_by(story)


def test_a_failure_is_told_by_what_was_told_before() -> None:
    def story(house: House) -> None:
        nothing = Played(house)
        nothing.until_called(Begin(BODY))
        nothing.say(Failed(TimedOut("too late")))
        assert kinds(nothing.said) == [Settle, Respond, HangUp]

        for chunks in ((OPENING,), (OPENING, CONTENT)):
            play = Played(house)
            play.until_called(Begin(BODY))
            hear = play.hear()
            for chunk in chunks:
                play.take(hear, chunk)
            play.say(Due(15.0))
            play.say(Failed(TimedOut("too late")))
            assert kinds(play.said)[0] is Settle and kinds(play.said)[-2:] == [End, HangUp]
            told = b"".join(command.data for command in play.said if isinstance(command, Write))
            assert b"too late" in told
            assert play.machine.told is Told.ALL

    played_by(story)


@pytest.mark.parametrize("opened", [False, True], ids=["nothing", "the status"])
def test_the_next_target_is_asked_while_nothing_of_an_answer_was_said(opened: bool) -> None:
    def story(house: House) -> None:
        play = Played(house, "chat/served")
        first = play.until_called(Begin(BODY))
        assert first.prepared.target.endpoint.protocol == MESSAGES
        play.more_targets()
        if opened:
            hear = play.hear()
            play.take(hear, OPENING)
            play.say(Due(15.0))
        second = play.until_called(Failed(TimedOut("too late")))
        assert second.prepared.target.endpoint.protocol == CHAT
        assert (play.account.record.provider, play.account.record.failure) == ("chat", "")
        play.say(Failed(TimedOut("too late again")))
        assert kinds(play.said)[-1] is HangUp and play.machine.state is State.OVER

    played_by(story)


def test_no_other_target_is_asked_once_there_was_content() -> None:
    def story(house: House) -> None:
        play = Played(house, "chat/served")
        play.until_called(Begin(BODY))
        play.more_targets()
        hear = play.hear()
        play.take(hear, OPENING + CONTENT)
        play.say(Failed(TimedOut("too late")))
        assert Call not in kinds(play.said) and play.machine.state is State.OVER

    played_by(story)


@pytest.mark.parametrize("stopping", [False, True])
def test_whoever_goes_settles_the_exchange_in_every_state(stopping: bool) -> None:
    def story(house: House) -> None:
        play = Played(house)
        play.until_called(Begin(BODY))
        play.say(Gone(stopping))
        assert kinds(play.said) == ([Settle, Respond, HangUp] if stopping else [Settle, HangUp])
        settled = play.said[0]
        assert isinstance(settled, Settle)
        assert settled.changes["failure"] == ("shutdown" if stopping else "cancelled")
        assert play.machine.handle(Done()) == []

    played_by(story)
