"""Requests of other protocols as Messages providers get them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import CacheBreakpoint, Text
from dragoman.model.request import CacheOptions, Demand, OutputFormat, OutputKind, Request, Sampling
from dragoman.model.tools import WebSearchTool
from dragoman.protocols.anthropic_messages import CODEC
from tests.protocols.anthropic_messages.support import (
    ADAPTIVE,
    MANUAL,
    OTHER,
    at,
    body_of,
    chat,
    encoded,
    losses,
    target,
    user,
)

OBJECT: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def test_the_smallest_request() -> None:
    result, ledger = encoded(chat(), OTHER)
    assert result.body == {"model": OTHER, "max_tokens": 4096, "messages": [{"role": "user", "content": "hi"}]}
    assert result.headers == {"anthropic-version": "2023-06-01"}
    assert not ledger.losses


@pytest.mark.parametrize(
    ("model", "sampling", "version"),
    [
        (ADAPTIVE, Sampling(), "2026-10-21"),
        (MANUAL, Sampling(), "2026-10-21"),
        (MANUAL, Sampling(temperature=1), "2023-06-01"),
        (OTHER, Sampling(), "2023-06-01"),
    ],
)
def test_the_version_follows_sampling_and_model(model: str, sampling: Sampling, version: str) -> None:
    result, _ = encoded(replace(chat(), sampling=sampling), model)
    assert result.headers["anthropic-version"] == version
    assert "anthropic-beta" not in result.headers


@pytest.mark.parametrize(
    ("change", "member", "value"),
    [
        ({"end_user": "u"}, "metadata", {"user_id": "u"}),
        ({"service_tier": "auto"}, "service_tier", "auto"),
        ({"service_tier": "default"}, "service_tier", "standard_only"),
        ({"stop": ("a", " ", "")}, "stop_sequences", ["a"]),
        ({"stream": True}, "stream", True),
        ({"prewarm": True, "max_tokens": None}, "max_tokens", 0),
    ],
)
def test_members_with_a_counterpart(change: dict[str, object], member: str, value: JsonValue) -> None:
    assert body_of(replace(chat(), **change))[member] == value


@pytest.mark.parametrize(
    ("change", "loss"),
    [
        ({"service_tier": "flex"}, ("dropped", "service_tier", "service_tier")),
        ({"verbosity": "low"}, ("dropped", "verbosity", "verbosity")),
        ({"logprobs": True}, ("dropped", "logprobs", "logprobs")),
        ({"metadata": {"k": "v"}}, ("dropped", "metadata", "metadata")),
        ({"store": True}, ("dropped", "store", "store")),
        ({"cache_key": "k"}, ("dropped", "cache_key", "cache_key")),
        ({"stop": (" ",)}, ("dropped", "stop_sequences", "stop[0]")),
        ({"sampling": Sampling(seed=1)}, ("dropped", "sampling", "sampling.seed")),
        ({"sampling": Sampling(temperature=1)}, ("dropped", "temperature", "sampling.temperature")),
        ({"max_tokens": None}, ("invented", "max_tokens", "max_tokens")),
        ({"end_user": "u" * 300}, ("approximated", "end_user", "end_user")),
        ({"max_tool_calls": 3}, ("dropped", "max_tool_calls", "max_tool_calls")),
    ],
)
def test_pitfall_212_what_has_no_counterpart_is_reported(change: dict[str, object], loss: tuple[str, str, str]) -> None:
    _, ledger = encoded(replace(chat(), **change))
    assert losses(ledger) == [loss]


@pytest.mark.parametrize(
    "change",
    [{"choices": 2}, {"continues": "resp_1"}, {"conversation": "conv_1"}],
    ids=["several answers", "a stored answer", "a stored conversation"],
)
def test_pitfall_164_what_must_not_be_left_out_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(RefusedError):
        encoded(replace(chat(), **change))


def test_demands_are_refused_by_their_member() -> None:
    demand = Demand(feature=Feature.PROMPT_TEMPLATE, member="prompt", note="kept elsewhere")
    with pytest.raises(RefusedError) as caught:
        encoded(replace(chat(), demands=(demand,)))
    assert caught.value.at == "prompt"


def test_pitfall_147_a_schema_is_put_into_the_subset() -> None:
    output = OutputFormat(kind=OutputKind.SCHEMA, schema=OBJECT, name="n", strict=True)
    result, ledger = encoded(replace(chat(), output=output))
    assert at(result.body, "output_config", "format", "schema", "additionalProperties") is False
    assert ("dropped", "output_schema", "output.name") in losses(ledger)


@pytest.mark.parametrize(
    ("output", "feature"),
    [
        (OutputFormat(kind=OutputKind.JSON), "json_mode"),
        (OutputFormat(kind=OutputKind.SCHEMA, schema={"$ref": "#"}), "output_schema"),
    ],
    ids=["json mode", "a schema that cannot be enforced"],
)
def test_pitfall_149_other_forms_are_asked_for_by_instruction(output: OutputFormat, feature: str) -> None:
    result, ledger = encoded(replace(chat(), output=output))
    assert "output_config" not in result.body
    assert str(result.body["system"]).startswith("Respond with a single JSON object and nothing else.")
    assert losses(ledger) == [("approximated", feature, "output")]


def marks(body: JsonObject) -> int:
    """How many cache marks a body has anywhere."""
    return str(body).count("cache_control")


def test_pitfall_173_at_most_four_marks_are_kept() -> None:
    mark = CacheBreakpoint(origin="openai-chat")
    parts = [Text(text=str(number), cache=mark) for number in range(5)]
    result, ledger = encoded(replace(chat(user(*parts)), instructions=(Text(text="s", cache=mark),)))
    assert marks(result.body) == 4
    assert "cache_control" not in str(result.body["system"])
    assert [loss[2] for loss in losses(ledger)] == ["instructions[0].cache", "messages[0].parts[0].cache"]


@pytest.mark.parametrize(("ttl", "told"), [(None, None), ("5m", "5m"), ("1h", "1h"), ("30m", "1h"), ("12h", "1h")])
def test_lifetimes_of_marks(ttl: str | None, told: str | None) -> None:
    body = body_of(chat(user(Text(text="x", cache=CacheBreakpoint(origin="openai-chat", ttl=ttl)))))
    control = at(body, "messages", 0, "content", 0, "cache_control")
    assert control == ({"type": "ephemeral"} if told is None else {"type": "ephemeral", "ttl": told})


@pytest.mark.parametrize(
    ("cache", "model", "control"),
    [
        (None, ADAPTIVE, {"type": "ephemeral"}),
        (CacheOptions(retention="24h"), ADAPTIVE, {"type": "ephemeral", "ttl": "1h"}),
        (CacheOptions(explicit=True), ADAPTIVE, None),
        (None, OTHER, None),
    ],
    ids=["automatic", "for long", "explicit breakpoints only", "another vendor's model"],
)
def test_the_automatic_mark(cache: CacheOptions | None, model: str, control: JsonValue) -> None:
    assert body_of(replace(chat(), cache=cache), model).get("cache_control") == control


def test_compaction_needs_its_beta() -> None:
    result, ledger = encoded(replace(chat(), compact_at=1000))
    assert at(result.body, "context_management", "edits", 0, "trigger", "value") == 1000
    assert result.headers["anthropic-beta"] == "compact-2026-01-12"
    assert losses(ledger) == [("approximated", "context_management", "compact_at")]


def test_a_limit_of_calls_is_a_limit_on_each_server_tool() -> None:
    result, ledger = encoded(replace(chat(), tools=(WebSearchTool(),), max_tool_calls=3))
    assert at(result.body, "tools", 0, "max_uses") == 3
    assert ("approximated", "max_tool_calls", "max_tool_calls") in losses(ledger)


def test_pitfall_011_nothing_is_sent_that_nobody_asked_for() -> None:
    request = Request(origin="openai-responses", model="m", max_tokens=5, messages=(user("hi"),))
    assert body_of(request, OTHER).keys() == {"model", "max_tokens", "messages"}


def test_pitfall_126_temperature_ends_at_one() -> None:
    result, ledger = encoded(replace(chat(), sampling=Sampling(temperature=1.5)), OTHER)
    assert result.body["temperature"] == 1
    assert losses(ledger) == [("approximated", "temperature", "sampling.temperature")]


def test_pitfall_125_newer_models_take_no_sampling() -> None:
    result, ledger = encoded(replace(chat(), sampling=Sampling(temperature=0.5, top_p=0.9, top_k=3)))
    assert not {"temperature", "top_p", "top_k"} & result.body.keys()
    assert [loss[1] for loss in losses(ledger)] == ["temperature", "top_p", "top_k"]


def test_pitfall_128_blank_stop_strings_are_left_out() -> None:
    result, ledger = encoded(replace(chat(), stop=("", "END", " \n")))
    assert result.body["stop_sequences"] == ["END"]
    assert losses(ledger) == [("dropped", "stop_sequences", f"stop[{index}]") for index in (0, 2)]


def test_pitfall_130_only_the_users_id_is_metadata() -> None:
    result, ledger = encoded(replace(chat(), metadata={"team": "x"}, end_user="u"))
    assert result.body["metadata"] == {"user_id": "u"}
    assert losses(ledger) == [("dropped", "metadata", "metadata")]


def test_pitfall_151_who_cannot_enforce_a_schema_is_asked_in_words() -> None:
    output = OutputFormat(kind=OutputKind.SCHEMA, schema={"type": "object", "properties": {}}, strict=True)
    capabilities = replace(target().capabilities, output_schema=False)
    result = CODEC.encode_request(
        replace(chat(), output=output), replace(target(), capabilities=capabilities), Ledger()
    )
    assert "output_config" not in result.body
    assert "must conform to this JSON schema" in str(result.body["system"])


def test_a_mark_of_the_clients_own_leaves_no_room_for_the_automatic_one() -> None:
    marked = user(Text(text="hi", cache=CacheBreakpoint(origin="anthropic-messages")))
    assert "cache_control" not in body_of(chat(marked))
