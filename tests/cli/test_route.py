"""`dragoman route` in front of a gateway that runs, and where none does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.cli.route import as_text
from dragoman.cli.terminal import OutputScreen
from dragoman.config.settings import RouteConfig, Settings
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.registry import PROTOCOL_NAMES
from tests.cli.screens import piped
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROVIDER_KEY,
    Received,
    Reply,
    running,
    settings_for,
    whole,
)
from tests.gateway.says import question, tells
from tests.ports import CLOSED_PORT

KEY = "dk-0123456789abcdefghijklmnopqrstuvwxyz"
FILE = """
[server]
port = {port}
discover = false
[providers.near]
protocol = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
auth = "none"
[models]
"two" = ["near/gpt-5.1", "near/none-such"]
"threads" = {{ to = "near/a", rules = [
  {{ when = {{ client = "claude-code", thread = "subagent" }}, to = "near/b" }},
] }}
"words" = {{ to = "near/a", rules = [{{ when = {{ thread = "other:polish" }}, to = "near/b" }}] }}
"ruled" = {{ to = "near/a", rules = [{{ when = {{ client = "codex" }}, to = "near/b" }}] }}
"""


def asked(place: Path, *words: str, key: str = "", said: str = "") -> tuple[int, str, str]:
    """Run the command: exit status and what was said."""
    return piped(["route", *words], place, {"DRAGOMAN_KEY": key}, stdin=said.encode())


def settings_with(*keys: str) -> Callable[[int], Settings]:
    """Settings of a gateway with the line `two`."""
    line = RouteConfig(pattern="two", targets=("chat/m", "messages/m"))
    return lambda port: replace(settings_for(port, keys=keys), routes=(line,))


@pytest.fixture
def config(tmp_path: Path) -> str:
    port = CLOSED_PORT
    file = tmp_path / "mine.toml"
    file.write_text(FILE.format(port=port))
    file.chmod(0o600)
    return str(file)


def test_the_gateway_that_runs_is_asked_and_no_provider(tmp_path: Path) -> None:
    with running((), settings_with()) as house:
        status, out, err = asked(tmp_path, "two", "--gateway", house.url)
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == "two -> chat/m (fallback): it is the first target of the route"
        assert lines[2] == f"planned by the gateway at {house.url}"
        assert lines[4].split()[:3] == ["TARGET", "PRICE", "TTFT"]
        assert [line.split()[:2] for line in lines[5:]] == [["1", "chat/m"], ["2", "messages/m"]]
        body = json.dumps({"model": "any", "input": "Hello."})
        status, out, err = asked(tmp_path, "two", "-", "--json", "--gateway", house.url, said=body)
        assert (status, err) == (0, "")
        told = json.loads(out)
        assert (told["model"], told["client_protocol"], told["measured"]) == ("two", "openai-responses", True)
        assert not house.provider.received and PROVIDER_KEY not in out


def test_what_the_gateway_has_measured_is_shown(tmp_path: Path) -> None:
    def answers(received: Received) -> Reply:
        return tells(CHAT) if received.json()["model"] == "m" else broken()

    with running(answers, settings_with()) as house:
        assert house.post(PATHS[CHAT], question(CHAT, CHAT) | {"model": "chat/m"}).status == 200
        assert house.post(PATHS[CHAT], question(CHAT, CHAT) | {"model": "chat/gone"}).status == 500
        for model, standing in (("chat/m", "healthy"), ("chat/gone", "suspect for ")):
            status, out, err = asked(tmp_path, model, "--gateway", house.url)
            assert (status, err) == (0, "")
            shown = dict(zip(*(line.split("\t") for line in out.splitlines()[4:6]), strict=True))
            assert shown["HEALTH"].startswith(standing)
        status, out, err = asked(tmp_path, "chat/m", "--gateway", house.url)
        shown = dict(zip(*(line.split("\t") for line in out.splitlines()[4:6]), strict=True))
        assert shown["TTFT"].endswith(" s") and shown["AGE"].endswith(" s")
        assert shown["SUCCESS"] == "100%"


def broken() -> Reply:
    return whole({"error": {"message": "broken"}}, 500)


def test_a_gateway_with_keys_is_asked_with_one(tmp_path: Path) -> None:
    with running((), settings_with(KEY)) as house:
        status, out, err = asked(tmp_path, "two", "--gateway", house.url)
        assert (status, out) == (1, "")
        assert "a gateway key is required: set DRAGOMAN_KEY" in err
        assert asked(tmp_path, "two", "--gateway", house.url, key=KEY)[0] == 0
        status, _, err = asked(tmp_path, "nobody/x", "--gateway", house.url, key=KEY)
        assert status == 1 and "`nobody/x` is not known here" in err


def test_without_a_gateway_it_plans_from_the_configuration_and_says_so(config: str, tmp_path: Path) -> None:
    status, out, err = asked(tmp_path, "two", "--config", config)
    assert (status, err) == (0, "")
    assert "without measurements" in out.splitlines()[2]
    status, out, err = asked(tmp_path, "two", "--config", config, "--json", "--protocol", MESSAGES)
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert (told["client_protocol"], told["measured"], told["gateway"]) == (MESSAGES, False, None)
    assert [row["target"] for row in told["candidates"]] == ["near/gpt-5.1", "near/none-such"]


@pytest.mark.parametrize("protocol", list(PROTOCOL_NAMES))
def test_a_small_request_is_assumed_in_every_protocol(protocol: str, config: str, tmp_path: Path) -> None:
    status, out, err = asked(tmp_path, "two", "--config", config, "--json", "--protocol", protocol)
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert told["client_protocol"] == protocol and 0 < told["bytes"] < 1000


def test_a_client_has_its_rules(config: str, tmp_path: Path) -> None:
    status, out, _ = asked(tmp_path, "ruled", "--config", config, "--client", "codex/1.2")
    assert status == 0
    assert out.splitlines()[:2] == [
        "ruled -> near/b (fallback): it is the only target left",
        "by the rule ruled#0",
    ]


@pytest.mark.parametrize(
    ("thread", "chosen"), [("other:polish", "near/b"), ("other:title", "near/a"), ("other", "near/a")]
)
def test_a_class_that_a_client_made_up_has_its_rules(thread: str, chosen: str, config: str, tmp_path: Path) -> None:
    status, out, err = asked(tmp_path, "words", "--config", config, "--thread", thread)
    assert (status, err) == (0, "")
    assert out.startswith(f"words -> {chosen} (")


@pytest.mark.parametrize("thread", ["nonesuch", "other:", "main:x"])
def test_what_is_no_class_is_refused(thread: str, config: str, tmp_path: Path) -> None:
    status, out, err = asked(tmp_path, "words", "--config", config, "--thread", thread)
    assert (status, out) == (2, "")
    assert "argument --thread" in err
    assert "is unknown" in err


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (("--client", "claude-cli/2.1", "--thread", "subagent"), "near/b"),
        (("--client", "claude-cli/2.1"), "near/a"),
        (("--client", "other/1", "--thread", "subagent"), "near/a"),
    ],
)
def test_a_class_of_threads_has_its_rules(words: tuple[str, ...], chosen: str, config: str, tmp_path: Path) -> None:
    body = json.dumps(
        {
            "model": "x",
            "max_tokens": 9,
            "system": "x" * 20_000,
            "tools": [{"name": "Bash", "input_schema": {"type": "object"}}],
            "messages": [{"role": "user", "content": "Hello."}],
        }
    )
    status, out, err = asked(tmp_path, "threads", "-", "--config", config, "--protocol", MESSAGES, *words, said=body)
    assert (status, err) == (0, "")
    assert out.startswith(f"threads -> {chosen} (")
    kind = "subagent" if "--thread" in words else "main"
    assert (f"of claude-code, a thread of the class {kind}\n" in out) == ("claude-cli/2.1" in words)


@pytest.mark.parametrize(
    ("words", "said", "problem"),
    [
        (("nothing/such",), "", "is not known here"),
        (("two", "-"), "{}", "a request in one of the three protocols"),
        (("two", "absent.json"), "", "absent.json"),
        (("two", "--gateway", "http://127.0.0.1:1"), "", "no gateway is running at http://127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_told(words: tuple[str, ...], said: str, problem: str, config: str, tmp_path: Path) -> None:
    status, out, err = asked(tmp_path, *words, "--config", config, said=said)
    assert (status, out) == (1, "")
    assert problem in err


SCREEN = OutputScreen(terminal=True, width=120)


def test_numbers_are_shown_and_nothing_commands_the_terminal() -> None:
    speed: JsonObject = {
        "first_token": 0.25,
        "tokens_per_second": 80.0,
        "success_rate": 0.5,
        "age": 12.4,
        "samples": 3,
    }
    told: JsonObject = {
        "model": "a\x1b[2J",
        "policy": "fastest",
        "chosen": "p/m",
        "because": "its response is expected first",
        "client_protocol": CHAT,
        "bytes": 8,
        "tokens": 2,
        "rules": [],
        "candidates": [
            {"target": "p/m", "place": 1, "nano_dollars": 12_000, "speed": speed, "health": "healthy", "losses": 0},
            {
                "target": "q/\x1bm",
                "place": None,
                "health": "cooldown",
                "seconds": 4.5,
                "left_out": {"filter": "cooldown", "why": "in cooldown"},
            },
        ],
    }
    text = as_text(told, SCREEN)
    assert "\x1b" not in text
    first, second = text.splitlines()[-2:]
    assert first.split() == ["1", "p/m", "$0.000012", "0.25", "s", "80", "50%", "12", "s", "0", "?", "healthy"]
    assert second.endswith("cooldown for 4.5 s  left out: in cooldown")


def test_a_decision_with_all_its_figures_fits_a_terminal() -> None:
    speed: JsonObject = {"first_token": 0.0025, "tokens_per_second": 37448.16, "success_rate": 1.0, "age": 86400.0}
    row: JsonObject = {
        "target": "provider/claude-sonnet-4-5",
        "place": 1,
        "nano_dollars": 12_345,
        "health": "healthy",
    }
    row |= {"speed": speed, "losses": 1, "window": 1_000_000}
    told: JsonObject = {"model": "m", "policy": "fastest", "because": "it is fast", "candidates": [row]}
    lines = as_text(told, OutputScreen(terminal=True, width=80)).splitlines()
    assert max(map(len, lines)) <= 80
    assert "$0.000012345  0.0025 s     37448     100%  86400 s       1    1.0M" in "\n".join(lines)
    assert as_text(told, OutputScreen()).splitlines()[-1].split("\t")[-3:] == ["1000000", "healthy", ""]


@pytest.mark.parametrize("columns", [80, 140])
def test_a_decision_fits_a_terminal_and_reasons_stand_below_where_there_is_no_room(columns: int) -> None:
    row: JsonObject = {
        "target": "cerebras/a-model-with-a-long-name-of-70b",
        "place": 2,
        "health": "suspect",
        "seconds": 7,
        "deprioritized": {"why": "failed 3 s ago, and others did not"},
    }
    told: JsonObject = {"model": "m", "policy": "fastest", "because": "of " * 40, "candidates": [row]}
    lines = as_text(told, OutputScreen(terminal=True, width=columns)).splitlines()
    assert max(map(len, lines)) <= columns
    text = " ".join(" ".join(lines).split())
    assert "suspect for 7 s" in text and "failed 3 s ago" in text
    assert lines[-1].startswith("      ") is (columns == 80)


def test_another_kind_of_answer_does_not_break_it() -> None:
    assert "TARGET" in as_text({}, SCREEN)
    assert "TARGET" in as_text({"candidates": 5, "rules": "x"}, SCREEN)
