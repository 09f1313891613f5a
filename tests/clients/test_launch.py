"""`dragoman launch` and `dragoman env` with the real clients: what they are told is what they understand."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dragoman.launching.clients import CLIENTS
from dragoman.launching.gateway import launch_of
from tests.clients.desk import Desk
from tests.sdk.names import CHAT, MESSAGES
from tests.server.process import ROOT

SAID = "all is well"
# What each client is given so that it answers one prompt and ends, and the model, which its own maker does not have.
RUNS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "claude": (("-p",), CHAT),
    "codex": (("exec", "--skip-git-repo-check", "-c", "check_for_update_on_startup=false"), MESSAGES),
    "opencode": (("run",), CHAT),
}


@pytest.fixture
def settings(desk: Desk, home: Path) -> Path:
    """A configuration whose gateway is not running yet."""
    file = home / "dragoman.toml"
    file.write_text(
        f"""
[server]
port = 0
discover = false

[providers.m]
protocol = "anthropic-messages"
base_url = "{desk.mock_url}"
api_key = "mock-key"
vendor = "anthropic"

[providers.c]
protocol = "openai-chat"
base_url = "{desk.mock_url}/v1"
api_key = "mock-key"
vendor = "openai"
"""
    )
    return file


def launch(client: str, settings: Path, model: str, *words: str) -> list[str | Path]:
    """The command that launches a client in front of a gateway of its own."""
    ours = [sys.executable, "-m", "dragoman", "launch", client, "--config", str(settings), "--model", model]
    return [*ours, "--context", "100000", "--", *words]


def environment() -> dict[str, str]:
    """Where the command finds itself."""
    return {"PYTHONPATH": str(ROOT / "src"), "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}


@pytest.mark.parametrize("client", RUNS)
def test_a_launched_client_asks_the_model_of_another_maker(desk: Desk, home: Path, settings: Path, client: str) -> None:
    words, protocol = RUNS[client]
    marker, model = desk.marker(), desk.model(protocol)
    command = launch(client, settings, model, *words, f"{marker} <mock>say {SAID}</mock>")
    done = desk.run(command, home, environment()).worked()
    assert SAID in done.out
    requests = desk.requests(marker)
    assert requests
    assert {request.body["model"] for request in requests} == {model.partition("/")[2]}
    assert {request.protocol for request in requests} == {protocol}


@pytest.mark.parametrize("client", RUNS)
def test_a_client_started_by_hand_after_the_lines_of_env_does_the_same(desk: Desk, home: Path, client: str) -> None:
    words, protocol = RUNS[client]
    marker, model = desk.marker(), desk.model(protocol)
    # The desk's own gateway runs, at a port that its configuration does not tell.
    file = home / "dragoman.toml"
    port = desk.url.rpartition(":")[2]
    file.write_text(f'[server]\nport = {port}\n[keys.desk]\nkey = "$DRAGOMAN_KEY"\n')
    script = (
        f'eval "$({sys.executable} -m dragoman env {client} --config {file} --shell sh --model {model})"\n'
        f'{client} {" ".join(words)} "$PROMPT"'
    )
    prompt = f"{marker} <mock>say {SAID}</mock>"
    given = environment() | {"DRAGOMAN_KEY": desk.key, "PROMPT": prompt}
    done = desk.run(["bash", "-c", script], home, given).worked()
    assert SAID in done.out
    assert "no gateway is running" not in done.err
    assert {request.protocol for request in desk.requests(marker)} == {protocol}


def test_pitfall_646_opencode_marks_the_cache_for_our_provider(desk: Desk, home: Path, settings: Path) -> None:
    marker = desk.marker()
    prompt = f"{marker} <mock>say {SAID}</mock>"
    desk.run(launch("opencode", settings, desk.model(MESSAGES), "run", prompt), home, environment()).worked()
    assert any('"cache_control"' in json.dumps(request.body) for request in desk.requests(marker))


@pytest.mark.parametrize(
    "sizes", ["", '[prices."l/new"]\ncontext_window = 128000\nmax_output_tokens = 16384\n'], ids=["unknown", "known"]
)
def test_opencode_gets_its_title_from_a_model_of_any_size(desk: Desk, home: Path, settings: Path, sizes: str) -> None:
    provider = f'[providers.l]\nprotocol = "openai-chat"\nbase_url = "{desk.mock_url}/v1"\napi_key = "mock-key"\n'
    settings.write_text(f"{settings.read_text()}{provider}{sizes}")
    marker = desk.marker()
    command = launch("opencode", settings, "l/new", "run", f"{marker} <mock>say {SAID}</mock>")
    place = command.index("--context")
    done = desk.run([*command[:place], *command[place + 2 :]], home, environment()).worked()
    assert "failed" not in done.err
    asked = [request.body["max_tokens"] for request in desk.requests(marker)]
    assert len(asked) == 2, asked
    assert all(isinstance(tokens, int) and tokens <= (16_384 if sizes else 32_000) for tokens in asked), asked


NOWHERE = "http://127.0.0.1:9"
# Files of the user's own that lead each client elsewhere, with whatever else stands in them.
LEADING_AWAY: Mapping[str, Mapping[str, str]] = {
    "claude": {
        ".claude/settings.json": json.dumps(
            {
                "env": {
                    "ANTHROPIC_BASE_URL": NOWHERE,
                    "ANTHROPIC_AUTH_TOKEN": "theirs",
                    "ANTHROPIC_API_KEY": "theirs, too",
                    "ANTHROPIC_MODEL": "another",
                    "CLAUDE_CODE_USE_BEDROCK": "1",
                },
                "apiKeyHelper": "echo theirs",
                "model": "another",
            }
        )
    },
    "codex": {
        ".codex/config.toml": 'model = "another"\nmodel_provider = "dragoman"\nmodel_context_window = 5000\n'
        f'[model_providers.dragoman]\nname = "Another"\nbase_url = "{NOWHERE}/v1"\nenv_key = "THEIRS"\n'
        'wire_api = "responses"\n'
    },
    "opencode": {
        ".config/opencode/opencode.json": json.dumps(
            {
                # Without this it would write to the file itself.
                "$schema": "https://opencode.ai/config.json",
                "model": "dragoman/another",
                "agent": {"build": {"model": "elsewhere/another"}},
                "provider": {
                    name: {
                        "npm": "@ai-sdk/openai",
                        "options": {"baseURL": f"{NOWHERE}/v1", "apiKey": "theirs"},
                        "models": {"another": {}},
                    }
                    for name in ("dragoman", "elsewhere")
                },
            }
        )
    },
}


@pytest.mark.parametrize("client", RUNS)
def test_pitfall_635_647_a_launch_wins_over_the_users_own_files_and_leaves_them_alone(
    desk: Desk, home: Path, settings: Path, client: str
) -> None:
    for name, text in LEADING_AWAY[client].items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    before = digests(home)
    words, protocol = RUNS[client]
    marker, model = desk.marker(), desk.model(protocol)
    command = launch(client, settings, model, *words, f"{marker} <mock>say {SAID}</mock>")
    done = desk.run(command, home, environment()).worked()
    assert SAID in done.out
    requests = desk.requests(marker)
    assert {request.body["model"] for request in requests} == {model.partition("/")[2]}
    # Nor does the provider hear of the launch.
    assert "x-dragoman-launch" not in {name for request in requests for name in request.headers}
    after = digests(home)
    assert {name: after[name] for name in before} == before
    # What is ours is in a folder of ours.
    ours = {name for name in after if "dragoman" in name.lower()} - set(before)
    assert not [name for name in ours if not name.startswith(".local/state/dragoman/")]
    # What the run came to is told.
    assert re.search(
        r"^dragoman: \d calls?( \(\d failed\))?, \S+ tokens, (?:[^:]*, )?(no|\d+) loss(es)?.* \(\d+ bookkeeping\)$",
        done.err,
        re.MULTILINE,
    ), done.err


def digests(home: Path) -> dict[str, str]:
    """Every file below a home, with the hash of what is in it."""
    files = [file for file in sorted(home.rglob("*")) if file.is_file()]
    return {str(file.relative_to(home)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_pitfall_644_codex_resumes_by_id_what_was_begun_with_launch(desk: Desk, home: Path, settings: Path) -> None:
    model, flags = desk.model(MESSAGES), ("--skip-git-repo-check", "-c", "check_for_update_on_startup=false")
    first, second = desk.marker(), desk.marker()
    begun = desk.run(
        launch("codex", settings, model, "exec", *flags, f"{first} <mock>say {SAID}</mock>"), home, environment()
    ).worked()
    found = re.search(r"session id: (\S+)", begun.err)
    assert found is not None
    assert "note: codex keeps sessions by provider" in begun.err
    # The gateway of this launch is another one, at another port.
    prompt = f"{second} <mock>say {SAID}</mock>"
    again = desk.run(
        launch("codex", settings, model, "exec", "resume", found[1], *flags, prompt), home, environment()
    ).worked()
    assert "note: codex keeps" not in again.err
    (request,) = desk.requests(second)
    assert first in str(request.body)


# How each client resumes a session by its id without a terminal.
RESUMED: Mapping[str, Callable[[str], tuple[str, ...]]] = {
    "claude": lambda session: ("-p", CLIENTS["claude"].resumes, session),
    "codex": lambda session: ("exec", CLIENTS["codex"].resumes, session, *RUNS["codex"][0][1:]),
    "opencode": lambda session: ("run", CLIENTS["opencode"].resumes, session),
}


@pytest.mark.parametrize("client", RUNS)
def test_a_client_resumes_the_session_that_the_gateway_names(desk: Desk, home: Path, client: str) -> None:
    words, protocol = RUNS[client]
    first, second, model = desk.marker(), desk.marker(), desk.model(protocol)
    ours = [sys.executable, "-m", "dragoman", "launch", client, "--gateway", desk.url, "--name", first]
    ours += ["--model", model, "--context", "100000", "--"]
    given = environment() | {"DRAGOMAN_KEY": desk.key}
    desk.run([*ours, *words, f"{first} <mock>say {SAID}</mock>"], home, given).worked()
    session = launch_of(desk.url, desk.key, first).session
    assert session
    desk.run([*ours, *RESUMED[client](session), f"{second} <mock>say {SAID}</mock>"], home, given).worked()
    assert any(first in str(request.body) for request in desk.requests(second))


@pytest.mark.parametrize(("context", "shown"), [("128k", "128k"), ("40k", "40k")])
def test_claude_code_believes_the_window_that_it_is_told_and_complains_of_nothing(
    desk: Desk, home: Path, settings: Path, context: str, shown: str
) -> None:
    command = launch("claude", settings, desk.model(CHAT), "-p", "/context")
    command[command.index("100000")] = context
    done = desk.run(command, home, environment()).worked()
    assert f"/{shown}" in done.out.replace(" ", "")
    assert "CLAUDE_CODE" not in done.out + done.err
