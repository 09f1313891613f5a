"""Servers of this machine without a table: called when named, listed only if they answer (decision 29)."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dragoman.config.discovery import echo_provider
from dragoman.config.settings import Server, Settings
from dragoman.gateway import model_list_fetch
from dragoman.gateway import runtime as service_module
from dragoman.gateway.workers.protection import judged, protection_at_start, with_local
from dragoman.launching.local_servers import TIMEOUT as LOCAL_PATIENCE
from dragoman.providers.provider import Endpoint, Provider
from tests.gateway.harness import CHAT, House, Received, Reply, passing, running, whole
from tests.gateway.says import tells
from tests.identities.holders import holder
from tests.ports import CLOSED_PORT
from tests.waiting import LIMIT

LIST = {"object": "list", "data": [{"id": "qwen3", "object": "model"}]}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who answers is waited for, however busy this machine is."""
    monkeypatch.setattr(model_list_fetch, "LOCAL_PATIENCE", LIMIT)


def local(name: str, port: int) -> Provider:
    end = Endpoint(protocol=CHAT, base_url=f"http://127.0.0.1:{port}/v1")
    return Provider(name=name, endpoints=(end,), auth="none", stores_responses=False)


def settings_with(port: int) -> Settings:
    free = CLOSED_PORT
    found = {"ollama": local("ollama", port), "vllm": local("vllm", free)}
    return Settings(providers={"echo": echo_provider()}, local=found)


def answers(received: Received) -> Reply:
    return whole(LIST) if received.method == "GET" else tells(CHAT)


def listed(house: House) -> list[str]:
    return [model["id"] for model in json.loads(house.get("/v1/models").body)["data"]]


def test_one_that_answers_is_listed_and_echo_steps_back() -> None:
    with running(answers, settings_with) as house:
        assert listed(house) == ["ollama/qwen3"]
        assert [name["name"] for name in json.loads(house.get("/model-names").body)["names"]] == ["ollama/qwen3"]
        # Its names work as ever.
        body = {"model": "echo/text", "messages": [{"role": "user", "content": "Hi"}]}
        assert house.post("/v1/chat/completions", body).status == 200
        assert "cannot list models" not in house.log.getvalue()


@pytest.mark.parametrize(
    "reply", [whole(b"<html>", content_type="text/html"), whole({"error": "x"}, 404), whole({"hello": 1})]
)
def test_whoever_else_is_there_is_not_listed_and_nobody_is_told(reply: Reply) -> None:
    with running(lambda _: reply, settings_with) as house:
        assert all(name.startswith("echo/") for name in listed(house))
        assert "cannot list models" not in house.log.getvalue()


def test_one_that_is_slow_is_not_waited_for_and_one_that_comes_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    is_slow = True
    # The first request may not even arrive while it is slow.
    with running(lambda _: Reply(steps=(passing(),)) if is_slow else whole(LIST), settings_with) as house:
        with monkeypatch.context() as patch:
            patch.setattr(model_list_fetch, "LOCAL_PATIENCE", LOCAL_PATIENCE)
            assert "ollama/qwen3" not in listed(house)
        is_slow = False
        assert listed(house) == ["ollama/qwen3"]


def test_one_is_called_when_it_is_named_before_anybody_looked() -> None:
    with running(answers, settings_with) as house:
        body = {"model": "ollama/qwen3", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
        assert house.post("/v1/messages", body).status == 200
        assert house.provider.received[0].json()["model"] == "qwen3"
        assert house.post("/v1/messages", {**body, "model": "vllm/x"}).status == 502


def test_a_listener_of_another_user_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "foreign_user_at", lambda port: 4711)
    with running(answers, settings_with) as house:
        assert "ollama/qwen3" not in listed(house)
        body = {"model": "ollama/qwen3", "messages": [{"role": "user", "content": "Hi"}]}
        told = house.post("/v1/chat/completions", body)
        assert told.status >= 500
        assert "another user" in told.body.decode()
        assert house.provider.received == []


def test_files_go_to_nobody_who_was_not_set_up() -> None:
    with running(answers, settings_with) as house:
        assert house.post("/v1/files", b"").status == 404
        assert house.provider.received == []


NONE = Settings(file="dragoman.toml", local={"ollama": local("ollama", 11434), "llamacpp": local("llamacpp", 8080)})
GIVEN = holder("command-line", b"1", owner=b"")


@pytest.mark.parametrize(
    ("settings", "host", "port", "names"),
    [
        (NONE, "127.0.0.1", 8484, ["ollama", "llamacpp"]),
        (NONE, "127.0.0.1", 8080, ["ollama"]),
        # The key of the command line does not count: `launch` has one.
        (replace(NONE, keys=(GIVEN,)), "127.0.0.1", 8484, ["ollama", "llamacpp"]),
        (replace(NONE, keys=(GIVEN,)), "0.0.0.0", 8484, []),
        (replace(NONE, keys_table=True), "127.0.0.1", 8484, []),
        (replace(NONE, server=Server(host="0.0.0.0"), keys=(GIVEN,)), "0.0.0.0", 8484, []),
    ],
)
def test_where_others_may_ask_there_is_none(settings: Settings, host: str, port: int, names: list[str]) -> None:
    protection = protection_at_start(settings, host, port, open_to_all=False)
    assert list(with_local(settings, protection).local) == names


def test_a_reload_takes_them_away_and_never_brings_them_back() -> None:
    protection = protection_at_start(NONE, "127.0.0.1", 8484, open_to_all=False)
    keyed = replace(NONE, keys_table=True)
    assert not judged(protection, NONE, keyed).local
    opened = protection_at_start(keyed, "127.0.0.1", 8484, open_to_all=True)
    assert not judged(opened, keyed, NONE).local


def test_what_is_kept_is_kept_here() -> None:
    with running(answers, settings_with) as house:
        first = house.post("/v1/responses", {"model": "ollama/qwen3", "input": "Hi"}).json()
        again = {"model": "ollama/qwen3", "input": "And?", "previous_response_id": first["id"]}
        assert house.post("/v1/responses", again).status == 200
        assert len(house.provider.received[-1].json()["messages"]) == 3  # type: ignore[arg-type]
