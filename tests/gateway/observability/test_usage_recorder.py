"""Every exchange of a gateway is written down once, before its client knows it complete."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage
from dragoman.gateway.observability import usage_recorder as module
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.usage_recorder import UsageRecorder
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.records import ingest_thread, journal
from dragoman.records.exchanges import find
from dragoman.records.ingest_thread import IngestThread
from dragoman.records.journal_directory import directory_of, journals_in
from dragoman.records.journal_ingest import ingest_all
from dragoman.store.record_tables import open_record_tables
from tests.gateway import harness
from tests.gateway.harness import CHAT, MESSAGES, PATHS, RESPONSES, House, Received, Reply, running, settings_for, whole
from tests.gateway.says import PAIRS, log_lines, question, streams, tells
from tests.records.agreement import sums_and_rows
from tests.waiting import LIMIT, wait_until

Row = dict[str, object]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables are written at once, a lock is not waited for, and a directory is made again soon."""
    monkeypatch.setattr(ingest_thread, "IngestThread", partial(IngestThread, every=0.02))
    monkeypatch.setattr(ingest_thread, "_LOCK_TIMEOUT", 0.05)
    monkeypatch.setattr(journal, "_REOPEN_AFTER", 0.02)


@contextmanager
def accounted(
    folder: Path, script: Callable[[Received], Reply], storage: Mapping[str, object] | None = None, *keys: str
) -> Iterator[House]:
    """A gateway that writes down what is asked of it."""
    kept = replace(Storage(path=str(folder / "state.db")), **(storage or {}))

    def settings(port: int) -> Settings:
        return replace(settings_for(port, keys=keys, rights=ALL_RIGHTS), storage=kept)

    with running(script, settings) as house:

        async def start() -> None:
            house.app.runtime.usage_recorder.start()

        async def close() -> None:
            await house.app.runtime.usage_recorder.close(30.0)

        house.run(start())
        try:
            yield house
        finally:
            house.run(close())


def answers(received: Received) -> Reply:
    """A provider of all protocols, that streams when it is asked to."""
    protocol = next(protocol for protocol, path in PATHS.items() if received.target == path)
    return (streams if received.json().get("stream") else tells)(protocol)


def rows(folder: Path) -> list[Row]:
    path = str(folder / "state.db")
    ingest_all(path, now=0)
    by_group, by_thread, by_row = sums_and_rows(path)
    assert by_group == by_thread == by_row
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute("SELECT * FROM records ORDER BY number")]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_pitfall_426_there_are_as_many_rows_as_requests_in_every_pair(tmp_path: Path, stream: bool) -> None:
    with accounted(tmp_path, answers) as house:
        for client, provider in PAIRS:
            assert house.post(PATHS[client], question(client, provider, stream=stream)).status == 200
    found = rows(tmp_path)
    assert len(found) == len(PAIRS)
    assert [(row["dialect"], row["served"]) for row in found] == list(PAIRS)
    assert {(row["outcome"], row["kind"], row["status"]) for row in found} == {("answered", "conversation", 200)}
    assert {row["stream"] for row in found} == {int(stream)}
    ids = [str(row["id"]) for row in found]
    assert sorted(ids) == ids
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("store", [False, True], ids=["told", "kept"])
def test_an_exchange_is_found_by_the_id_in_its_answer_whoever_gave_it(
    tmp_path: Path, store: bool, stream: bool
) -> None:
    path = str(tmp_path / "state.db")
    calls = count()

    def script(received: Received) -> Reply:
        """Each answer has an id of its own."""
        reply = answers(received)
        (body,) = reply.steps
        assert isinstance(body, bytes)
        return replace(reply, steps=(body.replace(b"0123456789", b"01234567%02d" % next(calls)),))

    seen: list[str] = []
    with accounted(tmp_path, script) as house:
        # As a worker does: what is kept is known again by digests.
        house.app.runtime.session_facts.attach_records(path, house.app.runtime.log)
        for client, provider in PAIRS:
            # What is kept here has an id of its own.
            more = {"store": store} if client == RESPONSES else {}
            told = house.post(PATHS[client], question(client, provider, stream=stream, **more)).body.decode()
            seen.append(re.findall(r'"((?:msg_|chatcmpl-|resp_)[A-Za-z0-9]{16,})"', told)[0])
    ids = [row["id"] for row in rows(tmp_path)]
    assert len(set(ids)) == len(set(seen)) == len(PAIRS)
    with closing(open_record_tables(path, read_only=True)) as tables:
        assert [find(tables, one, directory_of(path)).entry.id for one in seen] == ids


