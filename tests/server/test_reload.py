"""The file changes while requests run: none of them fails, a good one applies, a bad one is told and refused."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from threading import Event

import pytest

from tests.gateway.harness import CHAT, PATHS, PROTOCOLS, Answer, Received, Reply, read_answer
from tests.gateway.harness import stream as streamed
from tests.gateway.says import PAIRS, is_finished, question, speaking, streams, tells, text_of, turn
from tests.sdk.providers import stream as stream_of
from tests.server.process import LOOK_EVERY, PATIENCE, Gate, Served, config, serving
from tests.waiting import wait_until

CHANGED = "configuration reloaded"
REFUSED = "cannot reload configuration"
STEPS = 20
# No look at the file: only a signal makes the gateway read it.
UNWATCHED = {LOOK_EVERY: 3600.0}


class Provider:
    """Answers everybody, and holds back whoever asks for the model `held`."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, received: Received) -> Reply:
        """Answer in the protocol and the manner that was asked for."""
        protocol = next(protocol for protocol, path in PATHS.items() if received.target == path)
        body = received.json()
        if body["model"] == "held":
            begun = speaking(protocol)
            return streamed(begun, self.gate, stream_of(protocol, turn(protocol)).removeprefix(begun))
        return streams(protocol) if body.get("stream") else tells(protocol)


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


@pytest.fixture(scope="module")
def house(provider: Provider) -> Iterator[Served]:
    with serving(provider) as served:
        yield served


