"""Names as Claude Code says and shows them: what is looked up, listed and sent on."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.gateway.claude_names import alias, lookup_name, needs_alias, title
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, running, settings_for, whole
from tests.gateway.says import question, tells

PROGRAM = "claude-code/2.1.325"


@pytest.mark.parametrize(
    ("name", "looked_up"),
    [
        ("m", "m"),
        ("claude-opus-5[1m]", "claude-opus-5"),
        ("claude:openai/gpt-5.1", "openai/gpt-5.1"),
        ("claude:openai/gpt-5.1[1m]", "openai/gpt-5.1"),
        ("claude/m", "claude/m"),
        ("m[1m]x", "m[1m]x"),
    ],
)
def test_what_it_adds_is_no_part_of_the_name(name: str, looked_up: str) -> None:
    assert lookup_name(name) == looked_up


def with_lines(port: int) -> Settings:
    lines = (
        RouteConfig(pattern="large", targets=("messages/claude-opus-5[1m]",)),
        RouteConfig(pattern="own[1m]", targets=("chat/own",)),
        RouteConfig(pattern="own", targets=("chat/other",)),
        RouteConfig(pattern="*", targets=("responses/*",)),
    )
    return replace(settings_for(port), routes=lines)


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("messages/claude-opus-5[1m]", "claude-opus-5"),
        ("large", "claude-opus-5"),
        ("large[1m]", "claude-opus-5"),
        ("claude:messages/m", "m"),
    ],
)
def test_pitfall_640_a_name_with_the_window_at_its_end_is_taken_in_requests_and_lines(
    client: str, name: str, sent: str
) -> None:
    with running(lambda _: tells(MESSAGES), with_lines) as house:
        assert house.post(PATHS[client], {**question(client, MESSAGES), "model": name}).status == 200
        assert house.provider.received[0].json()["model"] == sent


def test_a_line_of_that_very_name_goes_before() -> None:
    with running(lambda _: tells(CHAT), with_lines) as house:
        assert house.post(PATHS[CHAT], {**question(CHAT, CHAT), "model": "own[1m]"}).status == 200
        assert house.provider.received[0].json()["model"] == "own"


def test_pitfall_641_claude_code_is_told_of_every_model_by_a_name_that_it_shows() -> None:
    with running(lambda _: whole({"data": []}), with_lines) as house:
        told = house.get("/v1/models", anthropic_version="2023-06-01", user_agent=PROGRAM).json()["data"]
        assert isinstance(told, list)
        models = {str(model["id"]): model for model in told if isinstance(model, dict)}
        assert models["claude:chat/served"]["display_name"] == "served (chat)"
        assert "claude:large" in models
        assert all(name in models for name in ("chat/served", "large"))
        shown = house.get("/v1/models/claude:chat/served", anthropic_version="2023-06-01").json()
        assert shown["id"] == "claude:chat/served"


@pytest.mark.parametrize("program", ["anthropic-sdk/1.0", "codex/1.0", ""])
def test_others_get_every_model_once(program: str) -> None:
    with running(lambda _: whole({"data": []})) as house:
        told = house.get("/v1/models", anthropic_version="2023-06-01", user_agent=program)
        assert b"claude:" not in told.body


def test_a_name_that_it_shows_needs_no_other() -> None:
    assert not needs_alias("anthropic/opus", PROGRAM)
    assert not needs_alias("claude-on-gpt", PROGRAM)
    assert needs_alias("openai/gpt-5.1", PROGRAM)
    assert lookup_name(alias("openai/gpt-5.1")) == "openai/gpt-5.1"
    assert title("fast") == "fast"