def test_an_answer_is_written_down_before_it_is_told(tmp_path: Path) -> None:
    """Whoever has read all of it finds it in the journal, whatever becomes of the gateway then."""
    with accounted(tmp_path, answers) as house:
        answer = house.post(PATHS[CHAT], question(CHAT, CHAT))
        name = answer.header("x-request-id")
        assert name is not None
        (journal,) = journals_in(directory_of(str(tmp_path / "state.db")))
        lines = [line for line in journal.read_bytes().splitlines() if name.encode() in line]
        assert [line[9:].split(b",")[0] for line in lines] == [b'["opened"', b'["finalized"']


def test_what_is_asked_beside_conversations_has_rows_too(tmp_path: Path) -> None:
    def script(received: Received) -> Reply:
        return whole({"object": "list", "data": []})

    with accounted(tmp_path, script) as house:
        house.get("/v1/models")
        house.post("/v1/messages/count_tokens", {"model": "echo/text", "messages": [{"role": "user", "content": "a"}]})
        house.post("/v1/embeddings", {"model": "chat/served", "input": "a"})
        house.get("/v1/responses/resp_nobody")
        house.get("/healthz")
        house.get("/nowhere/at/all")
    found = [(row["kind"], row["path"], row["outcome"]) for row in rows(tmp_path)]
    assert found == [
        ("list", "/models", "answered"),
        ("count", "/messages/count_tokens", "answered"),
        ("other", "/embeddings", "answered"),
        ("other", "/responses/resp_nobody", "refused"),
    ]


def test_refusals_have_rows_of_who_is_known_and_of_so_many_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_UNAUTHENTICATED_PER_MINUTE", 2)
    with accounted(tmp_path, answers, None, "sk-alice-0123456789") as house:
        for _ in range(5):
            # What is none of ours takes nothing of their room.
            assert house.get("/nowhere").status in (401, 404)
            assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 401
        unknown = {"model": "nobody/knows", "messages": []}
        assert house.post(PATHS[CHAT], unknown, authorization="Bearer sk-alice-0123456789").status == 404
        recorded = house.app.runtime.usage_recorder.recorded()
        assert recorded is not None
        assert recorded.unauthenticated_skipped == 3
    found = [(row["key"], row["status"], row["outcome"]) for row in rows(tmp_path)]
    assert found == [("", 401, "refused"), ("", 401, "refused"), ("key0", 404, "refused")]


def test_calls_of_our_own_commands_have_no_row_and_no_line(tmp_path: Path) -> None:
    given = {"authorization": "Bearer sk-alice-0123456789"}
    own = ("/model-names", "/model-names?name=echo/text", "/status", "/launches/one", "/metrics", "/", "/readyz")
    with accounted(tmp_path, answers, None, "sk-alice-0123456789") as house:
        for path in own:
            assert house.get(path, **given).status == 200, path
        assert house.post("/route?model=chat/served", question(CHAT, CHAT), **given).status == 200
        assert log_lines(house) == []
        assert house.get("/model-names").status == 401
        assert house.post(PATHS[CHAT], question(CHAT, CHAT), **given).status == 200
        # Of one that is refused there is a line.
        assert [line["path"] for line in log_lines(house)] == ["/model-names", "/chat/completions"]
    assert [row["path"] for row in rows(tmp_path)] == ["/chat/completions"]


