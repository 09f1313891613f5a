"""Stored responses over HTTP: GET, DELETE, cancel, input items, the stream of one that ran in the background."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dragoman.config.settings import Storage
from dragoman.gateway.endpoints.responses import full_item
from dragoman.store.responses import Item
from tests.gateway.harness import RESPONSES, House, whole
from tests.gateway.keeping_house import (
    ALICE,
    BOB,
    FAILING,
    SLOW,
    create,
    ended,
    error_in,
    in_store,
    keeping,
    tell_sqlite,
    text_of,
    told,
)
from tests.gateway.says import log_lines
from tests.sdk.digging import Object, dig_objects
from tests.sdk.samples import events_of
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with keeping() as opened:
        # The thread of the store begins with its first unit, and belongs to no single test.
        in_store(opened, lambda tables: None)
        yield opened


def _ids(listing: Object) -> list[object]:
    return [item["id"] for item in dig_objects(listing, "data")]


def _numbers(events: list[Object]) -> list[object]:
    return [event["sequence_number"] for event in events]


def test_a_response_is_given_again_as_it_was_told(house: House) -> None:
    made = create(house, metadata={"a": "b"}, instructions="Be brief.")
    assert told(house, f"/v1/responses/{made['id']}") == made
    assert made["store"] is True
    head = house.ask("HEAD", f"/v1/responses/{made['id']}", b"")
    assert (head.status, head.body) == (200, b"")
    assert head.header("x-request-id")


def test_a_stream_is_kept_before_its_last_event(house: House) -> None:
    answer = house.post("/v1/responses", {"model": "echo/text@openai-chat", "input": "Hello.", "stream": True})
    last = events_of(answer.body)[-1]["response"]
    assert isinstance(last, dict)
    assert told(house, f"/v1/responses/{last['id']}") == last


def test_a_deleted_response_is_gone_for_every_use(house: House) -> None:
    made = create(house)
    gone = house.ask("DELETE", f"/v1/responses/{made['id']}", b"")
    assert gone.json() == {"id": made["id"], "object": "response", "deleted": True}
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
        status, param, _, words = error_in(house.ask(method, f"/v1/responses/{made['id']}{path}", b""))
        assert (status, param) == (404, "response_id")
        assert str(made["id"]) in words
    again = house.post(
        "/v1/responses", {"model": "echo/text@openai-chat", "input": "x", "previous_response_id": made["id"]}
    )
    assert error_in(again)[:3] == (400, "previous_response_id", "previous_response_not_found")


def test_what_is_not_to_be_stored_is_not_there(house: House) -> None:
    made = create(house, store=False)
    assert made["store"] is False
    assert error_in(house.get(f"/v1/responses/{made['id']}"))[0] == 404


def test_the_input_of_a_response_is_listed_newest_first_in_pages(house: House) -> None:
    said = [{"role": "user", "content": str(number)} for number in range(5)]
    made = create(house, input=said)
    path = f"/v1/responses/{made['id']}/input_items"
    newest = told(house, path)
    texts = [dig_objects(item, "content")[0]["text"] for item in dig_objects(newest, "data")]
    assert texts == ["4", "3", "2", "1", "0"]
    assert (newest["object"], newest["has_more"]) == ("list", False)
    oldest = _ids(told(house, f"{path}?order=asc"))
    assert oldest == _ids(newest)[::-1]
    page = told(house, f"{path}?order=asc&limit=2")
    assert (_ids(page), page["has_more"], page["first_id"], page["last_id"]) == (oldest[:2], True, *oldest[:2])
    page = told(house, f"{path}?order=asc&limit=2&after={oldest[1]}")
    assert (_ids(page), page["has_more"]) == (oldest[2:4], True)
    page = told(house, f"{path}?order=desc&limit=3&after={oldest[3]}")
    assert (_ids(page), page["has_more"]) == (oldest[2::-1], False)
    page = told(house, f"{path}?after={oldest[0]}")
    assert (_ids(page), page["has_more"], page["first_id"]) == ([], False, "")


def test_the_input_of_a_later_response_begins_with_what_was_said_before(house: House) -> None:
    first = create(house, input="one")
    second = create(house, input="two", previous_response_id=first["id"])
    listing = told(house, f"/v1/responses/{second['id']}/input_items?order=asc")
    assert [item["role"] for item in dig_objects(listing, "data")] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("query", "param", "status"),
    [
        ("limit=0", "limit", 400),
        ("limit=101", "limit", 400),
        ("limit=-1", "limit", 400),
        ("limit=many", "limit", 400),
        ("limit=99999999999", "limit", 400),
        ("order=up", "order", 400),
        ("after=msg_9", "after", 404),
    ],
)
def test_a_page_that_does_not_exist_is_refused_with_its_name(house: House, query: str, param: str, status: int) -> None:
    made = create(house)
    assert error_in(house.get(f"/v1/responses/{made['id']}/input_items?{query}"))[:2] == (status, param)


@pytest.mark.parametrize(
    ("method", "below"), [("POST", ""), ("GET", "/cancel"), ("GET", "/nothing"), ("DELETE", "/input_items")]
)
def test_other_paths_below_a_response_are_none(house: House, method: str, below: str) -> None:
    made = create(house)
    assert error_in(house.ask(method, f"/v1/responses/{made['id']}{below}", b""))[0] == 404


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (b'{"role":"user","content":"x"}', {"type": "message", "status": "completed"}),
        (b'{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}', {"status": "completed"}),
        (b'{"type":"function_call_output","call_id":"c","output":"x"}', {"status": "completed"}),
        (b'{"type":"custom_tool_call","call_id":"c","name":"n","input":"x"}', {}),
        (b'{"type":"custom_tool_call_output","call_id":"c","output":"x"}', {"status": "completed"}),
        (b'{"type":"reasoning","summary":[],"encrypted_content":"x"}', {}),
        (b'{"id":"own","type":"message","role":"assistant","content":"x","status":"incomplete"}', {"id": "own"}),
    ],
)
def test_an_item_is_shown_in_full(body: bytes, more: Object) -> None:
    shown = full_item(Item("own" if b"own" in body else "made", body))
    assert {**shown, **more} == shown
    assert shown["id"] in ("made", "own")


def test_only_what_runs_in_the_background_can_be_cancelled_or_heard_again(house: House) -> None:
    made = create(house)
    assert error_in(house.post(f"/v1/responses/{made['id']}/cancel", b""))[0] == 400
    assert error_in(house.get(f"/v1/responses/{made['id']}?stream=true"))[:2] == (400, "stream")
    unheard = create(house, background=True)
    assert error_in(house.get(f"/v1/responses/{unheard['id']}?stream=true"))[:2] == (400, "stream")
    assert ended(house, unheard["id"])["status"] == "completed"


def test_a_failure_in_the_background_is_told_to_whoever_asks(house: House) -> None:
    made = create(house, model=FAILING, input="fail 500", background=True)
    found = ended(house, made["id"])
    assert found["status"] == "failed"
    error = found["error"]
    assert isinstance(error, dict) and error["code"] == "server_error" and error["message"]
    body = {"model": FAILING, "input": "fail 429", "stream": True, "background": True}
    events = events_of(house.post("/v1/responses", body).body)
    assert events[0]["type"] == "response.created"
    last = events[-1]["response"]
    assert isinstance(last, dict) and last["status"] == "failed"
    first = events[0]["response"]
    assert isinstance(first, dict) and first["id"] == last["id"]
    kept = told(house, f"/v1/responses/{last['id']}")
    error = kept["error"]
    assert isinstance(error, dict) and error["code"] == "rate_limit_exceeded"


def test_where_nobody_comes_back_to_a_response_it_has_failed(house: House) -> None:
    made = create(house)
    # As if it had run in another process, which was killed.
    tell_sqlite(house, f"UPDATE responses SET status = 'in_progress', background = 1 WHERE id = '{made['id']}'")
    found = told(house, f"/v1/responses/{made['id']}")
    assert found["status"] == "failed"
    error = found["error"]
    assert isinstance(error, dict) and "stopped" in str(error["message"])


def test_a_deleted_response_stops_running_and_leaves_nothing() -> None:
    with keeping() as house:
        body = {"model": SLOW, "input": "word " * 400, "background": True, "stream": False}
        made = create(house, **body)
        assert house.ask("DELETE", f"/v1/responses/{made['id']}", b"").status == 200
        background = house.app.runtime.state.background
        wait_until(lambda: not background.running, "nothing runs in the background")
        left = [tell_sqlite(house, f"SELECT count(*) FROM {table}") for table in ("responses", "items", "events")]
        assert left == [[0], [0], [0]]


def test_an_id_of_nobody_is_asked_of_the_one_provider_that_keeps_responses() -> None:
    with keeping(lambda received: whole({"id": "resp_theirs", "object": "response"})) as house:
        # There are two such providers here, so that one has to be named.
        assert error_in(house.get("/v1/responses/resp_theirs"))[0] == 404
        found = house.get("/v1/responses/resp_theirs?include=x", x_dragoman_provider="responses")
        assert found.json() == {"id": "resp_theirs", "object": "response"}
        assert house.provider.received[-1].target == "/v1/responses/resp_theirs?include=x"
        made = create(house)
        assert told(house, f"/v1/responses/{made['id']}", x_dragoman_provider="responses") == made
        assert len(house.provider.received) == 1


@pytest.mark.parametrize("storage", [Storage(), Storage(store_responses=False)])
def test_with_several_keys_no_id_is_asked_of_a_provider_that_is_not_known_to_be_ones_own(storage: Storage) -> None:
    with keeping(lambda received: whole({}), keys=(ALICE, BOB), storage=storage) as house:
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
            asked = house.ask(
                method,
                f"/v1/responses/resp_theirs{path}",
                b"",
                authorization=f"Bearer {ALICE}",
                x_dragoman_provider="responses",
            )
            assert error_in(asked)[:2] == (404, "response_id")
        assert not house.provider.received


def test_where_nothing_is_kept_a_reference_is_refused_and_nothing_is_found() -> None:
    with keeping(storage=Storage(store_responses=False)) as house:
        made = create(house)
        assert error_in(house.get(f"/v1/responses/{made['id']}"))[0] == 404
        body = {"model": "echo/text@openai-chat", "input": "x"}
        for more in ({"previous_response_id": made["id"]}, {"conversation": "conv_1"}, {"background": True}):
            status, param, _, _ = error_in(house.post("/v1/responses", {**body, **more}))
            assert (status, [param]) == (400, list(more))


def test_a_store_that_fails_is_a_clear_error_and_its_words_stay_in_the_log() -> None:
    with keeping() as house:
        made = create(house)
        tell_sqlite(house, "DROP TABLE responses")
        for answer in (
            house.get(f"/v1/responses/{made['id']}"),
            house.post(
                "/v1/responses", {"model": "echo/text@openai-chat", "input": "x", "previous_response_id": made["id"]}
            ),
            house.post("/v1/responses", {"model": "echo/text@openai-chat", "input": "x", "background": True}),
        ):
            assert answer.status == 500
            assert "no such table" not in answer.body.decode()
        # Where it is known that an answer could not be kept, nobody is asked for it.
        assert house.post("/v1/responses", {"model": "echo/text@openai-chat", "input": "x"}).status == 503
        assert text_of(create(house, store=False)) == "You said: Hello."
        assert "cannot read the store" in house.log.getvalue()


def test_a_client_that_hangs_up_leaves_nothing_and_its_conversation_is_free() -> None:
    with keeping() as house:
        conversation = str(house.post("/v1/conversations", {}).json()["id"])
        body = {"model": SLOW, "input": "word " * 400, "stream": True, "conversation": conversation}
        data = json.dumps(body).encode()
        with house.connect() as connection:
            head = f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1:{house.port}\r\ncontent-length: {len(data)}\r\n\r\n"
            connection.sendall(head.encode() + data)
            heard = b""
            while b"output_text.delta" not in heard:
                heard += connection.recv(65536)
            locked = house.post("/v1/responses", {**body, "stream": False})
            assert error_in(locked)[:3] == (409, "conversation", "conversation_locked")
        body = {"model": "echo/text@openai-chat", "input": "x", "conversation": conversation}
        wait_until(lambda: house.post("/v1/responses", body).status == 200, "the conversation is free")
        items = told(house, f"/v1/conversations/{conversation}/items")
        assert len(dig_objects(items, "data")) == 2


def test_nothing_that_was_said_is_in_the_log(house: House) -> None:
    create(house, input="a secret of the house")
    assert "a secret of the house" not in house.log.getvalue()
    assert RESPONSES in house.log.getvalue()


def test_pitfall_207_a_chat_client_stores_nothing_whatever_its_body_is_like() -> None:
    with keeping() as house:
        answer = house.post("/v1/chat/completions", {"model": "echo/text@anthropic-messages", "input": "Hello."})
        assert answer.json()["object"] == "chat.completion"
        assert tell_sqlite(house, "SELECT count(*) FROM responses") == [0]


def test_a_large_request_is_continued_like_any_other(house: House) -> None:
    large = create(house, input="x" * (3 * 1024 * 1024))
    later = create(house, previous_response_id=large["id"], input="And?")
    assert text_of(later) == "You said: And?"
    counted = house.post(
        "/v1/responses/input_tokens",
        {"model": "echo/text@openai-chat", "input": "And?", "previous_response_id": large["id"]},
    )
    tokens = counted.json()["input_tokens"]
    assert isinstance(tokens, int) and tokens > 1000
    unknown = {"model": "echo/text@openai-chat", "input": "And?", "previous_response_id": "resp_9"}
    assert error_in(house.post("/v1/responses/input_tokens", unknown))[:2] == (400, "previous_response_id")


def test_what_is_lost_is_told_with_a_stored_answer_as_with_any_other(house: House) -> None:
    body = {"model": "echo/text@anthropic-messages", "input": "Hello.", "frequency_penalty": 1.0}
    for more in ({}, {"background": True}, {"stream": True}):
        assert house.post("/v1/responses", {**body, **more}).header("x-dragoman-losses")


def test_a_stream_that_breaks_off_is_kept_as_failed(house: House) -> None:
    answer = house.post("/v1/responses", {"model": "echo/broken@openai-chat", "input": "Hello.", "stream": True})
    last = events_of(answer.body)[-1]
    assert last["type"] == "response.failed"
    response = last["response"]
    assert isinstance(response, dict)
    assert told(house, f"/v1/responses/{response['id']!s}")["status"] == "failed"


@pytest.mark.parametrize(
    "said",
    [
        {"previous_response_id": "resp_theirs"},
        {"conversation": "conv_theirs"},
        {"input": [{"type": "item_reference", "id": "msg_theirs"}]},
    ],
)
def test_pitfall_207_on_the_chat_path_nothing_of_another_key_can_be_referred_to_either(said: Object) -> None:
    with keeping(keys=(ALICE, BOB)) as house:
        body = {"model": "responses/served", "input": "x", **said}
        answer = house.post("/v1/chat/completions", body, authorization=f"Bearer {ALICE}")
        assert (answer.status, "not found" in answer.body.decode()) == (
            400 if "previous_response_id" in said else 404,
            True,
        )
        assert not house.provider.received


def test_input_items_are_all_there_or_none() -> None:
    with keeping() as house:
        first = create(house)
        second = create(house, previous_response_id=first["id"])
        assert house.ask("DELETE", f"/v1/responses/{first['id']}", b"").status == 200
        assert error_in(house.get(f"/v1/responses/{second['id']}/input_items"))[:2] == (404, "response_id")


def test_a_null_id_is_none() -> None:
    assert full_item(Item("msg_1", b'{"id":null,"type":null,"status":null,"role":"user","content":"x"}')) == {
        "id": "msg_1",
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "x"}],
        "status": "completed",
    }


def _lines_of(house: House, path: str) -> list[Object]:
    """The lines of the log that tell of requests to a path."""
    return [line for line in log_lines(house) if line["path"] == path.removeprefix("/v1")]
