"""`dragoman translate` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import Struct

from tests.cli.screens import piped

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


class Done(Struct, frozen=True):
    """What came of a command."""

    returncode: int
    stdout: bytes
    stderr: bytes


def dragoman(*arguments: str, stdin: bytes = b"") -> Done:
    status, out, err = piped(arguments, Path.cwd(), stdin=stdin)
    return Done(status, out.encode(), err.encode())


def test_a_request_is_translated_and_its_losses_are_a_table() -> None:
    done = dragoman("translate", "--to", "openai-responses", str(EXAMPLES / "claude-request.json"))
    assert done.returncode == 0
    assert "input" in json.loads(done.stdout)
    assert done.stderr.startswith(b"FATE")


def test_standard_input_and_a_ledger_for_programs() -> None:
    body = (EXAMPLES / "chat-request.json").read_bytes()
    done = dragoman("translate", "--from", "openai-chat", "--to", "anthropic-messages", "--json", "-", stdin=body)
    assert done.returncode == 0
    assert json.loads(done.stdout)["max_tokens"] > 0
    assert all(set(loss) == {"fate", "feature", "weight", "at", "note"} for loss in json.loads(done.stderr))


def test_whose_endpoint_it_is_decides_what_is_sent() -> None:
    body = json.dumps({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}).encode()
    caps = {}
    for vendor in ("openai", "deepseek"):
        done = dragoman("translate", "--to", "openai-chat", "--vendor", vendor, "-", stdin=body)
        caps[vendor] = set(json.loads(done.stdout)) & {"max_tokens", "max_completion_tokens"}
    assert caps == {"openai": {"max_completion_tokens"}, "deepseek": {"max_tokens"}}


def test_strict_mode_has_a_status_of_its_own_and_writes_nothing() -> None:
    done = dragoman("translate", "--to", "anthropic-messages", "--strict", str(EXAMPLES / "chat-request.json"))
    assert done.returncode == 3
    assert done.stdout == b""
    assert done.stderr.endswith(
        b"\ndragoman: strict mode rejected losses that change the response: nothing was written\n"
    )
    same = dragoman("translate", "--to", "openai-chat", "--strict", str(EXAMPLES / "chat-request.json"))
    assert same.returncode == 0
    assert same.stderr == b"no losses\n"


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        (b"{", b"is not JSON: it breaks off at line 1, column 2"),
        (b'{"model":1,"messages":[{"role":"user","content":"x"}]}', b"model: expected text, found a number"),
        (b"{}", b"expected a request with `messages` or `input`"),
    ],
)
def test_bad_input_is_one_precise_line(stdin: bytes, message: bytes) -> None:
    done = dragoman("translate", "--to", "openai-responses", stdin=stdin)
    assert done.returncode == 1
    assert done.stderr.startswith(b"dragoman: ")
    assert message in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_nothing_of_the_input_reaches_the_terminal_as_it_is() -> None:
    done = dragoman("translate", "--to", "openai-responses", stdin=b'{"model":"m","messages":[{"role":"\\u001b[31m"}]}')
    assert done.returncode == 1
    assert b"\x1b" not in done.stderr


def test_a_missing_file_is_named() -> None:
    done = dragoman("translate", "--to", "openai-chat", "no-such-file.json")
    assert done.returncode == 1
    assert b"no-such-file.json" in done.stderr


ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def test_an_answer_is_recognised_and_translated() -> None:
    done = dragoman("translate", "--response", "--to", "anthropic-messages", stdin=json.dumps(ANSWER).encode())
    assert done.returncode == 0
    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "hello"}]


STREAM = b"".join(
    b"data: " + json.dumps(chunk).encode() + b"\n\n"
    for chunk in (
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}],
        },
    )
)


def test_a_stream_that_breaks_off_is_told_by_the_status() -> None:
    cut = STREAM.replace(b'"finish_reason": "stop"', b'"finish_reason": null')
    done = dragoman("translate", "--stream", "--from", "openai-chat", "--to", "anthropic-messages", stdin=cut)
    assert done.returncode == 1
    assert b"event: error" in done.stdout
    assert b"unexpectedly" in done.stderr


def test_an_answer_is_read_against_its_request(tmp_path: Path) -> None:
    asked = tmp_path / "request.json"
    tools = [{"name": "bad name", "input_schema": {"type": "object"}}]
    asked.write_text(
        json.dumps({"model": "m", "max_tokens": 9, "tools": tools, "messages": [{"role": "user", "content": "x"}]})
    )
    call = {"id": "call_1", "type": "function", "function": {"name": "bad_name_a4fdd2b8", "arguments": "{}"}}
    sent = dragoman("translate", "--to", "openai-chat", str(asked))
    call["function"] = {"name": json.loads(sent.stdout)["tools"][0]["function"]["name"], "arguments": "{}"}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {**ANSWER, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    done = dragoman(
        "translate",
        "--response",
        "--to",
        "anthropic-messages",
        "--request",
        str(asked),
        stdin=json.dumps(answer).encode(),
    )
    assert json.loads(done.stdout)["content"][0]["name"] == "bad name"


BOOKKEEPING = {
    "model": "m",
    "max_tokens": 9,
    "metadata": {"user_id": "u" * 80},
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}],
}


@pytest.mark.parametrize("said", [(), ("--strict",), ("--strict", "--model", "other")])
def test_bookkeeping_is_a_number_and_does_not_concern_strict_mode(said: tuple[str, ...]) -> None:
    done = dragoman("translate", "--to", "openai-chat", *said, "-", stdin=json.dumps(BOOKKEEPING).encode())
    assert (done.returncode, bool(done.stdout)) == (0, True)
    assert done.stderr == b"2 bookkeeping losses without effect on the response; --all-losses lists them\n"


def test_strict_all_refuses_bookkeeping_and_lists_it() -> None:
    told = json.dumps(BOOKKEEPING).encode()
    done = dragoman("translate", "--to", "openai-chat", "--strict=all", "-", stdin=told)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"cache_breakpoint" in done.stderr
    assert b"end_user" in done.stderr
    listed = dragoman("translate", "--to", "openai-chat", "--all-losses", "-", stdin=told)
    refused = b"dragoman: strict mode rejected every loss: nothing was written\n"
    assert (listed.returncode, listed.stderr + refused) == (0, done.stderr)


def test_a_strict_ledger_for_programs_is_json_alone() -> None:
    told = json.dumps(BOOKKEEPING).encode()
    done = dragoman("translate", "--to", "openai-chat", "--strict=all", "--json", "-", stdin=told)
    assert (done.returncode, len(json.loads(done.stderr))) == (3, 2)


@pytest.mark.parametrize("target", ["openai-chat", "anthropic-messages", "openai-responses"])
def test_a_chat_request_without_model_is_translated_with_one(target: str) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
    done = dragoman("translate", "--to", target, "--model", "deployed", "-", stdin=body)
    assert (done.returncode, json.loads(done.stdout)["model"]) == (0, "deployed")
    without = dragoman("translate", "--to", "openai-responses", "-", stdin=body)
    assert without.returncode == 1
    assert without.stderr == b"dragoman: model: expected text, found nothing; --model NAME sets it\n"
