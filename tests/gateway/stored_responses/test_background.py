"""Responses that run while nobody waits: how they begin, how they are looked after, and every way in which they end."""

from __future__ import annotations

import asyncio
import io
import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Storage
from dragoman.errors import ClientError
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.stored_responses import background as module
from dragoman.gateway.stored_responses.background import (
    Background,
    BackgroundRun,
    client_body,
    end_response,
    fail_if_broken,
)
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.reference_resolver import ResolvedRequest
from dragoman.gateway.stored_responses.references import items_of
from dragoman.gateway.stored_responses.response_writer import ResponseWriter, Task
from dragoman.model.failure import Failure
from dragoman.store import Store, Tables
from dragoman.store.responses import StoredResponse
from tests import virtual_time
from tests.gateway.harness import CHAT, whole
from tests.gateway.keeping_house import ALICE as ALICE_KEY
from tests.gateway.keeping_house import BOB as BOB_KEY
from tests.gateway.keeping_house import ECHO, FAILING, SLOW, create, error_in, keeping, told
from tests.gateway.keeping_house import ended as until_ended
from tests.gateway.says import tells
from tests.sdk.samples import events_of
from tests.store.in_place import InPlace
from tests.store.opened import ALICE, Clock, names, opened
from tests.waiting import wait_until_async

# The time of the tables.
NOW = int(Clock().now)
ANSWER = {"id": "resp_1", "status": "completed", "output": [{"id": "a", "type": "message", "role": "assistant"}]}


class Run:
    """A response that is given by a function."""

    def __init__(
        self, store: Tables, *, stream: bool = False, conversation: str | None = None, asked: Store | None = None
    ) -> None:
        self.store = store
        self.asked = InPlace(store) if asked is None else asked
        self.log = io.StringIO()
        said = items_of([b'{"id":"q"}'])
        recalled = ResolvedRequest(
            body=b"{}", is_stored=True, background=True, new_items=said, conversation=conversation
        )
        self.recalled = recalled
        self.task = Task(store=self.asked, owner=ALICE, resolved=recalled, response_id="resp_1", provider="chat")
        self.kept_answer = ResponseWriter(self.task, Log(self.log, json=True))
        self.client = DetachedClient()
        log = Log(self.log, json=True)
        self.background = Background(2, log, lambda: NOW, lambda: NOW)
        self._stream, self._conversation = stream, conversation

    async def start(self, exchange: Callable[[], Awaitable[None]], response_id: str = "resp_1") -> None:
        """Let it run."""
        await self.background.start(
            BackgroundRun(
                task=replace(self.task, holder=response_id),
                resolved=self.recalled,
                begun={"id": response_id, "status": "queued", "output": []},
                release=partial(self.store.conversations.release, self._conversation or "", response_id),
                stream=self._stream,
                writer=self.kept_answer,
                client=self.client,
                exchange=exchange,
                fail=_failed_frames,
            )
        )

    def kept(self) -> StoredResponse:
        """It, as it is kept."""
        found = self.store.responses.find(ALICE, "resp_1")
        assert found is not None
        return found

    async def idle(self) -> None:
        """Wait until nothing runs."""
        await wait_until_async(lambda: not self.background.running, "nothing runs in the background")


def _failed_frames(failure: Failure) -> bytes:
    return b"event: response.failed\ndata: " + failure.message.encode() + b"\n\n"


async def forever() -> None:
    await asyncio.Event().wait()


def test_a_response_is_written_down_before_it_runs_and_when_it_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(store: Tables) -> None:
        run = Run(store)
        go_on = asyncio.Event()

        async def exchange() -> None:
            await go_on.wait()
            run.kept_answer.mark_written(run.kept_answer.full_response(json.dumps(ANSWER).encode()))

        seen: list[str] = []
        write = run.asked.write

        def watched(work: Callable[[Tables], object], *more: object, **said: object) -> object:
            done = write(work, *more, **said)  # type: ignore[arg-type]  # as it was called
            seen.append(run.kept().status)
            return done

        monkeypatch.setattr(run.asked, "write", watched)
        await run.start(exchange)
        assert seen == ["queued", "in_progress"]
        assert run.kept().alive == NOW + module._ALIVE
        await asyncio.sleep(0.05)
        assert run.kept().status == "in_progress"
        assert client_body(run.kept())["status"] == "in_progress"
        assert run.background.running == 1
        go_on.set()
        await run.idle()
        assert (run.kept().status, run.kept().alive) == ("completed", 0)
        assert names(store.responses.chain(ALICE, "resp_1")) == ["q", "a"]

    with opened() as store:
        virtual_time.run(main(store))


