"""What a client heard: the text of an answer in its own protocol, how many chunks it came in, whether it ended well.

Only what is verified is read; the shapes leave everything else out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import DecodeError, Struct, json

from bench.gateway.answers import CHUNKS, SHORT_CHUNKS, long_chunks, short_text, streamed_text, whole_text
from bench.gateway.cases import HELD, LONG, SHORT, WHOLE
from bench.workloads import CHAT, MESSAGES, RESPONSES


class Heard(Struct, frozen=True, kw_only=True):
    """An answer as far as it is verified; `ended` is whether its protocol's own end was there."""

    text: str
    chunks: int
    ended: bool


class _Text(Struct, frozen=True):
    text: str = ""
    type: str = ""


class _MessagesAnswer(Struct, frozen=True):
    content: list[_Text]
    stop_reason: str | None = None


class _MessagesEvent(Struct, frozen=True):
    type: str
    delta: _Text | None = None


class _ChatMessage(Struct, frozen=True):
    content: str | None = None


class _ChatChoice(Struct, frozen=True):
    message: _ChatMessage = _ChatMessage()
    delta: _ChatMessage = _ChatMessage()
    finish_reason: str | None = None


class _ChatAnswer(Struct, frozen=True):
    choices: list[_ChatChoice]


class _Item(Struct, frozen=True):
    content: list[_Text] = []


class _ResponsesAnswer(Struct, frozen=True):
    output: list[_Item]
    status: str


class _ResponsesEvent(Struct, frozen=True):
    type: str
    delta: str = ""


_DONE = b"[DONE]"
# Text and chunks of an answer by its mode, where it is no long stream.
_EXPECTED = {WHOLE: (whole_text, 1), SHORT: (short_text, SHORT_CHUNKS), HELD: (short_text, SHORT_CHUNKS)}
_read_messages = json.Decoder(_MessagesAnswer).decode
_read_messages_event = json.Decoder(_MessagesEvent).decode
_read_chat = json.Decoder(_ChatAnswer).decode
_read_responses = json.Decoder(_ResponsesAnswer).decode
_read_responses_event = json.Decoder(_ResponsesEvent).decode


def complaint(client: str, mode: str, mark: bytes, status: int, body: bytes) -> str | None:
    """What is wrong with an answer, None if nothing is: it succeeded, ended well and says exactly what was said."""
    if status != 200:
        return f"status {status}: {body[:400]!r}"
    try:
        heard = _READERS[client, mode == WHOLE](body)
    except (DecodeError, IndexError) as error:
        return f"unreadable ({error}): {body[:400]!r}"
    if mode.startswith(LONG):
        chunks = int(mode.removeprefix(LONG))
        expected = "".join(long_chunks(mark.decode(), chunks))
    else:
        text, chunks = _EXPECTED.get(mode, (streamed_text, CHUNKS))
        expected = text(mark.decode())
    if heard.text != expected:
        return f"said {heard.text[:100]!r}, expected {expected[:100]!r}"
    if not heard.ended:
        return f"has no proper end: {body[-400:]!r}"
    if heard.chunks != chunks:
        return f"came in {heard.chunks} chunks"
    return None


def _messages(body: bytes) -> Heard:
    answer = _read_messages(body)
    text = "".join(block.text for block in answer.content)
    return Heard(text=text, chunks=1, ended=answer.stop_reason == "end_turn")


def _chat(body: bytes) -> Heard:
    choice = _read_chat(body).choices[0]
    return Heard(text=choice.message.content or "", chunks=1, ended=choice.finish_reason == "stop")


def _responses(body: bytes) -> Heard:
    answer = _read_responses(body)
    text = "".join(part.text for item in answer.output for part in item.content)
    return Heard(text=text, chunks=1, ended=answer.status == "completed")


def _data(body: bytes) -> Iterator[bytes]:
    """The data of each frame; comments have none."""
    for frame in body.split(b"\n\n"):
        start = frame.find(b"data: ")
        if start >= 0:
            yield frame[start + 6 :]


def _messages_stream(body: bytes) -> Heard:
    events = [_read_messages_event(data) for data in _data(body)]
    said = [event.delta.text for event in events if event.type == "content_block_delta" and event.delta is not None]
    return Heard(text="".join(said), chunks=len(said), ended=events[-1].type == "message_stop")


def _chat_stream(body: bytes) -> Heard:
    told = list(_data(body))
    choices = [choice for data in told[:-1] for choice in _read_chat(data).choices]
    said = [choice.delta.content for choice in choices if choice.delta.content]
    finished = any(choice.finish_reason == "stop" for choice in choices)
    return Heard(text="".join(said), chunks=len(said), ended=finished and told[-1] == _DONE)


def _responses_stream(body: bytes) -> Heard:
    # Some servers of Responses end as Chat does, after their own end; SDKs pass over it.
    events = [_read_responses_event(data) for data in _data(body) if data != _DONE]
    said = [event.delta for event in events if event.type == "response.output_text.delta"]
    return Heard(text="".join(said), chunks=len(said), ended=events[-1].type == "response.completed")


_Reader: TypeAlias = Callable[[bytes], Heard]
# By protocol, and whether the answer is whole.
_READERS: dict[tuple[str, bool], _Reader] = {
    (MESSAGES, True): _messages,
    (MESSAGES, False): _messages_stream,
    (CHAT, True): _chat,
    (CHAT, False): _chat_stream,
    (RESPONSES, True): _responses,
    (RESPONSES, False): _responses_stream,
}
