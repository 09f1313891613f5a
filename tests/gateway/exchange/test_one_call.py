"""One call to a provider is noted in the record and ended, whatever happens."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Server, Settings
from dragoman.errors import DragomanError
from dragoman.gateway.admission import Slot
from dragoman.gateway.exchange.one_call import one_call
from dragoman.gateway.observability.record import Record
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.runtime import Incoming
from dragoman.providers.transport_interface import Order
from tests.gateway.access.test_guard import asked
from tests.gateway.harness import CHAT, MESSAGES, House, running, settings_for, whole
from tests.gateway.routed import target_of
from tests.gateway.says import question
from tests.sdk.digging import dig_text

BODY = b'{"model":"text","messages":[{"role":"user","content":"Hello."}]}'


async def called(house: House, path: str, *, breaks: bool = False) -> tuple[RecordBuilder, bytes]:
    service = house.app.runtime
    target = target_of(service.routes, "echo/text", CHAT)
    account = service.builder_of(Record(id="req_1", client_protocol=CHAT, path="", started=service.clock(), time=0))
    order = Order(
        provider=target.provider,
        endpoint=target.endpoint,
        model=target.model,
        stream=False,
        body=BODY,
        headers=[],
        key=None,
        path=path,
    )
    incoming = Incoming(service, asked(), api_path_of(path), account, None)
    async with one_call(incoming, target, order) as (flight, _):
        if breaks:
            raise DragomanError("no more of this")
        return account, await flight.read(100_000)


def test_the_answer_is_handed_over_and_the_call_is_noted() -> None:
    with running() as house:
        account, body = house.run(called(house, "/chat/completions"))
    assert b"Hello." in body
    [attempt] = account.record.attempts
    assert (attempt.provider, attempt.model, attempt.protocol, attempt.status) == ("echo", "text", CHAT, 200)


def test_an_error_of_the_provider_is_an_answer_too() -> None:
    with running() as house:
        account, _ = house.run(called(house, "/nowhere"))
    assert account.record.attempts[0].status == 404


def test_what_is_raised_inside_comes_out() -> None:
    with running() as house, pytest.raises(DragomanError, match="no more of this"):
        house.run(called(house, "/chat/completions", breaks=True))


def narrow(port: int) -> Settings:
    """Providers that have one call at a time, and nobody who waits for it."""
    made = settings_for(port, server=Server(passthrough_paths=("GET /files/*",)))
    limited = {name: replace(provider, concurrency=1, queue_size=0) for name, provider in made.providers.items()}
    limited["messages"] = replace(limited["messages"], counts_tokens=True)
    return replace(made, providers=limited)


def slot_in(house: House, provider: str) -> Slot:
    """The only call that a provider may have."""

    async def taken() -> Slot:
        found = house.app.runtime.admission.enter(provider, "somebody")
        assert isinstance(found, Slot)
        return found

    return house.run(taken())


def calls_of(house: House, provider: str) -> int:
    return house.app.runtime.admission.loads()[provider].calls


def test_pitfall_370_what_is_posted_takes_a_place_among_the_calls_of_its_provider() -> None:
    with running(lambda received: whole({"data": []}), narrow) as house:
        slot = slot_in(house, "chat")
        refused = house.post("/v1/embeddings", {"model": "chat/served", "input": "Hello."})
        assert refused.status == 503 and int(refused.header("retry-after") or 0) >= 1
        assert dig_text(refused.json(), "error", "code") == "server_is_overloaded"
        assert not house.provider.received
        # What is only read takes none.
        assert house.get("/v1/files/file-1", x_dragoman_provider="chat").status == 200
        slot.release()
        assert house.post("/v1/embeddings", {"model": "chat/served", "input": "Hello."}).status == 200
        assert calls_of(house, "chat") == 0


def test_a_count_that_finds_no_place_is_estimated() -> None:
    with running(lambda received: whole({"input_tokens": 7}), narrow) as house:
        slot = slot_in(house, "messages")
        asked = question(MESSAGES, MESSAGES)
        estimated = house.post("/v1/messages/count_tokens", asked)
        assert estimated.status == 200 and estimated.header("x-dragoman-estimate") is not None
        assert not house.provider.received
        slot.release()
        counted = house.post("/v1/messages/count_tokens", asked)
        assert counted.json() == {"input_tokens": 7} and counted.header("x-dragoman-estimate") is None
        assert calls_of(house, "messages") == 0


def test_a_call_that_breaks_gives_its_place_back() -> None:
    with running((), narrow) as house:
        with pytest.raises(DragomanError, match="no more of this"):
            house.run(called(house, "/chat/completions", breaks=True))
        assert calls_of(house, "echo") == 0
