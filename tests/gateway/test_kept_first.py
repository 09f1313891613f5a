"""What is told was kept: a store that another process holds, that fails, or that has no room (decision 21)."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage, Timeouts
from dragoman.store import async_store as module
from dragoman.store import worker_thread as thread_module
from tests.gateway.gate import Gate
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PATIENCE,
    RESPONSES,
    Answer,
    House,
    Received,
    Reply,
    Step,
    running,
    settings_for,
    stream,
    take_turns,
)
from tests.gateway.keeping_house import in_store, on_loop, store_of, tell_sqlite, waited_for
from tests.gateway.says import question, speaking, streams, tells, turn
from tests.sdk.digging import dig_text
from tests.sdk.providers import stream as stream_of
from tests.sdk.samples import events_of
from tests.waiting import wait_until

# Of one that is translated, and of one that is relayed by a provider that keeps nothing.
MODELS = {"translated": "chat/served", "relayed": "responses/served"}


def script(received: Received, held_back: Step = take_turns) -> Reply:
    """A provider that answers at once, or ticks for a while and then holds its last words back."""
    body = received.json()
    protocol = CHAT if received.target.endswith("/chat/completions") else RESPONSES
    if "ticking" in json.dumps(body):
        begun = speaking(protocol)
        rest = stream_of(protocol, turn(protocol)).removeprefix(begun)
        return stream(begun, *(b": tick\n\n", take_turns) * 5, held_back, rest)
    return streams(protocol) if body.get("stream") else tells(protocol)


@contextmanager
def kept_in(
    path: Path,
    timeouts: Timeouts | None = None,
    keys: tuple[str, ...] = (),
    script: Callable[[Received], Reply] = script,
) -> Iterator[House]:
    """A gateway with its store in a file."""

    def settings(port: int) -> Settings:
        made = settings_for(port, timeouts=timeouts, keys=keys)
        providers = {
            name: replace(provider, stores_responses=bool(keys)) if name == "responses" else provider
            for name, provider in made.providers.items()
        }
        return replace(made, providers=providers, storage=Storage(path=str(path / "state.db")))

    with running(script, settings) as house:
        yield house


class Holder:
    """Another process, as far as the file can tell: it writes, and does not come to an end."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path / "state.db", isolation_level=None, check_same_thread=False)
        self._db.execute("BEGIN IMMEDIATE")

    def let_go(self) -> None:
        """End it."""
        self._db.execute("ROLLBACK")

    def close(self) -> None:
        """Be gone."""
        self._db.close()


@contextmanager
def held(path: Path) -> Iterator[Holder]:
    """The file, held by somebody else."""
    with closing(Holder(path)) as holder:
        yield holder


