"""Loaded modules: `import dragoman` and commands load what they need, `serve` everything before its first request."""

from __future__ import annotations

import http.client
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import dragoman
from dragoman.protocols.registry import PROTOCOL_NAMES
from tests.server.process import clean_environment
from tests.waiting import LIMIT

PACKAGES = {f"dragoman.protocols.{name.replace('-', '_')}" for name in PROTOCOL_NAMES}
# Heavy modules that no command needs which only prints, or only reads records.
HEAVY = {"asyncio", "difflib", "email", "http", "logging", "socket", "ssl", "subprocess", "urllib.request"}
# Modules that would delay a first request.
LARGE = {*HEAVY, "zipfile", "importlib.readers", "tomllib"}
_CONTENT = '"messages":[{"role":"user","content":"Hello"}]'
REQUESTS = tuple(
    (path, f'{{"model":"{model}","max_tokens":9,{_CONTENT}{stream}}}')
    for path in ("/v1/messages", "/v1/chat/completions")
    for model in ("echo/text", "echo/text@anthropic-messages", "echo/text@openai-responses")
    for stream in ("", ',"stream":true')
)
COMMAND = "from dragoman.cli import main\ntry:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
# Modules that a gateway with one worker leaves alone: they take a megabyte of memory.
UNUSED = {"email", "html", "plistlib", "zoneinfo"}
# What is started, the most modules of dragoman that it loads, and other modules that it does without.
STARTS = {
    "import": ("import dragoman\n", 1, {*HEAVY, "argparse", "datetime", "hashlib", "msgspec", "pathlib", "sqlite3"}),
    "version": (COMMAND.format(words=["--version"]), 16, {*HEAVY, "hashlib", "sqlite3", "tomllib"}),
    "usage": (COMMAND.format(words=["usage"]), 178, HEAVY),
    "one translation": ("from dragoman import translate_request\n", 60, {*HEAVY, "sqlite3", "tomllib", "argparse"}),
}


def loaded(code: str, directory: Path) -> set[str]:
    """The modules of a process that has executed that code."""
    last = "import sys\nsys.stderr.write(' '.join(sys.modules))"
    process = subprocess.run(
        [sys.executable, "-c", code + last],
        capture_output=True,
        text=True,
        check=True,
        cwd=directory,
        env=clean_environment(directory),
        timeout=LIMIT,
    )
    return set(process.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("name", STARTS)
def test_a_start_loads_what_it_needs(name: str, tmp_path: Path) -> None:
    code, most, without = STARTS[name]
    modules = loaded(code, tmp_path)
    ours = sorted(module for module in modules if module.partition(".")[0] == "dragoman")
    assert modules & without == set()
    assert len(ours) <= most, ours
    assert PACKAGES.isdisjoint(ours)


def test_a_translation_loads_its_two_protocols_alone(tmp_path: Path) -> None:
    code = (
        "from dragoman import translate_request\n"
        "body = {'model': 'm', 'messages': [{'role': 'user', 'content': 'x'}]}\n"
        "translate_request(body, source='openai-chat', target='anthropic-messages')\n"
    )
    modules = loaded(code, tmp_path)
    assert PACKAGES & modules == {"dragoman.protocols.openai_chat", "dragoman.protocols.anthropic_messages"}


def test_the_first_requests_of_a_gateway_load_no_module(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with errors.open("wb") as output:
        gateway = subprocess.Popen(
            [sys.executable, "-X", "importtime", "-m", "dragoman", "serve", "--host", "127.0.0.1", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            cwd=tmp_path,
            env=clean_environment(tmp_path),
        )
    with gateway:
        try:
            assert gateway.stdout is not None
            port = int(gateway.stdout.readline().split(",")[0].rpartition(":")[2])
            assert ask(port, "GET", "/status", "") == 200
            before = imported(errors)
            for path, body in REQUESTS:
                assert ask(port, "POST", path, body) == 200
        finally:
            gateway.terminate()
            gateway.communicate(timeout=LIMIT)
    # An extra, which only estimates of a model's tokens need.
    late = [name for name in imported(errors)[len(before) :] if not name.startswith("rs_bpe")]
    assert "dragoman.protocols.openai_responses" in before
    assert UNUSED.isdisjoint(before)
    assert [name for name in late if name.startswith("dragoman.") or name in LARGE] == []


def imported(errors: Path) -> list[str]:
    """The modules in the order of their imports, from what `-X importtime` writes."""
    lines = errors.read_text(encoding="utf-8").splitlines()
    return [line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")]


def ask(port: int, method: str, path: str, body: str) -> int:
    """The status of a response that was read to its end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    with closing(connection):
        connection.request(method, path, body, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status


def test_every_public_name_is_found_and_listed() -> None:
    assert {name for name in dragoman.__all__ if getattr(dragoman, name, None) is None} == set()
    assert set(dragoman.__all__) <= set(dir(dragoman))
    assert not hasattr(dragoman, "no_such_name")
