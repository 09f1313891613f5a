"""`[providers]`: what the file says, what the catalogue knows and what the environment holds, put together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dragoman.config.load import read_settings
from dragoman.config.providers import has_credentials, option_names
from dragoman.providers.catalogue import read
from dragoman.providers.provider import Endpoint, Provider
from dragoman.rules.capabilities import CapabilityRow
from tests.config.support import CATALOGUE, SECRET, A, C, R, named, problems_of, settings_of


def one(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> Provider:
    """The first provider of a text."""
    return next(iter(settings_of(tmp_path, text, environ).providers.values()))


def endpoints(**addresses: str) -> tuple[Endpoint, ...]:
    """Endpoints by the letter of their protocol."""
    names = {"a": A, "c": C, "r": R}
    return tuple(Endpoint(protocol=names[letter], base_url=url) for letter, url in addresses.items())


def listed(name: str) -> tuple[Endpoint, ...]:
    """The endpoints that the catalogue has for a name."""
    return tuple(Endpoint(protocol=at.protocol, base_url=at.base_url) for at in CATALOGUE[name].endpoints)


def test_a_name_from_the_catalogue_needs_its_key_alone(tmp_path: Path) -> None:
    found = one(tmp_path, '[providers.openai]\napi_key = "$MY"\n', {"MY": "sk-1"})
    assert found.endpoints == listed("openai")
    assert (found.keys, found.auth, found.counts_tokens) == (("sk-1",), "", True)
    assert found.capabilities == CATALOGUE["openai"].capabilities


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "OPENAI_KEY"])
def test_its_environment_variable_is_used_if_the_key_is_left_out(tmp_path: Path, variable: str) -> None:
    assert one(tmp_path, "[providers.openai]\n", {variable: "sk-1"}).keys == ("sk-1",)


def test_several_keys_take_turns_and_each_counts_once(tmp_path: Path) -> None:
    text = '[providers.openai]\napi_key = ["$A", "${B}", "sk-3", "$A", "$$4"]\n'
    assert one(tmp_path, text, {"A": "sk-1", "B": "sk-2"}).keys == ("sk-1", "sk-2", "sk-3", "$4")


def test_a_local_server_of_the_catalogue_needs_an_empty_table(tmp_path: Path) -> None:
    found = one(tmp_path, "[providers.ollama]\n")
    assert (found.auth, found.keys, found.endpoints) == ("none", (), listed("ollama"))


def test_a_local_server_may_want_a_key(tmp_path: Path) -> None:
    found = one(tmp_path, '[providers.ollama]\napi_key = "sk-1"\n')
    assert (found.auth, found.keys) == ("", ("sk-1",))


def test_anything_else_says_what_it_speaks_and_where_it_is(tmp_path: Path) -> None:
    text = """
