"""Routes: which provider and model a name means, in which order, and what an unknown name is told."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, RouteRule, Settings
from dragoman.gateway import model_resolver as module
from dragoman.gateway.advice import printable
from dragoman.gateway.model_resolver import ModelResolver, UnknownModel, filled
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.route import Route, RuleCondition
from dragoman.routing.target import Target
from tests.gateway.routed import target_of

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


def routes(*lines: tuple[str, str], defaults: tuple[tuple[str, str], ...] = ()) -> ModelResolver:
    def read(line: tuple[str, str]) -> RouteConfig:
        return RouteConfig(pattern=line[0], targets=line[1:])

    return ModelResolver(
        Settings(providers=PROVIDERS, routes=tuple(map(read, lines)), defaults=tuple(map(read, defaults)))
    )


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
    target = target_of(routes(*LINES, defaults=DEFAULTS), name, CHAT)
    assert (target.provider.name, target.model) == (wanted, model)


@pytest.mark.parametrize("order", [1, -1], ids=["as listed", "in the other order"])
def test_the_order_of_the_lines_means_nothing(order: int) -> None:
    found = routes(*LINES[::order], defaults=DEFAULTS)
    for name, wanted, model in AIMS.values():
        target = target_of(found, name, CHAT)
        assert (target.provider.name, target.model) == (wanted, model), name


@pytest.mark.parametrize(("name", "model"), [("gpt-9", "gpt-9"), ("o1", "o1")])
def test_the_catalogue_is_asked_last(name: str, model: str) -> None:
    target = target_of(routes(defaults=DEFAULTS), name, CHAT)
    assert (target.provider.name, target.model) == ("openai", model)


def test_prefix_and_suffix_of_a_pattern_do_not_overlap() -> None:
    with pytest.raises(UnknownModel):
        target_of(routes(("ab*ba", "local/x")), "aba", CHAT)
    assert target_of(routes(("ab*ba", "local/*")), "abba", CHAT).model == "abba"


@pytest.mark.parametrize(
    ("pattern", "target", "name", "model"),
    [
        ("*", "*", "a/b", "a/b"),
        ("a/b/*", "*", "a/b/c/d", "c/d"),
        ("a/x-*", "*", "a/x-1", "x-1"),
        ("x-*-y", "pre-*", "x-1-y", "pre-1"),
        ("x-*", "fixed", "x-1", "fixed"),
        ("a/x-*", "*@openai-chat", "a/x-1", "x-1@openai-chat"),
        ("x-*", "pre-*@openai-chat", "x-1", "pre-1@openai-chat"),
        ("x-*", "*@8b", "x-1", "1@8b"),
    ],
)
def test_the_star_is_filled(pattern: str, target: str, name: str, model: str) -> None:
    assert filled(pattern, target, name) == model


@pytest.mark.parametrize(("protocol", "endpoint"), [(CHAT, CHAT), (RESPONSES, RESPONSES), (MESSAGES, RESPONSES)])
def test_the_clients_own_protocol_goes_first_then_the_preferred_one(protocol: str, endpoint: str) -> None:
    assert target_of(routes(), "openai/gpt-5.1", protocol).endpoint.protocol == endpoint


@pytest.mark.parametrize("wanted", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
def test_the_echo_speaks_the_protocol_that_the_name_asks_for(client: str, wanted: str) -> None:
    target = target_of(routes(), f"echo/text@{wanted}", client)
    assert (target.model, target.endpoint.protocol) == ("text", wanted)


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
def test_the_echo_prefers_one_protocol_whatever_the_clients(client: str) -> None:
    assert target_of(routes(), "echo/text", client).endpoint.protocol == CHAT


@pytest.mark.parametrize("name", ["echo/text@klingon", "echo/text@openai-chat@x", "echo/text@\x1b[2J"])
def test_the_echo_says_what_it_speaks(name: str) -> None:
    with pytest.raises(UnknownModel, match="it speaks openai-chat, anthropic-messages, openai-responses") as caught:
        target_of(routes(), name, CHAT)
    assert str(caught.value).isprintable()


def test_the_echo_needs_a_model_before_its_protocol() -> None:
    with pytest.raises(UnknownModel):
        target_of(routes(), "echo/@openai-chat", CHAT)


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("suffix", ["", "[1m]"])
def test_every_provider_is_asked_in_the_protocol_that_the_name_asks_for(client: str, suffix: str) -> None:
    lines = routes(("mine", f"openai/gpt-5.1@{CHAT}"), ("gpt-*", "openai/*"))
    for name in ("openai/gpt-5.1", "gpt-5.1"):
        for wanted in (CHAT, RESPONSES):
            target = target_of(lines, f"{name}@{wanted}{suffix}", client)
            assert (target.model, target.endpoint.protocol, target.id) == ("gpt-5.1", wanted, "openai/gpt-5.1")
            # Nothing moves it to another endpoint later.
            assert target.provider.protocols == (wanted,)
    assert target_of(lines, "mine", client).endpoint.protocol == CHAT


def test_a_provider_without_the_protocol_of_a_name_lists_those_it_has() -> None:
    with pytest.raises(UnknownModel) as caught:
        target_of(routes(), f"openai/gpt-5.1@{MESSAGES}", CHAT)
    assert str(caught.value) == ("openai does not speak `anthropic-messages`; it speaks openai-responses, openai-chat")


@pytest.mark.parametrize(
    "model", ["claude-opus-4-1@20250805", "llama@latest", "a@openai-chat@x", "x@", "x@Openai-Chat"]
)
def test_an_at_sign_without_a_protocol_behind_it_is_part_of_the_name(model: str) -> None:
    assert target_of(routes(), f"local/{model}", CHAT).model == model
    target = target_of(routes(), f"openai/{model}@{CHAT}", RESPONSES)
    assert (target.model, target.endpoint.protocol) == (model, CHAT)


def test_a_target_with_a_protocol_is_spelled_as_health_knows_it() -> None:
    found = routes(("mine", f"openai/gpt-5.1@{CHAT}"), ("other", "local/llama@8b"))
    assert {"openai/gpt-5.1", "local/llama@8b"} <= found.spelled
    assert f"openai/gpt-5.1@{CHAT}" not in found.spelled


@pytest.mark.parametrize(
    ("name", "provider", "variable"),
    [
        ("gemini/gemini-3-pro", "google", "GEMINI_API_KEY"),
        ("kimi/kimi-k2", "moonshot", "MOONSHOT_API_KEY"),
        ("glm/glm-5", "zai", "ZAI_API_KEY"),
        ("qwen/qwen3-max", "dashscope", "DASHSCOPE_API_KEY"),
        ("grok/grok-4", "xai", "XAI_API_KEY"),
        ("claude/claude-opus-5", "anthropic", "ANTHROPIC_API_KEY"),
        ("kimi", "moonshot", "MOONSHOT_API_KEY"),
    ],
)
def test_a_common_name_means_the_catalogues_provider(name: str, provider: str, variable: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        target_of(ModelResolver(Settings(providers={"echo": PROVIDERS["echo"]})), name, CHAT)
    assert str(caught.value) == f"{provider} has no key here: set {variable}"
    alias, slash, model = name.partition("/")
    if not slash:
        return
    there = {provider: replace(PROVIDERS["local"], name=provider)}
    assert target_of(ModelResolver(Settings(providers=there)), name, CHAT).id == f"{provider}/{model}"
    # A provider or a line of that very name goes first.
    named = {**there, alias: replace(PROVIDERS["local"], name=alias)}
    assert target_of(ModelResolver(Settings(providers=named)), name, CHAT).provider.name == alias
    lines = (RouteConfig(pattern=f"{alias}/*", targets=(f"{provider}/mine",)),)
    assert target_of(ModelResolver(Settings(providers=there, routes=lines)), name, CHAT).model == "mine"


def test_a_common_name_means_a_twin_where_only_that_is_there() -> None:
    twin = ModelResolver(Settings(providers={"kimi-coding": replace(PROVIDERS["local"], name="kimi-coding")}))
    assert target_of(twin, "kimi/k2", CHAT).id == "kimi-coding/k2"


def test_servers_of_this_machine_are_offered_only_if_they_run() -> None:
    local = {name: replace(PROVIDERS["local"], name=name, models=None) for name in ("ollama", "vllm")}
    found = ModelResolver(Settings(providers=PROVIDERS, local=local))
    found.listed = lambda provider: ("qwen3",) if provider.name == "vllm" else ()
    with pytest.raises(UnknownModel, match=r"one of the providers: openai, anthropic, local, echo, vllm$"):
        target_of(found, "zzzzzzzzzzzz", CHAT)


def test_an_unknown_name_is_told_its_nearest() -> None:
    with pytest.raises(UnknownModel, match=r"did you mean .*openai/gpt-5\.1"):
        target_of(routes(), "openia/gpt-5.1", CHAT)
    with pytest.raises(UnknownModel, match="did you mean fast"):
        target_of(routes(*LINES[:2]), "fsat", CHAT)


def test_a_slip_in_a_providers_name_is_told_the_provider_whatever_the_model() -> None:
    with pytest.raises(UnknownModel, match=r"did you mean openai/some-model\?"):
        target_of(routes(), "opnai/some-model", CHAT)


def test_an_unknown_name_without_neighbours_is_told_the_providers() -> None:
    with pytest.raises(UnknownModel, match="openai, anthropic, local, echo"):
        target_of(routes(), "zzzzzzzzzzzz", CHAT)


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
        target_of(routes(*LINES[:-1], defaults=DEFAULTS), HOSTILE[case], CHAT)
    words = str(caught.value)
    assert words.isprintable()
    assert len(words) < 400


@pytest.mark.parametrize("case", [case for case in HOSTILE if case != "nothing"])
def test_a_hostile_name_behind_a_provider_is_the_providers_to_judge(case: str) -> None:
    found = routes()
    assert target_of(found, f"local/{HOSTILE[case]}", CHAT).model == HOSTILE[case]
    # What is remembered is bounded in number and in length.
    assert all(len(name) <= module._MAX_NAME_LENGTH for name, _ in found._cache)


def test_names_without_number_do_not_fill_the_memory() -> None:
    found = routes()
    for count in range(2 * module._MAX_CACHED_ROUTES + 10):
        target_of(found, f"local/m{count}", CHAT)
    assert len(found._cache) <= module._MAX_CACHED_ROUTES


def test_the_same_name_leads_clients_of_different_protocols_to_their_own_endpoints() -> None:
    found = routes()
    for protocol in (CHAT, RESPONSES, CHAT, RESPONSES):
        assert target_of(found, "openai/gpt-5.1", protocol).endpoint.protocol == protocol


def test_strictness_comes_with_the_line() -> None:
    line = RouteConfig(pattern="careful", targets=("local/x",), strict=True)
    found = ModelResolver(Settings(providers=PROVIDERS, routes=(line,)))
    assert target_of(found, "careful", CHAT).strict
    assert not target_of(found, "local/x", CHAT).strict


SEVERAL = (
    RouteConfig(pattern="smart", targets=("anthropic/opus", "openai/gpt-5.1")),
    RouteConfig(pattern="turns", targets=("local/a", "local/b"), policy="round-robin"),
    RouteConfig(pattern="split", targets=("local/old", "local/new"), weights=(0, 3), policy="weighted"),
    RouteConfig(pattern="wise-*", targets=("anthropic/*", "local/copy-*")),
    RouteConfig(pattern="alias", targets=("smart",), strict=True, retries=1),
    RouteConfig(pattern="nested", targets=("local/x", "patient", "wise-one"), retries=2, max_cost=7, strict=True),
    RouteConfig(
        pattern="patient",
        targets=("local/x", "local/y"),
        retries=3,
        first_byte=20.0,
        max_cost=9,
        fallback_on_refusal=True,
    ),
    RouteConfig(
        pattern="ruled-*",
        targets=("anthropic/*",),
        policy="cheapest",
        sticky=False,
        rules=(
            RouteRule(when=RuleCondition(input_tokens_over=60_000), targets=("openai/gpt-5.1",)),
            RouteRule(when=RuleCondition(tools=True), targets=("smart",)),
            RouteRule(when=RuleCondition(images=True), targets=("local/a", "local/big-*")),
        ),
    ),
    RouteConfig(pattern="dear", targets=("local/x",), max_cost=5),
    RouteConfig(pattern="local/own", targets=("local/own", "openai/gpt-5.1")),
    RouteConfig(pattern="same", targets=("local/m", "openai/other", "openai/m", "patient")),
)


def several(*, keeps: bool = False) -> ModelResolver:
    return ModelResolver(Settings(providers=PROVIDERS, routes=SEVERAL), stores_responses=keeps)


def ids(targets: Iterable[Target | Route]) -> list[str]:
    return [each.id if isinstance(each, Target) else f"[{each.name}]" for each in targets]


def test_a_line_with_several_targets_has_them_in_order() -> None:
    route = several().route("smart", CHAT, ALL_RIGHTS)
    assert (route.name, route.policy, ids(route.members)) == ("smart", "fallback", ["anthropic/opus", "openai/gpt-5.1"])
    assert route.only is None
    assert [target.endpoint.protocol for target in route.targets] == [MESSAGES, CHAT]


def test_the_star_is_filled_in_every_target() -> None:
    assert ids(several().route("wise-one", CHAT, ALL_RIGHTS).members) == ["anthropic/wise-one", "local/copy-one"]


@pytest.mark.parametrize("name", ["local/x", "o1", "fast", "claude-opus-4"])
def test_a_name_with_one_target_has_no_choice(name: str) -> None:
    route = routes(*LINES[:3], defaults=DEFAULTS).route(name, CHAT, ALL_RIGHTS)
    assert route.only is not None
    assert route.only == target_of(routes(*LINES[:3], defaults=DEFAULTS), name, CHAT)
    assert not route.only.stored_here


def test_a_name_for_a_line_is_that_line() -> None:
    found = several()
    alias, line = found.route("alias", CHAT, ALL_RIGHTS), found.route("smart", CHAT, ALL_RIGHTS)
    assert (alias.name, ids(alias.members), alias.policy) == ("alias", ids(line.members), line.policy)
    assert (alias.strict, alias.retries, all(target.strict for target in alias.targets)) == (True, 1, True)
    assert not any(target.strict for target in line.targets)


def test_a_line_within_a_line_keeps_what_it_says_and_takes_the_rest() -> None:
    route = several().route("nested", CHAT, ALL_RIGHTS)
    assert ids(route.members) == ["local/x", "[patient]", "[wise-*]"]
    _, patient, wise = route.members
    assert isinstance(patient, Route) and isinstance(wise, Route)
    assert (patient.retries, patient.first_byte, patient.max_cost, patient.fallback_on_refusal) == (3, 20.0, 7, True)
    assert (wise.retries, wise.first_byte, wise.max_cost, wise.fallback_on_refusal) == (2, None, 7, False)
    assert ids(wise.members) == ["anthropic/wise-one", "local/copy-one"]
    assert all(target.strict for target in route.targets)
    assert ids(route.targets) == ["local/x", "local/y", "anthropic/wise-one", "local/copy-one"]


def test_what_holds_for_a_target_is_said_by_the_innermost_line() -> None:
    found = several()
    route = found.route("nested", CHAT, ALL_RIGHTS)
    around = {target.id: route.around(target) for target in route.targets}
    # The first mention counts.
    assert {
        name: (line.name, line.retries, line.first_byte, line.fallback_on_refusal) for name, line in around.items()
    } == {
        "local/x": ("nested", 2, None, False),
        "local/y": ("patient", 3, 20.0, True),
        "anthropic/wise-one": ("wise-*", 2, None, False),
        "local/copy-one": ("wise-*", 2, None, False),
    }
    ruled = found.route("ruled-1", CHAT, ALL_RIGHTS)
    assert ruled.around(ruled.rules[2].to.targets[1]) is ruled.rules[2].to
    assert ruled.around(target_of(found, "local/nowhere", CHAT)) is ruled


def test_rules_lead_to_targets_or_lines_under_the_options_of_their_line() -> None:
    route = several().route("ruled-1", CHAT, ALL_RIGHTS)
    assert route.only is None
    assert [ids(rule.to.members) for rule in route.rules] == [
        ["openai/gpt-5.1"],
        ["anthropic/opus", "openai/gpt-5.1"],
        ["local/a", "local/big-1"],
    ]
    assert [(rule.to.policy, rule.to.sticky) for rule in route.rules] == [
        ("cheapest", False),
        ("fallback", False),
        ("cheapest", False),
    ]
    assert [rule.when.input_tokens_over for rule in route.rules] == [60_000, None, None]
    assert not any(rule.to.rules for rule in route.rules)


@pytest.mark.parametrize(("name", "sticky"), [("smart", True), ("turns", False), ("ruled-1", False)])
def test_conversations_stay_unless_requests_take_turns_or_the_line_says_no(name: str, sticky: bool) -> None:
    assert several().route(name, CHAT, ALL_RIGHTS).sticky is sticky


def test_a_line_that_limits_the_cost_has_a_choice_to_make() -> None:
    route = several().route("dear", CHAT, ALL_RIGHTS)
    assert (route.only, ids(route.targets)) == (None, ["local/x"])


def test_a_provider_goes_before_a_line_of_the_same_name() -> None:
    assert ids(several().route("local/own", CHAT, ALL_RIGHTS).members) == ["local/own", "openai/gpt-5.1"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [("smart", True), ("ruled-1", True), ("alias", True), ("nested", True), ("dear", False), ("local/x", False)],
)
def test_what_several_may_answer_is_kept_here_if_there_is_a_store(name: str, kept: bool) -> None:
    assert {target.stored_here for target in several(keeps=True).route(name, CHAT, ALL_RIGHTS).targets} == {kept}
    assert not any(target.stored_here for target in several().route(name, CHAT, ALL_RIGHTS).targets)


@pytest.mark.parametrize("line", ["anthropic/*", "smart", "local/copy-*-x"])
def test_pitfall_305_a_name_comes_to_targets_whatever_form_it_has(line: str) -> None:
    """A plain name, another name for a line, a pattern and a rule: all that is ever tried is a provider's model."""
    lines = (
        *SEVERAL,
        RouteConfig(pattern="plain", targets=("local/a", "local/b")),
        RouteConfig(pattern="any-*", targets=(line, "local/b")),
        RouteConfig(
            pattern="one-*",
            targets=("local/a",),
            rules=(RouteRule(when=RuleCondition(tools=True), targets=(line, "local/b")),),
        ),
    )
    found = ModelResolver(Settings(providers=PROVIDERS, routes=lines))
    for name in ("plain", "any-x", "one-x", "alias", "wise-x"):
        targets = found.route(name, CHAT, ALL_RIGHTS).targets
        assert len(targets) > 1
        assert all(target.provider is PROVIDERS[target.provider.name] for target in targets)
        assert not any("*" in target.model for target in targets)


