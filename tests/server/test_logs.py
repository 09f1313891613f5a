"""What a gateway writes: one line per exchange, JSON or readable text, and never what was said or what opens a door."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.model.jsonvalue import JsonObject
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, PROVIDER_KEY, Received, Reply, whole
from tests.gateway.harness import stream as streamed
from tests.gateway.says import PAIRS, error_body, question, speaking, streams, tells
from tests.screen import as_seen, fits
from tests.server.process import Served, as_object, serving
from tests.waiting import wait_until

GATEWAY_KEY = "dgm_canary-of-the-gateway-0123456789"
WRONG_KEY = "dgm_canary-of-a-stranger-0123456789"
PROMPT = "canary-in-the-prompt"
ANSWER = "canary-in-the-answer"
QUERY = "canary-in-the-query"
CANARIES = (GATEWAY_KEY, WRONG_KEY, PROMPT, ANSWER, QUERY, PROVIDER_KEY, "canary")
KEYS = '[keys.laptop]\nkey = "$LAPTOP_KEY"\nrole = "admin"\n'


def _script(received: Received) -> Reply:
    """A provider that does what the model's name says, and repeats whatever it was sent."""
    protocol = next(protocol for protocol, path in PATHS.items() if received.target.partition("?")[0] == path)
    body = received.json()
    sent = f"{ANSWER} {PROMPT} {dict(received.headers)}"
    match body["model"]:
        case "refuses":
            return whole(error_body(protocol, "authentication_error", f"bad key: {sent}"), 401)
        case "breaks":
            return whole(error_body(protocol, "api_error", sent), 500)
        case "babbles":
            return whole(f"<html>{sent}</html>".encode())
        case "cuts":
            return streamed(speaking(protocol), f"data: {sent}".encode(), None)
        case "stammers":
            return streamed(speaking(protocol), f"data: {{{sent}\n\n".encode())
    return streams(protocol, sent) if body.get("stream") else tells(protocol, sent)


MODELS = ("served", "refuses", "breaks", "babbles", "cuts", "stammers")


@pytest.fixture(scope="module")
def house() -> Iterator[Served]:
    with serving(_script, KEYS, environment={"LAPTOP_KEY": GATEWAY_KEY}) as served:
        yield served


def _asked(client: str, provider: str, model: str, *, stream: bool) -> dict[str, object]:
    body = question(client, provider, stream=stream, model=f"{provider.rpartition('-')[2]}/{model}")
    said = {"input": PROMPT} if "input" in body else {"messages": [{"role": "user", "content": PROMPT}]}
    return {**body, **said, "metadata": {"user_id": PROMPT}}


def test_whatever_happens_no_line_holds_a_prompt_an_answer_or_a_key(house: Served) -> None:
    exchanges = 0
    for client, provider in PAIRS:
        for model in MODELS:
            for stream in (False, True):
                house.post(PATHS[client], _asked(client, provider, model, stream=stream), x_api_key=GATEWAY_KEY)
                exchanges += 1
    for path in PATHS.values():
        house.post(path, {"model": "chat/served", PROMPT: PROMPT, "messages": PROMPT}, x_api_key=GATEWAY_KEY)
        house.post(path, f'{{"model": "{PROMPT}'.encode(), x_api_key=GATEWAY_KEY)
        house.post(path, f'"{PROMPT}"'.encode(), authorization=f"Bearer {GATEWAY_KEY}")
        house.post(path, PROMPT.encode(), content_encoding="gzip", x_api_key=GATEWAY_KEY)
        house.post(f"{path}?key={QUERY}", _asked(CHAT, CHAT, "served", stream=False), x_api_key=GATEWAY_KEY)
        exchanges += 5
    # All of these are refused at the door.
    for path in PATHS.values():
        house.post(path, _asked(CHAT, CHAT, "served", stream=False), x_api_key=WRONG_KEY)
        house.post(path, _asked(CHAT, CHAT, "served", stream=False), authorization=f"Basic {WRONG_KEY}")
        house.post(path, PROMPT.encode(), x_api_key=GATEWAY_KEY, host=f"{QUERY}.example.org")
        house.get(f"{path}?{QUERY}", x_api_key=GATEWAY_KEY, cookie=QUERY)
        exchanges += 4
    with house.connect() as end:
        end.sendall(f"{PROMPT} {QUERY}\r\n\r\n".encode())
        assert end.recv(65536)
        exchanges += 1
    house.exchanges(exchanges)
    assert house.stop() == 0
    said = "\n".join((*house.process.out.all(), *house.process.log.all()))
    assert [canary for canary in CANARIES if canary in said] == []
    assert len(house.process.events("exchange")) == exchanges
    assert "Traceback" not in said


def test_a_line_tells_who_asked_whom_and_how_it_went() -> None:
    with serving(_script, KEYS, environment={"LAPTOP_KEY": GATEWAY_KEY}) as house:
        told = house.post(PATHS[MESSAGES], _asked(MESSAGES, CHAT, "served", stream=True), x_api_key=GATEWAY_KEY)
        house.exchanges(1)
        assert house.stop() == 0
        settings, line = (as_object(line) for line in house.process.log.all())
    assert settings["event"] == "settings that are not default"
    assert line["id"] == told.header("request-id")
    expected = {
        "level": "info",
        "event": "exchange",
        "key": "laptop",
        "client_protocol": MESSAGES,
        "path": "/messages",
        "requested_model": "chat/served",
        "provider": "chat",
        "model": "served",
        "provider_protocol": CHAT,
        "stream": True,
        "status": 200,
        "attempt_count": 1,
        "input": 11,
        "output": 7,
    }
    assert {name: line[name] for name in expected} == expected


