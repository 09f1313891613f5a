"""The front door: every form of every path, our own pages, and errors in the envelope of whoever asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from dragoman import __version__
from dragoman.config.settings import Limits, Server, Settings
from dragoman.errors import Overloaded
from dragoman.gateway import app
from dragoman.gateway.access.identity_table import IdentityTable
from dragoman.gateway.access.unknown_key_limit import MAX_ATTEMPTS, WINDOW_SECONDS
from dragoman.gateway.exchange import serving
from dragoman.gateway.model_resolver import ModelResolver
from dragoman.gateway.paths import EndpointKind
from dragoman.gateway.runtime import Incoming
from dragoman.store.identity_reader import IdentityReader
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PATIENCE,
    PROTOCOLS,
    RESPONSES,
    Answer,
    House,
    Received,
    Reply,
    read_answer,
    running,
    settings_for,
    whole,
)
from tests.gateway.says import failure_of, log_lines, message_of, question, tells, text_of
from tests.sdk.digging import dig_objects, dig_text
from tests.waiting import wait_until

BARE = {MESSAGES: "/messages", CHAT: "/chat/completions", RESPONSES: "/responses"}
# People paste base URLs in every form, and SDKs add their own path to it.
PREFIXES = (
    "/v1",
    "",
    "/anthropic/v1",
    "/anthropic",
    "/openai/v1",
    "/openai",
    "/v1/v1",
    "/anthropic/v1/v1",
    "/openai/v1/v1",
    "//v1/",
    "/v1//",
    "//openai//v1",
)
ODDITIES = ("", "/", "?beta=true", "/?beta=true&x=1", "?")


def any_protocol(received: Received) -> Reply:
    """A provider of all protocols at once."""
    if "count_tokens" in received.target:
        return whole({"input_tokens": 12})
    return tells(next(name for name, path in PATHS.items() if received.target.partition("?")[0] == path))


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """One gateway for all that only asks and looks."""
    with running(any_protocol) as found:
        yield found


@pytest.mark.parametrize("oddity", ODDITIES)
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_208_every_endpoint_is_found_in_every_form(house: House, client: str, prefix: str, oddity: str) -> None:
    told = house.post(prefix + BARE[client] + oddity, question(client, CHAT))
    assert told.status == 200, told.body
    assert text_of(client, told.json())


@pytest.mark.parametrize("oddity", ODDITIES)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_pitfall_182_208_counting_is_found_in_every_form(house: House, prefix: str, oddity: str) -> None:
    told = house.post(f"{prefix}/messages/count_tokens{oddity}", question(MESSAGES, MESSAGES))
    assert told.status == 200, told.body
    assert isinstance(told.json()["input_tokens"], int)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_models_are_found_in_every_form(house: House, prefix: str) -> None:
    listed = house.get(f"{prefix}/models")
    assert listed.status == 200, listed.body
    assert "echo/text" in {model["id"] for model in dig_objects(listed.json(), "data")}
    assert house.get(f"{prefix}/models/echo/text").json()["id"] == "echo/text"


def test_the_home_page_answers_politely(house: House) -> None:
    told = house.get("/")
    assert told.status == 200
    assert told.json()["version"] == __version__
    for path in ("/", "/v1", "/v1/", "/anthropic", "/openai/v1/"):
        silent = house.ask("HEAD", path, b"")
        assert (silent.status, silent.body) == (200, b""), path
        assert int(silent.header("content-length") or 0) > 0


@pytest.mark.parametrize("path", ["/health", "/healthz", "/readyz", "/metrics", "/status"])
def test_the_pages_of_an_operator_answer_to_get_and_head(house: House, path: str) -> None:
    assert house.get(path).status == 200
    silent = house.ask("HEAD", path, b"")
    assert (silent.status, silent.body) == (200, b"")


def test_a_draining_gateway_is_well_but_not_ready() -> None:
    with running() as house:
        assert house.get("/readyz").body == b"ready\n"
        house.app.runtime.draining = True
        assert (house.get("/readyz").status, house.get("/healthz").status) == (503, 200)


def test_a_gateway_that_stops_soon_is_not_ready_and_serves() -> None:
    with running(lambda received: tells(CHAT)) as house:
        house.app.lame_duck = True
        assert (house.get("/readyz").status, house.get("/readyz").body) == (503, b"draining\n")
        with house.connect() as connection:
            data = json.dumps(question(CHAT, CHAT)).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n"
            connection.sendall(head.encode() + data)
            told = read_answer(connection)
        assert (told.status, told.header("connection")) == (200, "close")


def test_metrics_count_what_was_asked(house: House) -> None:
    house.post("/v1/messages", question(MESSAGES, CHAT))
    told = house.get("/metrics")
    assert (told.header("content-type") or "").startswith("text/plain; version=0.0.4")
    assert b'client_protocol="anthropic-messages"' in told.body
    assert b"dragoman_" in told.body


@pytest.mark.parametrize(
    ("path", "client"),
    [
        ("/v1/messages", MESSAGES),
        ("/anthropic/v1/messages", MESSAGES),
        ("/v1/chat/completions", CHAT),
        ("/openai/responses", RESPONSES),
        ("/v1/messages/count_tokens", MESSAGES),
    ],
)
def test_pitfall_187_a_wrong_method_is_told_in_the_envelope_of_the_path(house: House, path: str, client: str) -> None:
    told = house.get(path)
    assert (told.status, told.header("allow")) == (405, "POST")
    assert "POST" in message_of(client, told)


def test_a_websocket_is_refused_with_the_status_from_which_clients_fall_back_and_nobody_is_called(house: House) -> None:
    asked = len(house.provider.received)
    handshake = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_version": "13"}
    told = house.get("/v1/responses", **handshake, sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ==")
    assert told.status == 426
    assert "HTTP" in message_of(RESPONSES, told)
    assert len(house.provider.received) == asked


def test_a_path_of_nobody_is_a_404_in_the_envelope_of_the_caller(house: House) -> None:
    for headers, client in (({}, CHAT), ({"anthropic_version": "2023-06-01"}, MESSAGES)):
        told = house.get("/favicon.ico", **headers)
        assert told.status == 404
        assert failure_of(client, told)["type"] in ("not_found_error", "invalid_request_error")
        assert "/v1/messages" in message_of(client, told)


BROKEN: dict[str, bytes] = {
    "no JSON": b"hello",
    "half a body": b'{"model": "chat/served", "messa',
    "a list": b"[]",
    "nothing": b"",
    "no model": b'{"messages": []}',
    "a model that is no text": b'{"model": 5}',
    "an empty model": b'{"model": ""}',
    "no Unicode": b'{"model": "\xff"}',
    "nesting without end": b'{"model": "chat/served", "messages": ' + b"[" * 100_000,
    "bad members": b'{"model": "chat/served", "messages": 5, "input": 7, "max_tokens": "many"}',
    "two documents": b'{"model": "chat/served"}{}',
}


@pytest.mark.parametrize("shape", BROKEN)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_187_a_broken_body_is_a_400_in_the_clients_envelope(house: House, client: str, shape: str) -> None:
    # The provider of another protocol: on the relay a body is the provider's to judge.
    body = BROKEN[shape].replace(b"chat/served", b"messages/served" if client == CHAT else b"chat/served")
    told = house.post(PATHS[client], body)
    assert told.status == 400, told.body
    assert failure_of(client, told)["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/responses/input_tokens"])
@pytest.mark.parametrize("shape", ["no JSON", "no model", "nesting without end", "bad members"])
def test_a_broken_body_to_be_counted_is_a_400(house: House, path: str, shape: str) -> None:
    told = house.post(path, BROKEN[shape])
    assert told.status == 400, told.body
    assert failure_of(MESSAGES if "messages" in path else RESPONSES, told)["type"] == "invalid_request_error"


@pytest.mark.parametrize("client", PROTOCOLS)
def test_an_error_of_our_own_is_a_500_in_the_clients_envelope(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret thoughts of the machine")

    with running() as house:
        monkeypatch.setattr(ModelResolver, "route", broken)
        told = house.post(PATHS[client], question(client, CHAT))
        assert told.status == 500
        assert "secret" not in message_of(client, told)
        line = log_lines(house)[-1]
        assert (line["status"], line["level"]) == (500, "error")


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/responses/compact", "/v1/files"])
def test_who_finds_no_room_beside_conversations_hears_when_there_may_be_some(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object, **__: object) -> None:
        raise Overloaded("too many requests wait for chat", waited=0.0, retry_after=7)

    with running() as house:
        for kind in (EndpointKind.COUNT, EndpointKind.COMPACT, EndpointKind.OTHER):
            monkeypatch.setitem(app.SERVED, kind, full)
        told = house.post(path, {"model": "chat/served"})
        assert (told.status, told.header("retry-after")) == (529 if "messages" in path else 503, "7")
        assert b"it was not sent" in told.body
        assert log_lines(house)[-1]["failure"] == "overloaded"


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_missing_or_wrong_key_is_a_401_in_the_clients_envelope(client: str) -> None:
    with running([tells(client)], lambda port: settings_for(port, keys=("sesame-open",))) as house:
        for headers in ({}, {"x_api_key": "wrong-key-0000"}, {"authorization": "Bearer wrong-key-0000"}):
            told = house.post(PATHS[client], question(client, client), **headers)
            assert (told.status, told.header("www-authenticate")) == (401, "Bearer")
            error = failure_of(client, told)
            assert error["type"] == ("authentication_error" if client == MESSAGES else "invalid_request_error")
        assert "wrong-key" not in house.log.getvalue()
        assert not house.provider.received
        assert house.get("/metrics").status == 401
        assert (house.get("/healthz").status, house.get("/").status) == (200, 200)
        assert house.post(PATHS[client], question(client, client), authorization="Bearer sesame-open").status == 200


@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_447_a_key_that_cannot_be_read_is_no_401_in_the_clients_envelope(client: str, tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    file.write_bytes(b"no database" * 100)
    with running(settings=lambda port: settings_for(port, keys=("sesame-open",))) as house:
        house.app.runtime.guard.identities = identities = IdentityTable(IdentityReader(str(file)), key_grace=60.0)
        identities.load()
        told = house.post(PATHS[client], question(client, client), authorization="Bearer of-the-database")
        assert (told.status, told.header("retry-after")) == (529 if client == MESSAGES else 503, "5")
        assert "gateway keys cannot be read now" in message_of(client, told)
        assert (told.header("x-should-retry"), told.header("www-authenticate")) == (None, None)
        told = house.get("/admin/v1/status", authorization="Bearer of-the-database")
        assert (told.status, told.header("retry-after")) == (503, "5")
        identities.stop()


@pytest.mark.parametrize("client", PROTOCOLS)
def test_unknown_keys_beyond_the_limit_are_a_429_that_is_neither_logged_nor_recorded(client: str) -> None:
    with running([tells(client)], lambda port: settings_for(port, keys=("sesame-open",))) as house:

        def told(path: str = PATHS[client], key: str = "wrong-key-0000") -> Answer:
            return house.post(path, question(client, client), authorization=f"Bearer {key}")

        assert [told().status for _ in range(MAX_ATTEMPTS)] == [401] * MAX_ATTEMPTS
        wait_until(lambda: len(log_lines(house)) == MAX_ATTEMPTS, "every attempt is in the log")
        refused = told()
        assert (refused.status, refused.header("x-should-retry")) == (429, "false")
        assert 0 < int(refused.header("retry-after") or "") <= WINDOW_SECONDS
        assert "too many unknown gateway keys" in message_of(client, refused)
        assert told("/admin/v1/status").status == 429
        # A known key is served, and its line is the next one.
        assert told(key="sesame-open").status == 200
        lines = wait_until(lambda: log_lines(house)[MAX_ATTEMPTS:], "the line of the known key")
        assert [line["status"] for line in lines] == [200]


def test_a_page_of_another_site_is_refused_in_the_envelope_of_the_path(house: House) -> None:
    told = house.post("/v1/messages", question(MESSAGES, CHAT), origin="https://evil.example")
    assert (told.status, failure_of(MESSAGES, told)["type"]) == (403, "permission_error")
    told = house.post("/v1/responses", question(RESPONSES, CHAT), host="evil.example")
    assert (told.status, failure_of(RESPONSES, told)["code"]) == (403, "permission_denied")


def test_an_allowed_page_may_read_answers_and_errors_of_every_endpoint() -> None:
    page = "https://app.example"

    def settings(port: int) -> Settings:
        return settings_for(port, server=Server(allowed_origins=(page,)))

    asks: list[Callable[[House], Answer]] = [
        lambda house: house.post("/v1/messages", question(MESSAGES, CHAT), origin=page),
        lambda house: house.post("/v1/messages", b"broken", origin=page),
        lambda house: house.post("/v1/messages/count_tokens", question(MESSAGES, CHAT), origin=page),
        lambda house: house.post("/v1/messages/count_tokens", b"broken", origin=page),
        lambda house: house.get("/v1/models", origin=page),
        lambda house: house.get("/v1/models/unknown", origin=page),
        lambda house: house.get("/v1/messages", origin=page),
    ]
    with running(any_protocol, settings) as house:
        for ask in asks:
            told = ask(house)
            assert ("access-control-allow-origin", page) in told.headers, told
        preflight = house.ask(
            "OPTIONS",
            "/v1/messages",
            b"",
            origin=page,
            access_control_request_method="POST",
            access_control_request_headers="content-type, x-api-key",
        )
        assert preflight.status == 204
        assert preflight.header("access-control-allow-headers") == "content-type, x-api-key"


@pytest.mark.parametrize("client", PROTOCOLS)
def test_too_many_headers_are_a_431_in_the_envelope_of_the_path(client: str) -> None:
    def settings(port: int) -> Settings:
        return settings_for(port, limits=Limits(header_count=20))

    with running((), settings) as house:
        told = house.post(PATHS[client], question(client, CHAT), **{f"x_{count}": "1" for count in range(40)})
        assert told.status == 431
        assert failure_of(client, told)


def test_every_answer_has_an_id_of_its_own(house: House) -> None:
    ids = {house.post("/v1/messages", question(MESSAGES, CHAT)).header("request-id") for _ in range(20)}
    assert len(ids) == 20
    assert dig_text({"id": next(iter(ids))}, "id").startswith("req_")


@pytest.mark.parametrize(
    "host", ["x/#@127.0.0.1", "127.0.0.1/healthz#", "127.0.0.1?/healthz", "healthz", "127.0.0.1\\@x"]
)
def test_pitfall_440_no_host_opens_another_path(host: str) -> None:
    with running(settings=lambda port: settings_for(port, keys=["a-key-that-nobody-has"])) as house:
        for path in (
            "/v1/models",
            "/metrics",
            "/status",
            "/v1/files/../healthz",
            "//healthz/../metrics",
            "/healthz/%2e%2e/metrics",
        ):
            answer = house.get(path, host=host)
            assert answer.status in (400, 401, 403), (path, answer)
        assert not house.provider.received


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"NONSENSE\r\n\r\n", 400),
        (b"CONNECT example.org:443 HTTP/1.1\r\nhost: example.org:443\r\n\r\n", 405),
        (b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx: " + b"x" * 200_000 + b"\r\n\r\n", 431),
    ],
    ids=["nonsense", "to a proxy", "too much"],
)
def test_whoever_sends_what_is_no_request_is_logged_by_address(said: bytes, status: int) -> None:
    with running() as house, house.connect() as connection:
        connection.sendall(said)
        assert read_answer(connection).status == status
    (line,) = log_lines(house)
    assert (line["status"], line["address"]) == (status, "127.0.0.1")


# What nobody foresaw


def _breaks(*_: object) -> NoReturn:
    raise RuntimeError("nobody foresaw this")


async def _breaks_off(incoming: Incoming) -> None:
    request = incoming.request
    request.start(200, [(b"content-type", b"text/plain")])
    request.write(b"so far")
    raise RuntimeError("nobody foresaw this")


@pytest.mark.parametrize("at", ["conversation", "aside"])
def test_what_breaks_is_one_exchange_under_the_id_that_its_client_is_told(
    monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    monkeypatch.setattr(serving, "understand", _breaks)
    monkeypatch.setitem(app.SERVED, EndpointKind.COUNT, _breaks)
    path = PATHS[MESSAGES] if at == "conversation" else "/v1/messages/count_tokens"
    with running() as house:
        answer = house.post(path, question(MESSAGES, MESSAGES))
        assert (answer.status, message_of(MESSAGES, answer)) == (500, "internal error")
        assert sum(cell.requests for cell in house.app.runtime.metrics.snapshot().cells) == 1
    (line,) = log_lines(house)
    assert (line["id"], line["status"], line["failure"]) == (answer.header("request-id"), 500, "internal")


def test_what_breaks_after_its_beginning_did_not_go_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(app.SERVED, EndpointKind.OTHER, _breaks_off)
    with running() as house:
        answer = house.post("/v1/embeddings", {"model": "chat/served", "input": "x"})
        assert not answer.complete
    (line,) = log_lines(house)
    assert line["failure"] == "internal"


def test_a_client_that_disconnects_beside_conversations_while_the_gateway_drains_has_cancelled_its_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = threading.Event()

    async def wait(incoming: Incoming) -> None:
        service = incoming.runtime
        service.draining = True
        begun.set()
        await service.loop.create_future()

    monkeypatch.setitem(app.SERVED, EndpointKind.COUNT, wait)
    with running() as draining:
        with draining.connect() as end:
            end.sendall(b"POST /v1/messages/count_tokens HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
            assert begun.wait(PATIENCE)
        wait_until(lambda: log_lines(draining), "the exchange is in the log")
    (line,) = log_lines(draining)
    assert (line["status"], line["failure"]) == (499, "cancelled")


def test_a_gateway_that_stops_is_one_exchange_under_the_id_that_its_client_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def wait(incoming: Incoming) -> None:
        service = incoming.runtime
        service.draining = True
        service.loop.call_soon(stopping.server.cancel_all)
        await service.loop.create_future()

    monkeypatch.setitem(app.SERVED, EndpointKind.COUNT, wait)
    with running() as stopping:
        answer = stopping.post("/v1/messages/count_tokens", question(MESSAGES, MESSAGES))
        assert (answer.status, message_of(MESSAGES, answer)) == (503, "the gateway is shutting down")
    (line,) = log_lines(stopping)
    assert (line["id"], line["status"], line["failure"]) == (answer.header("request-id"), 503, "shutdown")
