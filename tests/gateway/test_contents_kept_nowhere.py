"""With everything at its defaults nothing that anybody said is in a file below the state folder, nor in the log.

Every field that is content bears a mark of its own, in all protocols, whole and streamed, answered, refused and broken.
Names are kept by design (docs/usage-and-cost.md): of keys, programs, models, sessions, threads, launches, and paths.
Stored responses hold what was said (docs/deploy.md), so that clients of Responses ask for none here.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    RESPONSES,
    House,
    Received,
    Reply,
    running,
    settings_for,
    stream,
    take_turns,
    whole,
)
from tests.gateway.says import NAMES, error_body, error_frame
from tests.sdk.providers import Call, Turn
from tests.sdk.providers import answer as answer_of
from tests.sdk.providers import stream as stream_of

KEY = "dgm_test_of_contents"
_SESSION = "5b1c1f0e-0000-4000-8000-000000000001"
_marks = re.compile(rb"zq[a-z0-9_]+?zq", re.IGNORECASE).findall


def mark(field: str) -> str:
    """A text that says where it was said."""
    return f"zq{field}zq"


def messages(provider: str) -> dict[str, object]:
    user = {"device_id": mark("m_device"), "account_uuid": mark("m_account"), "session_id": _SESSION}
    source = {"type": "base64", "media_type": "image/png", "data": b64encode(mark("m_image").encode()).decode()}
    return {
        "model": f"{NAMES[provider]}/served",
        "max_tokens": 100,
        "system": [{"type": "text", "text": mark("m_system")}],
        "metadata": {"user_id": json.dumps(user)},
        "stop_sequences": [mark("m_stop")],
        "tools": [
            {
                "name": mark("m_tool"),
                "description": mark("m_described"),
                "input_schema": {"type": "object", "properties": {mark("m_property"): {"const": mark("m_const")}}},
            }
        ],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": mark("m_text")}, {"type": "image", "source": source}],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": mark("m_thinking"), "signature": mark("m_signature")},
                    {
                        "type": "tool_use",
                        "id": mark("m_call"),
                        "name": mark("m_tool"),
                        "input": {mark("m_argument"): mark("m_value")},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": mark("m_call"),
                        "content": [{"type": "text", "text": mark("m_result")}],
                        "cache_control": {"type": "ephemeral"},
                    },
                    {"type": "text", "text": mark("m_last")},
                ],
            },
        ],
        "top_k": 5,
    }


def chat(provider: str) -> dict[str, object]:
    function = {
        "name": mark("c_tool"),
        "description": mark("c_described"),
        "parameters": {"type": "object", "properties": {mark("c_property"): {"const": mark("c_const")}}},
    }
    call = {"name": mark("c_tool"), "arguments": json.dumps({mark("c_argument"): mark("c_value")})}
    return {
        "model": f"{NAMES[provider]}/served",
        "user": mark("c_user"),
        "safety_identifier": mark("c_safety"),
        "prompt_cache_key": mark("c_cache"),
        "metadata": {mark("c_meta"): mark("c_metadata")},
        "stop": [mark("c_stop")],
        "tools": [{"type": "function", "function": function}],
        "seed": 5,
        "logit_bias": {"5": 1},
        "messages": [
            {"role": "system", "content": mark("c_system")},
            {"role": "user", "name": mark("c_name"), "content": [{"type": "text", "text": mark("c_text")}]},
            {
                "role": "assistant",
                "content": mark("c_answer"),
                "tool_calls": [{"id": mark("c_call"), "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": mark("c_call"), "content": mark("c_result")},
            {"role": "user", "content": mark("c_last")},
        ],
    }


def responses(provider: str) -> dict[str, object]:
    return {
        "model": f"{NAMES[provider]}/served",
        "store": False,
        "instructions": mark("r_instructions"),
        "user": mark("r_user"),
        "safety_identifier": mark("r_safety"),
        "prompt_cache_key": mark("r_cache"),
        "metadata": {mark("r_meta"): mark("r_metadata")},
        "tools": [
            {
                "type": "function",
                "name": mark("r_tool"),
                "description": mark("r_described"),
                "parameters": {"type": "object", "properties": {mark("r_property"): {"const": mark("r_const")}}},
            }
        ],
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": mark("r_text")}]},
            {
                "type": "function_call",
                "call_id": mark("r_call"),
                "name": mark("r_tool"),
                "arguments": json.dumps({mark("r_argument"): mark("r_value")}),
            },
            {"type": "function_call_output", "call_id": mark("r_call"), "output": mark("r_result")},
            {"type": "message", "role": "user", "content": mark("r_last")},
        ],
    }


ASKED: dict[str, Callable[[str], dict[str, object]]] = {MESSAGES: messages, CHAT: chat, RESPONSES: responses}
SAID = {MESSAGES: "tool_use", CHAT: "tool_calls", RESPONSES: "completed"}

# What is of no use to anybody but who said it, in headers.
HEADERS = {
    "user_agent": f"claude-cli/2.1.325 ({mark('h_agent')})",
    "cookie": mark("h_cookie"),
    "referer": f"http://127.0.0.1/{mark('h_referer')}",
    "x_forwarded_for": mark("h_forwarded"),
    "anthropic_beta": mark("h_beta"),
    "openai_organization": mark("h_organization"),
    "x_any": mark("h_any"),
    "x_codex_turn_metadata": json.dumps({"session_id": "s", "cwd": mark("h_folder")}),
    "x_claude_code_session_id": _SESSION,
    "tracestate": f"vendor={mark('h_state')}",
    "accept_language": mark("h_language"),
}


def answers(protocol: str, *, streamed: bool) -> Reply:
    turn = Turn(
        stop=SAID[protocol],
        text=mark("a_text"),
        calls=(Call(mark("a_call"), mark("a_tool"), json.dumps({mark("a_argument"): mark("a_value")})),),
    )
    return stream(stream_of(protocol, turn)) if streamed else whole(answer_of(protocol, turn))


def fails(protocol: str, status: int) -> Reply:
    return whole(error_body(protocol, "invalid_request_error", mark("e_message"), mark("e_code")), status)


def breaks(protocol: str, *, streamed: bool) -> Reply:
    if not streamed:
        return whole(f'{{"half": "{mark("b_half")}'.encode())
    # The words are through, and then it ends.
    turn = Turn(stop=SAID[protocol], text=mark("b_text"))
    told = [frame + b"\n\n" for frame in stream_of(protocol, turn).split(b"\n\n")[:-1]]
    return stream(b"".join(told[:-3]), take_turns, error_frame(protocol, "server_error", mark("b_error")))


@contextmanager
def kept(folder: Path, script: Callable[[Received], Reply]) -> Iterator[House]:
    path = str(folder / "state.db")

    def settings(port: int) -> Settings:
        return replace(settings_for(port, keys=[KEY]), storage=Storage(path=path))

    with running(script, settings) as house:
        service = house.app.runtime

        async def start() -> None:
            service.usage_recorder.start()
            service.session_facts.attach_records(path, service.log)

        async def close() -> None:
            await service.usage_recorder.close(30.0)

        house.run(start())
        try:
            yield house
        finally:
            house.run(close())


def found_in(folder: Path, house: House) -> dict[str, set[str]]:
    """Marks by the file that they are in."""
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert any(data for data in files.values())
    files["the log"] = house.log.getvalue().encode("utf-8", "surrogatepass")
    assert files["the log"]
    found = {name: {each.decode() for each in _marks(data)} for name, data in files.items()}
    return {name: marks for name, marks in found.items() if marks}


def protocol_of(received: Received) -> str:
    return next((name for name, path in PATHS.items() if received.target.partition("?")[0] == path), CHAT)


def ask_everything(house: House) -> list[int]:
    """Every protocol of every provider, whole and streamed, with a key and without."""
    statuses = []
    for client in PROTOCOLS:
        for provider in PROTOCOLS:
            for streamed in (False, True):
                body = {**ASKED[client](provider), **({"stream": True} if streamed else {})}
                statuses.append(
                    house.post(f"{PATHS[client]}?q={mark('q_query')}", body, x_api_key=KEY, **HEADERS).status
                )
    return statuses


SCRIPTS: dict[str, Callable[[str, bool], Reply]] = {
    "answered": lambda protocol, streamed: answers(protocol, streamed=streamed),
    "refused": lambda protocol, _: fails(protocol, 400),
    "overloaded": lambda protocol, _: fails(protocol, 529),
    "broken": lambda protocol, streamed: breaks(protocol, streamed=streamed),
}


# Whether answers begin well; streams that break may have begun.
BEGINS = {"answered": {True}, "refused": {False}, "overloaded": {False}, "broken": {True, False}}


@pytest.mark.parametrize("script", SCRIPTS)
def test_pitfall_653_nothing_that_was_said_is_in_any_file(tmp_path: Path, script: str) -> None:
    def says(received: Received) -> Reply:
        body = json.loads(received.body) if received.body else {}
        return SCRIPTS[script](protocol_of(received), body.get("stream") is True)

    with kept(tmp_path, says) as house:
        statuses = ask_everything(house)
        assert found_in(tmp_path, house) == {}
    assert {status < 300 for status in statuses} <= BEGINS[script]
    assert found_in(tmp_path, house) == {}


def test_pitfall_653_nor_is_what_is_asked_beside_conversations(tmp_path: Path) -> None:
    def says(received: Received) -> Reply:
        if "missing" in received.target:
            return fails(CHAT, 404)
        return whole({"object": "list", "data": [{"embedding": [0.5], "text": mark("o_answer")}]})

    form = "\r\n".join(
        [
            "--b",
            f'content-disposition: form-data; name="file"; filename="{mark("o_file")}"',
            "",
            mark("o_content"),
            "--b--",
            "",
        ]
    )
    asked: list[tuple[str, str, object]] = [
        ("POST", "/v1/embeddings", {"model": "chat/served", "input": mark("o_input"), "user": mark("o_user")}),
        ("POST", "/v1/embeddings", {"model": "chat/served", "input": [mark("o_input")], mark("o_member"): 1}),
        ("POST", "/v1/embeddings", f'{{"model": "chat/served", "input": "{mark("o_torn")}'.encode()),
        ("POST", "/v1/completions", {"model": "chat/served", "prompt": mark("o_prompt")}),
        ("POST", "/v1/moderations", {"model": "chat/served", "input": mark("o_judged")}),
        ("POST", "/v1/images/generations", {"model": "chat/served", "prompt": mark("o_picture")}),
        ("POST", "/v1/rerank", {"model": "chat/served", "query": mark("o_sought"), "documents": [mark("o_document")]}),
        ("GET", f"/v1/files?after={mark('o_after')}", b""),
        ("GET", f"/v1/models?name={mark('o_listed')}", b""),
        ("GET", f"/nowhere?{mark('o_query')}", b""),
        ("GET", f"/v1/missing?key={mark('o_secret')}", b""),
        ("GET", f"/model-names?name={mark('o_name')}", b""),
        ("GET", f"/metrics?{mark('o_metrics')}", b""),
        ("POST", "/v1/messages/count_tokens", messages(CHAT)),
        ("POST", "/v1/messages/count_tokens", messages(MESSAGES)),
        ("POST", "/v1/responses/input_tokens", responses(CHAT)),
        ("POST", "/route", {"path": "/v1/messages", "body": messages(MESSAGES), mark("o_route"): 1}),
    ]
    wrong: list[tuple[str, dict[str, object] | bytes]] = []
    for protocol in PROTOCOLS:
        ask = ASKED[protocol]
        path = PATHS[protocol]
        wrong += [
            (path, f'{{"model": "{NAMES[protocol]}/served", "{mark("w_name")}": "{mark("w_torn")}'.encode()),
            (path, {**ask(protocol), "messages": mark("w_messages"), "input": {mark("w_input"): 1}}),
            (path, {**ask(protocol), "max_tokens": mark("w_number"), "max_output_tokens": mark("w_count")}),
            (path, {**ask(protocol), "tools": [{"type": mark("w_type"), mark("w_member"): mark("w_value")}]}),
            (path, {**ask(MESSAGES if protocol == CHAT else CHAT), f"what {mark('w_unknown')} is": mark("w_said")}),
        ]
        for provider in PROTOCOLS:
            wrong.append((path, {**ask(provider), f"what {mark('w_unknown')} is": mark("w_said"), "store": False}))
            wrong.append((path, {**ask(provider), "tool_choice": {"type": mark("w_choice"), "name": mark("w_chosen")}}))
            wrong.append((path, {**ask(provider), "response_format": {"type": mark("w_format")}}))
    with kept(tmp_path, says) as house:
        for method, path, body in asked:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            house.ask(method, path, data, content_type="application/json", x_api_key=KEY, **HEADERS)
            # A key that fits nothing is nobody's, and is kept no more than others.
            house.ask(method, path, data, content_type="application/json", x_api_key=mark("h_key"), **HEADERS)
            house.ask(method, path, data, content_type="application/json", authorization=f"Bearer {mark('h_bearer')}")
        kind = "multipart/form-data; boundary=b"
        house.ask("POST", "/v1/files", form.encode(), content_type=kind, x_api_key=KEY)
        for path, body in wrong:
            house.post(path, body, x_api_key=KEY)
        # Journals are there now, and gone at the end.
        assert found_in(tmp_path, house) == {}
    assert found_in(tmp_path, house) == {}