class Load:
    """What was answered to a crowd that asks all the time."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, bool, Answer]] = []
        self.over = Event()

    def go_on(self) -> None:
        """Wait until every pair of protocols was answered again, whole and streamed."""
        due = len(self.answers) + 2 * len(PAIRS)
        wait_until(lambda: len(self.answers) >= due, f"{due} answers to the crowd")


@contextmanager
def _under_load(house: Served) -> Iterator[Load]:
    """Ask in every pair of protocols, whole and streamed, until the block ends; every answer must be a good one."""
    load = Load()

    async def ask(pairs: tuple[tuple[str, str], ...]) -> None:
        while not load.over.is_set():
            for client, provider in pairs:
                for stream in (False, True):
                    told = await house.ask_along(PATHS[client], question(client, provider, stream=stream))
                    load.answers.append((client, stream, told))

    async def all_of_them() -> None:
        await asyncio.gather(*(ask(PAIRS[start::3]) for start in range(3)))

    running = asyncio.run_coroutine_threadsafe(all_of_them(), house.loop)
    try:
        yield load
    finally:
        load.over.set()
        running.result(PATIENCE)
    for client, stream, told in load.answers:
        assert (told.status, told.complete) == (200, True), told
        assert is_finished(client, told.body) if stream else text_of(client, told.json())


def _routes(house: Served, name: str) -> str:
    return config(house.provider.port, f'"{name}" = "chat/served"\n')


def _asks_for(house: Served, model: str) -> int:
    return house.post(PATHS[CHAT], question(CHAT, CHAT, model=model)).status


def _applies(house: Served, model: str) -> None:
    """Wait until the file with a model in it is in force."""
    wait_until(lambda: _asks_for(house, model) == 200, f"the file with {model!r} applies")


def test_a_file_that_is_replaced_applies_and_no_request_fails(house: Served) -> None:
    with _under_load(house) as load:
        for number in range(2):
            name = f"replaced-{number}"
            assert _asks_for(house, name) == 404
            load.go_on()
            house.replace_file(_routes(house, name))
            _applies(house, name)
            load.go_on()
        assert _asks_for(house, "replaced-0") == 404


def test_a_file_that_is_rewritten_in_place_applies_when_it_is_whole(house: Served) -> None:
    """It is read only once it rests (`test_followed_config.py`); here it may rest for longer than a look takes."""
    text = "#\n" + _routes(house, "rewritten")
    size = len(text) // STEPS + 1
    with _under_load(house) as load:
        with house.file.open("w") as file:
            # No TOML before the last step, whatever of it is read.
            for start in range(0, len(text), size):
                file.write(text[start : start + size].replace("#", "["))
                file.flush()
            file.seek(0)
            file.write("#")
        _applies(house, "rewritten")
        load.go_on()


def test_a_bad_file_is_told_with_its_place_and_remedy_and_the_old_one_stays(house: Served) -> None:
    refused = f"{REFUSED}: it has errors"
    wrong = config(house.provider.port, '"nowhere" = "nobody/served"\n[timeouts]\nidle = "soon"\n')
    before = len(house.process.events(refused))
    with _under_load(house) as load:
        house.replace_file(wrong)
        house.process.log.wait('"key":"timeouts.idle"')
        assert _asks_for(house, "routed") == 200
        load.go_on()
    told = {str(line["key"]): line for line in map(dict, house.process.events(refused)[before:])}
    assert set(told) == {"models.nowhere", "timeouts.idle"}
    for key, line in told.items():
        name = key.partition(".")[2]
        assert line["level"] == "error"
        assert line["file"] == str(house.file)
        assert wrong.splitlines()[int(str(line["line"])) - 1].strip('"').startswith(name)
        assert line["problem"]
        assert line["remedy"]
    house.replace_file(_routes(house, "mended"))
    _applies(house, "mended")


def test_a_file_that_is_gone_or_no_toml_leaves_everything_as_it_was(house: Served) -> None:
    house.file.unlink()
    house.process.log.wait("cannot be read")
    assert _asks_for(house, "routed") == 200
    house.replace_file("[providers\n")
    house.process.log.wait("is not TOML")
    assert _asks_for(house, "routed") == 200
    house.replace_file(_routes(house, "again"))
    _applies(house, "again")


def test_a_hang_up_signal_reads_the_file_at_once(provider: Provider) -> None:
    with serving(provider, constants=UNWATCHED) as house:
        house.replace_file(_routes(house, "signalled"))
        house.process.send(signal.SIGHUP)
        house.process.log.wait(CHANGED)
        assert _asks_for(house, "signalled") == 200


def test_host_and_port_stay_until_a_restart(house: Served) -> None:
    house.replace_file(config(house.provider.port, '[server]\nhost = "0.0.0.0"\nworkers = 3\n'))
    house.process.log.wait("change only with a restart")
    assert all(house.post(PATHS[client], question(client, CHAT)).status == 200 for client in PROTOCOLS)
    # Neither is there another address, nor another Host that is let in.
    assert house.get("/healthz", host="gateway.example.org").status == 403


def test_a_stream_goes_on_under_the_configuration_it_began_with() -> None:
    key, provider = "sk-gateway-key-of-the-reload-test", Provider()
    with (
        serving(provider) as house,
        house.send(PATHS[CHAT], question(CHAT, CHAT, stream=True, model="chat/held"), "connection: close") as end,
    ):
        provider.gate.reached()
        digest = sha256(key.encode()).hexdigest()
        # Neither its provider is there any more, nor may it ask without a key.
        house.replace_file(f'[keys.new]\nhash = "sha256:{digest}"\n')
        house.process.log.wait(CHANGED)
        assert _asks_for(house, "chat/served") == 401
        told = house.post(PATHS[CHAT], question(CHAT, CHAT, model="chat/served"), x_api_key=key)
        assert told.status == 404
        provider.gate.open()
        told = read_answer(end)
    assert told.complete
    assert is_finished(CHAT, told.body)


def test_pitfall_445_keys_that_came_with_a_change_do_not_go_with_another() -> None:
    key = "sk-gateway-key-that-is-revoked-later"
    with serving(lambda received: tells(CHAT)) as house:
        asked = question(CHAT, CHAT, model="routed")
        assert house.post(PATHS[CHAT], asked).status == 200
        house.replace_file(config(house.provider.port, f'[keys.new]\nkey = "{key}"\n'))
        house.process.log.wait(CHANGED)
        assert [house.post(PATHS[CHAT], asked, x_api_key=given).status for given in (key, "none")] == [200, 401]
        house.replace_file(config(house.provider.port))
        house.process.log.wait(REFUSED)
        (told,) = house.process.events(f"{REFUSED}: it has errors")
        assert told["key"] == "keys"
        assert "an empty [keys] table" in str(told["remedy"])
        assert [house.post(PATHS[CHAT], asked, x_api_key=given).status for given in (key, "none")] == [200, 401]
        house.replace_file(config(house.provider.port, "[keys]\n"))
        house.process.log.wait(CHANGED, 2)
        assert [house.post(PATHS[CHAT], asked, x_api_key=given).status for given in (key, "none")] == [401, 401]


def test_item_12_a_reload_remembers_which_keys_rest() -> None:
    seen: list[str | None] = []

    def script(received: Received) -> Reply:
        seen.append(received.header("authorization"))
        limited = Reply(
            status=429, headers=(("content-type", "application/json"), ("retry-after", "600")), steps=(b"{}",)
        )
        return limited if len(seen) == 1 else tells(CHAT)

    with serving(script) as house:
        asked = question(CHAT, CHAT) | {"model": "pooled/served"}
        pooled = (
            '[providers.pooled]\nprotocol = "openai-chat"\napi_key = ["sk-first-0123456789", "sk-second-0123456789"]\n'
            f'base_url = "http://127.0.0.1:{house.provider.port}/v1"\n'
        )
        house.replace_file(config(house.provider.port, pooled))
        house.process.log.wait(CHANGED)
        assert house.post(PATHS[CHAT], asked).status == 200
        house.replace_file(config(house.provider.port, pooled + "streaming = 'on-request'\n"))
        house.process.log.wait(CHANGED, 2)
        for _ in range(3):
            assert house.post(PATHS[CHAT], asked).status == 200
    assert seen == ["Bearer sk-first-0123456789", *["Bearer sk-second-0123456789"] * 4]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_file_that_becomes_a_pipe_or_no_folder_stops_nobody(workers: str) -> None:
    with serving(lambda received: tells(CHAT), arguments=("--workers", workers)) as house:
        house.file.unlink()
        os.mkfifo(house.file)
        house.process.log.wait(REFUSED)
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        house.file.unlink()
        house.file.mkdir()
        house.process.send(signal.SIGHUP)
        house.process.log.wait(REFUSED, 2)
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        house.file.rmdir()
        house.file.write_text(config(house.provider.port, '"again" = "chat/served"\n'))
        house.process.log.wait(CHANGED)
        assert house.stop() == 0
