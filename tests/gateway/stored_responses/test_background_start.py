"""What an answer says of its being kept, and who has a conversation while it is given."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable

import pytest

from dragoman.errors import ClientError
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.forwarding.provider_request import ProviderRequest, glance_at, prepare
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.stored_responses.background_start import begun_of, with_storage_fields
from dragoman.gateway.stored_responses.leases import Leases
from dragoman.gateway.stored_responses.reference_resolver import ResolvedRequest
from dragoman.gateway.stored_responses.response_writer import Task
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.registry import codec_of
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.target import Target
from dragoman.store import Tables
from dragoman.store.conversations import LEASE
from dragoman.translate import translation_context
from tests.gateway.harness import CHAT, RESPONSES
from tests.gateway.stored_responses.recalling import recall
from tests.store.in_place import InPlace
from tests.store.opened import ALICE, Clock, item, opened


def _question(protocol: str = CHAT, **more: object) -> ProviderRequest:
    body = json.dumps({"model": "m", "input": "Hello.", "metadata": {"a": "b"}, **more}).encode()
    endpoint = Endpoint(protocol=protocol, base_url="http://127.0.0.1:1")
    provider = Provider(name="p", endpoints=(endpoint,), auth="none")
    target = Target(provider=provider, endpoint=endpoint, model="m", strict=False)
    api_path = api_path_of("/v1/responses")
    glance, _ = glance_at(body, api_path)
    return prepare(
        ClientRequest(api_path, [], {}),
        body,
        glance,
        target,
        renamed=False,
        strict=False,
        owner=b"",
    )


def _task(store: Tables, recalled: ResolvedRequest | None, response_id: str = "resp_ours") -> Task:
    return Task(
        store=InPlace(store),
        owner=ALICE,
        resolved=recalled,
        response_id=response_id,
        provider="p",
        holder=response_id or "mine",
    )


def _leases(store: Tables) -> Leases:
    return Leases(InPlace(store), Log(io.StringIO()))


async def reserve(task: Task, leases: Leases) -> Callable[[], None]:
    """Have the conversation of a task."""
    recalled = task.resolved
    assert recalled is not None and recalled.conversation is not None
    return await leases.take(task.owner, recalled.conversation, task.holder, recalled.stored_weight)


def test_an_answer_says_its_id_and_what_the_client_referred_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.5)
    with opened() as store:
        recalled = ResolvedRequest(body=b"", is_stored=True, previous="resp_0", background=True)
        task = _task(store, recalled)
        question = with_storage_fields(_question(), task)
        asked = translation_context(question.translated, codec_of(CHAT))
        assert (asked.response_id, asked.request.continues) == ("resp_ours", "resp_0")
        begun = begun_of(question, task)
    said: JsonObject = {
        "id": "resp_ours",
        "object": "response",
        "status": "queued",
        "previous_response_id": "resp_0",
        "background": True,
        "metadata": {"a": "b"},
        "output": [],
        "model": "m",
    }
    assert {**begun, **said} == begun
    assert begun["created_at"] == 1_800_000_000


def test_an_answer_that_is_not_kept_has_the_id_that_it_would_have() -> None:
    with opened() as store:
        recalled = ResolvedRequest(body=b"", is_stored=False, conversation="conv_1")
        question = with_storage_fields(_question(store=False), _task(store, recalled))
        asked = translation_context(question.translated, codec_of(CHAT))
        assert (asked.response_id, asked.request.conversation) == ("", "conv_1")


def test_a_relayed_question_is_left_alone() -> None:
    with opened() as store:
        question = _question(RESPONSES)
        assert with_storage_fields(question, _task(store, None, "")) is question
        recalled = ResolvedRequest(body=b"", is_stored=True, previous="resp_0")
        assert with_storage_fields(question, _task(store, recalled, "")) is question


@pytest.mark.parametrize("response_id", ["", "resp_ours"])
def test_a_conversation_is_had_alone_until_it_is_let_go(response_id: str) -> None:
    with opened() as store:
        store.conversations.create(ALICE, "conv_1", b"{}", ())
        recalled = ResolvedRequest(body=b"", is_stored=True, conversation="conv_1")
        other = _task(store, recalled, "resp_other")

        async def main() -> None:
            let_go = await reserve(_task(store, recalled, response_id), _leases(store))
            with pytest.raises(ClientError) as told:
                await reserve(other, _leases(store))
            assert (told.value.status, told.value.param) == (409, "conversation")
            assert told.value.code == "conversation_locked"
            let_go()
            (await reserve(other, _leases(store)))()

        asyncio.run(main())


def test_a_conversation_whose_process_is_gone_is_free_within_seconds() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        store.conversations.create(ALICE, "conv_1", b"{}", ())
        recalled = ResolvedRequest(body=b"", is_stored=True, conversation="conv_1")

        async def main() -> None:
            await reserve(_task(store, recalled), _leases(store))
            clock.now += LEASE
            await reserve(_task(store, recalled, "resp_other"), _leases(store))

        asyncio.run(main())


def test_a_conversation_that_a_provider_keeps_is_its_own_to_order() -> None:
    with opened() as store:
        recalled = ResolvedRequest(body=b"", is_stored=True, conversation="conv_theirs")

        async def main() -> None:
            for _ in range(2):
                (await reserve(_task(store, recalled, ""), _leases(store)))()

        asyncio.run(main())


def test_a_release_that_meets_a_failing_store_hinders_nobody() -> None:
    with opened() as store:
        store.conversations.create(ALICE, "conv_1", b"{}", ())

        async def main() -> None:
            task = _task(store, ResolvedRequest(body=b"", is_stored=True, conversation="conv_1"))
            let_go = await reserve(task, _leases(store))
            store._db.change("DROP TABLE conversations")
            let_go()

        asyncio.run(main())


def test_what_was_said_in_a_conversation_since_it_was_read_is_not_left_out() -> None:
    with opened() as store:
        store.conversations.create(ALICE, "conv_1", b"{}", [item("m1")])
        task = _task(store, recall(store, ALICE, b'{"input":"x","conversation":"conv_1"}'))
        store.conversations.append(ALICE, "conv_1", [item("m2")])

        async def main() -> None:
            with pytest.raises(ClientError) as told:
                await reserve(task, _leases(store))
            assert (told.value.status, told.value.code) == (409, "conversation_locked")
            again = recall(store, ALICE, b'{"input":"x","conversation":"conv_1"}')
            (await reserve(_task(store, again, "resp_other"), _leases(store)))()

        asyncio.run(main())