@contextmanager
def asking(work: Callable[[], Answer]) -> Iterator[Future[Answer]]:
    """Ask in a thread."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


def _id_in(answer: Answer) -> str:
    named = re.search(rb'"id": ?"(resp_\w+)"', answer.body)
    assert named is not None, answer.body
    return named[1].decode()


def _is_complete(answer: Answer, streaming: bool) -> bool:
    if not streaming:
        return answer.status == 200 and answer.json()["status"] == "completed"
    return b"event: response.completed" in answer.body


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("way", [*MODELS])
def test_pitfall_438_an_answer_waits_for_a_busy_store_and_other_streams_go_on(
    tmp_path: Path, way: str, streaming: bool
) -> None:
    body = {"model": MODELS[way], "input": "Hello.", "stream": streaming}
    with kept_in(tmp_path) as house, held(tmp_path) as holder:
        with asking(lambda: house.post("/v1/responses", body)) as told:
            wait_until(lambda: waited_for(house), "a write waits for the busy store")
            other = house.post(
                PATHS[MESSAGES], {**question(MESSAGES, CHAT, stream=True), "metadata": {"user_id": "ticking"}}
            )
            assert other.status == 200
            # What is not to be kept goes on as well.
            assert house.post("/v1/responses", {**body, "store": False}).status == 200
            assert not told.done()
            holder.let_go()
            answer = told.result(PATIENCE)
        assert _is_complete(answer, streaming)
        assert house.get(f"/v1/responses/{_id_in(answer)}").json()["status"] == "completed"


def test_a_client_that_waits_for_its_last_frames_gets_signs_of_life(tmp_path: Path) -> None:
    body = json.dumps({"model": "chat/served", "input": "Hello.", "stream": True}).encode()
    head = f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    with kept_in(tmp_path, Timeouts(heartbeat=0.02)) as house, held(tmp_path) as holder:
        with house.connect() as connection:
            connection.sendall(head.encode() + body)
            heard = b""
            while heard.count(b"\n:") < 4:
                heard += connection.recv(65536)
            assert b"response.completed" not in heard
            holder.let_go()
            rest = read_answer_after(connection)
        assert b"event: response.completed" in rest and b"[DONE]" in rest


def read_answer_after(connection: socket.socket) -> bytes:
    """What still comes."""
    heard = b""
    while piece := connection.recv(65536):
        heard += piece
    return heard


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("way", [*MODELS])
def test_what_cannot_be_kept_is_not_told(
    tmp_path: Path, way: str, streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUSY_TIMEOUT", 0.1)
    monkeypatch.setattr(module, "_LITTLE", 0.05)
    body = {"model": MODELS[way], "input": "Hello.", "stream": streaming}
    with kept_in(tmp_path) as house, held(tmp_path) as holder:
        answer = house.post("/v1/responses", body)
        assert not _is_complete(answer, streaming)
        if streaming:
            last = events_of(answer.body)[-1]
            assert (answer.status, last["type"]) == (200, "response.failed")
            assert "could not be stored" in dig_text(last, "response", "error", "message")
            numbers = [event["sequence_number"] for event in events_of(answer.body)]
            assert numbers == list(range(len(numbers)))
            # Also of an answer that came in one piece there is the beginning, without which its SDK knows no error.
            kinds = [event["type"] for event in events_of(answer.body)]
            assert kinds[0] == "response.created" and kinds.count("error") == kinds.count("response.failed") == 1
        else:
            assert (answer.status, answer.header("x-should-retry")) == (500, "false")
            assert "could not be stored" in answer.body.decode()
        # From now on nobody is asked for what could not be kept either.
        asked = len(house.provider.received)
        assert house.post("/v1/responses", body).status == 503
        assert len(house.provider.received) == asked
        assert house.post("/v1/responses", {**body, "store": False}).status == 200
        holder.let_go()
        again = house.post("/v1/responses", body)
        assert _is_complete(again, streaming)
        assert house.get(f"/v1/responses/{_id_in(again)}").status == 200


def test_what_runs_in_the_background_says_nothing_of_the_store_before_it_is_kept(tmp_path: Path) -> None:
    gate = Gate()
    with kept_in(tmp_path, script=partial(script, held_back=gate.step)) as house:
        patience = store_of(house)
        body = {"model": "chat/served", "input": "ticking", "background": True, "stream": True}
        with asking(lambda: house.post("/v1/responses", body)) as told:
            wait_until(lambda: bool(house.app.runtime.state.background.running), "the background response runs")
            statement = "CREATE TRIGGER t BEFORE UPDATE OF body ON responses BEGIN SELECT raise(FAIL, 'no'); END"
            tell_sqlite(house, statement)
            on_loop(house, lambda: setattr(patience, "record_failure", True))
            gate.open(house)
            wait_until(
                lambda: "cannot store end of background response" in house.log.getvalue(),
                "the failure to store is logged",
            )
            assert patience.failed
            tell_sqlite(house, "UPDATE promises SET until = 1")
            assert b"event: error" in told.result(PATIENCE).body


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_a_disk_without_room_is_told_and_asked_again_when_there_is(tmp_path: Path, streaming: bool) -> None:
    body = {"model": "chat/served", "input": "word " * 20_000, "stream": streaming}
    with kept_in(tmp_path) as house:
        (pages,) = tell_sqlite(house, "PRAGMA page_count")
        assert isinstance(pages, int)
        tell_sqlite(house, f"PRAGMA max_page_count = {pages + 1}")
        answer = house.post("/v1/responses", body)
        assert not _is_complete(answer, streaming)
        assert house.post("/v1/responses", body).status == 503
        tell_sqlite(house, "PRAGMA max_page_count = 100000")
        again = house.post("/v1/responses", body)
        assert _is_complete(again, streaming)
        assert house.get(f"/v1/responses/{_id_in(again)}").status == 200


def test_a_file_that_was_deleted_keeps_nothing_and_that_is_told(tmp_path: Path) -> None:
    body = {"model": "chat/served", "input": "Hello."}
    with kept_in(tmp_path) as house:
        assert house.post("/v1/responses", body).status == 200
        for file in tmp_path.glob("state.db*"):
            file.unlink()
        assert house.post("/v1/responses", body).status == 500
        asked = len(house.provider.received)
        assert house.post("/v1/responses", body).status == 503
        assert len(house.provider.received) == asked
        assert house.post("/v1/responses", {**body, "store": False}).status == 200
        assert "the file was deleted or replaced" in house.log.getvalue()


CHANGES: dict[str, Callable[[House, str, str], Answer]] = {
    "a conversation": lambda house, response, conversation: house.post("/v1/conversations", {}),
    "items": lambda house, response, conversation: house.post(
        f"/v1/conversations/{conversation}/items", {"items": [{"role": "user", "content": "x"}]}
    ),
    "a deletion": lambda house, response, conversation: house.ask("DELETE", f"/v1/responses/{response}", b""),
    "a conversation's deletion": lambda house, response, conversation: house.ask(
        "DELETE", f"/v1/conversations/{conversation}", b""
    ),
    "a response in the background": lambda house, response, conversation: house.post(
        "/v1/responses", {"model": "chat/served", "input": "x", "background": True}
    ),
    "a response in a conversation": lambda house, response, conversation: house.post(
        "/v1/responses", {"model": "chat/served", "input": "x", "conversation": conversation}
    ),
}


@pytest.mark.parametrize("change", [*CHANGES])
@pytest.mark.parametrize("stays", [False, True], ids=["for a while", "for too long"])
def test_a_change_waits_for_a_busy_store(
    tmp_path: Path, change: str, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept_in(tmp_path) as house:
        response = _id_in(house.post("/v1/responses", {"model": "chat/served", "input": "x"}))
        conversation = str(house.post("/v1/conversations", {}).json()["id"])
        monkeypatch.setattr(module, "BUSY_TIMEOUT", 0.1 if stays else PATIENCE)
        asked = len(house.provider.received)
        with held(tmp_path) as holder, asking(lambda: CHANGES[change](house, response, conversation)) as told:
            # The store's patience may be over before a busy machine looks.
            wait_until(lambda: waited_for(house) or (stays and told.done()), "a write waits for the busy store")
            assert house.get(f"/v1/responses/{response}").status == 200
            if stays:
                answer = told.result(PATIENCE)
                assert (answer.status, answer.header("x-should-retry")) == (500, "false")
                assert b"could not be stored, so nothing was done" in answer.body
                assert len(house.provider.received) == asked
            else:
                assert not told.done()
                holder.let_go()
                assert told.result(PATIENCE).status == 200


@pytest.mark.parametrize("free", [False, True], ids=["busy", "free again"])
def test_a_client_that_hangs_up_while_its_answer_is_kept(
    tmp_path: Path, free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps({"model": "chat/served", "input": "ticking", "stream": True}).encode()
    head = f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
    with kept_in(tmp_path) as house, held(tmp_path) as holder:
        with house.connect() as connection:
            connection.sendall(head.encode() + body)
            heard = b""
            while b"response.created" not in heard:
                heard += connection.recv(65536)
            wait_until(lambda: waited_for(house), "a write waits for the busy store")
            if free:
                # Held up in the line, so that only the last try can have kept it.
                monkeypatch.setattr(thread_module, "_MAX_PAUSE", 6000.0)
                thread = store_of(house)._threads[0]
                thread._pause = 6000.0
                wait_until(lambda: thread._again > thread._clock() + 1000.0, "the next try is far away")
                holder.let_go()
        wait_until(lambda: house.server.busy == 0, "the gateway has ended every exchange")
        response_id = heard.split(b'"id":"resp_')[1].split(b'"')[0].decode()
        if not free:
            holder.let_go()
        found = in_store(house, lambda tables: tables.responses.exists(f"resp_{response_id}"))
        assert (found, "cannot store response" in house.log.getvalue()) == (free, not free)


@pytest.mark.parametrize("free", [False, True], ids=["busy", "free again"])
def test_a_gateway_that_stops_while_an_answer_is_kept(tmp_path: Path, free: bool) -> None:
    body = {"model": "chat/served", "input": "Hello.", "stream": True}
    with kept_in(tmp_path) as house, held(tmp_path) as holder:
        with asking(lambda: house.post("/v1/responses", body)) as told:
            wait_until(lambda: waited_for(house), "a write waits for the busy store")

            def stop() -> None:
                house.app.runtime.draining = True
                if free:
                    holder.let_go()
                house.server.cancel_all()

            on_loop(house, stop)
            answer = told.result(PATIENCE)
        assert _is_complete(answer, streaming=True) is free
        assert free or events_of(answer.body)[-1]["type"] == "response.failed"
        with closing(sqlite3.connect(tmp_path / "state.db")) as db:
            assert db.execute("SELECT count(*) FROM responses").fetchone() == (int(free),)


def test_a_gateway_that_stops_while_a_whole_answer_is_kept_says_that_it_was_not(tmp_path: Path) -> None:
    with kept_in(tmp_path) as house, held(tmp_path):
        with asking(lambda: house.post("/v1/responses", {"model": "chat/served", "input": "Hello."})) as told:
            wait_until(lambda: waited_for(house), "a write waits for the busy store")

            def stop() -> None:
                house.app.runtime.draining = True
                house.server.cancel_all()

            on_loop(house, stop)
            answer = told.result(PATIENCE)
        assert (answer.status, answer.header("x-should-retry")) == (500, "false")
        assert b"the response could not be stored" in answer.body
        assert "cannot store response" in house.log.getvalue()


def test_whose_a_providers_response_is_gets_noted_before_its_end_is_told(tmp_path: Path) -> None:
    keys = ("sk-alice-0123456789abcdef", "sk-bob-0123456789abcdef")
    body = {"model": "responses/served", "input": "Hello.", "stream": True}
    with kept_in(tmp_path, keys=keys) as house, held(tmp_path) as holder:
        alice = {"authorization": f"Bearer {keys[0]}"}
        with asking(lambda: house.post("/v1/responses", body, **alice)) as told:
            wait_until(lambda: waited_for(house), "a write waits for the busy store")
            assert not told.done()
            # A provider that was told not to keep it has nothing that could be noted.
            assert house.post("/v1/responses", {**body, "store": False}, **alice).status == 200
            holder.let_go()
            answer = told.result(PATIENCE)
        assert _is_complete(answer, streaming=True)
        owner = house.app.runtime.settings.keys[0].owner
        noted = in_store(house, lambda tables: tables.responses.find(owner, _id_in(answer)))
        assert noted is not None and not noted.body


def test_a_process_that_wants_the_file_for_itself_stops_nobody(tmp_path: Path) -> None:
    with kept_in(tmp_path) as house, closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
        other.execute("PRAGMA busy_timeout = 100")
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            other.execute("BEGIN EXCLUSIVE")
            other.execute("ROLLBACK")
        except sqlite3.OperationalError:
            # It is in use.
            pass
        other.execute("PRAGMA locking_mode = NORMAL")
        other.execute("SELECT count(*) FROM responses").fetchone()
        answer = house.post("/v1/responses", {"model": "chat/served", "input": "x"})
        assert house.get(f"/v1/responses/{_id_in(answer)}").status == 200


def test_every_answer_of_a_crowd_that_was_told_can_be_fetched(tmp_path: Path) -> None:
    """Another process writes again and again while many are answered."""
    over = threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None, timeout=PATIENCE)) as db:
            while not over.is_set():
                db.execute("BEGIN IMMEDIATE")
                over.wait(0.02)
                db.execute("ROLLBACK")
                over.wait(0.005)

    with kept_in(tmp_path) as house, ThreadPoolExecutor(9) as pool:
        writing = pool.submit(write)
        try:
            asked = [
                pool.submit(
                    house.post, "/v1/responses", {"model": model, "input": f"{count}", "stream": bool(count % 2)}
                )
                for count in range(12)
                for model in MODELS.values()
            ]
            answers = [told.result(PATIENCE) for told in asked]
        finally:
            over.set()
        writing.result(PATIENCE)
        for count, answer in enumerate(answers):
            assert _is_complete(answer, streaming=bool(count // 2 % 2))
            assert house.get(f"/v1/responses/{_id_in(answer)}").json()["status"] == "completed"


def test_the_loop_never_waits_for_a_lock(tmp_path: Path) -> None:
    with kept_in(tmp_path) as house:
        assert tell_sqlite(house, "PRAGMA busy_timeout") == [0]
