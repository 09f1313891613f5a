"""What one exchange has to do with the store, step by step."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Storage
from dragoman.errors import ClientError
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.forwarding.provider_request import ProviderRequest
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.stored_responses import response_writer as keeping_module
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.exchange_storage import ExchangeStorage, parse_request
from dragoman.gateway.stored_responses.reference_resolver import resolve_request
from dragoman.gateway.stored_responses.response_writer import renamed
from tests.gateway.harness import RESPONSES, House, Received, Reply, running, settings_for, whole
from tests.gateway.keeping_house import ECHO, create, keeping, on_loop, store_of
from tests.gateway.routed import target_of
from tests.sdk.digging import Object
from tests.store.asked import Gate

PLACE = api_path_of("/v1/responses")
ASKED = ClientRequest(PLACE, [], {})
# It speaks Responses, and keeps nothing.
RELAY = "echo/text@openai-responses"


async def _begun(house: House, memory: ExchangeStorage, **body: object) -> tuple[ProviderRequest, Object]:
    """A request as it goes on, and the body that was said."""
    raw = json.dumps({"model": ECHO, "input": "Hello.", **body}).encode()
    service, looked = house.app.runtime, parse_request(raw, PLACE)
    target = target_of(service.routes, looked.model, RESPONSES)
    found = await memory.resolve(None, raw, looked, target)
    prepared = memory.prepare(ASKED, raw, looked, found, target, False)
    assert looked.references is not None
    said = raw if found is None else resolve_request(raw, looked.references, found).body
    return await memory.begin(None, prepared), {**json.loads(said)}


def _memory(house: House) -> ExchangeStorage:
    return ExchangeStorage(house.app.runtime, PLACE)


def _nothing() -> None:
    """Nothing of the request is held."""


def test_a_request_that_refers_back_says_everything_itself() -> None:
    with keeping() as house:
        first = create(house)
        memory = _memory(house)
        _, said = house.run(_begun(house, memory, previous_response_id=first["id"]))
    assert "previous_response_id" not in said and isinstance(said["input"], list)
    assert [item["role"] for item in said["input"]] == ["user", "assistant", "user"]


def test_without_a_store_every_step_leaves_things_as_they_are() -> None:
    with keeping(storage=Storage(store_responses=False)) as house:
        memory = _memory(house)
        prepared, said = house.run(_begun(house, memory))
        house.run(memory.store_response(prepared, b"{}"))
        memory.end()
        assert house.run(memory.named(b"{}")) == b"{}"
    assert said == {"model": ECHO, "input": "Hello."}
    assert (memory.writer, memory.in_background) == (None, False)


def test_a_conversation_is_reserved_until_it_is_released() -> None:
    with keeping() as house:
        conversation = house.post("/v1/conversations", {}).json()["id"]
        first, second = _memory(house), _memory(house)
        house.run(_begun(house, first, conversation=conversation))
        with pytest.raises(ClientError, match="Another response is being given"):
            house.run(_begun(house, second, conversation=conversation))
        on_loop(house, first.end)
        house.run(_begun(house, second, conversation=conversation))


def test_what_is_left_running_is_written_down_at_once_and_keeps_its_conversation() -> None:
    async def for_ever() -> None:
        await asyncio.Event().wait()

    with keeping() as house:
        conversation = house.post("/v1/conversations", {}).json()["id"]
        memory = _memory(house)
        prepared, _ = house.run(_begun(house, memory, background=True, conversation=conversation))
        assert memory.in_background

        async def left() -> tuple[object, object, bool]:
            store, gate, task = store_of(house), Gate(), memory._task
            assert task is not None
            held = store.read(gate)
            await gate.passed_by_nobody()
            leaving = asyncio.ensure_future(memory.detach(prepared, DetachedClient(), for_ever, lambda: _nothing))
            await asyncio.sleep(0)
            # Asked for right behind it: before anybody runs it, and says so.
            written = store.read(lambda tables: tables.responses.find(b"", task.response_id))
            assert not leaving.done()
            gate.open()
            begun, kept, _ = await asyncio.gather(leaving, written, held)
            memory.end()
            free = await store.write(lambda tables: tables.conversations.lease(b"", str(conversation), "another"))
            assert begun["id"] == task.response_id
            return begun["status"], kept is not None and kept.status, free

        assert house.run(left()) == ("queued", "queued", False)


def test_a_provider_of_the_same_protocol_is_not_left_alone_with_a_response() -> None:
    with keeping() as house, pytest.raises(ClientError, match="has no background responses"):
        house.run(_begun(house, _memory(house), model=RELAY, background=True))


def test_a_large_answer_is_renamed_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def watched(out: bytes, name: bytes) -> bytes:
        threads.append(threading.current_thread().name)
        return renamed(out, name)

    monkeypatch.setattr(keeping_module, "renamed", watched)
    with keeping() as house:
        memory = _memory(house)
        house.run(_begun(house, memory, model=RELAY))
        # Millions of members once took seconds of everybody's time.
        for count in (1, 50_000):
            body = b'{"id":"resp_theirs","output":[]' + b',"a":[1]' * count + b"}"
            told = house.run(memory.named(body))
            assert told.startswith(b'{"id":"resp_') and b"theirs" not in told
    assert [name.startswith("large-") for name in threads] == [False, True]


def test_what_is_kept_is_made_once_whoever_answers() -> None:
    with keeping() as house:
        conversation = house.post("/v1/conversations", {}).json()["id"]
        memory = _memory(house)
        house.run(_begun(house, memory, conversation=conversation))
        first, keeper, release = memory._task, memory.writer, memory._release
        assert first is not None and keeper is not None and release is not None
        memory.retarget()
        assert (memory.writer, memory._resolved) == (None, None)
        house.run(_begun(house, memory, conversation=conversation, model=RELAY))
        second = memory._task
        assert second is not None and (second.response_id, second.holder) == (first.response_id, first.holder)
        assert memory.writer is keeper and memory._release is release
        on_loop(house, memory.end)


def test_what_an_earlier_target_recalled_or_said_is_not_the_next_ones() -> None:
    with keeping() as house:
        memory = _memory(house)
        house.run(_begun(house, memory, model=RELAY))
        keeper = memory.writer
        assert keeper is not None
        keeper.under_name(b'data: {"type":"response.output_item.done","item":{"id":"msg_first"}}\n\n')
        memory.retarget()
        house.run(_begun(house, memory, store=False))
        assert (memory.writer, memory._task) == (None, None)
        memory.retarget()
        house.run(_begun(house, memory, model=RELAY))
        assert memory.writer is keeper
        taken = keeper.ending(b'data: {"type":"response.completed","response":{"id":"x","output":[]}}\n\n')
        assert taken is not None and taken.output_items == ()


def test_a_conversation_that_a_provider_keeps_goes_to_it_alone_and_is_noted() -> None:
    """Nobody here was told when it was made: the first who may have it is asked, and whoever answers has it."""
    lines = (
        RouteConfig(pattern="one first", targets=("chat/served", "responses/served", "all/served")),
        RouteConfig(pattern="all first", targets=("all/served", "chat/served", "responses/served")),
    )
    said = {"id": "resp_theirs", "object": "response", "status": "completed", "output": [], "model": "served"}
    calls: list[Received] = []

    def script(received: Received) -> Reply:
        calls.append(received)
        return whole(said) if len(calls) > 1 else whole({"error": {"message": "down"}}, 500)

    def asked(house: House, name: str) -> tuple[int, str]:
        told = house.post("/v1/responses", {"model": name, "input": "x", "conversation": "conv_theirs"})
        return told.status, (told.header("x-dragoman-route") or "").partition(";")[0]

    with running(script, lambda port: replace(settings_for(port), routes=lines)) as house:
        # No other one can know it.
        assert asked(house, "one first") == (500, "responses/served")
        assert len(calls) == 1
        assert asked(house, "one first") == (200, "responses/served")
        assert calls[-1].json()["conversation"] == "conv_theirs"
        assert asked(house, "all first") == (200, "responses/served")
