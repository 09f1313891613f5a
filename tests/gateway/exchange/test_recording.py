"""Recorded contents are what was sent and received, byte for byte: for three protocols, full and streamed, and for each
attempt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage
from dragoman.contents.archive import open_archive
from dragoman.contents.exchange_contents import BodySide, ExchangeContents
from dragoman.contents.redaction import ContentsRedactor
from dragoman.contents.retention import RetentionLimits
from dragoman.contents.writer import ContentsWriter
from tests.gateway.harness import PATHS, PROTOCOLS, House, Received, Reply, running, settings_for
from tests.gateway.test_contents_kept_nowhere import ASKED, KEY, answers, breaks, fails, protocol_of

SIDES = (BodySide.CLIENT_REQUEST, BodySide.PROVIDER_REQUEST, BodySide.PROVIDER_RESPONSE, BodySide.CLIENT_RESPONSE)


@contextmanager
def recorded(
    folder: Path, script: Callable[[Received], Reply]
) -> Iterator[tuple[House, Callable[[], list[ExchangeContents]]]]:
    """A gateway that records contents, and what reads them when it has ended."""
    path = str(folder / "state.db")
    writer = ContentsWriter(
        path, lambda: open_archive(path, ContentsRedactor()), RetentionLimits(), lambda level, words: None
    )

    def settings(port: int) -> Settings:
        return replace(settings_for(port, keys=[KEY]), storage=Storage(path=path))

    def stored() -> list[ExchangeContents]:
        assert writer.close(60.0) and not writer.problem
        archive = open_archive(path, ContentsRedactor())
        found = [archive.read(name) for name in archive.tables.oldest(1000)]
        archive.close()
        return [contents for contents in found if contents is not None]

    with running(script, settings) as house:
        house.app.runtime.contents = writer
        yield house, stored


def bodies(contents: ExchangeContents, side: BodySide) -> list[bytes]:
    assert not contents.reason and not any(body.reason for body in contents.bodies)
    return [body.data for body in sorted(contents.bodies, key=lambda body: body.attempt) if body.side is side]


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("kind", ["answered", "refused", "overloaded", "broken"])
def test_every_byte_is_read_back(tmp_path: Path, client: str, kind: str) -> None:
    replies: list[Reply] = []

    def says(received: Received) -> Reply:
        protocol, streamed = protocol_of(received), json.loads(received.body).get("stream") is True
        reply = {
            "answered": lambda: answers(protocol, streamed=streamed),
            "refused": lambda: fails(protocol, 400),
            "overloaded": lambda: fails(protocol, 529),
            "broken": lambda: breaks(protocol, streamed=streamed),
        }[kind]()
        replies.append(reply)
        return reply

    sent: list[tuple[bytes, bytes, list[bytes], list[Reply]]] = []
    with recorded(tmp_path, says) as (house, stored):
        for provider in PROTOCOLS:
            for streamed in (False, True):
                body = json.dumps({**ASKED[client](provider), **({"stream": True} if streamed else {})}).encode()
                calls = len(house.provider.received)
                answer = house.ask("POST", PATHS[client], body, x_api_key=KEY)
                made = house.provider.received[calls:]
                sent.append((body, answer.body, [call.body for call in made], replies[calls:]))
        read = stored()
    assert len(read) == len(sent) == 6
    for contents, (request, response, calls_made, replied) in zip(read, sent, strict=True):
        assert bodies(contents, BodySide.CLIENT_REQUEST) == [request]
        assert bodies(contents, BodySide.CLIENT_RESPONSE) == [response]
        assert bodies(contents, BodySide.PROVIDER_REQUEST) == calls_made
        responses = bodies(contents, BodySide.PROVIDER_RESPONSE)
        assert len(responses) == len(replied) >= 1
        for each, reply in zip(responses, replied, strict=True):
            whole = b"".join(step for step in reply.steps if isinstance(step, bytes))
            # After the last frame that is of use, and after an error, nothing more may be read.
            assert each == whole or (kind == "broken" and whole.startswith(each) and each)
        assert contents.key


def test_a_client_can_refuse_to_be_recorded(tmp_path: Path) -> None:
    with recorded(tmp_path, lambda received: answers(protocol_of(received), streamed=False)) as (house, stored):
        body = ASKED[PROTOCOLS[0]](PROTOCOLS[0])
        assert house.post(PATHS[PROTOCOLS[0]], body, x_api_key=KEY, x_dragoman_record=" OFF ").status == 200
        assert house.post(PATHS[PROTOCOLS[0]], body, x_api_key=KEY, x_dragoman_record="on").status == 200
        assert len(stored()) == 1


def test_of_a_background_response_the_clients_request_and_its_response_are_stored(tmp_path: Path) -> None:
    with recorded(tmp_path, lambda received: answers(protocol_of(received), streamed=False)) as (house, stored):
        body = {**ASKED["openai-responses"]("openai-chat"), "background": True, "store": True}
        answer = house.post(PATHS["openai-responses"], body, x_api_key=KEY)
        assert json.loads(answer.body)["status"] == "queued"
        (contents,) = stored()
    assert bodies(contents, BodySide.CLIENT_RESPONSE) == [answer.body]
    assert [json.loads(request) for request in bodies(contents, BodySide.CLIENT_REQUEST)] == [body]
    assert not bodies(contents, BodySide.PROVIDER_REQUEST) and not bodies(contents, BodySide.PROVIDER_RESPONSE)


def test_the_clients_key_is_redacted_and_what_is_sent_is_not_changed(tmp_path: Path) -> None:
    def says(received: Received) -> Reply:
        assert KEY in received.body.decode()
        return answers(protocol_of(received), streamed=False)

    with recorded(tmp_path, says) as (house, stored):
        body = {**ASKED[PROTOCOLS[1]](PROTOCOLS[1]), "user": f"my key is {KEY}"}
        assert house.post(PATHS[PROTOCOLS[1]], body, authorization=f"Bearer {KEY}").status == 200
        (contents,) = stored()
    assert [len(bodies(contents, side)) for side in SIDES] == [1, 1, 1, 1]
    assert not any(KEY.encode() in path.read_bytes() for path in tmp_path.glob("contents.db*"))
    assert f"[redacted:secret:{len(KEY)}]".encode() in bodies(contents, BodySide.CLIENT_REQUEST)[0]
