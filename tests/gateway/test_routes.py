"""Routes: which provider and model a name means, in which order, and what an unknown name is told."""

from __future__ import annotations

import pytest

from dragoman.config.settings import Route, Settings
from dragoman.gateway import routes as module
from dragoman.gateway.routes import Routes, UnknownModel, filled, shown
from dragoman.providers.provider import Endpoint, Provider

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"


def provider(name: str, *protocols: str, models: tuple[str, ...] | None = None, transport: str = "http") -> Provider:
    ends = tuple(Endpoint(protocol=protocol, base_url=f"https://{name}.test") for protocol in protocols)
    return Provider(name=name, endpoints=ends, models=models, transport=transport)


PROVIDERS = {
    one.name: one
    for one in (
        provider("openai", RESPONSES, CHAT, models=("gpt-5.1", "gpt-5.1-mini")),
        provider("anthropic", MESSAGES),
        provider("local", CHAT, models=("qwen3",)),
        provider("echo", CHAT, MESSAGES, RESPONSES, models=("text", "tools"), transport="echo"),
    )
}


def routes(*lines: tuple[str, str], defaults: tuple[tuple[str, str], ...] = ()) -> Routes:
    def read(line: tuple[str, str]) -> Route:
        name, _, model = line[1].partition("/")
        return Route(pattern=line[0], provider=name, model=model)

    return Routes(Settings(providers=PROVIDERS, routes=tuple(map(read, lines)), defaults=tuple(map(read, defaults))))


LINES = (
    ("fast", "openai/gpt-5.1-mini"),
    ("claude-*", "anthropic/*"),
    ("claude-opus-*", "local/big"),
    ("claude-opus-5", "openai/gpt-5.1"),
    ("*-local", "local/*"),
    ("team/*", "local/*"),
    ("local/blessed", "openai/gpt-5.1"),
    ("anthropic/*", "local/never"),
    ("mirror-*", "local/copy-*-x"),
    ("*", "local/fallback"),
)
DEFAULTS = (("gpt-*", "openai/*"), ("o1", "openai/o1"))
AIMS = {
    "a name of the list": ("fast", "openai", "gpt-5.1-mini"),
    "an exact name before every pattern": ("claude-opus-5", "openai", "gpt-5.1"),
    "the pattern with the longest literal prefix": ("claude-opus-4", "local", "big"),
    "a shorter prefix where the longer does not match": ("claude-sonnet-5", "anthropic", "claude-sonnet-5"),
    "a suffix, with a bare star as the whole name": ("phi-local", "local", "phi-local"),
    "a bare star without the pattern's directories": ("team/phi", "local", "phi"),
    "a star inside a target as what it matched": ("mirror-phi", "local", "copy-phi-x"),
    "a star that matched nothing": ("mirror-", "local", "copy--x"),
    "provider/model before every pattern": ("anthropic/claude-opus-4", "anthropic", "claude-opus-4"),
    "provider/model with slashes in the model": ("local/meta/llama:8b", "local", "meta/llama:8b"),
    "provider/model whose model is a star": ("local/*", "local", "*"),
    "provider/model with several stars": ("local/a*b*c", "local", "a*b*c"),
    "an exact name before provider/model": ("local/blessed", "openai", "gpt-5.1"),
    "any other name by the catch-all": ("whatever", "local", "fallback"),
    "the catch-all before the catalogue": ("gpt-5.1", "local", "fallback"),
    "a provider's name without a model by the catch-all": ("local/", "local", "fallback"),
}


@pytest.mark.parametrize("case", AIMS)
def test_a_name_leads_to(case: str) -> None:
    name, wanted, model = AIMS[case]
    aim = routes(*LINES, defaults=DEFAULTS).target(name, CHAT)
    assert (aim.provider.name, aim.model) == (wanted, model)


@pytest.mark.parametrize("order", [1, -1], ids=["as listed", "in the other order"])
def test_the_order_of_the_lines_means_nothing(order: int) -> None:
    found = routes(*LINES[::order], defaults=DEFAULTS)
    for name, wanted, model in AIMS.values():
        aim = found.target(name, CHAT)
        assert (aim.provider.name, aim.model) == (wanted, model), name


@pytest.mark.parametrize(("name", "model"), [("gpt-9", "gpt-9"), ("o1", "o1")])
def test_the_catalogue_is_asked_last(name: str, model: str) -> None:
    aim = routes(defaults=DEFAULTS).target(name, CHAT)
    assert (aim.provider.name, aim.model) == ("openai", model)


def test_prefix_and_suffix_of_a_pattern_do_not_overlap() -> None:
    with pytest.raises(UnknownModel):
        routes(("ab*ba", "local/x")).target("aba", CHAT)
    assert routes(("ab*ba", "local/*")).target("abba", CHAT).model == "abba"


@pytest.mark.parametrize(
    ("pattern", "target", "name", "model"),
    [
        ("*", "*", "a/b", "a/b"),
        ("a/b/*", "*", "a/b/c/d", "c/d"),
        ("a/x-*", "*", "a/x-1", "x-1"),
        ("x-*-y", "pre-*", "x-1-y", "pre-1"),
        ("x-*", "fixed", "x-1", "fixed"),
    ],
)
def test_the_star_is_filled(pattern: str, target: str, name: str, model: str) -> None:
    assert filled(Route(pattern=pattern, provider="p", model=target), name) == model


