"""The relay of a stream: every byte as it came, and a cut that shows."""

from __future__ import annotations

import pytest
from anthropic._streaming import SSEDecoder as AnthropicDecoder
from openai._streaming import SSEDecoder as OpenaiDecoder

from dragoman.streaming import StreamPipeline
from tests.sdk.providers import Turn
from tests.sdk.providers import stream as stream_of
from tests.streaming.support import CHAT, CLAUDE, DOUBTFUL, LAST, MESSAGES, RESPONSES, datas, sse


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_relayed_stream_is_byte_exact(size: int) -> None:
    stream = StreamPipeline(source=MESSAGES, target=MESSAGES)
    out = b"".join(stream.feed(CLAUDE[at : at + size]) for at in range(0, len(CLAUDE), size)) + stream.close()
    assert out == CLAUDE
    assert stream.failure is None
    assert stream.usage is not None
    assert stream.usage.output == 5


@pytest.mark.parametrize("missing", [1, 2])
def test_the_last_event_of_a_relayed_stream_gets_the_blank_line_that_it_lacks(missing: int) -> None:
    stream = StreamPipeline(source=MESSAGES, target=MESSAGES)
    out = stream.feed(CLAUDE[:-missing]) + stream.close()
    assert out == CLAUDE
    assert stream.failure is None


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("protocol", LAST)
def test_item_22_a_relay_adds_no_more_than_the_last_event_lacks(
    protocol: str, missing: int, line_end: bytes, size: int
) -> None:
    before, last = LAST[protocol]
    whole = (before + last).strip().replace(b"\n", line_end) + 2 * line_end
    sent = whole[: len(whole) - missing * len(line_end)]
    stream = StreamPipeline(source=protocol, target=protocol)
    out = b"".join(stream.feed(sent[at : at + size]) for at in range(0, len(sent), size)) + stream.close()
    # A frame of one line without its end does not say what line ends look like.
    assert out == (sent + b"\n\n" if missing == 2 and protocol == CHAT else whole)
    assert stream.failure is None


@pytest.mark.parametrize("decoder", [AnthropicDecoder, OpenaiDecoder])
@pytest.mark.parametrize(("end", "heard"), [(b"", 0), (b"\n", 0), (b"\n\n", 1)])
def test_item_22_the_official_readers_drop_an_event_that_no_blank_line_ends(
    decoder: type[AnthropicDecoder] | type[OpenaiDecoder], end: bytes, heard: int
) -> None:
    events = list(decoder().iter_bytes(iter([b'data: {"type":"message_stop"}' + end])))
    assert len(events) == heard


@pytest.mark.parametrize("tail", [b": bye\n", b"\n", b"event: bye\n", b": bye"])
@pytest.mark.parametrize("protocol", [MESSAGES, CHAT])
def test_item_22_a_tail_that_says_nothing_is_passed_on_as_it_is(protocol: str, tail: bytes) -> None:
    before, _ = LAST[protocol]
    stream = StreamPipeline(source=protocol, target=protocol)
    assert stream.feed(before + tail) + stream.close() == before + tail
    assert stream.failure is None


@pytest.mark.parametrize("cut", [20, 200, 300, 500, 700])
def test_a_relayed_stream_that_breaks_off_ends_in_an_error(cut: int) -> None:
    stream = StreamPipeline(source=MESSAGES, target=MESSAGES)
    out = stream.feed(CLAUDE[:cut]) + stream.close()
    assert out.split(b"event: error")[0] in CLAUDE[:cut]
    last = datas(out)[-1]
    assert last["type"] == "error"
    assert b"message_stop" not in out
    assert stream.failure is not None


