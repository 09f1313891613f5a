"""An answer on its way into the store: whole, as a stream, in a conversation, of a provider that keeps its own."""

from __future__ import annotations

import asyncio
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.gateway.observability.logs import Log
from dragoman.gateway.stored_responses.reference_resolver import ResolvedRequest
from dragoman.gateway.stored_responses.references import items_of
from dragoman.gateway.stored_responses.response_writer import (
    ResponseWriter,
    Taken,
    Task,
    output_items_in,
    parted,
    renamed,
    status_of,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.store import LeaseLost, StoreError, Tables
from tests.sdk.digging import dig_object
from tests.sdk.samples import events_of
from tests.store.in_place import InPlace
from tests.store.opened import ALICE, names, opened

OUTPUT: JsonObject = {"id": "msg_a", "type": "message", "role": "assistant", "content": []}
ANSWER: JsonObject = {"id": "resp_theirs", "status": "completed", "output": [OUTPUT]}


def _recalled(**changed: object) -> ResolvedRequest:
    given: dict[str, object] = {"body": b"{}", "new_items": items_of([b'{"id":"q","role":"user"}']), "is_stored": True}
    return ResolvedRequest(**{**given, **changed})  # type: ignore[arg-type]  # of the members' own types


def _keeping(
    store: Tables, recalled: ResolvedRequest | None, response_id: str = "resp_ours", *, native: bool = False
) -> tuple[ResponseWriter, io.StringIO]:
    log = io.StringIO()
    task = Task(
        store=InPlace(store),
        owner=ALICE,
        resolved=recalled,
        response_id=response_id,
        provider="chat",
        native=native,
        holder=response_id,
    )
    return ResponseWriter(task, Log(log, json=True)), log


def _write(store: Tables, keeping: ResponseWriter, taken: Taken | None) -> None:
    """What is done with an answer: its unit, and that it is known to be done."""
    unit = keeping.unit(taken)
    with store.transaction():
        alone = unit is None or unit(store)
    keeping.mark_written(taken, alone=alone)


def _named(keeping: ResponseWriter, out: bytes) -> bytes:
    """Frames on the relay, and what is noted of them."""

    async def named() -> bytes:
        told = keeping.named(out)
        await asyncio.sleep(0)
        assert keeping.recording_owner is None
        return told

    return asyncio.run(named())


def _frames(kind: str, response: object = ANSWER) -> bytes:
    last = json.dumps({"type": kind, "response": response})
    return f'event: x\ndata: {{"type":"x"}}\n\nevent: {kind}\ndata: {last}\n\ndata: [DONE]\n\n'.encode()


@pytest.mark.parametrize("streamed", [True, False])
def test_item_13_an_answer_cut_inside_a_surrogate_pair_is_kept(streamed: bool) -> None:
    text = {**OUTPUT, "content": [{"type": "output_text", "text": "cut\ud83d"}]}
    answer = {**ANSWER, "status": "incomplete", "output": [text]}
    with opened() as store:
        keeping, _ = _keeping(store, _recalled())
        frames, whole = _frames("response.incomplete", answer), json.dumps(answer).encode()
        _write(store, keeping, keeping.ending(frames) if streamed else keeping.full_response(whole))
        found = store.responses.find(ALICE, "resp_ours")
        assert found is not None and "cut\ufffd" in found.body.decode()


def test_a_whole_answer_is_kept_with_what_was_said() -> None:
    with opened() as store:
        keeping, _ = _keeping(store, _recalled())
        _write(store, keeping, keeping.full_response(json.dumps(ANSWER).encode()))
        found = store.responses.find(ALICE, "resp_ours")
        assert found is not None and json.loads(found.body) == ANSWER
        assert (found.status, found.provider, found.background) == ("completed", "chat", False)
        assert names(store.responses.chain(ALICE, "resp_ours")) == ["q", "msg_a"]
        assert keeping.taken is not None and keeping.taken.response == ANSWER


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_the_last_event_of_a_stream_is_kept_however_it_ended(status: str) -> None:
    with opened() as store:
        keeping, _ = _keeping(store, _recalled())
        _write(store, keeping, keeping.ending(_frames(f"response.{status}", {**ANSWER, "status": status})))
        found = store.responses.find(ALICE, "resp_ours")
        assert found is not None and found.status == status


@pytest.mark.parametrize(
    "frames", [b"", b"\xff\xff", b"data: [DONE]\n\n", _frames("response.created"), _frames("response.failed", 5)]
)
def test_frames_without_an_answer_leave_nothing(frames: bytes) -> None:
    with opened() as store:
        keeping, log = _keeping(store, _recalled())
        _write(store, keeping, keeping.ending(frames))
        _write(store, keeping, keeping.full_response(b"no JSON"))
        assert keeping.taken is None
        assert not store.responses.exists("resp_ours")
        assert log.getvalue() == ""


@pytest.mark.parametrize("left", [None, [], [OUTPUT]], ids=["no output", "empty", "trimmed"])
def test_item_8_items_that_the_end_of_a_stream_leaves_out_are_kept(left: list[JsonObject] | None) -> None:
    thought: JsonObject = {"id": "rs_a", "type": "reasoning", "summary": []}
    with opened() as store:
        keeping, _ = _keeping(store, _recalled())
        for item in (thought, OUTPUT):
            done = json.dumps({"type": "response.output_item.done", "item": item})
            _named(keeping, f"event: response.output_item.done\ndata: {done}\n\n".encode())
        _write(store, keeping, keeping.ending(_frames("response.completed", {**ANSWER, "output": left})))
        found = store.responses.find(ALICE, "resp_ours")
        assert found is not None and json.loads(found.body)["output"] == [thought, OUTPUT]


def test_item_8_an_output_of_other_items_is_kept_as_it_is() -> None:
    with opened() as store:
        keeping, _ = _keeping(store, _recalled())
        ended: list[JsonObject] = [{"id": name, "type": "reasoning"} for name in ("rs_a", "rs_b")]
        for item in ended:
            done = json.dumps({"type": "response.output_item.done", "item": item})
            _named(keeping, f"event: response.output_item.done\ndata: {done}\n\n".encode())
        _write(store, keeping, keeping.ending(_frames("response.completed")))
        found = store.responses.find(ALICE, "resp_ours")
        assert found is not None and json.loads(found.body)["output"] == [OUTPUT]


def test_in_a_conversation_the_items_go_there_and_what_was_said_before_is_kept_with_the_response() -> None:
    with opened() as store:
        store.conversations.create(ALICE, "conv_1", b"{}", items_of([b'{"id":"old"}']))
        store.conversations.lease(ALICE, "conv_1", "resp_ours")
        before = tuple(store.conversations.items("conv_1"))
        keeping, _ = _keeping(store, _recalled(conversation="conv_1", before=before))
        _write(store, keeping, keeping.full_response(json.dumps(ANSWER).encode()))
        assert names(store.conversations.items("conv_1")) == ["old", "q", "msg_a"]
        assert names(store.responses.chain(ALICE, "resp_ours")) == ["old", "q", "msg_a"]


def test_an_answer_is_not_kept_where_another_one_was_given_in_its_conversation() -> None:
    with opened() as store:
        store.conversations.create(ALICE, "conv_1", b"{}", ())
        store.conversations.lease(ALICE, "conv_1", "resp_another")
        keeping, _ = _keeping(store, _recalled(conversation="conv_1"))
        with pytest.raises(LeaseLost):
            _write(store, keeping, keeping.full_response(json.dumps(ANSWER).encode()))
        assert (store.conversations.items("conv_1"), store.responses.exists("resp_ours")) == ([], False)


def test_in_a_conversation_an_answer_that_is_not_stored_is_said_all_the_same() -> None:
    with opened() as store:
        store.conversations.create(ALICE, "conv_1", b"{}", ())
        store.conversations.lease(ALICE, "conv_1", "resp_ours")
        keeping, _ = _keeping(store, _recalled(conversation="conv_1", is_stored=False))
        _write(store, keeping, keeping.full_response(json.dumps(ANSWER).encode()))
        assert names(store.conversations.items("conv_1")) == ["q", "msg_a"]
        assert not store.responses.exists("resp_ours")


def test_of_an_answer_that_its_provider_keeps_only_the_ids_are_noted() -> None:
    with opened() as store:
        keeping, _ = _keeping(store, None, "", native=True)
        _write(store, keeping, keeping.ending(_frames("response.completed")))
        found = store.responses.find(ALICE, "resp_theirs")
        assert found is not None and not found.body
        assert store.responses.item(ALICE, "msg_a") == b""


def test_an_answer_of_a_provider_that_keeps_nothing_is_kept_under_the_id_it_has_there() -> None:
    with opened() as store:
        keeping, _ = _keeping(store, _recalled(), "")
        _write(store, keeping, keeping.full_response(json.dumps(ANSWER).encode()))
        assert names(store.responses.chain(ALICE, "resp_theirs")) == ["q", "msg_a"]
        keeping, log = _keeping(store, _recalled(), "")
        _write(store, keeping, keeping.full_response(json.dumps(ANSWER).encode()))
        assert store.responses.chain(ALICE, "resp_theirs") is None
        assert "the same id" in log.getvalue()


def test_a_relayed_answer_says_what_it_goes_on_from() -> None:
    with opened() as store:
        keeping, _ = _keeping(store, _recalled(previous="resp_0"), "")
        said = b'{"text":"\\"previous_response_id\\":null","previous_response_id" : null}'
        assert _named(keeping, said) == b'{"text":"\\"previous_response_id\\":null","previous_response_id":"resp_0"}'
        other, _ = _keeping(store, _recalled(), "")
        assert _named(other, said) == said


def test_a_store_that_fails_is_no_secret_and_the_same_answer_can_be_written_later() -> None:
    with opened() as store:
        keeping, _ = _keeping(store, _recalled())
        taken = keeping.full_response(json.dumps(ANSWER).encode())
        store._db.change("ALTER TABLE items RENAME TO others")
        with pytest.raises(StoreError):
            _write(store, keeping, taken)
        assert keeping.taken is None
        assert store.responses.find(ALICE, "resp_ours") is None
        store._db.change("ALTER TABLE others RENAME TO items")
        _write(store, keeping, taken)
        # Once is enough.
        _write(store, keeping, taken)
        assert names(store.responses.chain(ALICE, "resp_ours")) == ["q", "msg_a"]


def test_in_place_of_what_could_not_be_kept_the_stream_ends_in_its_error_form() -> None:
    with opened() as store:
        keeping, _ = _keeping(store, _recalled())
        events = [
            {"type": "response.output_text.done", "sequence_number": 7},
            {"type": "response.completed", "response": ANSWER, "sequence_number": 8},
        ]
        frames = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        failure = Failure(kind=FailureKind.INTERNAL, status=500, message="not kept")
        told = events_of(keeping.lost(frames, failure))
        assert [(event["type"], event["sequence_number"]) for event in told] == [("error", 7), ("response.failed", 8)]
        last = dig_object(told[-1], "response")
        assert (last["id"], last["status"], last["output"]) == ("resp_theirs", "failed", [])
        assert b"not kept" in keeping.lost(b"", failure)


def test_an_answer_in_the_background_is_written_by_whoever_runs_it() -> None:
    with opened() as store:
        keeping, _ = _keeping(store, _recalled(background=True))
        _write(store, keeping, keeping.full_response(json.dumps(ANSWER).encode()))
        assert keeping.taken is not None and keeping.taken.response == ANSWER
        assert not store.responses.exists("resp_ours")


def test_the_items_and_the_status_of_an_answer() -> None:
    assert [item.id for item in output_items_in(ANSWER)] == ["msg_a"]
    assert output_items_in({"output": None}) == ()
    assert status_of({"status": "incomplete"}) == "incomplete"
    assert status_of({}) == "completed"


def test_only_the_id_of_the_response_itself_gets_another_name() -> None:
    kept = (
        b'data: {"type":"response.output_text.delta","delta":"\\"response\\" id","item_id":"id"}\n\n'
        b': ping\n\ndata: {"response":5}\n\ndata: {"response"\n\ndata: [DONE]\n\n'
    )
    created = b'event: response.created\r\ndata: {"type":"id", "response": {"id" : %b,"x":{"id":"id"}}}\r\n\r\n'
    escaped = b'data: {"response":{"i\\u0064":%b}}\n\n'
    theirs = created % b'"id"' + kept + escaped % b'"r\\/1"' + b'data: {"response":{}}\n\n'
    ours = created % b'"ours"' + kept + escaped % b'"ours"' + b'data: {"response":{"id":"ours"}}\n\n'
    assert renamed(theirs, b'"ours"') == ours
    assert renamed(b' {"object":"id", "id":5}', b'"ours"') == b' {"object":"id", "id":"ours"}'
    assert renamed(b'{"object":"id"}', b'"ours"') == b'{"object":"id","id":"ours"}'


def test_whose_a_providers_response_is_gets_noted_before_it_has_ended() -> None:
    created = b'event: response.created\ndata: {"response":{"id":"resp_theirs"}}\n\n'
    with opened() as store:
        keeping, _ = _keeping(store, None, "", native=True)
        assert _named(keeping, b": ping\n\n") == b": ping\n\n"
        assert _named(keeping, created) == created
        found = store.responses.find(ALICE, "resp_theirs")
        assert found is not None and not found.body
        _write(store, keeping, keeping.ending(_frames("response.completed")))
        assert store.responses.item(ALICE, "msg_a") == b""


def test_item_5_an_answer_in_the_place_of_another_is_noted_by_its_own_id() -> None:
    created = b'event: response.created\ndata: {"response":{"id":"%b"}}\n\n'
    with opened() as store:
        keeping, _ = _keeping(store, None, "", native=True)
        _named(keeping, created % b"resp_refused")
        keeping.anew()
        _named(keeping, created % b"resp_theirs")
        assert store.responses.find(ALICE, "resp_theirs") is not None


def test_an_id_that_a_store_did_not_take_is_noted_with_a_later_frame_or_the_last(tmp_path: Path) -> None:
    created = b'event: response.created\ndata: {"response":{"id":"resp_theirs"}}\n\n'
    path = tmp_path / "state.db"
    with opened(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        keeping, _ = _keeping(store, None, "", native=True)
        assert _named(keeping, created) == created
        assert store.responses.find(ALICE, "resp_theirs") is None
        with pytest.raises(StoreError):
            _write(store, keeping, None)
        other.execute("ROLLBACK")
        assert _named(keeping, b": ping\n\n") == b": ping\n\n"
        assert store.responses.find(ALICE, "resp_theirs") is not None
        store.responses.delete(ALICE, "resp_theirs")
        # Nor is it written twice.
        _write(store, keeping, None)
        assert store.responses.find(ALICE, "resp_theirs") is None


def test_an_id_that_a_failing_store_did_not_take_is_tried_again_with_the_end_alone() -> None:
    created = b'event: response.created\ndata: {"response":{"id":"resp_theirs"}}\n\n'
    with opened() as store:
        keeping, _ = _keeping(store, None, "", native=True)
        store._db.change("ALTER TABLE responses RENAME TO others")
        assert _named(keeping, created) == created
        store._db.change("ALTER TABLE others RENAME TO responses")
        _named(keeping, b": ping\n\n")
        assert store.responses.find(ALICE, "resp_theirs") is None
        _write(store, keeping, None)
        assert store.responses.find(ALICE, "resp_theirs") is not None


def test_half_a_summary_does_not_stand_for_a_conversation() -> None:
    compaction: JsonObject = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}
    response: JsonObject = {"status": "incomplete", "output": [compaction, OUTPUT]}
    assert names([*output_items_in(response)]) == ["msg_a"]
    assert names([*output_items_in({**response, "status": "completed"})]) == ["cmp_1", "msg_a"]


BEFORE = b'event: response.output_text.delta\ndata: {"delta":"say \\"type\\":\\"error\\"","type":"x"}\n\n: beat\n\n'
ENDS = {
    "completed": b'event: response.completed\ndata: {"type":"response.completed"}\n\n',
    "without a name": b'data: {"response":{"id":"r"}, "type" : "response.incomplete"}\n\n',
    "an error first": b'data: {"type":"error"}\n\ndata: {"type":"response.failed"}\n\n',
}


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("end", [*ENDS])
def test_the_frames_that_say_how_an_answer_ended_are_told_apart(end: str, line_end: bytes) -> None:
    before, last = (frames.replace(b"\n", line_end) for frames in (BEFORE, ENDS[end] + b"data: [DONE]\n\n"))
    assert parted(before + last) == (before, last)
    assert parted(last) == (b"", last)
    assert parted(before) == (b"", before)
