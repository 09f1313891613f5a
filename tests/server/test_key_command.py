"""`dragoman key` beside a gateway with two workers: what the command says is so on both a moment later."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dragoman.identities.key_text import hash_text
from tests.cli.screens import run_process
from tests.gateway.harness import MESSAGES, Received, Reply
from tests.gateway.says import question, tells
from tests.server.process import Served, serving
from tests.server.workers import statuses_of_workers
from tests.waiting import wait_until

# A text is unknown until every worker has read it; the tests try it as often as they like.
UNLIMITED = {"dragoman.gateway.access.unknown_key_limit.MAX_ATTEMPTS": 10_000.0}


def _script(received: Received) -> Reply:
    return tells(MESSAGES)


@pytest.fixture
def house() -> Iterator[Served]:
    with serving(_script, arguments=("--workers", "2"), constants=UNLIMITED) as house:
        yield house


def key(house: Served, *words: str) -> str:
    """Run `dragoman key` for the gateway: what it printed."""
    status, out, err = run_process(("key", *words, "--config", "dragoman.toml"), house.directory)
    assert status == 0, err
    return out


def issued(house: Served, *words: str) -> str:
    """The text of a key that a command makes."""
    text = json.loads(key(house, *words, "--json"))["key"]
    assert isinstance(text, str)
    return text


def statuses(house: Served, text: str) -> set[int]:
    headers = {"authorization": f"Bearer {text}"} if text else {}
    body = json.dumps(question(MESSAGES, MESSAGES)).encode()
    return statuses_of_workers(house.process.pid, 2, house.port, "/v1/messages", body, **headers)


def wait_for(house: Served, text: str, status: int) -> None:
    wait_until(lambda: statuses(house, text) == {status}, f"every worker answers {status}")


def test_pitfall_445_what_the_command_did_is_so_on_every_worker(house: Served) -> None:
    assert statuses(house, "") == {200}
    first = issued(house, "new", "ann", "--models", "routed")
    # The first key closes the gateway, which has none in its configuration.
    wait_for(house, "", 401)
    wait_for(house, first, 403)
    key(house, "set", "ann", "--remove", "models")
    wait_for(house, first, 200)
    second = issued(house, "rotate", "ann", "--grace", "1h")
    wait_for(house, second, 200)
    assert statuses(house, first) == {200}
    third = issued(house, "rotate", "ann", "--grace", "0")
    wait_for(house, third, 200)
    wait_for(house, first, 401)
    wait_for(house, second, 401)
    key(house, "revoke", "ann")
    wait_for(house, third, 401)
    # The gateway stays closed.
    assert statuses(house, "") == {401}


def test_pitfall_740_a_key_of_litellm_opens_the_gateway_with_its_own_text(house: Served) -> None:
    text = "sk-a-key-of-litellm"
    row = {"token": hash_text(text).removeprefix("sha256:"), "key_alias": "ann", "models": ["messages/*"]}
    (house.directory / "keys.json").write_text(json.dumps({"keys": [row]}), encoding="utf-8")
    key(house, "import", "keys.json")
    wait_for(house, text, 200)


def test_pitfall_448_733_no_key_text_is_in_a_file_of_the_gateway(house: Served) -> None:
    texts = [issued(house, "new", "ann"), issued(house, "rotate", "ann"), issued(house, "new", "bob")]
    for text in texts:
        wait_for(house, text, 200)
    key(house, "revoke", "bob")
    wait_for(house, texts[-1], 401)
    house.stop()
    files = [path for path in house.directory.rglob("*") if path.is_file()]
    stored = b"".join(path.read_bytes() for path in files)
    log = "\n".join(house.process.log.all() + house.process.out.all())
    assert b"bob" in stored
    for text in texts:
        assert text.encode() not in stored
        assert text not in log