[providers.local]
protocol = "openai-chat"
base_url = "http://127.0.0.1:8000/v1/"
api_key = "none"
auth = "bearer"
headers = { X-Team = "$TEAM", x-plain = "two words" }
vendor = "deepseek"
streaming = "always"
models = ["m", "n"]
include_usage = true
counts_tokens = true
stores_responses = false
concurrency = 3
queue_size = 0
queue_timeout = "5 s"
health_check_interval = "1 min"
[[providers.local.capabilities]]
protocol = "openai-chat"
set = { images = false }
"""
    assert one(tmp_path, text, {"TEAM": "blue"}) == Provider(
        name="local",
        endpoints=endpoints(c="http://127.0.0.1:8000/v1"),
        auth="none",
        headers={"x-team": "blue", "x-plain": "two words"},
        vendor="deepseek",
        streaming="always",
        models=("m", "n"),
        include_usage=True,
        counts_tokens=True,
        stores_responses=False,
        concurrency=3,
        queue_size=0,
        queue_timeout=5.0,
        health_check_interval=60.0,
        capabilities=(CapabilityRow(protocol=C, changes={"images": False}),),
    )


def test_this_machine_needs_no_key_unless_there_is_one(tmp_path: Path) -> None:
    text = '[providers.local]\nprotocol = "openai-chat"\nbase_url = "http://localhost:1/v1"\n'
    assert one(tmp_path, text).auth == "none"
    assert one(tmp_path, text + 'api_key = "sk-1"\n').keys == ("sk-1",)


def test_one_address_serves_both_makers_if_it_ends_in_v1(tmp_path: Path) -> None:
    text = '[providers.x]\nprotocol = ["anthropic-messages", "openai-chat"]\napi_key = "k"\nbase_url = "https://x/v1"\n'
    assert one(tmp_path, text).endpoints == endpoints(a="https://x", c="https://x/v1")
    (told,) = problems_of(tmp_path, text.replace("/v1", ""))
    assert told.startswith("4: providers.x.base_url: is one address for protocols of two makers")


def test_addresses_of_the_catalogue_move_to_another_host_together(tmp_path: Path) -> None:
    text = '[providers.docker]\nbase_url = "http://box:2/engines/v1"\n'
    assert one(tmp_path, text).endpoints == endpoints(c="http://box:2/engines/v1", a="http://box:2/anthropic")
    text = '[providers.ollama]\nbase_url = "http://box:3/v1"\n'
    assert one(tmp_path, text).endpoints == endpoints(c="http://box:3/v1", a="http://box:3")


def test_addresses_by_protocol_replace_those_of_the_catalogue(tmp_path: Path) -> None:
    text = '[providers.openai]\napi_key = "k"\n[providers.openai.base_url]\nopenai-chat = "https://proxy/v1"\n'
    expected = endpoints(r="https://api.openai.example/v1", c="https://proxy/v1")
    assert one(tmp_path, text).endpoints == expected


def test_the_preferred_protocol_comes_first_and_others_stay_away(tmp_path: Path) -> None:
    text = '[providers.openai]\napi_key = "k"\nprotocol = "openai-chat"\n'
    assert [endpoint.protocol for endpoint in one(tmp_path, text).endpoints] == [C]
    text = '[providers.openai]\napi_key = "k"\nprotocol = ["openai-chat", "openai-responses"]\n'
    assert [endpoint.protocol for endpoint in one(tmp_path, text).endpoints] == [C, R]


ASKING = {
    "a service that takes it": ('[providers.knows]\napi_key = "k"\n', True),
    "the same at another address": ('[providers.knows]\napi_key = "k"\nbase_url = "https://proxy.example/v1"\n', False),
    "a local server that takes it": ("[providers.near]\n", True),
    "the same at another address of its own": ('[providers.near]\nbase_url = "http://10.0.0.5:9/v1"\n', True),
    "one of which nobody knows": ('[providers.silent]\napi_key = "k"\n', False),
    "what the file says": ('[providers.silent]\napi_key = "k"\ninclude_usage = true\n', True),
    "what the file says not": ("[providers.near]\ninclude_usage = false\n", False),
}
KNOWING = """
[knows]
title = "Knows"
source = "https://knows.example/docs"
endpoints = [{ protocol = "openai-chat", base_url = "https://knows.example/v1" }]
include_usage = "https://knows.example/docs/usage"
[near]
title = "Near"
source = "https://near.example/docs"
auth = "none"
vendor = "knows"
endpoints = [{ protocol = "openai-chat", base_url = "http://127.0.0.1:9/v1" }]
[silent]
title = "Silent"
source = "https://silent.example/docs"
endpoints = [{ protocol = "openai-chat", base_url = "https://silent.example/v1" }]
"""


@pytest.mark.parametrize("case", ASKING)
def test_usage_is_asked_for_where_it_is_known_to_be_taken(tmp_path: Path, case: str) -> None:
    text, asks = ASKING[case]
    path = tmp_path / "dragoman.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    settings = read_settings(named(path), {}, read(KNOWING))
    (found,) = (provider for provider in settings.providers.values() if provider.transport != "echo")
    assert found.include_usage is asks


def test_another_address_is_not_the_maker_itself(tmp_path: Path) -> None:
    assert one(tmp_path, '[providers.anthropic]\napi_key = "k"\n').anthropic
    assert not one(tmp_path, '[providers.anthropic]\napi_key = "k"\nbase_url = "https://proxy"\n').anthropic


def test_options_come_from_the_file_then_from_the_environment(tmp_path: Path) -> None:
    environ = {"AZURE_API_KEY": "sk-1", "AZURE_RESOURCE": "env", "OPENAI_API_VERSION": "2025-01-01"}
    assert one(tmp_path, "[providers.azure]\n", environ).options == {"resource": "env", "api_version": "2025-01-01"}
    text = '[providers.azure]\nresource = "file"\napi_version = "$V"\n'
    assert one(tmp_path, text, {**environ, "V": "v1"}).options == {"resource": "file", "api_version": "v1"}


def test_an_address_of_its_own_needs_no_option_of_the_catalogues(tmp_path: Path) -> None:
    text = '[providers.azure]\napi_key = "k"\nbase_url = "https://proxy.example"\n'
    assert one(tmp_path, text).options == {}


def test_a_cloud_that_finds_its_credentials_alone_takes_a_key_if_there_is_one(tmp_path: Path) -> None:
    environ = {"BEDROCK_TOKEN": "token", "BEDROCK_REGION": "eu-1"}
    found = one(tmp_path, "[providers.bedrock]\n", environ)
    assert (found.auth, found.keys, found.options) == ("", ("token",), {"region": "eu-1"})
    found = one(tmp_path, '[providers.bedrock]\napi_key = "other"\n', environ)
    assert (found.auth, found.keys) == ("", ("other",))


def test_a_second_one_of_a_cloud_has_a_name_of_its_own(tmp_path: Path) -> None:
    found = one(tmp_path, '[providers.europe]\ntransport = "azure"\nresource = "eu"\napi_key = "k"\n')
    assert (found.name, found.vendor_or_name, found.options) == ("europe", "openai", {"resource": "eu"})
    assert found.endpoints == listed("azure")


def test_a_key_in_clear_text_must_be_accepted(tmp_path: Path) -> None:
    text = '[providers.x]\nprotocol = "openai-chat"\nbase_url = "http://10.0.0.5/v1"\n'
    (told,) = problems_of(tmp_path, f'{text}api_key = "{SECRET}"\n')
    assert told == (
        "3: providers.x.base_url: sends the key in clear text (use https://, "
        "or accept it with allow_plaintext_key = true)"
    )
    (told,) = problems_of(tmp_path, f'{text}api_key = "none"\nheaders = {{ Authorization = "{SECRET}" }}\n')
    assert "clear text" in told
    assert one(tmp_path, f'{text}api_key = "k"\nallow_plaintext_key = true\n').keys == ("k",)
    assert one(tmp_path, f'{text}api_key = "none"\n').auth == "none"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            '[providers.openai]\napi_key = ["$NOPE", "$NEITHER", "none"]\n',
            ['2: providers.openai.api_key: has "none" among several keys (leave it out)'],
        ),
        (
            f'[providers.openai]\napi_key = "{SECRET} "\n',
            ["2: providers.openai.api_key: holds a character that no key"],
        ),
        ("[providers.openai]\napi_key = 12345678\n", ["2: providers.openai.api_key: expected a string or a"]),
        (
            f'[providers.openai]\napi_key = "{SECRET}"\nauth = "none"\n',
            ['3: providers.openai.auth: is "none", but there is an api_key (leave out one of them)'],
        ),
        (
            f'[providers.openai]\napi_kee = "{SECRET}"\n',
            [
                "1: providers.openai.api_key: the environment variable OPENAI_API_KEY is not set (export OPENAI_API",
                "2: providers.openai.api_kee: is not a known key (did you mean api_key?)",
            ],
        ),
        (
            "[providers.opnai]\n",
            [
                "1: providers.opnai.protocol: is missing (name what it speaks: anthropic-messages, openai-chat, "
                "openai-responses, or did you mean [providers.openai] of the catalogue?)",
                "1: providers.opnai.base_url: is missing",
                "1: providers.opnai.api_key: is missing",
            ],
        ),
        (
            '[providers.x]\nprotocol = "opnai-chat"\nbase_url = "example.org"\napi_key = "none"\n',
            [
                "2: providers.x.protocol: expected one of anthropic-messages, openai-chat, openai-responses, got",
                "3: providers.x.base_url: expected an address with http:// or https://, got another",
            ],
        ),
        (
            f'[providers.x]\nprotocol = "openai-chat"\nbase_url = "https://u:{SECRET}@x/v1"\napi_key = "none"\n',
            ["3: providers.x.base_url: expected an address without credentials, got some (put the key into api_key)"],
        ),
        (
            '[providers.x]\nprotocol = ["openai-chat", "openai-responses"]\napi_key = "none"\n'
            'base_url = { openai-chat = "https://x/v1" }\n',
            ["4: providers.x.base_url: has no address for openai-responses"],
        ),
        (
            '[providers.x]\nprotocol = "openai-chat"\nbase_url = "https://x/v1"\n',
            ['1: providers.x.api_key: is missing (write api_key = "$NAME", or api_key = "none" if it needs none)'],
        ),
        (
            f'[providers.openai]\napi_key = "{SECRET}"\nheaders = {{ x-a = "{SECRET}\\n", x-b = "$NOPE" }}\n',
            [
                "3: providers.openai.headers: x-a holds a character that no header can carry",
            ],
        ),
        (
            f'[providers.azure]\napi_key = "{SECRET}"\nresource = 1\nregion = "x"\n',
            [
                "3: providers.azure.resource: expected a string, got an integer",
                "4: providers.azure.region: is not a known key",
            ],
        ),
        (f'[providers."a/b"]\napi_key = "{SECRET}"\n', ['1: providers."a/b": cannot name a provider', "", ""]),
        (
            f'[providers.openai]\napi_key = "{SECRET}"\nauth = "aws"\n',
            ["3: providers.openai.auth: 'aws' is unknown to transport 'http'"],
        ),
        (
            '[providers.echo]\nprotocol = "x"\nmodels = "y"\n',
            ["2: providers.echo.protocol: ", "3: providers.echo.models"],
        ),
        (
            f'[providers.openai]\napi_key = "{SECRET}"\nhealth_check_interval = "30"\n',
            ["3: providers.openai.health_check_interval: expected a duration"],
        ),
        (
            f'[providers.openai]\napi_key = "{SECRET}"\nhealth_check_interval = "0.5 s"\n',
            [
                '3: providers.openai.health_check_interval: expected a duration from 1 s to 168 h, got "0.5 s" '
                "(example: health_check_interval ="
            ],
        ),
        (
            f'[providers.openai]\napi_key = "{SECRET}"\nqueue_size = 8\nqueue_timeout = "5 s"\n',
            [
                "3: providers.openai.queue_size: needs concurrency: without a limit no call waits "
                "(set concurrency, for example concurrency = 64, or leave it out)",
                "4: providers.openai.queue_timeout: needs concurrency",
            ],
        ),
        (
            # Also of a provider that lacks its key; a limit that cannot be read is no limit that was forgotten.
            "[providers.openai]\nqueue_size = 8\n[providers.anthropic]\nconcurrency = 0\nqueue_size = 8\n",
            [
                "1: ",
                "2: providers.openai.queue_size: needs concurrency",
                "3: ",
                "4: providers.anthropic.concurrency: expected",
            ],
        ),
        (
            '[providers.bedrock]\nregion = "us-east-1"\nhealth_check_interval = "30 s"\n',
            [
                "3: providers.bedrock.health_check_interval: needs a list of models, which the transport bedrock "
                "does not have (leave it out: a target in cooldown is probed when the cooldown ends)"
            ],
        ),
        ('[providers]\nopenai = "x"\n', ["2: providers.openai: expected a table, got a string"]),
    ],
)
def test_what_cannot_be_used_is_told_with_its_line_and_a_remedy(tmp_path: Path, text: str, problems: list[str]) -> None:
    told = problems_of(tmp_path, text)
    assert [line[: len(start)] for line, start in zip(told, problems, strict=True)] == problems


def test_options_belong_to_those_who_take_them() -> None:
    assert option_names(None) == option_names(CATALOGUE["openai"]) == ()
    assert option_names(CATALOGUE["azure"]) == ("resource", "api_version")


def test_headers_that_carry_a_key_are_known() -> None:
    assert has_credentials(["x-team", "Authorization"])
    assert not has_credentials(["x-team"])
