"""Bodies with too many values: refused wherever one is read, whichever side it comes from; long strings are not."""

from __future__ import annotations

import json

import pytest

from dragoman.errors import ClientError, Oversized
from dragoman.gateway import json_limits, thread_offload
from dragoman.gateway.json_limits import (
    MAX_REQUEST_VALUES,
    MAX_RESPONSE_VALUES,
    check_request_members,
    check_request_values,
    check_response_values,
)
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES, running, whole
from tests.gateway.keeping_house import keeping
from tests.gateway.says import PAIRS, SAID, failure_of, question, tells, text_of, turn
from tests.sdk.providers import answer

JSON = {"content_type": "application/json"}


def lists(count: int) -> bytes:
    """Many empty lists; each of them counts twice."""
    return b"[" + b"[]," * (count // 2) + b"1]"


def heavy(body: dict[str, object], count: int) -> bytes:
    """A body with many values in a member that nobody knows."""
    return json.dumps(body).encode()[:-1] + b',"odd":' + lists(count) + b"}"


PATHS_READ = {
    **{PATHS[protocol]: protocol for protocol in PROTOCOLS},
    "/v1/messages/count_tokens": MESSAGES,
    "/v1/responses/input_tokens": RESPONSES,
    "/v1/responses/compact": RESPONSES,
}


@pytest.mark.parametrize("path", PATHS_READ)
def test_a_request_with_too_many_values_is_a_413(path: str) -> None:
    client = PATHS_READ[path]
    with running() as house:
        told = house.post(path, heavy(dict(question(client, CHAT)), MAX_REQUEST_VALUES), **JSON)
        assert (told.status, "too many values" in str(failure_of(client, told)["message"])) == (413, True)
        assert not house.provider.received


def test_so_is_one_about_a_conversation() -> None:
    with keeping() as house:
        told = house.post("/v1/conversations", heavy({}, MAX_REQUEST_VALUES), **JSON)
        assert (told.status, "too many values" in str(failure_of(RESPONSES, told)["message"])) == (413, True)


def test_so_is_one_that_has_them_only_with_what_it_refers_to(monkeypatch: pytest.MonkeyPatch) -> None:
    # Else a conversation would grow to any weight, one small turn after the other.
    monkeypatch.setattr(json_limits, "MAX_REQUEST_VALUES", 200)
    many = [{"role": "user", "content": "x" * 300}] * 50
    with keeping(lambda received: tells(CHAT)) as house:
        first = house.post(PATHS[RESPONSES], {"model": "chat/served", "input": many})
        assert first.status == 200, first.body
        body = {"model": "chat/served", "input": many, "previous_response_id": first.json()["id"]}
        for path in (PATHS[RESPONSES], "/v1/responses/input_tokens", "/v1/responses/compact"):
            told = house.post(path, body)
            assert (told.status, "too many values" in str(told.json())) == (413, True), path
        assert len(house.provider.received) == 1


def test_lists_of_a_relayed_path_are_passed_on_unread_but_members_are_not() -> None:
    tokens = b'{"model":"chat/served","input":' + lists(2 * MAX_REQUEST_VALUES) + b"}"
    members = b'{"model":"chat/served","x":{"a":1' + b',"a":1' * MAX_REQUEST_VALUES + b"}}"
    with running(lambda received: whole({"ok": True})) as house:
        assert house.post("/v1/embeddings", tokens, **JSON).status == 200
        assert house.post("/v1/embeddings", members, **JSON).status == 413
        assert len(house.provider.received) == 1


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_an_answer_with_too_many_values_is_a_502(client: str, provider: str) -> None:
    told = heavy(dict(answer(provider, turn(provider))), MAX_RESPONSE_VALUES)
    with running([whole(told), tells(provider)]) as house:
        first = house.post(PATHS[client], question(client, provider))
        assert (first.status, "too many values" in str(failure_of(client, first)["message"])) == (502, True)
        assert text_of(client, house.post(PATHS[client], question(client, provider)).json()) == SAID


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_long_texts_full_of_commas_and_brackets_are_told_both_ways(client: str, provider: str) -> None:
    text = 'Well, [it] {says}: "this", \\ and\n' * 100_000
    with running([tells(provider, text)]) as house:
        asked = {**question(client, provider), "metadata": {"user_id": "x"}}
        asked["input" if client == RESPONSES else "messages"] = [{"role": "user", "content": text}]
        told = house.post(PATHS[client], asked)
        assert (told.status, text_of(client, told.json())) == (200, text)
        assert text in _texts(house.provider.received[0].json())


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for member in value.values() for text in _texts(member)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def test_what_is_small_enough_for_the_loop_cannot_be_too_heavy() -> None:
    most = lists(thread_offload.INLINE)[: thread_offload.INLINE]
    check_request_values(most)
    check_request_members(most)
    check_response_values(most)


def test_each_limit_has_its_own_error() -> None:
    with pytest.raises(ClientError, match="too many values"):
        check_request_values(lists(MAX_REQUEST_VALUES + 2))
    check_response_values(lists(MAX_REQUEST_VALUES + 2))
    with pytest.raises(Oversized, match="too many values"):
        check_response_values(lists(MAX_RESPONSE_VALUES + 2))