def test_whoever_asks_for_one_gets_the_first_that_has_a_share() -> None:
    found = several()
    assert target_of(found, "smart", CHAT).id == "anthropic/opus"
    assert target_of(found, "nested", CHAT).id == "local/x"
    assert target_of(found, "split", CHAT).id == "local/new"
    assert target_of(found, "turns", CHAT) == target_of(found, "turns", CHAT)


def test_the_pinned_target_goes_first_then_the_one_that_is_filled_most() -> None:
    found = several()
    shares = {"anthropic/ruled-1": 0.1, "openai/gpt-5.1": 0.9}

    def fills(target: Target) -> float:
        return shares.get(target.id, 0.0)

    assert found.fixed("ruled-1", CHAT, ALL_RIGHTS, None, fills).id == "openai/gpt-5.1"
    assert found.fixed("ruled-1", CHAT, ALL_RIGHTS, "local/big-1", fills).id == "local/big-1"
    assert found.fixed("local/x", CHAT, ALL_RIGHTS, "local/y", fills).id == "local/x"


def test_pitfall_362_a_pin_chooses_among_the_targets_of_the_name_that_was_asked_for() -> None:
    for pin in ("openai/gpt-5.1-mini", "echo/text", "smart", "no/such", ""):
        assert several().fixed("smart", CHAT, ALL_RIGHTS, pin, lambda _: 0.0).id == "anthropic/opus"


