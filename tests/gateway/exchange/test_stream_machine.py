"""Streams, move by move: what the machine holds back, commits and finishes."""

from __future__ import annotations

import pytest

from dragoman.errors import TimedOut
from dragoman.gateway.exchange.events_commands import Begin, Done, End, HeartbeatDue, Start, WaitFailed, Write
from dragoman.gateway.exchange.states import SentState
from dragoman.gateway.runtime import Runtime
from tests.gateway.exchange.played import BODY, CONTENT, OPENING, Played, kinds, played_by


def test_a_keep_alive_commits_the_status_and_nothing_that_is_held() -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        play.until_called(Begin(BODY))
        hear = play.hear()
        assert play.take(hear, OPENING) is None
        play.say(HeartbeatDue(15.0))
        assert kinds(play.said) == [Start, Write]
        assert play.told() is SentState.STATUS
        play.take(hear, CONTENT)
        first, second = play.said
        assert isinstance(first, Write) and b'"role":"assistant"' in first.data
        assert isinstance(second, Write) and b"Hi" in second.data
        assert play.told() is SentState.CONTENT and play.machine.flowing

    played_by(story)


STOPPED = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\nevent: message_delta\n'
STOPPED += b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}\n\n'


@pytest.mark.parametrize("last", [b"", b'event: message_stop\ndata: {"type":"message_stop"}\n\n'])
def test_a_reply_is_finished_once_with_the_report_that_was_asked_for(last: bytes) -> None:
    def story(service: Runtime) -> None:
        play = Played(service, headers=[(b"x-dragoman-report", b"full")])
        play.until_called(Begin(BODY))
        hear = play.hear()
        said = []
        for chunk in (OPENING + CONTENT, STOPPED + last):
            play.take(hear, chunk)
            said += play.said
        play.say(Done())
        said += play.said
        assert kinds(said).count(End) == 1
        assert sum(b": dragoman" in command.data for command in said if isinstance(command, Write)) == 1
        assert not any(isinstance(command, Write) for command in said[kinds(said).index(End) :])

    played_by(story)


def test_what_a_stream_cost_is_known_though_it_fell_silent_before_content() -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        play.until_called(Begin(BODY))
        play.take(play.hear(), OPENING)
        play.say(WaitFailed(TimedOut("too late")))
        usage = play.account.record.usage
        assert usage is not None and (usage.input, usage.output) == (3, 1)

    played_by(story)


def test_heartbeats_go_on_while_another_target_is_asked() -> None:
    def story(service: Runtime) -> None:
        play = Played(service, "chat/served")
        play.until_called(Begin(BODY))
        play.more_targets()
        play.take(play.hear(), OPENING)
        play.say(HeartbeatDue(15.0))
        play.until_called(WaitFailed(TimedOut("too late")))
        play.say(HeartbeatDue(30.0))
        assert kinds(play.said) == [Write]

    played_by(story)
