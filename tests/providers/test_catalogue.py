"""The catalogue is data, and this is its proofreader: every entry is complete, checkable and fits the rules."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Formatter
from urllib.parse import urlsplit

import msgspec
import pytest

from dragoman.protocols.openai_chat.request_encoder import REFUSABLE
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.providers import catalogue as module
from dragoman.providers.catalogue import CatalogueEntry, aliased, catalogue, read
from dragoman.providers.transport import TRANSPORTS
from dragoman.rules.capabilities import Capabilities, capabilities_of
from tests.each_case import each_of

ENTRIES = list(catalogue().values())
NAMES = [entry.name for entry in ENTRIES]
# The file as it is: without the rows that an entry takes over from its vendor.
OWN = tomllib.loads(Path(module.__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))

MESSAGES = "anthropic-messages"
AUTHS = {"", "bearer", "x-api-key", "api-key", "none", "aws", "google"}
LOOPBACK = "127.0.0.1"
# Pages of package registries say what somebody packed, not what a provider serves.
REGISTRIES = re.compile(r"(^|\.)(py" r"pi|np" r"mjs|unpkg|crates|rubygems|nuget|mvnrepository|packagist)\.")

every_entry = each_of(ENTRIES, lambda entry: entry.name)

MINIMAL = """
[one]
title = "One"
source = "https://one.example/docs"
endpoints = [{ protocol = "openai-chat", base_url = "https://one.example/v1" }]
"""


def is_checkable(source: str) -> bool:
    """Whether a source is a page that anybody can open, and no registry's."""
    parts = urlsplit(source)
    return parts.scheme == "https" and "." in (parts.hostname or "") and not REGISTRIES.search(parts.hostname or "")


def is_local(entry: CatalogueEntry) -> bool:
    """Whether all of its addresses are on this machine."""
    return all(urlsplit(endpoint.base_url).hostname == LOOPBACK for endpoint in entry.endpoints)


@every_entry
def test_what_is_known_of_usage_in_streams_can_be_checked(entry: CatalogueEntry) -> None:
    refused = {name for row in entry.capabilities for name in row.changes.get("refuses") or ()}  # type: ignore[union-attr]
    if entry.include_usage:
        assert is_checkable(entry.include_usage)
        assert "stream_options" not in refused
        assert "openai-chat" in {endpoint.protocol for endpoint in entry.endpoints}


def test_what_is_known_of_a_label_holds_of_usage_in_streams_too() -> None:
    found = catalogue()
    assert found["moonshot-cn"].include_usage == found["moonshot"].include_usage != ""
    assert found["openai"].include_usage and not found["mistral"].include_usage


def test_an_alias_means_one_entry_and_is_no_name() -> None:
    aliases = Counter(alias for entry in ENTRIES for alias in entry.aliases)
    assert max(aliases.values()) == 1
    assert not aliases.keys() & set(NAMES)
    assert [entry.name for entry in aliased("kimi")] == ["moonshot", "moonshot-cn", "kimi-coding"]
    assert aliased("nobody") == ()


def placeholders(entry: CatalogueEntry) -> set[str]:
    """The names in braces in its addresses."""
    return {name for endpoint in entry.endpoints for _, name, _, _ in Formatter().parse(endpoint.base_url) if name}


def patterns() -> Iterator[tuple[str, str]]:
    """Every pattern with the provider that it means."""
    for entry in ENTRIES:
        for pattern in entry.serves:
            yield entry.name, pattern


def overlap(one: str, other: str) -> bool:
    """Whether some name fits both patterns; a star stands at the end alone."""
    if one.endswith("*") and other.endswith("*"):
        return one[:-1].startswith(other[:-1]) or other[:-1].startswith(one[:-1])
    if one.endswith("*"):
        return other.startswith(one[:-1])
    return one.startswith(other[:-1]) if other.endswith("*") else one == other


def test_there_are_many_of_them() -> None:
    assert len(ENTRIES) >= 40
    assert sum(is_local(entry) for entry in ENTRIES) >= 8


@pytest.mark.parametrize(
    "name",
    [
        *("openai", "anthropic", "google", "azure", "bedrock", "vertex", "mistral", "deepseek", "xai", "groq"),
        *("cerebras", "together", "fireworks", "openrouter", "perplexity", "cohere", "nvidia", "huggingface"),
        *("moonshot", "zai", "minimax", "dashscope", "ollama", "lmstudio", "vllm", "llamacpp", "sglang"),
    ],
)
def test_those_that_most_people_use_are_there(name: str) -> None:
    assert name in catalogue()