FORGED = 'x\x1b[2J\n12:00:00 200 {"event":"exchange"}\u2028\u202eforged'


@pytest.mark.parametrize(
    "forced", [None, "json", "text"], ids=["by itself", "when json is asked", "when text is asked"]
)
def test_on_a_terminal_lines_are_readable_text(forced: str | None) -> None:
    arguments = ("--log", forced) if forced is not None else ()
    known = {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
    with serving(_script, terminal=True, arguments=arguments, environment=known) as house:
        for client in PROTOCOLS:
            assert house.post(PATHS[client], _asked(client, CHAT, "served", stream=True)).status == 200
        assert house.post(PATHS[CHAT], _asked(CHAT, CHAT, "breaks", stream=False)).status == 500
        assert house.post(PATHS[CHAT], question(CHAT, CHAT, model=FORGED)).status == 404
        assert house.get("/nowhere").status == 404
        assert house.stop() == 0
        lines = house.process.log.all()
    assert not any("canary" in line for line in lines)
    if forced == "json":
        assert len(lines) == 6
        assert all(line.isprintable() for line in lines)
        assert all(json.loads(line)["event"] == "exchange" for line in lines)
        return
    assert fits(lines, 80)
    seen = [as_seen(line) for line in lines]
    begun = [line for line in seen if re.match(r"\d\d:\d\d:\d\d \d{3} ", line)]
    assert len(begun) == 6
    # What else there is stands below its line.
    assert all(line.startswith(" " * 13) for line in seen if line not in begun)
    for line in begun[:3]:
        assert re.fullmatch(r"\S+ 200 \S+ +\d\S+ +11\+7 chat/served(  .*)?", line), line
    assert re.search(r" 500 /chat/com… .* chat/breaks", begun[3])
    assert "chat answered 500" in "".join(seen)
    assert " 404 /chat/com… " in begun[4]
    assert " 404 /nowhere " in begun[5] and "there is nothing at this path" in "".join(seen)


def test_text_can_be_asked_for_where_there_is_no_terminal_and_silence_too() -> None:
    with serving(_script, arguments=("--log", "text")) as house:
        house.post(PATHS[CHAT], _asked(CHAT, CHAT, "served", stream=False))
        assert " 200 /chat/completions " in house.process.log.wait("chat/served")
    with serving(_script, arguments=("--log", "off")) as house:
        assert house.post(PATHS[CHAT], _asked(CHAT, CHAT, "served", stream=False)).status == 200
        assert house.stop() == 0
        assert house.process.log.all() == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_log_on_a_full_disk_keeps_nobody_from_being_served() -> None:
    with serving(_script, under=("sh", "-c", 'exec "$@" 2>/dev/full', "sh")) as house:
        for stream in (False, True):
            told = house.post(PATHS[CHAT], _asked(CHAT, CHAT, "served", stream=stream))
            assert (told.status, told.complete) == (200, True)
            assert house.get("/nowhere").status == 404
        assert house.stop() == 0


def _unread(directory: Path) -> tuple[Path, int]:
    """A pipe with a name, and an end of it that nobody reads from until the test does."""
    fifo = directory / "log"
    os.mkfifo(fifo)
    return fifo, os.open(fifo, os.O_RDWR | os.O_NONBLOCK)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_item_7_a_reader_of_the_log_that_does_not_read_stops_nobody(tmp_path: Path, workers: str) -> None:
    fifo, end = _unread(tmp_path)
    under = ("sh", "-c", f'exec "$@" 2>"{fifo}"', "sh")
    environment = {"LAPTOP_KEY": GATEWAY_KEY}
    arguments = ("--workers", workers)
    with serving(_script, KEYS, environment=environment, under=under, arguments=arguments) as house:
        refused = f"GET /v1/models/{'x' * 1500} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()
        nowhere = f"GET /{'y' * 1500} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {GATEWAY_KEY}\r\n\r\n".encode()
        for _ in range(int(workers) * 60):
            with house.connect() as connection:
                connection.sendall((refused + nowhere) * 10)
                data = b""
                while data.count(b"HTTP/1.1 40") < 20:
                    piece = connection.recv(65536)
                    assert piece, data[-300:]
                    data += piece
        for client in PROTOCOLS:
            told = house.post(PATHS[client], _asked(client, CHAT, "served", stream=True), x_api_key=GATEWAY_KEY)
            assert (told.status, told.complete) == (200, True)
        assert house.get("/healthz").status == 200
        metrics = house.get("/metrics", x_api_key=GATEWAY_KEY).body.decode()
        lost = int(metrics.split("\ndragoman_log_lines_dropped_total ")[1].split("\n")[0])
        assert lost > 0
        # The first of them is of the settings.
        logged = 1 + int(workers) * 60 * 20 + len(PROTOCOLS)
        lines = _read_lines(end, lambda lines: sum(_lost_in(line) or 1 for line in lines) >= logged)
        assert sum(map(_lost_in, lines)) == lost
        assert sum(_lost_in(line) or 1 for line in lines) == logged
        assert house.stop() == 0
    os.close(end)


def _lost_in(line: JsonObject) -> int:
    return int(str(line["lines"])) if line["event"] == "log lines dropped" else 0


def _read_lines(end: int, enough: Callable[[list[JsonObject]], bool]) -> list[JsonObject]:
    """The lines of a pipe, each of which is a whole one."""
    data = bytearray()

    def has_enough() -> bool:
        with suppress(BlockingIOError):
            data.extend(os.read(end, 1 << 20))
        return data.endswith(b"\n") and enough([as_object(line) for line in data.decode().splitlines()])

    wait_until(has_enough, "all lines of the log")
    return [as_object(line) for line in data.decode().splitlines()]
