"""The mock answers as a service does: paths, credentials, answers whole and streamed, errors in its own envelope."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import socket
from collections.abc import Iterator

import pytest

from dragoman.http.server import ServerRequest
from dragoman.mint import system_mint
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.app import MockApp, serve, serve_until
from tests.mock.asking import HEADERS, PATHS, TIMEOUT, Client, mock_running, said
from tests.mock.calling import PROTOCOLS, declared, text_of
from tests.sdk.digging import Object, dig_object, dig_objects, dig_text
from tests.sdk.oracles import check_answer, check_stream

SCRIPT = 'Go.\n<mock>\nthink Hm.\ncall f {"city": "Rome"}\n---\nsay Done.\n</mock>'
SHOWING: dict[str, Object] = {
    MESSAGES: {"thinking": {"type": "adaptive", "display": "summarized"}},
    CHAT: {},
    RESPONSES: {"reasoning": {"summary": "auto"}},
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with mock_running() as running:
        yield running


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_step_is_played(client: Client, protocol: str, stream: bool) -> None:
    answer = client.say(protocol, SCRIPT, tools=declared(protocol, "f"), stream=stream, **SHOWING[protocol])
    assert answer.status == 200
    if stream:
        assert answer.headers["content-type"].startswith("text/event-stream")
        check_stream(protocol, answer.raw)
    else:
        check_answer(protocol, answer.json())
    for words in (b"Hm.", b"Rome"):
        assert words in answer.raw


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_that_fails_before_anything_is_said_is_told_and_remembered(client: Client, protocol: str) -> None:
    answer = client.say(protocol, "Go on.", model="mock-failing", stream=True)
    assert (answer.status, answer.broken) == (200, False)
    assert b"Overloaded" in answer.raw


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_was_said_is_taken_back_unchanged_and_the_next_step_is_played(client: Client, protocol: str) -> None:
    body = said(protocol, SCRIPT, tools=declared(protocol, "f"), **SHOWING[protocol])
    first = client.ask(PATHS[protocol], body).json()
    second = client.ask(PATHS[protocol], _continued(protocol, body, first))
    assert (second.status, text_of(protocol, second.json())) == (200, "Done.")
    changed = json.loads(json.dumps(first).replace("Hm.", "Hm!"))
    refused = client.ask(PATHS[protocol], _continued(protocol, body, changed))
    assert refused.status == 400


def _continued(protocol: str, body: Object, first: Object) -> Object:
    if protocol == MESSAGES:
        content = dig_objects(first, "content")
        result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "18"}
        turns = [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
        return {**body, "messages": [*dig_objects(body, "messages"), *turns]}
    if protocol == CHAT:
        message = dig_object(first, "choices", 0, "message")
        call_id = dig_text(message, "tool_calls", 0, "id")
        tool = {"role": "tool", "tool_call_id": call_id, "content": "18"}
        return {**body, "messages": [*dig_objects(body, "messages"), message, tool]}
    output = dig_objects(first, "output")
    result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "18"}
    return {**body, "store": False, "input": [{"role": "user", "content": body["input"]}, *output, result]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_failure_comes_once_with_the_time_to_wait(client: Client, protocol: str) -> None:
    prompt = f"{protocol}\n<mock>\nfail 429 Slow down.\nsay Done.\n</mock>"
    first, second = client.say(protocol, prompt), client.say(protocol, prompt)
    assert (first.status, first.headers["retry-after"]) == (429, "1")
    assert dig_text(first.json(), "error", "message") == "Slow down."
    assert (second.status, text_of(protocol, second.json())) == (200, "Done.")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_break_cuts_the_connection(client: Client, protocol: str, stream: bool) -> None:
    prompt = f"{protocol} {stream}\n<mock>\nbreak\nsay One two three four five.\n</mock>"
    assert client.say(protocol, prompt, stream=stream).broken
    assert not client.say(protocol, prompt, stream=stream).broken


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_that_the_service_refuses_is_refused(client: Client, protocol: str) -> None:
    answer = client.say(protocol, "Hello.", unheard_of=1)
    assert answer.status == 400
    assert "unheard_of" in dig_text(answer.json(), "error", "message")
    assert dig_text(answer.json(), "error", "type") == "invalid_request_error"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_lenient_mock_takes_it(protocol: str) -> None:
    with mock_running(lenient=True) as lenient:
        assert lenient.say(protocol, "Hello.", unheard_of=1).status == 200


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_some_credential_is_needed(client: Client, protocol: str) -> None:
    headers = {name: value for name, value in HEADERS.items() if name != "authorization"}
    answer = client.ask(PATHS[protocol], said(protocol, "Hello."), headers=headers)
    assert answer.status == 401
    assert client.ask(PATHS[protocol], said(protocol, "Hello."), headers={**headers, "api-key": "x"}).status == 200
    keyed = client.ask(PATHS[protocol], said(protocol, "Hello."), headers={**headers, "x-api-key": "x"})
    assert keyed.status == (200 if protocol == MESSAGES else 401)


@pytest.mark.parametrize(
    ("protocol", "path"), [(MESSAGES, "messages/count_tokens"), (RESPONSES, "responses/input_tokens")]
)
def test_tokens_are_counted(client: Client, protocol: str, path: str) -> None:
    answer = client.ask(f"/v1/{path}", said(protocol, "One two three."))
    assert (answer.status, answer.json()["input_tokens"]) == (200, 6)


def test_models_are_listed_in_the_protocol_of_the_headers(client: Client) -> None:
    anthropic = client.ask("/v1/models", method="GET").json()
    assert "has_more" in anthropic and dig_text(anthropic, "data", 0, "id").startswith("claude-")
    openai = client.ask("/v1/models", method="GET", headers={"authorization": "Bearer x"}).json()
    assert openai["object"] == "list" and dig_text(openai, "data", 0, "id").startswith("gpt-")
    for page in (anthropic, openai):
        assert {"mock-text", "mock-tools", "mock-agent"} <= {model["id"] for model in dig_objects(page, "data")}
    assert (anthropic["first_id"], anthropic["has_more"]) == ("claude-opus-5", False)
    assert client.ask("/v1/models/any/name", method="GET").json()["id"] == "any/name"


def test_vectors_are_made(client: Client) -> None:
    answer = client.ask("/v1/embeddings", {"model": "text-embedding-3-small", "input": "Hello."})
    assert answer.status == 200 and len(dig_objects(answer.json(), "data")) == 1


def test_somebody_is_there(client: Client) -> None:
    assert client.ask("/", method="HEAD", headers={}).status == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/nothing", {}, 404),
        ("GET", "/v1/messages", None, 405),
        ("POST", "/v1/messages", b"{", 400),
        ("POST", "/v1/responses", b"[]", 400),
        ("POST", "/v1/chat/completions", b'{"messages":' + b"[" * 100_000, 400),
        ("POST", "/v1/messages", {"model": "claude-opus-5", "max_tokens": 10, "messages": 3}, 400),
    ],
)
def test_what_makes_no_sense_is_refused_in_the_envelope(
    client: Client, method: str, path: str, body: object, status: int
) -> None:
    answer = client.ask(path, body, method=method)
    assert answer.status == status
    assert dig_text(answer.json(), "error", "message")


def test_a_body_may_be_compressed(client: Client) -> None:
    raw = gzip.compress(json.dumps(said(CHAT, "<mock>say Hi.</mock>")).encode())
    answer = client.ask(PATHS[CHAT], raw, headers={**HEADERS, "content-encoding": "gzip"})
    assert text_of(CHAT, answer.json()) == "Hi."


def test_a_thread_is_continued_with_what_is_new(client: Client) -> None:
    headers = {**HEADERS, "anthropic-beta": "message-threads-2026-08-12"}
    body = said(MESSAGES, SCRIPT, tools=declared(MESSAGES, "f"))
    first = client.ask(PATHS[MESSAGES], {**body, "thread": {"type": "create"}}, headers=headers).json()
    result = {"type": "tool_result", "tool_use_id": dig_objects(first, "content")[-1]["id"], "content": "18"}
    new: Object = {
        "model": body["model"],
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [result]}],
        "thread": {"type": "continue", "previous_message_id": first["id"]},
    }
    second = client.ask(PATHS[MESSAGES], new, headers=headers)
    assert (second.status, text_of(MESSAGES, second.json())) == (200, "Done.")
    again = client.ask(PATHS[MESSAGES], new, headers=headers)
    assert (again.status, dig_text(again.json(), "error", "details", "error_code")) == (409, "thread_already_continued")


def test_a_response_is_continued_read_and_deleted(client: Client) -> None:
    tools = declared(RESPONSES, "f")
    first = client.say(RESPONSES, SCRIPT, tools=tools).json()
    result = {"type": "function_call_output", "call_id": dig_objects(first, "output")[-1]["call_id"], "output": "18"}
    new = {"model": "gpt-5.1", "previous_response_id": first["id"], "input": [result], "tools": tools}
    second = client.ask(PATHS[RESPONSES], new).json()
    assert text_of(RESPONSES, second) == "Done."
    place = f"/v1/responses/{second['id']}"
    assert client.ask(place, method="GET").json() == second
    assert len(dig_objects(client.ask(f"{place}/input_items", method="GET").json(), "data")) == 4
    assert client.ask(place, method="DELETE").json()["deleted"] is True
    assert client.ask(place, method="GET").status == 404


def test_a_response_in_the_background_is_done_when_it_is_looked_at(client: Client) -> None:
    queued = client.say(RESPONSES, "Hello.", background=True).json()
    assert queued["status"] == "queued"
    assert client.ask(f"/v1/responses/{queued['id']}", method="GET").json()["status"] == "completed"
    other = client.say(RESPONSES, "Hello.", background=True).json()
    assert client.ask(f"/v1/responses/{other['id']}/cancel").json()["status"] == "cancelled"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_compaction_may_be_asked_for_in_the_conversation(client: Client, stream: bool) -> None:
    items: list[Object] = [{"role": "user", "content": SCRIPT}, {"role": "assistant", "content": "a"}]
    body: Object = {"model": "gpt-5.1", "tools": declared(RESPONSES, "f")}
    answer = client.ask(PATHS[RESPONSES], {**body, "input": [*items, {"type": "compaction_trigger"}], "stream": stream})
    response = dig_object(answer.events()[-1], "response") if stream else answer.json()
    (item,) = dig_objects(response, "output")
    assert item["type"] == "compaction"
    assert text_of(RESPONSES, client.ask(PATHS[RESPONSES], {**body, "input": [items[0], item]}).json()) == "Done."
    changed = {**item, "encrypted_content": "gAAAAABx"}
    assert client.ask(PATHS[RESPONSES], {**body, "input": [items[0], changed]}).status == 400


def test_a_conversation_is_made_shorter(client: Client) -> None:
    items = [{"role": "user", "content": SCRIPT}, {"role": "assistant", "content": "a"}]
    shorter = client.ask("/v1/responses/compact", {"model": "gpt-5.1", "input": items}).json()
    answer = client.ask(PATHS[RESPONSES], {"model": "gpt-5.1", "input": shorter["output"]}).json()
    assert text_of(RESPONSES, answer) == "Done."


def listening() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener


def test_a_signal_ends_it() -> None:
    with listening() as listener:

        def ready() -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        async def run() -> None:
            await asyncio.wait_for(serve(MockApp(system_mint()), listener, ready), TIMEOUT)

        asyncio.run(run())


class AnnouncingApp(MockApp):
    """A mock that says when a request is there."""

    def __init__(self) -> None:
        super().__init__(system_mint())
        self.called = asyncio.Event()

    async def __call__(self, request: ServerRequest) -> None:
        """Answer."""
        self.called.set()
        await super().__call__(request)


def test_an_answer_that_rests_for_long_does_not_hold_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.mock.app._GRACE", 0.05)
    body = b'{"model":"gpt-5","input":"<mock>\\npause 500\\nsay late\\n</mock>"}'
    head = b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer x\r\ncontent-length: %d\r\n\r\n" % len(
        body
    )

    async def run() -> bytes:
        stop = asyncio.Event()
        started = asyncio.Event()
        app = AnnouncingApp()
        with listening() as listener:
            port = listener.getsockname()[1]
            serving = asyncio.create_task(serve_until(stop, app, listener, started.set))
            await started.wait()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + body)
            await writer.drain()
            await asyncio.wait_for(app.called.wait(), TIMEOUT)
            stop.set()
            await asyncio.wait_for(serving, TIMEOUT)
            told = await reader.read()
            writer.close()
            await writer.wait_closed()
            return told

    assert asyncio.run(run()).startswith(b"HTTP/1.1 503")


def test_what_is_no_message_is_refused_in_an_envelope() -> None:
    with mock_running() as client:
        assert client.ask("/v1/messages", {}, headers={"x": "y" * 100_000}).status == 431