def test_an_exchange_that_ends_without_an_answer_is_a_failure_with_the_reason_that_it_gave() -> None:
    async def main(store: Tables) -> None:
        run = Run(store, stream=True)

        async def exchange() -> None:
            body = {"error": {"message": "Slow down.", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}
            run.client.respond(429, [], json.dumps(body).encode())

        await run.start(exchange)
        await run.idle()
        error = {"code": "rate_limit_exceeded", "message": "Slow down."}
        assert client_body(run.kept()) == {"id": "resp_1", "status": "failed", "output": [], "error": error}
        assert store.events.after("resp_1", 0) == [(1, b"event: response.failed\ndata: Slow down.\n\n")]

    with opened() as store:
        virtual_time.run(main(store))


def test_an_exchange_that_breaks_is_a_failure_too() -> None:
    async def main(store: Tables) -> None:
        run = Run(store)

        async def exchange() -> None:
            raise RuntimeError("nobody foresaw this")

        await run.start(exchange)
        await run.idle()
        assert run.kept().status == "failed"
        assert b"foresaw" not in run.kept().body

    with opened() as store:
        virtual_time.run(main(store))


def test_the_pieces_of_a_stream_are_there_before_its_end_is() -> None:
    async def main(store: Tables) -> None:
        run = Run(store, stream=True)
        seen: list[int] = []

        async def exchange() -> None:
            run.client.start(200, [])
            run.client.write(b"one\n\n")
            await asyncio.sleep(0.3)
            seen.append(len(store.events.after("resp_1", 0)))
            run.client.write(b"two\n\n")
            run.kept_answer.mark_written(run.kept_answer.full_response(json.dumps(ANSWER).encode()))

        await run.start(exchange)
        assert store.events.streamed("resp_1")
        await run.idle()
        assert seen == [1]
        assert store.events.after("resp_1", 0) == [(1, b"one\n\n"), (2, b"two\n\n")]

    with opened() as store:
        virtual_time.run(main(store))


def test_what_is_cancelled_here_stops_at_once_and_stays_cancelled() -> None:
    async def main(store: Tables) -> None:
        store.conversations.create(ALICE, "conv_1", b"{}", ())
        assert store.conversations.lease(ALICE, "conv_1", "resp_1")
        run = Run(store, stream=True, conversation="conv_1")
        await run.start(forever)
        await asyncio.sleep(0.05)
        assert end_response(store, ALICE, run.kept(), "cancelled").status == "cancelled"
        run.background.cancel("resp_1")
        run.background.cancel("resp_9")
        assert run.client.gone
        await run.idle()
        assert run.kept().status == "cancelled"
        assert store.events.after("resp_1", 0) == []
        assert store.conversations.items("conv_1") == []
        assert store.conversations.lease(ALICE, "conv_1", "resp_2")

    with opened() as store:
        virtual_time.run(main(store))


def test_what_is_cancelled_elsewhere_is_noticed_by_and_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BEAT", 0.05)

    async def main(store: Tables) -> None:
        run = Run(store)
        await run.start(forever)
        await asyncio.sleep(0.2)
        assert run.background.running
        end_response(store, ALICE, run.kept(), "cancelled")
        await run.idle()
        assert run.client.gone
        assert run.kept().status == "cancelled"

    with opened() as store:
        virtual_time.run(main(store))


def test_a_response_that_nobody_comes_back_to_has_failed_and_its_conversation_is_free() -> None:
    with opened() as store:
        store.conversations.create(ALICE, "conv_1", b"{}", ())
        store.conversations.lease(ALICE, "conv_1", "resp_1")
        body = b'{"id":"resp_1","conversation":{"id":"conv_1"}}'
        late = StoredResponse(
            id="resp_1",
            status="in_progress",
            previous=None,
            background=True,
            provider="chat",
            alive=NOW - 1,
            body=body,
        )
        store.responses.add(ALICE, late)
        found = fail_if_broken(store, ALICE, late)
        assert found.status == "failed" and b"stopped" in found.body
        assert store.responses.find(ALICE, "resp_1") == found
        assert fail_if_broken(store, ALICE, found) is found
        assert store.conversations.lease(ALICE, "conv_1", "resp_2")


def test_a_promise_that_was_renewed_since_it_was_read_is_kept() -> None:
    with opened() as store:
        late = StoredResponse(
            id="resp_1", status="in_progress", previous=None, background=True, provider="", alive=1, body=b"{}"
        )
        store.responses.add(ALICE, late)
        store.responses.keep_alive(ALICE, "resp_1", NOW + 5)
        found = fail_if_broken(store, ALICE, late)
        assert found.status == "in_progress" and found == store.responses.find(ALICE, "resp_1")


def test_a_promise_that_meets_a_busy_store_is_renewed_shortly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BEAT", 0.05)
    monkeypatch.setattr(module, "_AGAIN", 0.02)
    path = tmp_path / "state.db"

    async def main() -> None:
        with opened(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
            run = Run(store)
            await run.start(forever)
            assert store.responses.keep_alive(ALICE, "resp_1", 1)
            other.execute("BEGIN IMMEDIATE")
            await asyncio.sleep(0.3)
            assert run.kept().alive == 1
            other.execute("ROLLBACK")
            await wait_until_async(lambda: run.kept().alive != 1, "the promise is renewed")
            await run.background.finish(0.0)

    virtual_time.run(main())


def test_an_end_from_outside_gives_way_to_one_that_came_first() -> None:
    with opened() as store:
        first = StoredResponse(
            id="r", status="completed", previous=None, background=True, provider="", alive=0, body=b"{}"
        )
        store.responses.add(ALICE, first)
        assert end_response(store, ALICE, first, "cancelled") == first


def test_no_more_run_than_may() -> None:
    async def main(store: Tables) -> None:
        run = Run(store)
        for name in ("resp_1", "resp_2"):
            run.background.check()
            await run.start(forever, name)
        with pytest.raises(ClientError) as told:
            run.background.check()
        assert (told.value.status, told.value.param) == (429, "background")
        await run.background.finish(0.0)
        with pytest.raises(ClientError) as told:
            run.background.check()
        assert told.value.status == 503

    with opened() as store:
        virtual_time.run(main(store))


def test_a_stop_waits_for_what_ends_in_time_and_fails_the_rest() -> None:
    async def main(store: Tables) -> None:
        run = Run(store)

        async def soon() -> None:
            await asyncio.sleep(0.1)
            run.kept_answer.mark_written(run.kept_answer.full_response(json.dumps(ANSWER).encode()))

        await run.start(soon)
        await run.background.finish(20.0)
        assert run.kept().status == "completed"
        other = Run(store)
        store.responses.delete(ALICE, "resp_1")
        await other.start(forever)
        await other.background.finish(0.05)
        assert other.kept().status == "failed" and b"the gateway was stopped" in other.kept().body
        assert not other.client.gone
        await other.background.finish(0.0)

    with opened() as store:
        virtual_time.run(main(store))


def test_a_store_that_fails_under_a_response_is_told_to_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BEAT", 0.05)

    async def main(store: Tables) -> None:
        run = Run(store, stream=True)

        async def exchange() -> None:
            store._db.change("DROP TABLE responses")
            run.client.start(200, [])
            run.client.write(b"one\n\n")
            await asyncio.sleep(0.3)

        await run.start(exchange)
        await run.idle()
        assert "cannot store end of background response" in run.log.getvalue()
        assert "cannot renew lease of background response" in run.log.getvalue()

    with opened() as store:
        virtual_time.run(main(store))


def test_each_run_has_a_line_of_its_own_in_the_log_and_is_counted() -> None:
    with keeping() as house:
        made = create(house, input="a secret of the house", background=True)
        assert until_ended(house, made["id"])["status"] == "completed"
        lines = [json.loads(line) for line in house.log.getvalue().splitlines()]
        posts = [line for line in lines if line["event"] == "exchange" and line["path"] == "/responses"]
        # Both are of one exchange, which its client knows by its id.
        assert len(posts) == 2 and len({line["id"] for line in posts}) == 1
        assert "a secret of the house" not in house.log.getvalue()
        failing = create(house, model=FAILING, input="fail 500", background=True)
        until_ended(house, failing["id"])
        lines = [json.loads(line) for line in house.log.getvalue().splitlines()]
        assert [line["status"] for line in lines if line["event"] == "exchange" and line["status"] == 500]


def test_a_gateway_takes_no_more_than_it_may_run() -> None:
    with keeping(storage=Storage(max_background_responses=1)) as house:
        body = {"model": SLOW, "input": "word " * 400, "background": True}
        made = create(house, **body)
        assert error_in(house.post("/v1/responses", body))[:2] == (429, "background")
        house.post(f"/v1/responses/{made['id']}/cancel", b"")
        assert told(house, f"/v1/responses/{made['id']}")["status"] == "cancelled"


def test_pitfall_370_no_key_takes_all_places_in_the_background() -> None:
    with keeping(storage=Storage(max_background_responses=4), keys=(ALICE_KEY, BOB_KEY)) as house:
        body = {"model": SLOW, "input": "word " * 400, "background": True}
        statuses = [house.post("/v1/responses", body, authorization=f"Bearer {ALICE_KEY}").status for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert house.post("/v1/responses", body, authorization=f"Bearer {BOB_KEY}").status == 200
        refused = house.post("/v1/responses", body, authorization=f"Bearer {ALICE_KEY}")
        assert error_in(refused)[:3] == (429, "background", "rate_limit_exceeded")


def test_a_single_owner_has_all_places_in_the_background() -> None:
    with keeping(storage=Storage(max_background_responses=2), keys=(ALICE_KEY,)) as house:
        body = {"model": SLOW, "input": "word " * 400, "background": True}
        statuses = [house.post("/v1/responses", body, authorization=f"Bearer {ALICE_KEY}").status for _ in range(3)]
        assert statuses == [200, 200, 429]


def test_what_nobody_foresaw_is_in_the_log_without_its_words() -> None:
    async def run() -> None:
        with opened() as store:
            given = Run(store)

            async def exchange() -> None:
                raise KeyError("what the user said")

            await given.start(exchange)
            await given.background.finish(5.0)
            lines = given.log.getvalue()
            assert "background response failed" in lines and "KeyError" in lines
            assert "what the user said" not in lines

    virtual_time.run(run())


def test_an_end_that_cannot_be_written_yet_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def run() -> None:
        with opened(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
            given = Run(store)

            async def exchange() -> None:
                given.kept_answer.mark_written(given.kept_answer.full_response(json.dumps(ANSWER).encode()))

            await given.start(exchange)
            other.execute("BEGIN IMMEDIATE")
            await asyncio.sleep(0.2)
            assert given.background.running
            other.execute("ROLLBACK")
            await given.idle()
            assert given.kept().status == "completed"

    virtual_time.run(run())


def test_a_response_whose_conversation_another_has_taken_has_failed() -> None:
    async def run() -> None:
        with opened() as store:
            store.conversations.create(ALICE, "conv_1", b"{}", ())
            store.conversations.lease(ALICE, "conv_1", "resp_another")
            given = Run(store, conversation="conv_1")

            async def exchange() -> None:
                given.kept_answer.mark_written(given.kept_answer.full_response(json.dumps(ANSWER).encode()))

            await given.start(exchange)
            await given.idle()
            assert given.kept().status == "failed" and b"meanwhile" in given.kept().body
            assert store.conversations.items("conv_1") == []
            assert not store.conversations.lease(ALICE, "conv_1", "resp_3")

    virtual_time.run(run())


def test_a_failed_response_adds_nothing_to_its_conversation() -> None:
    with keeping() as house:
        conversation = str(house.post("/v1/conversations", {}).json()["id"])
        begun = create(house, model=FAILING, conversation=conversation, background=True)
        assert until_ended(house, begun["id"])["status"] == "failed"
        assert told(house, f"/v1/conversations/{conversation}/items")["data"] == []


def test_a_full_context_has_the_code_that_agents_compact_on() -> None:
    overflow = {"error": {"message": "maximum context length", "code": "context_length_exceeded", "type": "x"}}
    with keeping([whole(overflow, 400)]) as house:
        begun = create(house, model="chat/served", background=True)
        error = until_ended(house, begun["id"])["error"]
        assert isinstance(error, dict) and error["code"] == "context_length_exceeded"


def test_a_background_stream_says_who_answers_and_what_was_lost() -> None:
    with keeping() as house:
        body = {"model": ECHO, "input": "Hello.", "background": True, "stream": True, "safety_identifier": "x"}
        answer = house.post("/v1/responses", {**body, "max_tool_calls": 3})
        assert answer.header("x-dragoman-route") == "echo/text; protocol=openai-chat"
        assert "max_tool_calls" in str(answer.header("x-dragoman-losses"))


def _frame(kind: str, response: object, number: int = 0) -> bytes:
    event = json.dumps({"type": kind, "response": response, "sequence_number": number})
    return f"event: {kind}\ndata: {event}\n\n".encode()


CREATED, COMPLETED = _frame("response.created", ANSWER), _frame("response.completed", ANSWER, 1)


def _told(store: Tables) -> bytes:
    return b"".join(data for _, data in store.events.after("resp_1", 0))


@pytest.mark.parametrize("pieces", [[CREATED + COMPLETED], [CREATED, COMPLETED]], ids=["in one piece", "in two"])
def test_the_end_of_a_stream_is_told_when_it_is_kept(pieces: list[bytes]) -> None:
    async def main(store: Tables) -> None:
        run = Run(store, stream=True)
        seen: list[tuple[str, bytes]] = []

        async def exchange() -> None:
            run.client.start(200, [])
            for piece in pieces:
                if b"completed" in piece:
                    run.kept_answer.mark_written(run.kept_answer.ending(piece))
                run.client.write(piece)
            # Its provider does not hang up at once.
            await asyncio.sleep(0.3)
            seen.append((run.kept().status, _told(store)))

        await run.start(exchange)
        await run.idle()
        assert seen == [("in_progress", CREATED)]
        assert (run.kept().status, _told(store)) == ("completed", CREATED + COMPLETED)

    with opened() as store:
        virtual_time.run(main(store))


@pytest.mark.parametrize("pieces", [[CREATED + COMPLETED], [CREATED, COMPLETED]], ids=["in one piece", "in two"])
def test_a_stream_whose_conversation_another_has_taken_has_one_end(pieces: list[bytes]) -> None:
    async def main(store: Tables) -> None:
        store.conversations.create(ALICE, "conv_1", b"{}", ())
        store.conversations.lease(ALICE, "conv_1", "resp_another")
        run = Run(store, stream=True, conversation="conv_1")

        async def exchange() -> None:
            run.client.start(200, [])
            for piece in pieces:
                if b"completed" in piece:
                    run.kept_answer.mark_written(run.kept_answer.ending(piece))
                run.client.write(piece)
            await asyncio.sleep(0.3)

        await run.start(exchange)
        await run.idle()
        assert run.kept().status == "failed"
        events = [json.loads(line[6:]) for line in _told(store).split(b"\n") if line.startswith(b"data: {")]
        assert [event["type"] for event in events] == ["response.created", "error", "response.failed"]
        assert [event["sequence_number"] for event in events] == [0, 1, 2]

    with opened() as store:
        virtual_time.run(main(store))


def test_a_stream_whose_provider_answers_as_a_whole_is_told() -> None:
    with keeping([tells(CHAT)]) as house:
        body = {"model": "chat/served", "input": "Hello.", "background": True, "stream": True}
        events = [event["type"] for event in events_of(house.post("/v1/responses", body).body)]
        assert (events[0], events[-1]) == ("response.created", "response.completed")
        assert "response.output_text.delta" in events
