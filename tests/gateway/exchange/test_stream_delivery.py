"""Streams over real sockets: when the status is committed, silence, limits in time, cuts, errors and hang-ups."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable, Coroutine

import pytest

from dragoman.config.settings import Limits, Settings, Timeouts
from tests.gateway.gate import Gate, read_until
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PATIENCE,
    PROTOCOLS,
    PROVIDER_KEY,
    RESPONSES,
    Answer,
    House,
    Reply,
    Step,
    passing,
    running,
    settings_for,
    stay_silent,
    stream,
    take_turns,
)
from tests.gateway.pairwise import pairwise
from tests.gateway.says import (
    ABROAD,
    PAIRS,
    SAID,
    error_frame,
    failure_of,
    frames,
    is_finished,
    log_lines,
    message_of,
    opening,
    question,
    speaking,
    stream_failure,
    streamed_text,
    text_of,
)
from tests.sdk.digging import Object, dig, dig_object, dig_text
from tests.sdk.samples import as_stream, events_of
from tests.waiting import wait_until

IDLE, KEEP_ALIVE = Timeouts().idle, Timeouts().heartbeat
# The beginning of what the provider says, which every client sees as it is.
WORDS = SAID[: len(SAID) // 3].encode()
HEARTBEATS = {MESSAGES: b"event: ping\n", CHAT: b":", RESPONSES: b":"}
BUSY = {MESSAGES: "overloaded_error", CHAT: "overloaded_error", RESPONSES: "server_is_overloaded"}


def patient(**seconds: float) -> Callable[[int], Settings]:
    """A gateway with these limits in time."""
    return lambda port: settings_for(port, timeouts=Timeouts(**seconds))


def send(house: House, client: str, provider: str, *, streaming: bool = True) -> socket.socket:
    """Send a request and leave its reply on the wire."""
    return house.begin_post(PATHS[client], question(client, provider, stream=streaming))


def ask(house: House, client: str, provider: str, mark: bytes, gate: Gate) -> Answer:
    """Ask for a stream, and open the provider's gate when the mark has arrived."""
    return gate.post(house, PATHS[client], question(client, provider, stream=True), mark)


# S1: the status.


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_183_nothing_is_said_before_the_provider_says_something(client: str, provider: str) -> None:
    gate = Gate()
    with (
        running(
            [stream(opening(provider), gate.step, b"".join(frames(provider)[2 if provider == RESPONSES else 1 :]))]
        ) as house,
        send(house, client, provider) as connection,
    ):
        gate.wait_until_reached()
        house.take_turns()
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)
        connection.settimeout(PATIENCE)
        gate.open(house)
        told = read_until(connection, b"0\r\n\r\n")
        assert told.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("client", "provider", "before"), pairwise(PROTOCOLS, PROTOCOLS, ["at once", "after the opening"])
)
def test_pitfall_183_184_an_error_before_any_content_is_a_real_one(client: str, provider: str, before: str) -> None:
    first = opening(provider) if before == "after the opening" else b": hello\n\n"
    error_event = error_frame(provider, BUSY[provider], "busy now", BUSY[provider])
    with running([stream(first, take_turns, error_event)]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
    error = failure_of(client, told)
    assert error["message"] == "busy now"
    assert (told.status, error["type"]) == (
        (529, "overloaded_error") if client == MESSAGES else (503, "service_unavailable_error")
    )


@pytest.mark.parametrize("client", [MESSAGES, CHAT])
def test_pitfall_184_a_response_that_failed_before_any_content_is_a_real_error(client: str) -> None:
    with running([stream(opening(RESPONSES), failed_response())]) as house:
        told = house.post(PATHS[client], question(client, RESPONSES, stream=True))
    assert (told.status, message_of(client, told)) == (429, "slow down")


def test_a_native_failed_response_is_relayed_as_it_is() -> None:
    said = opening(RESPONSES) + failed_response()
    with running([stream(opening(RESPONSES), failed_response())]) as house:
        told = house.post(PATHS[RESPONSES], question(RESPONSES, RESPONSES, stream=True))
    assert (told.status, told.body, told.complete) == (200, said, True)


def failed_response() -> bytes:
    """The native failure of a Responses stream."""
    opened = dig_object(events_of(opening(RESPONSES))[0], "response")
    failed = {**opened, "status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow down"}}
    event = {"type": "response.failed", "sequence_number": 2, "response": failed}
    return b"event: response.failed\ndata: " + json.dumps(event).encode() + b"\n\n"


