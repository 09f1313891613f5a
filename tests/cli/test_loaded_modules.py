"""Loaded modules: `import dragoman` and commands load what they need, `serve` everything before its first request."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.protocols.registry import PROTOCOL_NAMES
from tests.server.process import clean_environment
from tests.waiting import LIMIT

# Heavy modules that no command needs which only prints, or only reads records.
HEAVY = {"asyncio", "difflib", "email", "http", "logging", "socket", "ssl", "subprocess", "urllib.request"}
COMMAND = "from dragoman.cli import main\ntry:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
# What is started, the most modules of dragoman that it loads, and other modules that it does without.
STARTS = {
    "import": ("import dragoman\n", 1, {*HEAVY, "argparse", "datetime", "hashlib", "msgspec", "pathlib", "sqlite3"}),
    "version": (COMMAND.format(words=["--version"]), 16, {*HEAVY, "hashlib", "sqlite3", "tomllib"}),
    "usage": (COMMAND.format(words=["usage"]), 175, HEAVY),
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
    assert [module for module in ours if module.startswith("dragoman.protocols.") and module.count(".") == 2] == [
        module for module in ours if module in ("dragoman.protocols.codec", "dragoman.protocols.registry")
    ]


def test_a_translation_loads_its_two_protocols_alone(tmp_path: Path) -> None:
    code = (
        "from dragoman import translate_request\n"
        "body = {'model': 'm', 'messages': [{'role': 'user', 'content': 'x'}]}\n"
        "translate_request(body, source='openai-chat', target='anthropic-messages')\n"
    )
    modules = loaded(code, tmp_path)
    packages = {name.replace("-", "_") for name in PROTOCOL_NAMES}
    assert {name for name in packages if f"dragoman.protocols.{name}" in modules} == {
        "openai_chat",
        "anthropic_messages",
    }


def test_a_request_of_a_gateway_loads_no_module(tmp_path: Path) -> None:
    # What `serve` loads before it forks and listens.
    code = (
        "import dragoman.gateway.processes.supervisor\n"
        "from dragoman.protocols.registry import load_codecs\n"
        "import sys\n"
        "load_codecs()\n"
        "before = set(sys.modules)\n"
        "from dragoman import translate, streaming\n"
        "body = {'model': 'm', 'messages': [{'role': 'user', 'content': 'x'}]}\n"
        "for target in ('openai-chat', 'anthropic-messages', 'openai-responses'):\n"
        "    request = translate.translate_request(body, source='openai-chat', target=target)\n"
        "    streaming.StreamPipeline(source=target, target='openai-chat', request=request)\n"
        "assert set(sys.modules) == before, sorted(set(sys.modules) - before)\n"
    )
    loaded(code, tmp_path)


def test_every_public_name_is_found_and_listed() -> None:
    assert {name for name in dragoman.__all__ if getattr(dragoman, name, None) is None} == set()
    assert set(dragoman.__all__) <= set(dir(dragoman))
    assert not hasattr(dragoman, "no_such_name")
