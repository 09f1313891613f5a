"""Literal names of the Chat Completions protocol: https://platform.openai.com/docs/api-reference/chat. No logic."""

from __future__ import annotations

from typing import Final

from dragoman.model.features import Feature
from dragoman.model.response import StopReason
from dragoman.rules.response_metadata import ORDINARY_TIERS, EnumValues

NAME: Final = "openai-chat"
VENDOR = ""
PATH = "/v1/chat/completions"

# The owner of files with IDs, shared by both of OpenAI's protocols.
FILE_ISSUER = "openai"
ANTHROPIC = "anthropic-messages"
RESPONSES = "openai-responses"

ID_PREFIX = "chatcmpl-"
COMPLETION = "chat.completion"
CHUNK = "chat.completion.chunk"

# Members with readable reasoning, by precedence (V7). The last name has other uses too: it counts if it is text.
OTHERS_TOO = "thinking"
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", OTHERS_TOO)
DETAILS = "reasoning_details"
BLOCKS = "thinking_blocks"
BESIDE = "provider_specific_fields"
ITEMS = "reasoning_items"
OPAQUE = "reasoning_opaque"
CONTENT = "content"
THINKING_PARTS = ("thinking", "redacted_thinking")
# Members of a message in which servers send signatures of reasoning. On calls they are in `extra_content`.
REASONING_SIGNATURE_MEMBERS = (DETAILS, BLOCKS, ITEMS, OPAQUE, "extra_content")
FORMAT_ANTHROPIC = "anthropic-claude-v1"
FORMAT_RESPONSES = "openai-responses-v1"
FORMAT_TURN = "gw-turn-v1"
DETAIL_TEXT = "reasoning.text"
DETAIL_SUMMARY = "reasoning.summary"
DETAIL_ENCRYPTED = "reasoning.encrypted"

# Sampling members that servers of this protocol have added.
OTHER_SAMPLING = (
    "min_p",
    "top_a",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "min_tokens",
    "stop_token_ids",
    "ignore_eos",
    "skip_special_tokens",
    "bad_words",
)

USER_ID_LIMIT = 64
PDF = "application/pdf"
CONTINUE_EXACTLY = "Continue exactly where your last message stops. Output only the continuation."
JSON_ONLY = "Respond with a single JSON object and nothing else."
SUMMARY_OPENING = "Summary of the conversation so far:\n"
ERROR_PREFIX = "Error: "
# The assistant text for servers that require one between a tool result and the user.
UNDERSTOOD = "Understood."

FINISH_REASONS: dict[StopReason, str] = {
    StopReason.END: "stop",
    StopReason.LENGTH: "length",
    StopReason.SEQUENCE: "stop",
    StopReason.TOOL_CALL: "tool_calls",
    StopReason.REFUSAL: "content_filter",
    StopReason.FILTER: "content_filter",
    StopReason.PAUSE: "length",
    StopReason.CONTEXT_FULL: "length",
    StopReason.COMPACTED: "stop",
    StopReason.OTHER: "stop",
}
# Service tiers of the SDK's types, and others mapped to them (U7).
SERVED_TIERS = EnumValues(
    feature=Feature.SERVICE_TIER,
    legal=frozenset({"auto", "default", "flex", "scale", "priority", "fast"}),
    others={**ORDINARY_TIERS, "ultrafast": "fast"},
)

# Names of models beside the request's own: https://openrouter.ai/docs/features/model-routing (`models`, `plugins`,
# `preset`), https://openrouter.ai/docs/guides/features/plugins/fusion (`analysis_models`),
# https://vercel.com/docs/ai-gateway (`providerOptions`), https://console.groq.com/docs/compound (`compound_custom`),
# https://docs.litellm.ai/docs/proxy/reliability (`fallbacks` and the others).
MODEL_MEMBERS = (
    "models",
    "models/*",
    "preset",
    "plugins/*/model",
    "plugins/*/analysis_models/*",
    "tools/*/model",
    "tools/*/parameters/model",
    "tools/*/parameters/analysis_models/*",
    "compound_custom/models/*",
    "providerOptions/gateway/models/*",
    *(
        f"{name}{below}"
        for name in ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks")
        for below in ("", "/*", "/*/model", "/*/*/*")
    ),
)
