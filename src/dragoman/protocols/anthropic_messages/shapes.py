"""Literal names of the Messages protocol: https://platform.claude.com/docs/en/api/messages. No logic."""

from __future__ import annotations

from typing import Final

from dragoman.model.response import StopReason

NAME: Final = "anthropic-messages"
VENDOR = "anthropic"
PATH = "/v1/messages"

# The version before `2026-10-21`, the only one that allows sampling members.
SAMPLING_VERSION = "2023-06-01"

# Betas that an encoded field requires: https://platform.claude.com/docs/en/api/beta-headers
BETA_MCP = "mcp-client-2025-11-20"
BETA_COMPACT = "compact-2026-01-12"
BETA_FAST = "fast-mode-2026-02-01"
BETA_BINDING = "thinking-binding-controls-2026-08-01"

WEB_SEARCH = "web_search_20260318"
WEB_FETCH = "web_fetch_20260318"
CODE_EXECUTION = "code_execution_20260521"
TOOL_SEARCH = "tool_search_tool_bm25_20251119"

COMPACT_EDIT = "compact_20260112"
CACHE_BREAKPOINTS_LIMIT = 4
STRICT_TOOLS_LIMIT = 20
USER_ID_LIMIT = 256
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
PDF = "application/pdf"

FILLER = "Continue."
COMPACTED = "[compacted]"
SUMMARY_OPENING = "Summary of the conversation so far:\n"
JSON_ONLY = "Respond with a single JSON object and nothing else."

# Stop reasons in both directions. Unlisted ones become OTHER, and `end_turn` when encoded (mapping.md §17).
STOP_REASONS: dict[str, StopReason] = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.SEQUENCE,
    "tool_use": StopReason.TOOL_CALL,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.CONTEXT_FULL,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
    "compaction": StopReason.COMPACTED,
}
STOP_REASON_NAMES: dict[StopReason, str] = {
    **{reason: word for word, reason in STOP_REASONS.items()},
    StopReason.FILTER: "refusal",
    StopReason.OTHER: "end_turn",
}

# Values of `server_tool_use.name` whose calls several protocols can express.
CODE_TOOLS = frozenset({"code_execution", "bash_code_execution"})

# A tool may call another model (advisor), and a refused request may fall back to others. Servers of several vendors'
# models have more such members; see Chat's.
MODEL_MEMBERS = (
    "tools/*/model",
    "tools/*/parameters/model",
    "tools/*/parameters/analysis_models/*",
    "models",
    "models/*",
    "preset",
    "plugins/*/model",
    "plugins/*/analysis_models/*",
    "providerOptions/gateway/models/*",
    "fallbacks",
    "fallbacks/*",
    "fallbacks/*/model",
    "fallbacks/*/*/*",
)
