"""The desk itself: a script reaches the provider through the gateway, and what it got is found again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.clients.desk import LOCAL_MODEL, Desk

# A client of a few lines, run as every other client is.
ASK = """
import json, sys, urllib.request
url, key, model, prompt = sys.argv[1:]
body = {"model": model, "messages": [{"role": "user", "content": prompt}]}
headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
with urllib.request.urlopen(request) as answer:
    print(json.loads(answer.read())["choices"][0]["message"]["content"])
"""


def asked(desk: Desk, home: Path, model: str, prompt: str) -> str:
    """What the client of a few lines is answered."""
    return desk.run([sys.executable, "-c", ASK, desk.url, desk.key, model, prompt], home).worked().out


def test_a_script_is_played_by_a_provider_of_each_protocol(desk: Desk, home: Path, protocol: str) -> None:
    marker = desk.marker()
    assert asked(desk, home, desk.model(protocol), f"{marker} <mock>say hello there</mock>") == "hello there\n"
    (request,) = desk.requests(marker)
    assert request.protocol == protocol
    assert request.body["model"] == desk.model(protocol).partition("/")[2]
    assert (request.status, "hello there" in str(request.answer)) == (200, True)


def test_a_server_that_nobody_knows_is_there_too(desk: Desk, home: Path) -> None:
    marker = desk.marker()
    assert asked(desk, home, LOCAL_MODEL, f"{marker} <mock>say hello</mock>") == "hello\n"
    assert [request.body["model"] for request in desk.requests(marker)] == ["qwen3"]


def test_what_another_prompt_said_is_not_found(desk: Desk, home: Path, protocol: str) -> None:
    marker = desk.marker()
    asked(desk, home, desk.model(protocol), f"<mock>say {marker}</mock> without it")
    assert len(desk.requests(marker)) == 1
    assert desk.requests(desk.marker()) == []


def test_a_client_that_does_not_end_is_ended_with_what_it_started(desk: Desk, home: Path) -> None:
    words = ["bash", "-c", "echo begun; sleep 1000 & sleep 1000"]
    with pytest.raises(AssertionError, match="did not end in"):
        desk.run(words, home, patience=1.0)


def test_a_client_finds_no_key_of_this_machine(desk: Desk, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    assert "sk-of-the-user" not in desk.run(["env"], home).worked().out
