"""The same protocol on both sides: what goes through is compared byte for byte, on the wire."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES, running, settings_for, stream, whole
from tests.sdk.providers import Turn, answer
from tests.sdk.providers import stream as stream_of

PROVIDERS = {MESSAGES: "messages", CHAT: "chat", RESPONSES: "responses"}
STOPS = {MESSAGES: "end_turn", CHAT: "stop", RESPONSES: "completed"}
SAID = {MESSAGES: '"messages"', CHAT: '"messages"', RESPONSES: '"input"'}

ODD_BODIES = {
    "unknown members": '{"model":"served",%s:[],"new_feature":{"deep":[1,2,{"x":null}]},"max_tokens":5}',
    "odd order and spacing": '\n {\t"max_tokens" : 5 ,\r\n %s:[ ] , "model":"served"  }\n',
    "numbers as they are spelled": '{"model":"served",%s:[],"temperature":1.0,"a":1e400,"b":-0,"c":1E+2,"d":0.10}',
    "duplicate members": '{"x":1,%s:[],"x":2,"model":"served"}',
    "escapes and other scripts": '{"model":"serv\\u0065d",%s:[],"t":"\\u00e9\\/ é 漢字 \\ud83d\\ude00"}',
    "a huge string": '{"model":"served",%s:[],"t":"' + "x" * 3_000_000 + '"}',
}


def one_provider(protocol: str) -> Callable[[int], Settings]:
    """A gateway where the provider's own names are used as they are."""

    def settings(port: int) -> Settings:
        route = RouteConfig(pattern="served", targets=(f"{PROVIDERS[protocol]}/served",))
        return replace(settings_for(port), routes=(route,))

    return settings


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("shape", ODD_BODIES)
def test_pitfall_204_a_request_reaches_its_own_protocol_byte_for_byte(protocol: str, shape: str) -> None:
    body = (ODD_BODIES[shape] % SAID[protocol]).encode()
    with running([whole(answer(protocol, Turn(stop=STOPS[protocol], text="hi")))], one_provider(protocol)) as house:
        told = house.post(PATHS[protocol], body)
        assert told.status == 200, told.body
        assert house.provider.received[0].body == body


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_renamed_model_is_the_only_change(protocol: str) -> None:
    body = (ODD_BODIES["odd order and spacing"] % SAID[protocol]).encode()
    named = body.replace(b"served", b"%b/served" % PROVIDERS[protocol].encode())
    with running([whole(answer(protocol, Turn(stop=STOPS[protocol], text="hi")))]) as house:
        assert house.post(PATHS[protocol], named).status == 200
        assert house.provider.received[0].body == body


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_whole_answer_comes_back_byte_for_byte(protocol: str) -> None:
    said = (
        b'{ "id" : "x",\n "usage":{"input_tokens": 1.0},"n":1e400 , "n":-0.10,"new":{},"t":"\\u00e9\\/ \xc3\xa9"}\r\n'
    )
    with running([whole(said)]) as house:
        told = house.post(PATHS[protocol], b'{"model":"%b/served"}' % PROVIDERS[protocol].encode())
    assert (told.status, told.body) == (200, said)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_comes_back_byte_for_byte_however_it_was_cut(protocol: str) -> None:
    said = b": opening\r\n\r\n" + stream_of(protocol, Turn(stop=STOPS[protocol], text="grüße " * 30, reasoning="hm"))
    said = said.replace(b"\n\n", b"\n \n\n".replace(b" ", b": note"), 1)
    cuts = [said[start : start + 29] for start in range(0, len(said), 29)]
    with running([stream(*cuts)]) as house:
        told = house.post(PATHS[protocol], b'{"model":"%b/served","stream":true}' % PROVIDERS[protocol].encode())
    assert (told.status, told.complete, told.body) == (200, True, said)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_provider_that_speaks_several_protocols_is_called_in_the_clients_own(protocol: str) -> None:
    with running([whole(answer(protocol, Turn(stop=STOPS[protocol], text="hi")))]) as house:
        told = house.post(PATHS[protocol], {"model": "all/served", "odd": 1})
        assert told.status == 200
        assert house.provider.received[0].json() == {"model": "served", "odd": 1}
        assert house.provider.received[0].target == PATHS[protocol]
