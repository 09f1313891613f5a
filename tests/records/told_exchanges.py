"""Exchanges of every kind that a collector may be told of, and who their providers are."""

from __future__ import annotations

from dragoman.records.journal_entry import (
    ANSWERED,
    CANCELLED,
    CRASHED,
    FAILED,
    REFUSED,
    CallEntry,
    JournalEntry,
    LossEntry,
    Money,
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
_MONEY = Money(input=900_000, output=3_000_000, cache_read=180_000, cache_write=375_000, version="2026-10-30")

WHOLE = JournalEntry(
    id="req_whole",
    time=NOON,
    outcome=ANSWERED,
    key="laptop",
    client="claude-cli",
    program="claude-cli/2.1.325",
    address="192.0.2.0/24",
    dialect="openai-chat",
    path="/chat/completions",
    asked="large",
    provider="anthropic",
    model="claude-sonnet-4-5",
    served="anthropic-messages",
    answered_by="claude-sonnet-4-5-20250929",
    route="large",
    policy="fallback",
    status=200,
    stop="end_turn",
    took=2_500_000,
    tokens=_TOKENS,
    money=_MONEY,
    calls=(
        CallEntry(
            "anthropic",
            "claude-sonnet-4-5",
            "anthropic-messages",
            kind="answered",
            status=200,
            started=1_000,
            ended=2_400_000,
            upstream_id="req_up",
            key=0,
            tokens=_TOKENS,
            money=_MONEY,
        ),
    ),
    losses=(LossEntry("sampling", "dropped", "sampling.seed"), LossEntry("sampling", "dropped", "sampling.top_k")),
    upstream_id="req_up",
    response_id="chatcmpl-1",
    facts=ExchangeFacts(session="sess-1", thread="agent-7", parent="agent-1", said_class="subagent", agent="reviewer"),
)
STREAMED = JournalEntry(
    id="req_streamed",
    time=NOON + 1,
    outcome=ANSWERED,
    dialect="anthropic-messages",
    path="/messages",
    stream=True,
    asked="echo/text",
    provider="echo",
    model="text",
    served="anthropic-messages",
    status=200,
    stop="end_turn",
    first=250_000,
    took=900_000,
    tokens=TokenCounts(input=10, output=5),
    money=Money(),
    calls=(CallEntry("echo", "text", "anthropic-messages", kind="answered", status=200, started=10, ended=900_000),),
    trace=PARENT,
)
FAILED_OVER = JournalEntry(
    id="req_over",
    time=NOON + 2,
    outcome=ANSWERED,
    dialect="openai-responses",
    path="/responses",
    asked="any",
    provider="home",
    model="qwen3",
    served="openai-chat",
    status=200,
    stop="stop",
    took=3_000_000,
    tokens=TokenCounts(input=20, output=7),
    estimated=True,
    money=Money(unpriced=("model",)),
    calls=(
        CallEntry(
            "mistral", "large", "openai-chat", kind="rate_limited", status=429, started=500, ended=200_000, key=1
        ),
        CallEntry(
            "mistral", "large", "openai-chat", kind="silent", started=200_100, ended=1_200_000, maybe_billed=True
        ),
        CallEntry("home", "qwen3", "openai-chat", kind="answered", status=200, started=1_200_200, ended=2_999_000),
    ),
)
GONE = JournalEntry(
    id="req_gone",
    time=NOON + 3,
    outcome=CANCELLED,
    dialect="anthropic-messages",
    path="/messages",
    stream=True,
    asked="anthropic/claude-sonnet-4-5",
    provider="anthropic",
    model="claude-sonnet-4-5",
    served="anthropic-messages",
    status=200,
    failure="cancelled",
    first=100_000,
    took=400_000,
    calls=(
        CallEntry(
            "anthropic", "claude-sonnet-4-5", "anthropic-messages", kind="left", status=200, started=10, ended=400_000
        ),
    ),
)
TURNED_AWAY = JournalEntry(
    id="req_refused",
    time=NOON + 4,
    outcome=REFUSED,
    dialect="openai-chat",
    path="/chat/completions",
    asked="nobody-knows-it",
    status=404,
    failure="not_found",
    why="no model is called that",
    took=300,
)
BROKEN = JournalEntry(
    id="req_broken",
    time=NOON + 5,
    outcome=FAILED,
    dialect="openai-chat",
    path="/chat/completions",
    stream=True,
    asked="mistral/large",
    provider="mistral",
    model="large",
    served="openai-chat",
    status=200,
    failure="bad_gateway",
    took=700_000,
    calls=(CallEntry("mistral", "large", "openai-chat", kind="broken", status=200, started=10, ended=650_000),),
)
LOST = JournalEntry(
    id="req_lost",
    time=NOON + 6,
    outcome=CRASHED,
    dialect="openai-chat",
    path="/chat/completions",
    asked="mistral/large",
    provider="mistral",
    model="large",
    calls=(CallEntry("mistral", "large", "openai-chat", started=10),),
)