def test_it_is_read_once() -> None:
    assert catalogue() is catalogue()


def test_it_cannot_be_changed_by_those_who_read_it() -> None:
    with pytest.raises(TypeError):
        catalogue()["mine"] = ENTRIES[0]  # type: ignore[index]  # that is what is tested


def test_entries_know_their_names() -> None:
    assert all(name == entry.name for name, entry in catalogue().items())


@every_entry
def test_names_can_stand_before_a_slash(entry: CatalogueEntry) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry.name)


@every_entry
def test_every_fact_has_a_source_that_can_be_checked(entry: CatalogueEntry) -> None:
    assert entry.title
    sources = [entry.source, *(row.source for row in entry.capabilities)]
    sources += [endpoint.source for endpoint in entry.endpoints if endpoint.source]
    assert [source for source in sources if not is_checkable(source)] == []


@every_entry
def test_protocols_are_known_and_named_once(entry: CatalogueEntry) -> None:
    protocols = [endpoint.protocol for endpoint in entry.endpoints]
    assert protocols
    assert set(protocols) <= set(PROTOCOL_NAMES)
    assert len(set(protocols)) == len(protocols)


@every_entry
def test_addresses_are_encrypted_or_on_this_machine(entry: CatalogueEntry) -> None:
    for endpoint in entry.endpoints:
        if not endpoint.base_url:
            # Only this transport makes addresses that no template could.
            assert entry.transport == "vertex"
            continue
        parts = urlsplit(endpoint.base_url)
        assert parts.scheme == ("http" if parts.hostname == LOOPBACK else "https")
        assert not (parts.query or parts.fragment or parts.username)
        assert not endpoint.base_url.endswith("/")


@every_entry
def test_addresses_are_what_the_official_sdk_takes(entry: CatalogueEntry) -> None:
    for endpoint in entry.endpoints:
        path = urlsplit(endpoint.base_url).path
        assert not path.endswith(("/chat/completions", "/responses", "/messages"))
        if endpoint.protocol == MESSAGES:
            assert not path.endswith("/v1"), "Anthropic's SDK adds /v1 by itself"


@every_entry
def test_placeholders_are_options_that_are_asked_for(entry: CatalogueEntry) -> None:
    assert placeholders(entry) <= set(entry.needs)
    assert set(entry.needs) <= set(entry.option_env), "each can be found in the environment, too"


@every_entry
def test_words_are_those_of_the_configuration(entry: CatalogueEntry) -> None:
    assert entry.auth in AUTHS
    assert entry.transport in TRANSPORTS
    assert entry.streaming in {"on-request", "always", "never"}


@every_entry
def test_variables_look_like_variables(entry: CatalogueEntry) -> None:
    names = [*entry.env, *(name for found in entry.option_env.values() for name in found)]
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*", name) for name in names)
    assert all(entry.option_env.values())


@every_entry
def test_local_servers_are_called_without_a_key_and_never_found_by_chance(entry: CatalogueEntry) -> None:
    if entry.auth == "none":
        assert is_local(entry)
        assert not entry.env


def test_no_variable_means_two_providers() -> None:
    counted = Counter(name for entry in ENTRIES for name in entry.env)
    assert [name for name, count in counted.items() if count > 1] == []


@every_entry
def test_patterns_have_one_star_at_the_end_and_no_directory(entry: CatalogueEntry) -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*\*?", pattern) for pattern in entry.serves)


def test_no_model_name_means_two_providers() -> None:
    found = list(patterns())
    clashes = [
        (one, other) for place, one in enumerate(found) for other in found[place + 1 :] if overlap(one[1], other[1])
    ]
    assert clashes == []


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-opus-4-8", "anthropic"),
        ("gpt-5.1", "openai"),
        ("o3", "openai"),
        ("gemini-2.5-flash", "google"),
        ("deepseek-chat", "deepseek"),
        ("grok-4.3", "xai"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock"),
        ("kimi-k2.6", "moonshot"),
    ],
)
def test_bare_names_mean_their_makers(model: str, provider: str) -> None:
    assert [name for name, pattern in patterns() if overlap(pattern, model)] == [provider]


@pytest.mark.parametrize("model", ["gpt-oss-120b", "llama-3.3-70b", "qwen3-32b", "gemma-3-27b-it"])
def test_names_of_open_models_mean_nobody(model: str) -> None:
    assert [name for name, pattern in patterns() if overlap(pattern, model)] == []