def test_what_never_became_a_request_has_a_row_of_where_it_was_to_go(tmp_path: Path) -> None:
    with accounted(tmp_path, answers) as house:
        refused = house.post(PATHS[CHAT], question(CHAT, CHAT), **{f"x_{count}": "1" for count in range(1000)})
        assert refused.status == 431
        with house.connect() as connection:
            connection.sendall(b"neither a method nor a path\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 400"
    found = [(row["id"], row["kind"], row["path"], row["status"], row["outcome"]) for row in rows(tmp_path)]
    name = refused.header("x-request-id")
    assert found == [(name, "conversation", "/chat/completions", 431, "refused")]


def test_a_response_in_the_background_is_one_row(tmp_path: Path) -> None:
    with accounted(tmp_path, answers) as house:
        asked = {**question(RESPONSES, CHAT), "background": True, "store": True}
        answer = house.post(PATHS[RESPONSES], asked)
        assert answer.status == 200
        name = answer.header("x-request-id")
        kept = str(answer.json()["id"])
        wait_until(
            lambda: house.get(f"/v1/responses/{kept}").json()["status"] not in ("queued", "in_progress"),
            "the response in the background has ended",
        )
    conversations = [row for row in rows(tmp_path) if row["kind"] == "conversation"]
    assert [(row["id"], row["outcome"], row["provider"]) for row in conversations] == [(name, "answered", "chat")]


def test_a_compaction_is_one_row(tmp_path: Path) -> None:
    with accounted(tmp_path, answers) as house:
        answer = house.post("/v1/responses/compact", question(RESPONSES, CHAT))
    found = rows(tmp_path)
    assert [(row["kind"], row["path"], row["status"]) for row in found] == [
        ("conversation", "/responses/compact", answer.status)
    ]


def test_without_a_start_nothing_is_opened(tmp_path: Path) -> None:
    storage = Storage(path=str(tmp_path / "state.db"))
    UsageRecorder(storage, Log(io.StringIO()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("storage", [{"record_requests": False}, {"path": ":memory:"}, {"path": ""}], ids=str)
def test_where_nothing_is_to_be_written_down_nothing_is(tmp_path: Path, storage: dict[str, object]) -> None:
    with accounted(tmp_path, answers, storage) as house:
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        assert house.app.runtime.usage_recorder.recorded() is None
        assert b"dragoman_records" not in house.get("/metrics").body
        assert house.get("/readyz?verbose").body == b"ready\n"
    assert not directory_of(str(tmp_path / "state.db")).exists()


class Disk:
    """The disk of a journal, which may have no room."""

    def __init__(self) -> None:
        self.full = False

    def write(self, descriptor: int, data: bytes) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(descriptor, data)


def on(house: House, disk: Disk) -> None:
    """Let a gateway's journal be written to a disk."""
    journal = house.app.runtime.usage_recorder._journal
    assert journal is not None
    journal._write = disk.write


def test_a_full_disk_is_told_and_what_was_asked_meanwhile_is_written_down_later(tmp_path: Path) -> None:
    disk = Disk()
    with accounted(tmp_path, answers) as house:
        on(house, disk)
        disk.full = True
        for _ in range(3):
            assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        ready = house.get("/readyz")
        assert ready.status == 200
        assert ready.body.startswith(b"ready\ncannot record requests: no space left on device\n")
        assert house.log.getvalue().count("cannot record requests") == 1
        disk.full = False
        wait_until(lambda: house.get("/readyz").body == b"ready\n", "no problem is reported")
        assert "requests are recorded again" in house.log.getvalue()
    assert len(rows(tmp_path)) == 3


def test_a_full_disk_refuses_what_makes_work_if_that_is_configured(tmp_path: Path) -> None:
    disk = Disk()
    with accounted(tmp_path, answers, {"on_write_failure": "reject"}) as house:
        on(house, disk)
        disk.full = True
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        asked = len(house.provider.received)
        for protocol in (MESSAGES, CHAT, RESPONSES):
            refused = house.post(PATHS[protocol], question(protocol, CHAT))
            assert refused.status in (503, 529)
            assert b"cannot record requests" in refused.body
            assert refused.header("retry-after") == "10"
        assert len(house.provider.received) == asked
        assert house.get("/v1/models").status == 200
        assert house.get("/readyz").status == 503
        disk.full = False
        wait_until(lambda: house.get("/readyz").status == 200, "the gateway is ready")
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200


def test_a_folder_of_journals_that_is_removed_under_load_loses_nothing(tmp_path: Path) -> None:
    folder = directory_of(str(tmp_path / "state.db"))
    with accounted(tmp_path, answers) as house:
        for _ in range(3):
            assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
            wait_until(
                lambda: b"\nrecords backlog: 0 bytes\n" in house.get("/readyz?verbose").body,
                "all exchanges are in the tables",
            )
            shutil.rmtree(folder)
            for protocol in (MESSAGES, CHAT, RESPONSES):
                assert house.post(PATHS[protocol], question(protocol, CHAT)).status == 200
            wait_until(folder.exists, "the directory is made again")
        wait_until(lambda: b"\nrecords rows: 12\n" in house.get("/readyz?verbose").body, "twelve rows")
        assert b"\nrecords lost: 0\n" in house.get("/readyz?verbose").body
        assert house.log.getvalue().count("a journal was removed") >= 3
    assert len(rows(tmp_path)) == 12


def make_a_file_of(folder: Path) -> None:
    """Put a file where a folder was, which a gateway may make again at any moment."""
    while folder.is_dir():
        shutil.rmtree(folder)
        with suppress(IsADirectoryError):
            folder.write_text("no folder")


@pytest.mark.parametrize("on_write_failure", ["serve", "reject"])
def test_where_that_folder_cannot_be_made_again_it_is_as_with_a_full_disk(
    tmp_path: Path, on_write_failure: str
) -> None:
    folder = directory_of(str(tmp_path / "state.db"))
    with accounted(tmp_path, answers, {"on_write_failure": on_write_failure}) as house:
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        wait_until(lambda: b"\nrecords rows: 1\n" in house.get("/readyz?verbose").body, "one row")
        make_a_file_of(folder)
        wait_until(
            lambda: b"cannot record requests: file exists" in house.get("/readyz").body,
            "the problem is reported",
        )
        answer = house.post(PATHS[CHAT], question(CHAT, CHAT))
        assert (answer.status, house.get("/readyz").status) == (
            (200, 200) if on_write_failure == "serve" else (503, 503)
        )
        folder.unlink()
        wait_until(lambda: house.get("/readyz").body == b"ready\n", "no problem is reported")
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
    # Who is refused has a row, too.
    assert len(rows(tmp_path)) == 3


def test_pitfall_438_a_file_that_somebody_else_holds_stops_no_answer_and_no_probe(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with accounted(tmp_path, answers, {"store_responses": False}) as house:
        house.post(PATHS[CHAT], question(CHAT, CHAT))
        wait_until(path.exists, "the file is made")
        with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as other:
            other.execute("BEGIN IMMEDIATE")
            for protocol in (MESSAGES, CHAT, RESPONSES):
                assert house.post(PATHS[protocol], question(protocol, CHAT)).status == 200
            wait_until(
                lambda: b"cannot ingest journals: database is locked" in house.get("/readyz").body,
                "the lock is reported",
            )
            assert house.get("/readyz").status == 200
            assert house.get("/healthz").status == 200
        wait_until(lambda: house.get("/readyz").body == b"ready\n", "no problem is reported")
    assert len(rows(tmp_path)) == 4


@contextmanager
def locked(house: House, path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def full(house: House, path: Path) -> Iterator[None]:
    disk = Disk()
    on(house, disk)
    disk.full = True
    yield
    disk.full = False


@contextmanager
def missing(house: House, path: Path) -> Iterator[None]:
    """Neither the file nor the folder of the journals is there, nor can they be made."""
    make_a_file_of(directory_of(str(path)))
    path.unlink(missing_ok=True)
    path.mkdir()
    yield


@contextmanager
def off(house: House, path: Path) -> Iterator[None]:
    assert house.app.runtime.usage_recorder.recorded() is None
    yield


@pytest.mark.parametrize("state", [locked, full, missing, off], ids=lambda state: state.__name__)
def test_the_state_of_the_file_delays_neither_the_log_nor_the_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Callable[[House, Path], AbstractContextManager[None]]
) -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours) as reader, os.fdopen(theirs, "w") as out:
        # A log that is written by a thread, as that of a process is.
        monkeypatch.setattr(harness, "Log", lambda _, json: Log(out, json=json))
        with accounted(tmp_path, answers, {"store_responses": False, "record_requests": state is not off}) as house:
            with state(house, tmp_path / "state.db"):
                for _ in range(3):
                    assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
                # Before anything else: a scrape would have the lines written, too.
                lines = (json.loads(line) for line in iter(reader.readline, ""))
                exchanges = (line for line in lines if line["event"] == "exchange")
                assert [next(exchanges)["status"] for _ in range(3)] == [200] * 3
                assert sum_of(house.get("/metrics").body, "dragoman_requests_total") == 3
            house.app.runtime.log.close()


def sum_of(scraped: bytes, name: str) -> float:
    lines = [line for line in scraped.decode().splitlines() if line.startswith(f"{name}{{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_with_the_durability_of_the_machine_the_end_waits_for_the_disk(tmp_path: Path) -> None:
    reached, goes_on = threading.Event(), threading.Event()
    fdatasync = os.fdatasync

    def slow(descriptor: int) -> None:
        reached.set()
        assert goes_on.wait(LIMIT)
        fdatasync(descriptor)

    with accounted(tmp_path, answers, {"durability": "machine"}) as house:
        sync = house.app.runtime.usage_recorder._sync
        assert sync is not None
        sync._sync = slow
        told: list[bytes] = []
        asked = question(MESSAGES, CHAT, stream=True)
        asking = threading.Thread(target=lambda: told.append(house.post(PATHS[MESSAGES], asked).body))
        asking.start()
        assert reached.wait(LIMIT)
        assert told == []
        goes_on.set()
        asking.join(LIMIT)
        assert b"message_stop" in told[0]
        for protocol in (MESSAGES, CHAT, RESPONSES):
            for stream in (False, True):
                assert house.post(PATHS[protocol], question(protocol, CHAT, stream=stream)).complete
        assert house.get("/v1/models").complete
        assert house.post(PATHS[CHAT], b"{").complete
    assert len(rows(tmp_path)) == 9


def test_the_figures_are_in_the_metrics(tmp_path: Path) -> None:
    with accounted(tmp_path, answers) as house:
        house.post(PATHS[CHAT], question(CHAT, CHAT))
        wait_until(lambda: b"\ndragoman_records_total 1\n" in house.get("/metrics").body, "one record is counted")
        lines = house.get("/metrics").body.decode().splitlines()
        assert "dragoman_records_backlog_bytes 0" in lines
        assert "dragoman_records_damaged_lines_total 0" in lines
        assert "dragoman_records_ingest_errors_total 0" in lines
        assert b"\nrecords rows: 1\n" in house.get("/readyz?verbose").body


def test_a_folder_that_cannot_be_made_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "state.db.records").write_text("no folder")
    with accounted(tmp_path, answers) as house:
        assert "cannot record requests: file exists" in house.log.getvalue()
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
    assert "cannot record 1 requests" in house.log.getvalue()
