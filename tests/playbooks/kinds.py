"""Kinds of dialogue, the pairs that play them, how the gateway is set up for them, and how most of them begin."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TypeAlias

from msgspec import Struct

from dragoman.config.settings import Limits, RouteConfig, Routing, Settings, Storage, Timeouts
from dragoman.prices.book import Override
from dragoman.providers.provider import Endpoint, Provider
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES
from tests.gateway.says import NAMES, PAIRS
from tests.identities.holders import holder
from tests.playbooks.bodies import brief, parts, question
from tests.playbooks.steps import CLIENT_KEY, EVENTS, JSON, OTHER_KEY, Step, answers, asks, ends, says

Pair: TypeAlias = tuple[str, str]
Steps: TypeAlias = list[Step]

# One of each client and each provider, none of them at home; with a relay; and all relays.
AWAY: tuple[Pair, ...] = ((MESSAGES, CHAT), (CHAT, RESPONSES), (RESPONSES, MESSAGES))
SOME: tuple[Pair, ...] = (*AWAY, (CHAT, CHAT))
HOME: tuple[Pair, ...] = tuple((name, name) for name in PROTOCOLS)


class Setup(Struct, frozen=True, kw_only=True):
    """How the gateway is configured, where that is not the usual."""

    provider_keys: tuple[str, ...] = ("sk-provider-0123456789abcdef",)
    keyed: bool = False
    # Whether there is a file to keep things in; and whether Responses providers keep them.
    kept: bool = False
    stores_responses: bool = False
    counts: bool = False
    # Whether relayed Chat streams are asked for their usage.
    include_usage: bool = False
    # When providers stream: "on-request", "always" or "never".
    streaming: str = "on-request"
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    lines: tuple[RouteConfig, ...] = ()
    routing: Routing = Routing()
    prices: dict[str, Override] = {}
    # Whether each provider has keys that no other one has.
    own_keys: bool = False

    def keys_of(self, name: str) -> tuple[str, ...]:
        """The keys of a provider."""
        return tuple(f"{key}-of-{name}" for key in self.provider_keys) if self.own_keys else self.provider_keys

    def settings(self) -> Settings:
        """One provider for each protocol."""
        bases = {MESSAGES: "http://messages.test", CHAT: "http://chat.test/v1", RESPONSES: "http://responses.test/v1"}
        providers = {
            NAMES[name]: Provider(
                name=NAMES[name],
                endpoints=(Endpoint(protocol=name, base_url=base),),
                keys=self.keys_of(NAMES[name]),
                models=("served",),
                stores_responses=self.stores_responses or not self.kept,
                streaming=self.streaming,
                counts_tokens=self.counts,
                include_usage=self.include_usage,
            )
            for name, base in bases.items()
        }
        known = {"client": CLIENT_KEY, "other": OTHER_KEY} if self.keyed else {}
        keys = tuple(holder(name, sha256(key.encode()).digest()) for name, key in known.items())
        return Settings(
            providers=providers,
            routes=self.lines,
            routing=self.routing,
            prices=self.prices,
            keys=keys,
            limits=self.limits,
            timeouts=self.timeouts,
            storage=Storage(path="state.db" if self.kept else ""),
        )


USUAL = Setup()


class Kind(Struct, frozen=True, kw_only=True):
    """What happens between any client and any provider."""

    steps: Callable[[str, str], Steps]
    pairs: tuple[Pair, ...] = PAIRS
    setup: Setup = USUAL


def asked(client: str, provider: str, *, stream: bool = False) -> Step:
    """A question with tools and a wish for reasoning."""
    return asks(PATHS[client], question(client, provider, stream=stream))


def briefly(client: str, provider: str, *, stream: bool = False, client_name: str = "client", **more: object) -> Step:
    """The least that can be asked, and `more`."""
    return asks(PATHS[client], brief(client, provider, stream=stream, **more), client=client_name)


def opened(client: str, provider: str) -> Steps:
    """A stream of which something was said."""
    opening, words, _ = parts(provider)
    return [briefly(client, provider, stream=True), answers(200, EVENTS), says(opening), says(words)]


def told(data: bytes, status: int = 200, headers: dict[str, str] = JSON) -> Steps:
    """The provider tells all at once."""
    return [answers(status, headers), says(data), ends()]


def streamed(provider: str) -> Steps:
    """The provider streams to the end."""
    return [answers(200, EVENTS), *map(says, parts(provider)), ends()]