def test_those_alike_serve_the_model_of_the_first() -> None:
    found = several()
    assert ids(found.alike("same", CHAT, ALL_RIGHTS)) == ["local/m", "openai/m"]
    assert ids(found.alike("ruled-1", CHAT, ALL_RIGHTS)) == ["anthropic/ruled-1"]
    assert ids(found.alike("local/x", CHAT, ALL_RIGHTS)) == ["local/x"]


def test_a_line_that_comes_to_no_model_is_unknown() -> None:
    lines = (RouteConfig(pattern="team/*", targets=("local/*", "openai/gpt-5.1")),)
    with pytest.raises(UnknownModel):
        ModelResolver(Settings(providers=PROVIDERS, routes=lines)).route("team/", CHAT, ALL_RIGHTS)


def test_an_unknown_name_is_told_lines_with_several_targets_too() -> None:
    with pytest.raises(UnknownModel, match="did you mean smart"):
        several().route("smrat", CHAT, ALL_RIGHTS)


def test_listings_name_what_has_no_star() -> None:
    assert routes(*LINES).names() == ["fast", "claude-opus-5", "local/blessed"]


def test_a_shown_name_is_cut() -> None:
    assert printable("a\nb") == "`a?b`"
    assert len(printable("x" * 10_000)) == 122


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
    assert target_of(routes(), f"local/{model}", CHAT).printable_model == told
