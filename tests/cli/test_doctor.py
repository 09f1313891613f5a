"""`dragoman doctor` as a whole: what a person sees, what a program gets, and what nobody gets to see."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.machine import SECRET
from tests.cli.screens import on_screen, piped
from tests.gateway.harness import CHAT, running, whole
from tests.server.process import clean_environment

TITLES = ["Machine", "Configuration", "Environment", "Providers", "Clock", "Disk", "Store", "Gateway", "Clients"]


@pytest.fixture
def environ() -> dict[str, str]:
    """Nothing of the machine that runs the tests."""
    taken = (
        *("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_AUTH_TOKEN", "DRAGOMAN_KEY"),
        *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "https_proxy", "HTTPS_PROXY"),
    )
    return {**dict.fromkeys(taken, ""), "PATH": "/usr/bin:/bin"}


def put(place: Path, text: str, port: int = 0) -> str:
    """A configuration that is named; where a port is free, another may come in between."""
    file = place / "mine.toml"
    file.write_text(f"[server]\nport = {port}\n{text}")
    file.chmod(0o600)
    return str(file)


@pytest.mark.parametrize("columns", [80, 140])
def test_a_healthy_machine_is_told_so(columns: int, tmp_path: Path, environ: dict[str, str]) -> None:
    seen = on_screen(["doctor", "--config", put(tmp_path, "")], tmp_path, columns=columns, environ=environ)
    assert (seen.status, seen.other) == (0, "")
    lines = seen.plain.splitlines()
    assert max(map(len, lines)) <= columns
    assert [line.partition(":")[0] for line in lines if line.endswith(": ok")] == TITLES
    assert lines[-1] == "Nothing is wrong."
    assert f"{tmp_path}/" not in seen.plain
    assert "~/mine.toml:2" in " ".join(seen.plain.split())
    assert seen.coloured


def test_what_is_wrong_has_a_next_step_and_no_secret_is_told(tmp_path: Path, environ: dict[str, str]) -> None:
    told = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1/private", "MY_KEY": SECRET, "OPENAI_API_KEY": ""}
    with running(lambda received: whole({"error": {"message": f"bad {SECRET}"}}, 401)) as house:
        base = f"http://127.0.0.1:{house.provider.port}/v1"
        file = put(
            tmp_path,
            f'discover = false\n[providers.box]\nprotocol = "{CHAT}"\nbase_url = "{base}"\napi_key = "$MY_KEY"\n',
            house.port,
        )
        status, out, err = piped(["doctor", "--config", file], tmp_path, {**environ, **told})
        json_status, json_out, _ = piped(["doctor", "--json", "--config", file], tmp_path, {**environ, **told})
    assert (status, err, json_status) == (1, "", 1)
    assert (
        "  wrong: box: it answered 401: box refused the key MY_KEY: is it right, and still good?\n"
        "    do: look at providers.box.api_key in the configuration\n"
        '    see: docs/troubleshooting.md, "It does not take the key"\n'
    ) in out
    assert "  wrong: ANTHROPIC_BASE_URL is set, and nothing listens there\n" in out
    assert '    see: docs/troubleshooting.md, "A firewall or proxy may be blocking it"\n' in out
    assert f"  running  http://127.0.0.1:{house.port}\n" in out
    assert f"  process  {os.getpid()}\n" in out
    assert out.endswith("2 things are wrong.\n")
    document = json.loads(json_out)
    assert document["wrong"] == 2
    assert [section["title"] for section in document["sections"]] == TITLES
    for text in (out, json_out):
        for hidden in (SECRET, "private", f"{tmp_path}/", "\x1b"):
            assert hidden not in text


def test_a_configuration_that_cannot_be_used_does_not_end_it(tmp_path: Path, environ: dict[str, str]) -> None:
    status, out, err = piped(["doctor", "--config", put(tmp_path, "prot = 1\n")], tmp_path, environ)
    assert (status, err) == (1, "")
    assert "server.prot: is not a known key" in out
    assert "Clients: ok" in out and "Providers" not in out


def test_offline_asks_no_provider(tmp_path: Path, environ: dict[str, str]) -> None:
    with running() as house:
        base = f"http://127.0.0.1:{house.provider.port}/v1"
        text = f'[providers.box]\nprotocol = "{CHAT}"\nbase_url = "{base}"\n'
        status, out, _ = piped(["doctor", "--offline", "--config", put(tmp_path, text)], tmp_path, environ)
    assert status == 0
    assert "none, because of --offline" in out
    assert house.provider.received == []


def test_progress_is_on_the_other_stream_and_leaves_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    words = ["doctor", "--offline", "--config", put(tmp_path, "")]
    seen = on_screen(words, tmp_path, environ=environ, stream="stderr")
    assert "\rreading the configuration …\x1b[K" in seen.raw
    assert seen.raw.endswith("\r\x1b[K")
    assert seen.other.startswith("Machine: ok\n") and "…" not in seen.other


def test_nothing_is_made_or_changed(tmp_path: Path, environ: dict[str, str]) -> None:
    file = put(tmp_path, "")
    before = sorted(tmp_path.rglob("*"))
    assert piped(["doctor", "--config", file], tmp_path, {**clean_environment(tmp_path), **environ})[0] == 0
    assert sorted(tmp_path.rglob("*")) == before