@pytest.mark.parametrize("size", [1, 9, 10_000])
def test_a_relay_passes_on_what_follows_the_terminal_frame(size: int) -> None:
    done: dict[str, object] = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
    whole = sse(done).replace(b"\n", b"\r\n") + b"data: [DONE]\r\n\r\n"
    stream = StreamPipeline(source=RESPONSES, target=RESPONSES)
    out = b"".join(stream.feed(whole[at : at + size]) for at in range(0, len(whole), size)) + stream.close()
    assert out == whole


def test_a_relay_passes_on_the_providers_own_error_and_its_ending() -> None:
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    stream = StreamPipeline(source=MESSAGES, target=MESSAGES)
    assert stream.feed(error) + stream.feed(b": bye\n\n") + stream.close() == error + b": bye\n\n"
    assert stream.failure is not None


@pytest.mark.parametrize("protocol", ["anthropic-messages", "openai-chat", "openai-responses"])
@pytest.mark.parametrize("size", [1, 7, 100, 5000, 10**6])
def test_a_relay_that_skims_passes_every_byte_and_still_knows_the_end(protocol: str, size: int) -> None:
    stops = {"anthropic-messages": "end_turn", "openai-chat": "stop", "openai-responses": "completed"}
    said = stream_of(protocol, Turn(stop=stops[protocol], text="Hello there, " * 50))
    translator = StreamPipeline(source=protocol, target=protocol)
    out = b"".join(translator.feed(said[at : at + size]) for at in range(0, len(said), size)) + translator.close()
    assert out == said
    assert translator.finished
    assert translator.failure is None
    assert translator.usage is not None
    assert (translator.usage.input, translator.usage.output) == (11, 7)


@pytest.mark.parametrize("protocol", ["anthropic-messages", "openai-chat"])
def test_a_relay_that_skims_tells_a_cut(protocol: str) -> None:
    said = stream_of(protocol, Turn(stop="end_turn", text="Hello there, " * 50))
    cut = said[: len(said) // 2]
    translator = StreamPipeline(source=protocol, target=protocol)
    out = translator.feed(cut) + translator.close()
    whole = cut[: cut.rfind(b"\n\n") + 2]
    assert out.startswith(whole)
    assert b"error" in out[len(whole) :]
    assert translator.failure is not None


@pytest.mark.parametrize("protocol", ["anthropic-messages", "openai-chat"])
def test_a_relay_that_skims_hears_an_error_among_deltas(protocol: str) -> None:
    errors = {
        "anthropic-messages": b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"no"}}\n\n',
        "openai-chat": b'data: {"error":{"message":"no","type":"server_error"}}\n\n',
    }
    said = stream_of(protocol, Turn(stop="end_turn", text="Hello there, " * 50))
    middle = said.find(b"\n\n", len(said) // 2) + 2
    translator = StreamPipeline(source=protocol, target=protocol)
    out = translator.feed(said[:middle] + errors[protocol] + said[middle:])
    assert translator.failure is not None
    assert out == said[:middle] + errors[protocol] + said[middle:]


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT, RESPONSES])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    "stream",
    [b": keep-alive\n\n\n", b"\n", b"\n\n\n", b": one\n\n\n\n: two\n\n\n", b": one\r\n\r\n\r\n: two\n\r\n", b"\r\r\r"],
)
def test_three_newlines_are_passed_on_as_three_newlines(protocol: str, size: int, stream: bytes) -> None:
    translator = StreamPipeline(source=protocol, target=protocol)
    assert b"".join(translator.feed(stream[at : at + size]) for at in range(0, len(stream), size)) == stream


@pytest.mark.parametrize("cut", [1, 1_000_000], ids=["byte by byte", "at once"])
@pytest.mark.parametrize("case", DOUBTFUL)
def test_item_7_calls_that_nobody_can_put_together_are_relayed_as_they_came(case: str, cut: int) -> None:
    protocol, said = DOUBTFUL[case]
    translator = StreamPipeline(source=protocol, target=protocol)
    out = b"".join(translator.feed(said[at : at + cut]) for at in range(0, len(said), cut))
    assert out + translator.close() == said