EMPTY: list[tuple[bytes | str, ...]] = [(), (b": a comment\n\n",), ("opening",), (b"\n\n\n",)]


@pytest.mark.parametrize(("client", "provider", "steps"), pairwise(PROTOCOLS, PROTOCOLS, EMPTY))
def test_an_empty_stream_is_a_502(client: str, provider: str, steps: tuple[bytes | str, ...]) -> None:
    written = [opening(provider) if isinstance(step, str) else step for step in steps]
    with running([stream(*written)]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
    assert told.status == 502, told.body
    assert failure_of(client, told)["type"] == ("api_error" if client == MESSAGES else "server_error")


GARBAGE: dict[str, bytes] = {
    "a page": b"<html><body>hello</body></html>\n\n",
    "JSON without its frame": b'{"hello": "world"}',
    "data that is no JSON": b"data: {oh no\n\n",
    "zeroes": bytes(100),
    "half a frame": b'event: message_start\ndata: {"type":"mess',
}


@pytest.mark.parametrize(("client", "provider"), [pair for pair in PAIRS if pair[0] != pair[1]])
def test_item_18_an_error_without_its_frame_is_told(client: str, provider: str) -> None:
    with running([stream(b'{"error": {"message": "plain"}}')]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
    assert told.status == 500
    assert failure_of(client, told)["message"] == "plain"


@pytest.mark.parametrize(("client", "provider", "shape"), pairwise(PROTOCOLS, PROTOCOLS, list(GARBAGE)))
def test_garbage_for_a_stream_is_a_502(client: str, provider: str, shape: str) -> None:
    with running([stream(GARBAGE[shape])]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
    assert told.status == 502, told.body
    assert failure_of(client, told)


# Errors inside a stream.


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_186_an_error_after_content_ends_the_stream_in_the_clients_form(client: str, provider: str) -> None:
    words = f"busy now; your key {PROVIDER_KEY} at http://127.0.0.1:9/secret/path"
    late = error_frame(provider, BUSY[provider], words, BUSY[provider])
    gate = Gate()
    with running([stream(speaking(provider), gate.step, late)]) as house:
        told = ask(house, client, provider, WORDS, gate)
        assert (told.status, told.complete) == (200, True)
        assert PROVIDER_KEY[:12] not in told.body.decode() and "secret/path" not in told.body.decode()
        assert PROVIDER_KEY[:12] not in house.log.getvalue()
        assert (log_lines(house)[0]["status"], log_lines(house)[0]["failure"]) == (200, "overloaded")
    if client == provider == RESPONSES:
        # The provider's own error frame is all there is; its bytes pass.
        assert events_of(told.body)[-1]["type"] == "error"
        return
    assert "busy now" in dig_text(stream_failure(client, told.body), "message")


CUTS: dict[str, Callable[[str], list[Step]]] = {
    "between two frames, properly": lambda provider: [speaking(provider)],
    "between two frames, at once": lambda provider: [speaking(provider), None],
    "inside a frame": lambda provider: [speaking(provider) + frames(provider)[-3][:25], None],
    "inside a frame, properly": lambda provider: [speaking(provider) + frames(provider)[-3][:25]],
}


@pytest.mark.parametrize(("client", "provider", "cut"), pairwise(PROTOCOLS, PROTOCOLS, list(CUTS)))
def test_pitfall_186_a_stream_that_was_cut_never_looks_finished(client: str, provider: str, cut: str) -> None:
    with running([stream(*CUTS[cut](provider))]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
        assert (told.status, told.complete) == (200, True)
        assert stream_failure(client, told.body)["message"]
        assert all(json.loads(line[6:]) for line in told.body.split(b"\n") if line.startswith(b"data: {"))
        assert log_lines(house)[0]["failure"] == "bad_gateway"


@pytest.mark.parametrize(("client", "provider", "cut"), pairwise(PROTOCOLS, PROTOCOLS, list(CUTS)))
def test_a_cut_stream_is_a_502_for_a_client_that_does_not_stream(client: str, provider: str, cut: str) -> None:
    with running([stream(*CUTS[cut](provider))]) as house:
        told = house.post(PATHS[client], question(client, provider))
    assert (told.status, bool(message_of(client, told))) == (502, True)


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_a_stream_whose_reason_to_stop_was_seen_ends_well_without_its_terminator(client: str, provider: str) -> None:
    kept = frames(provider)
    # Without message_stop; without [DONE]; of Responses the terminal event itself is the reason.
    kept = kept[:-1]
    with running([stream(b"".join(kept), None)]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
    assert (streamed_text(client, told.body), told.complete) == (SAID, True)
    if client != provider:
        assert is_finished(client, told.body)
    assert b'"error":{' not in told.body.replace(b" ", b"")


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_a_frame_beyond_the_limit_is_an_error(client: str, provider: str) -> None:
    with running(
        [stream(speaking(provider), b"data: " + b"x" * 50_000)],
        lambda port: settings_for(port, limits=Limits(stream_event=20_000)),
    ) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
    assert stream_failure(client, told.body)["message"]


# S4: silence.


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_205_a_silent_provider_is_covered_by_keep_alives(client: str, provider: str) -> None:
    gate, rest = Gate(), frames(provider)
    with running([stream(rest[0], gate.step, *rest[1:])], patient(heartbeat=0.02)) as house:
        with send(house, client, provider) as connection:
            told = read_until(connection, b"\n\n" if client != MESSAGES else b"ping")
            assert told.startswith(b"HTTP/1.1 200")
            assert HEARTBEATS[client] in told
            gate.open(house)
            told += read_until(connection, b"0\r\n\r\n")
        assert SAID[:5].encode() in told


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_205_and_so_is_silence_after_content(client: str, provider: str) -> None:
    gate, spoken = Gate(), speaking(provider)
    rest = b"".join(frames(provider))[len(spoken) :]
    with running([stream(spoken, gate.step, rest)], patient(heartbeat=0.02)) as house:
        with send(house, client, provider) as connection:
            told = b""
            while told.count(HEARTBEATS[client] if client == MESSAGES else b"\n:") < 2:
                told += connection.recv(65536)
            gate.open(house)
            told += read_until(connection, b"0\r\n\r\n")
        body = b"".join(piece for piece in told.split(b"\r\n") if b"data:" in piece or piece.startswith(b":"))
        assert streamed_text(client, body) == SAID
        assert is_finished(client, body)


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_an_error_after_a_keep_alive_is_told_in_the_stream(client: str, provider: str) -> None:
    late = error_frame(provider, BUSY[provider], "busy now", BUSY[provider])
    gate = Gate()
    with running([stream(opening(provider), gate.step, late)], patient(heartbeat=0.02)) as house:
        told = ask(house, client, provider, b"ping" if client == MESSAGES else b"\n:", gate)
        assert told.status == 200
        if client == provider == RESPONSES:
            assert dig_text(events_of(told.body)[-1], "message") == "busy now"
        else:
            assert stream_failure(client, told.body)["message"] == "busy now"


def test_a_client_that_does_not_stream_gets_no_keep_alive() -> None:
    with running([stream(frames(CHAT)[0], passing(KEEP_ALIVE + 1), *frames(CHAT)[1:])]) as house:
        told = house.post("/v1/messages", question(MESSAGES, CHAT))
        assert told.json()["type"] == "message"


# Limits in time.


@pytest.mark.parametrize(("client", "provider", "streaming"), pairwise(PROTOCOLS, PROTOCOLS, (False, True)))
def test_a_provider_that_never_begins_is_a_504(client: str, provider: str, streaming: bool) -> None:
    with running([Reply(raw=True, steps=(passing(),))]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=streaming))
        assert told.status == 504
        assert failure_of(client, told)["type"] == ("timeout_error" if client == MESSAGES else "server_error")
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")


@pytest.mark.parametrize(("client", "provider", "streaming"), pairwise(PROTOCOLS, PROTOCOLS, (False, True)))
def test_a_provider_that_falls_silent_before_content_is_a_504(client: str, provider: str, streaming: bool) -> None:
    with running([stream(opening(provider), passing())], patient(first_byte=10)) as house:
        told = house.post(PATHS[client], question(client, provider, stream=streaming))
        assert told.status == 504
        assert failure_of(client, told)
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_a_provider_that_falls_silent_inside_its_answer_ends_in_an_error(client: str, provider: str) -> None:
    gate = Gate()
    with running([stream(speaking(provider), gate.step, passing())]) as house:
        told = ask(house, client, provider, WORDS, gate)
        assert (told.status, told.complete) == (200, True)
        assert "silent" in dig_text(stream_failure(client, told.body), "message")
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")
        assert log_lines(house)[0]["failure"] == "timeout"


def test_keep_alives_do_not_hide_a_silent_provider() -> None:
    gate = Gate()
    with running([stream(speaking(CHAT), gate.step, passing())]) as house:
        told = ask(house, MESSAGES, CHAT, WORDS, gate)
        assert b"event: ping" in told.body
        assert dig_text(stream_failure(MESSAGES, told.body), "type") == "timeout_error"


@pytest.mark.parametrize(("client", "provider"), ABROAD)
def test_an_exchange_that_takes_too_long_as_a_whole_ends_in_an_error(client: str, provider: str) -> None:
    gate = Gate()
    trickle: list[Step] = [speaking(provider), gate.step]
    for _ in range(100):
        trickle += [passing(20), b": still there\n\n"]
    with running([stream(*trickle)], patient(total=500)) as house:
        told = ask(house, client, provider, WORDS, gate)
        assert "longer than 500 s" in dig_text(stream_failure(client, told.body), "message")
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")


@pytest.mark.parametrize("client", PROTOCOLS)
def test_the_whole_time_is_limited_before_content_too(client: str) -> None:
    trickle: list[Step] = []
    for _ in range(100):
        trickle += [passing(1), b": still there\n\n"]
    with running([stream(*trickle)], patient(total=10)) as house:
        assert house.post(PATHS[client], question(client, CHAT, stream=True)).status == 504


# S7: clients that go away.

MOMENTS: dict[str, tuple[Step, ...]] = {
    "before the provider's headers": (stay_silent,),
    "after its headers": (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", stay_silent),
    "after some content": (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", b"content", stay_silent),
    "inside a whole answer": (b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"id":', stay_silent),
}


@pytest.mark.parametrize(
    ("client", "provider", "streaming", "moment"), pairwise(PROTOCOLS, PROTOCOLS, (False, True), list(MOMENTS))
)
def test_pitfall_201_a_client_that_goes_away_ends_the_providers_call(
    client: str, provider: str, streaming: bool, moment: str
) -> None:
    steps = tuple(speaking(provider) if step == b"content" else step for step in MOMENTS[moment])
    with running([Reply(raw=True, steps=steps)]) as house:
        with send(house, client, provider, streaming=streaming) as connection:
            wait_until(lambda: len(house.provider.received) == 1, "the provider receives the request")
            if moment == "after some content" and streaming:
                read_until(connection, b"data: ")
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")
        wait_until(lambda: len(log_lines(house)) == 1, "the exchange is logged")
        assert log_lines(house)[0]["failure"] == "cancelled"


def test_pitfall_201_an_abort_is_noticed_like_a_close() -> None:
    with running([Reply(raw=True, steps=MOMENTS["before the provider's headers"])]) as house:
        connection = send(house, MESSAGES, CHAT)
        wait_until(lambda: len(house.provider.received) == 1, "the provider receives the request")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connection.close()
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")


# S8: frames go out as they come.


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_205_a_frame_never_waits_for_the_next(client: str, provider: str) -> None:
    gate, spoken = Gate(), speaking(provider)
    assert WORDS in spoken
    rest = b"".join(frames(provider))[len(spoken) :]
    with running([stream(spoken, gate.step, rest)]) as house, send(house, client, provider) as connection:
        read_until(connection, WORDS)
        gate.open(house)
        read_until(connection, b"0\r\n\r\n")


@pytest.mark.parametrize(("client", "provider", "size"), pairwise(PROTOCOLS, PROTOCOLS, [1, 2, 7, 64]))
def test_a_stream_may_be_cut_anywhere_on_the_wire(client: str, provider: str, size: int) -> None:
    data = b"".join(frames(provider))
    with running([stream(*(data[at : at + size] for at in range(0, len(data), size)))]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
    assert (streamed_text(client, told.body), is_finished(client, told.body)) == (SAID, True)


def test_a_stream_is_marked_so_that_nobody_collects_it() -> None:
    with running([stream(*frames(CHAT))]) as house:
        told = house.post("/v1/messages", question(MESSAGES, CHAT, stream=True))
    assert (told.header("cache-control"), told.header("x-accel-buffering")) == ("no-cache", "no")
    assert told.header("content-length") is None


def test_pitfall_205_back_pressure_reaches_the_provider() -> None:
    """A client that does not read stops the provider long before all of its answer is in memory."""
    frame = (
        b"data: "
        + json.dumps(
            {
                "id": "c",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "served",
                "choices": [{"index": 0, "delta": {"content": "x" * 60_000}, "finish_reason": None}],
            }
        ).encode()
        + b"\n\n"
    )
    sent = 0

    def counted() -> Callable[[], Coroutine[None, None, None]]:
        async def count() -> None:
            nonlocal sent
            sent += 1

        return count

    steps: list[Step] = [frames(CHAT)[0]]
    for _ in range(2000):
        steps += [frame, counted()]
    steps.append(b"".join(frames(CHAT)[-3:]))
    with running([stream(*steps)]) as house:
        with send(house, MESSAGES, CHAT) as connection:
            wait_until(lambda: is_paused(house) or sent == 2000, "the gateway stops reading from the provider")
            # Buffers on the way take a part of the stream.
            assert sent < 800
            connection.close()
        wait_until(lambda: house.provider.hung_up == 1, "the provider's call ends")


def is_paused(house: House) -> bool:
    """Whether the gateway reads nothing from the provider although the call is under way, as its client reads nothing.

    It does not read while a large event is worked on, either.
    """

    def reads() -> bool:
        transports = list(house.loop._transports.values())  # type: ignore[attr-defined]  # asyncio has no public list
        inbound = [each for each in transports if each.get_extra_info("sockname") == ("127.0.0.1", house.port)]
        if not any(each._protocol_paused for each in inbound):
            return True
        peer = ("127.0.0.1", house.provider.port)
        outbound = [each for each in transports if each.get_extra_info("peername") == peer]
        return not any(not each.is_closing() and not each.is_reading() for each in outbound)

    async def paused() -> bool:
        # After a large read the gateway pauses for one turn of the loop, whether the client reads or not.
        for _ in range(5):
            if reads():
                return False
            await asyncio.sleep(0)
        return True

    return house.run(paused())


# S11: stop strings that the provider cannot watch for.


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "whole"])
def test_a_stop_string_that_is_emulated_ends_the_providers_call(streaming: bool) -> None:
    pieces = ["Count: one, ", "two, thr", "ee, four"]
    events = [
        {
            "type": "response.output_text.delta",
            "item_id": "msg_up_1",
            "output_index": 0,
            "content_index": 0,
            "delta": piece,
            "logprobs": [],
            "sequence_number": 4 + at,
        }
        for at, piece in enumerate(pieces)
    ]
    written = b"".join(
        b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), json.dumps(event).encode()) for event in events
    )
    start = b"".join(frames(RESPONSES)[:4])
    with running([stream(start + written, stay_silent)]) as house:
        body = question(MESSAGES, RESPONSES, stream=streaming, stop_sequences=["three"])
        told = house.post("/v1/messages", body)
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")
        if not streaming:
            assert (text_of(MESSAGES, told.json()), told.json()["stop_sequence"]) == ("Count: one, two, ", "three")
            return
        assert streamed_text(MESSAGES, told.body) == "Count: one, two, "
        [ending] = [event for event in events_of(told.body) if event["type"] == "message_delta"]
        assert dig(ending, "delta", "stop_reason") == "stop_sequence"
        assert dig(ending, "delta", "stop_sequence") == "three"


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_a_provider_that_does_not_close_after_its_end_does_not_keep_the_client(client: str, provider: str) -> None:
    with running([stream(*frames(provider), passing())]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
        assert (streamed_text(client, told.body), told.complete) == (SAID, True)
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_nor_does_it_keep_a_client_that_does_not_stream(client: str, provider: str) -> None:
    with running([stream(*frames(provider), passing())]) as house:
        told = house.post(PATHS[client], question(client, provider))
        assert (told.status, text_of(client, told.json())) == (200, SAID)
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")


# Lies that are no reason to fail.


UNREADABLE_USAGE = ["much", [], {"input_tokens": "5", "prompt_tokens": "5"}]


@pytest.mark.parametrize(("client", "provider", "usage"), pairwise(PROTOCOLS, PROTOCOLS, UNREADABLE_USAGE))
def test_usage_that_cannot_be_read_does_not_cost_the_answer(client: str, provider: str, usage: object) -> None:
    said = [with_usage(event, usage) for event in events_of(b"".join(frames(provider)))]
    with running([stream(as_stream(provider, said))]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
    assert (streamed_text(client, told.body), is_finished(client, told.body)) == (SAID, True)


def with_usage(event: Object, usage: object) -> Object:
    """The same event with other counts, wherever it has some."""
    changed: Object = {}
    for name, value in event.items():
        if name == "usage" and value is not None:
            changed[name] = usage
        else:
            changed[name] = with_usage(value, usage) if isinstance(value, dict) else value
    return changed


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_an_event_without_data_is_passed_over(client: str, provider: str) -> None:
    with running([stream(*(b"data:\n\ndata\n\n" + frame for frame in frames(provider)))]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
    assert b"".join(frames(provider)) != told.body and is_finished(client, told.body)
    if client != provider:
        assert streamed_text(client, told.body) == SAID


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_half_an_event_inside_a_stream_is_never_passed_on(client: str, provider: str) -> None:
    told = frames(provider)
    at = next(number for number, frame in enumerate(told) if b"said" in frame)
    half = told[at].rstrip()[:-10] + b"\n\n"
    gate = Gate()
    with running([stream(b"".join(told[:at]), gate.step, half, *told[at + 1 :])]) as house:
        answer = ask(house, client, provider, b"Guten", gate)
    assert half not in answer.body
    assert stream_failure(client, answer.body)["message"]


def _silent_client(house: House, path: str, body: object) -> socket.socket:
    """A client that asks for much and reads nothing."""
    data = json.dumps(body).encode()
    connection = socket.socket()
    # As little as the system allows, so that it is soon noticed.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", house.port))
    connection.settimeout(PATIENCE)
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(data)}\r\n\r\n"
    connection.sendall(head.encode() + data)
    return connection


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
def test_a_client_that_stops_reading_is_cut_off_without_another_word(client: str) -> None:
    piece = next(frame for frame in frames(CHAT) if b"Guten" in frame).replace(b"Guten", b"x" * 65536)
    with running([stream(speaking(CHAT), *[piece] * 400, stay_silent)]) as house:
        with _silent_client(house, PATHS[client], question(client, CHAT, stream=True)) as connection:
            wait_until(lambda: len(house.provider.received) == 1, "the provider receives the request")
            wait_until(lambda: is_paused(house), "the gateway stops reading from the provider")
            house.pass_time(IDLE + 1)
            wait_until(lambda: house.server.busy == 0, "the gateway has ended every exchange")
            heard = bytearray()
            with contextlib.suppress(ConnectionError):
                while got := connection.recv(1_000_000):
                    heard += got
        assert b"fell silent" not in heard
        assert not heard.endswith(b"0\r\n\r\n")
        (line,) = log_lines(house)
        assert line["failure"] == "timeout"
