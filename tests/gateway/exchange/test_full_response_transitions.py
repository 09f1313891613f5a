"""Answers that are told all at once are settled before they are sent."""

from __future__ import annotations

from dragoman.gateway.exchange.events_commands import (
    Begin,
    Done,
    Finalize,
    HangUp,
    ReadFull,
    Respond,
)
from dragoman.gateway.exchange.states import State
from dragoman.gateway.runtime import Runtime
from tests.gateway.exchange.played import CONTENT, OPENING, Head, Played, kinds, played_by

WHOLE = Head(200, b"application/json")
ASKED = b'{"model":"messages/served","messages":[{"role":"user","content":"Hello."}]}'
RELAYED = ASKED.replace(b"messages/", b"chat/")
ANSWER = b'{"id":"m","type":"message","role":"assistant","model":"served","content":[{"type":"text","text":"Hi"}],'
ANSWER += b'"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}'
CHAT_ANSWER = b'{"id":"c","object":"chat.completion","created":1,"model":"served","choices":[{"index":0,"message":'
CHAT_ANSWER += (
    b'{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}'
)


def test_a_whole_answer_is_translated_settled_and_sent() -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        play.until_called(Begin(ASKED))
        assert isinstance(play.say(Done(WHOLE)), ReadFull)
        play.say(Done(ANSWER))
        assert play.machine.passed[-1] is State.TRANSLATING
        assert kinds(play.said) == [Finalize, Respond, HangUp]
        told = play.said[1]
        assert isinstance(told, Respond) and b'"content":"Hi"' in told.body

    played_by(story)


def test_a_relayed_answer_goes_on_byte_for_byte() -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        play.until_called(Begin(RELAYED))
        play.say(Done(WHOLE))
        play.say(Done(CHAT_ANSWER))
        assert play.machine.passed[-1] is State.JUDGING
        told = play.said[1]
        assert isinstance(told, Respond) and told.body == CHAT_ANSWER

    played_by(story)


def test_events_under_another_type_are_read_as_what_they_are() -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        play.until_called(Begin(ASKED))
        play.say(Done(WHOLE))
        end = b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
        end += b'"usage":{"output_tokens":1}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
        stop = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        play.say(Done(OPENING + CONTENT + stop + end))
        assert play.machine.passed[-2:] == [State.FEEDING, State.CLOSING]
        told = play.said[1]
        assert isinstance(told, Respond) and b'"content":"Hi"' in told.body

    played_by(story)


def test_an_empty_answer_is_an_error() -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        play.until_called(Begin(ASKED))
        play.say(Done(WHOLE))
        play.say(Done(b" "))
        told = play.said[1]
        assert isinstance(told, Respond) and told.status == 502

    played_by(story)
