"""What each client is told: that the real ones understand it is proved in tests/clients."""

from __future__ import annotations

import json
import tomllib

import pytest

from dragoman.errors import DragomanError
from dragoman.launching.clients import CLIENTS, LaunchOptions, LaunchPlan, Sizes

URL = "http://127.0.0.1:8484"
FULL = LaunchOptions(
    url=URL, model="openai/gpt-5.1", small_model="local/qwen3", context=32768, others=("echo/text", "gpt")
)


def settings_of(plan: LaunchPlan) -> dict[str, object]:
    """The settings on Codex's command line, read as Codex reads them."""
    assert plan.arguments[::2] == ("-c",) * (len(plan.arguments) // 2)
    return tomllib.loads("\n".join(plan.arguments[1::2]))


def config_of(plan: LaunchPlan) -> dict[str, object]:
    """The configuration in OpenCode's environment."""
    config: dict[str, object] = json.loads(plan.environment["OPENCODE_CONFIG_CONTENT"])
    return config


def test_claude_asks_for_the_models_whatever_it_calls_them() -> None:
    plan = CLIENTS["claude"].plan(FULL)
    assert plan.key_variable == "ANTHROPIC_AUTH_TOKEN"
    assert plan.environment["ANTHROPIC_BASE_URL"] == URL
    models = {name: value for name, value in plan.environment.items() if name.endswith("_MODEL")}
    small = {name for name, value in models.items() if value == "local/qwen3"}
    assert small == {"ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"}
    assert {value for name, value in models.items() if name not in small} == {"openai/gpt-5.1"}
    assert plan.environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "32768"
    assert plan.arguments == ()


def test_claude_keeps_its_own_names_of_models_if_none_is_asked_for() -> None:
    environment = CLIENTS["claude"].plan(LaunchOptions(url=URL)).environment
    assert not [name for name in environment if name.endswith("_MODEL") or "CONTEXT" in name]


def test_one_model_does_the_small_work_too() -> None:
    plan = CLIENTS["claude"].plan(LaunchOptions(url=URL, model="echo/text"))
    assert plan.environment["ANTHROPIC_SMALL_FAST_MODEL"] == "echo/text"
    assert (
        config_of(CLIENTS["opencode"].plan(LaunchOptions(url=URL, model="echo/text")))["small_model"]
        == "dragoman/echo/text"
    )


def test_pitfall_637_claude_has_one_credential_and_does_not_find_a_way_around_the_gateway() -> None:
    assert {"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK"} <= set(CLIENTS["claude"].plan(FULL).removed)


def test_codex_gets_a_provider_on_its_command_line() -> None:
    plan = CLIENTS["codex"].plan(FULL)
    assert settings_of(plan) == {
        "model_provider": "dragoman",
        "model_providers": {
            "dragoman": {
                "name": "Dragoman",
                "base_url": f"{URL}/v1",
                "wire_api": "responses",
                "env_key": "DRAGOMAN_KEY",
                "supports_websockets": False,
            }
        },
        "model": "openai/gpt-5.1",
        "model_context_window": 32768,
    }
    assert plan.key_variable == "DRAGOMAN_KEY"
    assert plan.environment == {}


def test_codex_keeps_its_own_model_if_none_is_asked_for() -> None:
    assert set(settings_of(CLIENTS["codex"].plan(LaunchOptions(url=URL)))) == {"model_provider", "model_providers"}


@pytest.mark.parametrize("name", ['with "quotes"', "back\\slash", "new\nline", "ümläut"])
def test_a_strange_name_of_a_model_stays_what_it_is(name: str) -> None:
    assert settings_of(CLIENTS["codex"].plan(LaunchOptions(url=URL, model=name)))["model"] == name
    assert config_of(CLIENTS["opencode"].plan(LaunchOptions(url=URL, model=name)))["model"] == f"dragoman/{name}"


def test_opencode_gets_a_provider_with_every_known_model() -> None:
    config = config_of(CLIENTS["opencode"].plan(FULL))
    assert (config["model"], config["small_model"]) == ("dragoman/openai/gpt-5.1", "dragoman/local/qwen3")
    providers = config["provider"]
    assert isinstance(providers, dict)
    provider = providers["dragoman"]
    assert provider["options"] == {"baseURL": f"{URL}/v1", "apiKey": "{env:DRAGOMAN_KEY}"}
    assert list(provider["models"]) == ["openai/gpt-5.1", "local/qwen3", "echo/text", "gpt"]
    assert provider["models"]["gpt"]["limit"] == {"context": 32768, "output": 8192}
    assert provider["models"]["gpt"]["reasoning"] is True
    assert "image" in provider["models"]["gpt"]["modalities"]["input"]


# What is known of a model, and what Claude Code is told of it: windows, and how much to ask for.
CLAUDE_TOLD: dict[str, tuple[Sizes, int | None, tuple[str | None, str | None, str | None]]] = {
    "nothing": (Sizes(), None, (None, None, None)),
    "both": (Sizes(window=131_072, cap=16_384), None, ("131072", "131072", "16384")),
    "the window alone": (Sizes(window=400_000), None, ("400000", "400000", None)),
    "a small window": (Sizes(window=32_768), None, ("32768", "100000", "8192")),
    "a window beyond what it summarises": (Sizes(window=2_000_000), None, ("2000000", "1000000", None)),
    "the cap alone": (Sizes(cap=8192), None, (None, None, "8192")),
    "a cap that it would not come to": (Sizes(window=400_000, cap=128_000), None, ("400000", "400000", None)),
    "what the user says": (Sizes(window=400_000, cap=16_384), 128_000, ("128000", "128000", "16384")),
    "what the user alone says": (Sizes(), 32_768, ("32768", "100000", "8192")),
}


@pytest.mark.parametrize("known", CLAUDE_TOLD)
def test_pitfall_638_639_claude_is_told_of_windows_and_of_caps_that_are_less_than_it_would_ask_for(known: str) -> None:
    sizes, context, told = CLAUDE_TOLD[known]
    wish = LaunchOptions(url=URL, model="m", context=context, sizes={"m": sizes})
    environment = CLIENTS["claude"].plan(wish).environment
    assert told == (
        environment.get("CLAUDE_CODE_MAX_CONTEXT_TOKENS"),
        environment.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW"),
        environment.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS"),
    )


def test_claude_has_one_limit_for_all_of_its_models() -> None:
    sizes = {"m": Sizes(window=200_000, cap=16_000), "s": Sizes(window=32_768, cap=4096)}
    environment = CLIENTS["claude"].plan(LaunchOptions(url=URL, model="m", small_model="s", sizes=sizes)).environment
    assert environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "4096"
    assert environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "200000"


def test_pitfall_645_codex_is_told_of_the_window_that_is_known() -> None:
    wish = LaunchOptions(url=URL, model="m", sizes={"m": Sizes(window=131_072, cap=16_384)})
    assert settings_of(CLIENTS["codex"].plan(wish))["model_context_window"] == 131_072
    unknown = LaunchOptions(url=URL, model="m", sizes={"m": Sizes(cap=16_384), "another": Sizes(window=5)})
    assert "model_context_window" not in settings_of(CLIENTS["codex"].plan(unknown))


def test_opencode_gets_a_limit_for_every_model() -> None:
    sizes = {
        "m": Sizes(window=200_000, cap=64_000),
        "s": Sizes(window=32_768),
        "c": Sizes(cap=4096),
        "w": Sizes(window=8192, cap=8192),
        "small cap": Sizes(window=128_000, cap=16_384),
        "tiny": Sizes(cap=1),
    }
    wish = LaunchOptions(url=URL, model="m", small_model="s", others=(*sizes, "unknown"), sizes=sizes)
    providers = config_of(CLIENTS["opencode"].plan(wish))["provider"]
    assert isinstance(providers, dict)
    models = providers["dragoman"]["models"]
    assert {name: model.get("limit") for name, model in models.items()} == {
        "m": {"context": 200_000, "output": 64_000},
        "s": {"context": 32_768, "output": 8192},
        "c": {"context": 0, "output": 2730},
        "w": {"context": 8192, "output": 2048},
        "small cap": {"context": 128_000, "output": 10_922},
        "tiny": {"context": 0, "output": 1},
        "unknown": {"context": 0, "output": 21_333},
    }
    # A title gets a thinking budget of half of that, which Messages takes from 1024 on.
    assert [name for name, model in models.items() if not model["reasoning"]] == ["w", "tiny"]


def test_the_name_of_a_launch_is_a_header_of_every_client() -> None:
    wish = LaunchOptions(url=URL, model="m", launch="one")
    plans = {name: client.plan(wish) for name, client in CLIENTS.items()}
    assert plans["claude"].environment["ANTHROPIC_CUSTOM_HEADERS"] == "x-dragoman-launch: one"
    providers = settings_of(plans["codex"])["model_providers"]
    assert isinstance(providers, dict)
    assert providers["dragoman"]["http_headers"] == {"x-dragoman-launch": "one"}
    providers = config_of(plans["opencode"])["provider"]
    assert isinstance(providers, dict)
    assert providers["dragoman"]["options"]["headers"] == {"x-dragoman-launch": "one"}


@pytest.mark.parametrize("name", CLIENTS)
def test_who_starts_a_client_by_hand_gets_no_name_that_would_stay(name: str) -> None:
    plan = CLIENTS[name].plan(FULL)
    assert "x-dragoman-launch" not in str((plan.environment, plan.arguments))


def test_claude_says_which_session_and_subagent_a_request_is_of() -> None:
    assert CLIENTS["claude"].plan(FULL).environment["CLAUDE_CODE_GATEWAY_HINT_HEADERS"] == "1"


def test_pitfall_643_tool_search_is_left_to_claude_which_has_it_on_by_itself() -> None:
    assert not [name for name in CLIENTS["claude"].plan(FULL).environment if "TOOL_SEARCH" in name]


def test_opencodes_configuration_in_the_environment_is_kept_below_ours() -> None:
    own = {"theme": "dark", "model": "mine/m", "provider": {"mine": {"name": "Mine"}, "dragoman": {"name": "Other"}}}
    wish = LaunchOptions(url=URL, model="m", own={"OPENCODE_CONFIG_CONTENT": json.dumps(own)})
    config = config_of(CLIENTS["opencode"].plan(wish))
    assert (config["theme"], config["model"]) == ("dark", "dragoman/m")
    # What its files say of its own agents would go before the model.
    assert config["agent"] == {"build": {"model": "dragoman/m"}, "plan": {"model": "dragoman/m"}}
    providers = config["provider"]
    assert isinstance(providers, dict)
    assert (providers["mine"], providers["dragoman"]["name"]) == ({"name": "Mine"}, "Dragoman")


def test_a_configuration_that_cannot_be_read_is_told() -> None:
    with pytest.raises(DragomanError, match="OPENCODE_CONFIG_CONTENT holds no JSON"):
        CLIENTS["opencode"].plan(LaunchOptions(url=URL, model="m", own={"OPENCODE_CONFIG_CONTENT": "{"}))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_is_known_by_the_name_of_its_program(name: str) -> None:
    client = CLIENTS[name]
    assert client.name == client.program == name
    assert client.remedy == f"install it: npm install -g {client.package}"
