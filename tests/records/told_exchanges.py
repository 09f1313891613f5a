"""Exchanges of every kind that a collector may be told of, and who their providers are."""

from __future__ import annotations

from dragoman.records.journal_entry import (
    ANSWERED,
    CANCELLED,
    CRASHED,
    FAILED,
    REFUSED,
    CallEntry,
    CostBreakdown,
    JournalEntry,
    LossEntry,
    TokenCounts,
)
from dragoman.sessions.facts import ExchangeFacts
from dragoman.telemetry.spans import ProviderPlace

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
# A Tuesday in 2027, in microseconds.
NOON = 1_800_000_000_000_000
PLACES = {
    "anthropic": ProviderPlace(provider="anthropic", address="api.anthropic.com", port=443),
    "home": ProviderPlace(provider="home", address="127.0.0.1", port=8000),
    "mistral": ProviderPlace(provider="mistral_ai", address="api.mistral.ai", port=443),
    "echo": ProviderPlace(provider="echo", inside=True),
}
_TOKENS = TokenCounts(input=1000, cache_read=600, cache_write=100, output=200, thinking=50, searches=2)
_MONEY = CostBreakdown(input=900_000, output=3_000_000, cache_read=180_000, cache_write=375_000, version="2026-10-30")

WHOLE = JournalEntry(
    id="req_whole",
    time=NOON,
    outcome=ANSWERED,
    key="laptop",
    client="claude-cli",
    program="claude-cli/2.1.325",
    address="192.0.2.0/24",
    client_protocol="openai-chat",
    path="/chat/completions",
    requested_model="large",
    provider="anthropic",
    model="claude-sonnet-4-5",
    provider_protocol="anthropic-messages",
    response_model="claude-sonnet-4-5-20250929",
    route="large",
    policy="fallback",
    status=200,
    stop_reason="end_turn",
    duration=2_500_000,
    tokens=_TOKENS,
    cost=_MONEY,
    calls=(
        CallEntry(
            "anthropic",
            "claude-sonnet-4-5",
            "anthropic-messages",
            kind="answered",
            status=200,
            started=1_000,
            ended=2_400_000,
            provider_request_id="req_up",
            key=0,
            tokens=_TOKENS,
            cost=_MONEY,
        ),
    ),
    losses=(LossEntry("sampling", "dropped", "sampling.seed"), LossEntry("sampling", "dropped", "sampling.top_k")),
    provider_request_id="req_up",
    response_id="chatcmpl-1",
    facts=ExchangeFacts(session="sess-1", thread="agent-7", parent="agent-1", said_class="subagent", agent="reviewer"),
)
STREAMED = JournalEntry(
    id="req_streamed",
    time=NOON + 1,
    outcome=ANSWERED,
    client_protocol="anthropic-messages",
    path="/messages",
    stream=True,
    requested_model="echo/text",
    provider="echo",
    model="text",
    provider_protocol="anthropic-messages",
    status=200,
    stop_reason="end_turn",
    first_content=250_000,
    duration=900_000,
    tokens=TokenCounts(input=10, output=5),
    cost=CostBreakdown(),
    calls=(CallEntry("echo", "text", "anthropic-messages", kind="answered", status=200, started=10, ended=900_000),),
    trace=PARENT,
)
FAILED_OVER = JournalEntry(
    id="req_over",
    time=NOON + 2,
    outcome=ANSWERED,
    client_protocol="openai-responses",
    path="/responses",
    requested_model="any",
    provider="home",
    model="qwen3",
    provider_protocol="openai-chat",
    status=200,
    stop_reason="stop",
    duration=3_000_000,
    tokens=TokenCounts(input=20, output=7),
    estimated=True,
    cost=CostBreakdown(unpriced=("model",)),
    calls=(
        CallEntry(
            "mistral", "large", "openai-chat", kind="rate_limited", status=429, started=500, ended=200_000, key=1
        ),
        CallEntry(
            "mistral",
            "large",
            "openai-chat",
            kind="first_byte_timeout",
            started=200_100,
            ended=1_200_000,
            maybe_billed=True,
        ),
        CallEntry("home", "qwen3", "openai-chat", kind="answered", status=200, started=1_200_200, ended=2_999_000),
    ),
)
GONE = JournalEntry(
    id="req_gone",
    time=NOON + 3,
    outcome=CANCELLED,
    client_protocol="anthropic-messages",
    path="/messages",
    stream=True,
    requested_model="anthropic/claude-sonnet-4-5",
    provider="anthropic",
    model="claude-sonnet-4-5",
    provider_protocol="anthropic-messages",
    status=200,
    failure="cancelled",
    first_content=100_000,
    duration=400_000,
    calls=(
        CallEntry(
            "anthropic",
            "claude-sonnet-4-5",
            "anthropic-messages",
            kind="client_disconnected",
            status=200,
            started=10,
            ended=400_000,
        ),
    ),
)
TURNED_AWAY = JournalEntry(
    id="req_refused",
    time=NOON + 4,
    outcome=REFUSED,
    client_protocol="openai-chat",
    path="/chat/completions",
    requested_model="nobody-knows-it",
    status=404,
    failure="not_found",
    refusal="no model is called that",
    duration=300,
)
BROKEN = JournalEntry(
    id="req_broken",
    time=NOON + 5,
    outcome=FAILED,
    client_protocol="openai-chat",
    path="/chat/completions",
    stream=True,
    requested_model="mistral/large",
    provider="mistral",
    model="large",
    provider_protocol="openai-chat",
    status=200,
    failure="bad_gateway",
    duration=700_000,
    calls=(CallEntry("mistral", "large", "openai-chat", kind="stream_broken", status=200, started=10, ended=650_000),),
)
LOST = JournalEntry(
    id="req_lost",
    time=NOON + 6,
    outcome=CRASHED,
    client_protocol="openai-chat",
    path="/chat/completions",
    requested_model="mistral/large",
    provider="mistral",
    model="large",
    calls=(CallEntry("mistral", "large", "openai-chat", started=10),),
)
