"""Costs of exchanges against the package that the book is compiled from: all protocols, both directions, both forms."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices import Usage as PackageUsage
from genai_prices.data_snapshot import get_snapshot
from msgspec.structs import replace

from dragoman.config.settings import Settings
from tests.gateway.harness import CHAT, MESSAGES, PATHS, RESPONSES, settings_for, whole
from tests.gateway.harness import stream as streamed
from tests.gateway.observability.kept import recorded
from tests.gateway.says import NAMES, PAIRS, question, turn
from tests.sdk.digging import Object
from tests.sdk.providers import answer as answer_of
from tests.sdk.providers import stream_of

NANO = Decimal(10**9)
# Whose prices they are, the model that is asked for, and what the answer says that it is from.
SOLD = {
    MESSAGES: ("anthropic", "claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
    CHAT: ("openai", "gpt-5.4", "gpt-5.4-2026-03-05"),
    RESPONSES: ("openai", "gpt-5.1", "gpt-5.1-2025-11-13"),
}
# Beside the thresholds that exist.
EDGES = (0, 200_000, 272_000)


def settings(port: int) -> Settings:
    made = settings_for(port)
    labels = {NAMES[protocol]: shelf for protocol, (shelf, _, _) in SOLD.items()}
    providers = {
        name: replace(provider, vendor=labels.get(name, provider.vendor)) for name, provider in made.providers.items()
    }
    return replace(made, providers=providers)


class Counts:
    """What an answer took, in the words of each wire and of the package."""

    def __init__(self, dice: random.Random) -> None:
        self.read, self.written, self.output = (dice.randrange(50_000) for _ in range(3))
        self.hour = dice.randrange(self.written + 1)
        edge = dice.choice(EDGES)
        cached = self.read + self.written
        self.plain = edge - cached + dice.choice((-1, 0, 1)) if edge else dice.randrange(1, 100_000)
        self.thinking = dice.randrange(self.output + 1)
        self.searches = dice.choice((0, 3))

    @property
    def input(self) -> int:
        return self.plain + self.read + self.written

    def messages(self) -> Object:
        return {
            "input_tokens": self.plain,
            "cache_read_input_tokens": self.read,
            "cache_creation_input_tokens": self.written,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.written - self.hour,
                "ephemeral_1h_input_tokens": self.hour,
            },
            "output_tokens": self.output,
            "output_tokens_details": {"thinking_tokens": self.thinking},
            "server_tool_use": {"web_search_requests": self.searches},
        }

    def chat(self) -> Object:
        return {
            "prompt_tokens": self.plain + self.read,
            "prompt_tokens_details": {"cached_tokens": self.read},
            "completion_tokens": self.output,
            "completion_tokens_details": {"reasoning_tokens": self.thinking},
            "total_tokens": self.plain + self.read + self.output,
        }

    def responses(self) -> Object:
        return {
            "input_tokens": self.plain + self.read,
            "input_tokens_details": {"cached_tokens": self.read},
            "output_tokens": self.output,
            "output_tokens_details": {"reasoning_tokens": self.thinking},
            "total_tokens": self.plain + self.read + self.output,
        }

    def of_package(self, protocol: str) -> PackageUsage:
        if protocol == MESSAGES:
            return PackageUsage(
                input_tokens=self.input,
                cache_read_tokens=self.read,
                cache_write_tokens=self.written,
                cache_write_1h_tokens=self.hour,
                output_tokens=self.output,
                output_reasoning_tokens=self.thinking,
                web_searches=self.searches,
            )
        return PackageUsage(
            input_tokens=self.plain + self.read,
            cache_read_tokens=self.read,
            output_tokens=self.output,
            output_reasoning_tokens=self.thinking,
        )


WRITTEN: dict[str, Callable[[Counts], Object]] = {
    MESSAGES: Counts.messages,
    CHAT: Counts.chat,
    RESPONSES: Counts.responses,
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_415_what_an_exchange_cost_is_what_the_package_says(client: str, provider: str, stream: bool) -> None:
    shelf, asked, answered_by = SOLD[provider]
    dice = random.Random(f"{client} {provider} {stream}")
    counts = [Counts(dice) for _ in range(6)]
    replies = []
    for each in counts:
        said = replace(turn(provider), usage=WRITTEN[provider](each))
        body = {**answer_of(provider, said), "model": answered_by}
        replies.append(streamed(stream_of(provider, body, said)) if stream else whole(body))
    body = {**question(client, provider, stream=stream), "model": f"{NAMES[provider]}/{asked}"}
    if client == CHAT and stream:
        body["stream_options"] = {"include_usage": True}
    with recorded(replies, settings) as (house, records):
        for _ in counts:
            assert house.post(PATHS[client], body).status == 200
    for each, record in zip(counts, records, strict=True):
        priced = get_snapshot().calc(
            each.of_package(provider), answered_by, shelf, None, datetime.now(UTC), {"service_tier": "default"}
        )
        money = record.cost
        assert money is not None and money.unpriced == (), money
        assert money.entry == f"{shelf}/{priced.model.id}"
        # Each class is rounded once.
        assert abs(money.total - priced.total_price * NANO) <= 4
        assert not record.estimated


def test_some_of_the_models_have_other_prices_for_long_input() -> None:
    def cost(protocol: str, tokens: int) -> Decimal:
        shelf, _, answered_by = SOLD[protocol]
        usage = PackageUsage(input_tokens=tokens, output_tokens=0)
        return get_snapshot().calc(usage, answered_by, shelf, None, datetime.now(UTC), None).total_price

    assert [protocol for protocol in SOLD if cost(protocol, 300_000) > 300 * cost(protocol, 1000)]