@pytest.mark.parametrize(("protocol", "endpoint"), [(CHAT, CHAT), (RESPONSES, RESPONSES), (MESSAGES, RESPONSES)])
def test_the_clients_own_protocol_goes_first_then_the_preferred_one(protocol: str, endpoint: str) -> None:
    assert routes().target("openai/gpt-5.1", protocol).endpoint.protocol == endpoint


@pytest.mark.parametrize("wanted", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
def test_the_echo_speaks_the_protocol_that_the_name_asks_for(client: str, wanted: str) -> None:
    aim = routes().target(f"echo/text@{wanted}", client)
    assert (aim.model, aim.endpoint.protocol) == ("text", wanted)


@pytest.mark.parametrize("name", ["echo/text@klingon", "echo/text@openai-chat@x", "echo/text@\x1b[2J"])
def test_the_echo_says_what_it_speaks(name: str) -> None:
    with pytest.raises(UnknownModel, match="it speaks anthropic-messages, openai-chat, openai-responses") as caught:
        routes().target(name, CHAT)
    assert str(caught.value).isprintable()


def test_the_echo_needs_a_model_before_its_protocol() -> None:
    with pytest.raises(UnknownModel):
        routes().target("echo/@openai-chat", CHAT)


def test_a_name_with_an_at_sign_is_whole_elsewhere() -> None:
    assert routes().target("local/llama@openai-chat", CHAT).model == "llama@openai-chat"


def test_an_unknown_name_is_told_its_nearest() -> None:
    with pytest.raises(UnknownModel, match=r"did you mean .*openai/gpt-5\.1"):
        routes().target("openia/gpt-5.1", CHAT)
    with pytest.raises(UnknownModel, match="did you mean fast"):
        routes(*LINES[:2]).target("fsat", CHAT)


def test_a_slip_in_a_providers_name_is_told_the_provider_whatever_the_model() -> None:
    with pytest.raises(UnknownModel, match=r"did you mean openai/some-model\?"):
        routes().target("opnai/some-model", CHAT)


def test_an_unknown_name_without_neighbours_is_told_the_providers() -> None:
    with pytest.raises(UnknownModel, match="openai, anthropic, local, echo"):
        routes().target("zzzzzzzzzzzz", CHAT)


HOSTILE = {
    "line breaks": "a\r\nlevel=error",
    "an escape sequence": "\x1b[31mred\x1b[0m",
    "line separators of Unicode": "a\u2028b\u2029c\u0085d",
    "text that runs backwards": "a\u202eb",
    "a lone surrogate": "a\ud800b",
    "a null": "a\0b",
    "ten million letters": "x" * 10_000_000,
    "ten million stars": "*" * 10_000_000,
    "nothing but slashes": "/" * 1000,
    "nothing": "",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_name_gives_a_short_message_on_one_line(case: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        routes(*LINES[:-1], defaults=DEFAULTS).target(HOSTILE[case], CHAT)
    words = str(caught.value)
    assert words.isprintable()
    assert len(words) < 400


@pytest.mark.parametrize("case", [case for case in HOSTILE if case != "nothing"])
def test_a_hostile_name_behind_a_provider_is_the_providers_to_judge(case: str) -> None:
    found = routes()
    assert found.target(f"local/{HOSTILE[case]}", CHAT).model == HOSTILE[case]
    # What is remembered is bounded in number and in length.
    assert all(len(name) <= module._KNOWN_LENGTH for name, _ in found._known)


def test_names_without_number_do_not_fill_the_memory() -> None:
    found = routes()
    for count in range(2 * module._KNOWN_LIMIT + 10):
        found.target(f"local/m{count}", CHAT)
    assert len(found._known) <= module._KNOWN_LIMIT


def test_the_same_name_leads_clients_of_different_protocols_to_their_own_endpoints() -> None:
    found = routes()
    for protocol in (CHAT, RESPONSES, CHAT, RESPONSES):
        assert found.target("openai/gpt-5.1", protocol).endpoint.protocol == protocol


def test_strictness_comes_with_the_line() -> None:
    line = Route(pattern="careful", provider="local", model="x", strict=True)
    found = Routes(Settings(providers=PROVIDERS, routes=(line,)))
    assert found.target("careful", CHAT).strict
    assert not found.target("local/x", CHAT).strict


def test_listings_name_what_has_no_star() -> None:
    assert routes(*LINES).names() == ["fast", "claude-opus-5", "local/blessed"]


def test_a_shown_name_is_cut() -> None:
    assert shown("a\nb") == "`a?b`"
    assert len(shown("x" * 10_000)) == 122


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.x-v1:0", "inference-profile/eu.x-v1:0"),
        ("arn:aws:bedrock:eu-west-1::foundation-model/x", "foundation-model/x"),
        ("anthropic.claude-v1:0", "anthropic.claude-v1:0"),
        ("arn:odd", "odd"),
    ],
)
def test_a_model_is_shown_without_region_and_account(model: str, told: str) -> None:
    assert routes().target(f"local/{model}", CHAT).shown == told