@every_entry
def test_rows_change_abilities_of_protocols_that_are_known(entry: CatalogueEntry) -> None:
    for row in entry.capabilities:
        assert row.changes
        assert set(row.changes) <= set(Capabilities.__struct_fields__)
        assert row.protocol in PROTOCOL_NAMES
        msgspec.convert({**msgspec.to_builtins(Capabilities()), **row.changes}, Capabilities)
        assert row.vendor is None, "a row of the catalogue is its provider's anyway"


@every_entry
def test_what_is_refused_can_be_left_out(entry: CatalogueEntry) -> None:
    for row in entry.capabilities:
        refused = row.changes.get("refuses", [])
        assert isinstance(refused, list) and set(map(str, refused)) <= set(REFUSABLE)
        assert not refused or row.protocol == "openai-chat"


@every_entry
def test_rows_speak_of_endpoints_that_are_listed_somewhere(entry: CatalogueEntry) -> None:
    own = OWN[entry.name].get("capabilities", [])
    assert {row["protocol"] for row in own} <= {endpoint.protocol for endpoint in entry.endpoints}


@every_entry
def test_rows_say_something_that_the_rules_do_not_say_already(entry: CatalogueEntry) -> None:
    for place, row in enumerate(entry.capabilities):
        model = re.sub(r"\[(.)[^]]*\]", r"\1", row.model).replace("*", "-")
        before = capabilities_of(row.protocol, model, entry.vendor_or_name, entry.capabilities[:place])
        after = capabilities_of(row.protocol, model, entry.vendor_or_name, entry.capabilities[: place + 1])
        assert before != after, f"row {place} of {entry.name} repeats what is known"


@every_entry
def test_labels_name_entries_that_have_none(entry: CatalogueEntry) -> None:
    if entry.vendor:
        assert entry.vendor != entry.name
        assert not catalogue()[entry.vendor].vendor


def test_what_is_known_of_a_label_holds_for_its_bearer() -> None:
    assert catalogue()["moonshot-cn"].capabilities == catalogue()["moonshot"].capabilities
    assert catalogue()["moonshot-cn"].vendor_or_name == "moonshot"


def test_own_rows_have_the_last_word() -> None:
    row = '[[{0}.capabilities]]\nprotocol = "openai-chat"\nset = {{ stop_limit = {1} }}\nsource = "https://one.example/docs"\n'
    second = MINIMAL.replace("[one]", '[two]\nvendor = "one"')
    entries = read(MINIMAL + row.format("one", 1) + second + row.format("two", 2))
    assert [row.changes["stop_limit"] for row in entries["two"].capabilities] == [1, 2]
    assert capabilities_of("openai-chat", "any", "two", entries["two"].capabilities).stop_limit == 2


def test_openai_and_those_that_follow_it_prefer_responses() -> None:
    for name in ("openai", "azure", "xai"):
        assert catalogue()[name].endpoints[0].protocol == "openai-responses"


def test_only_one_service_is_anthropics_own() -> None:
    assert [entry.name for entry in ENTRIES if entry.anthropic] == ["anthropic"]


def test_each_transport_of_a_cloud_has_one_entry() -> None:
    counted: Mapping[str, int] = Counter(entry.transport for entry in ENTRIES)
    assert {transport: counted[transport] for transport in ("azure", "bedrock", "vertex")} == {
        "azure": 1,
        "bedrock": 1,
        "vertex": 1,
    }


def test_an_entry_needs_no_more_than_title_source_and_endpoints() -> None:
    entry = read(MINIMAL)["one"]
    assert (entry.auth, entry.transport, entry.streaming, entry.capabilities) == ("", "http", "on-request", ())
    assert entry.vendor_or_name == "one"


@pytest.mark.parametrize(
    "line",
    ['colour = "red"', "title = 1", 'env = "ONE_KEY"', 'capabilities = [{ protocol = "openai-chat" }]', "source = 7"],
    ids=["an unknown key", "a title that is a number", "one text for a list", "half a row", "a source that is none"],
)
def test_a_document_that_breaks_the_schema_is_refused(line: str) -> None:
    text = MINIMAL if line.split(" ")[0] not in MINIMAL else re.sub(rf"{line.split(' ')[0]} = .*\n", "", MINIMAL)
    with pytest.raises(msgspec.ValidationError):
        read(text + line + "\n")


def test_the_compiled_catalogue_is_that_of_the_source() -> None:
    assert dict(catalogue()) == read(module.SOURCE.read_text(encoding="utf-8")), "run `make docs`"
