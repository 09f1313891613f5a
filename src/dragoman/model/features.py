"""Features: the names of everything that a translation can lose, and the weight of each loss (decision 38).
docs/losses.md explains them."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias


class Feature(Enum):
    """One row of the mapping. The value names its golden file and its anchor in the docs."""

    # scalars of the request (mapping.md §3)
    MODEL = "model"
    MAX_TOKENS = "max_tokens"
    PREWARM = "prewarm"
    TEMPERATURE = "temperature"
    TOP_P = "top_p"
    TOP_K = "top_k"
    PENALTIES = "penalties"
    SAMPLING = "sampling"
    STOP_SEQUENCES = "stop_sequences"
    CHOICES = "choices"
    LOGPROBS = "logprobs"
    VERBOSITY = "verbosity"
    MODALITIES = "modalities"
    PREDICTION = "prediction"
    MODERATION = "moderation"
    END_USER = "end_user"
    METADATA = "metadata"
    SERVICE_TIER = "service_tier"
    STORE = "store"
    CACHE_KEY = "cache_key"
    STREAM_OPTIONS = "stream_options"
    MAX_TOOL_CALLS = "max_tool_calls"
    TRUNCATION = "truncation"
    PROMPT_TEMPLATE = "prompt_template"
    # instructions (§4)
    INSTRUCTIONS = "instructions"
    MID_CONVERSATION_SYSTEM = "mid_conversation_system"
    TELEMETRY_LINE = "telemetry_line"
    PARTICIPANT_NAME = "participant_name"
    # conversation (§5)
    ORPHAN_RESULT = "orphan_result"
    UNANSWERED_CALL = "unanswered_call"
    RESULT_ORDER = "result_order"
    FIRST_TURN = "first_turn"
    PREFILL = "prefill"
    EMPTY_TEXT = "empty_text"
    PHASE = "phase"
    ITEM_REFERENCE = "item_reference"
    TOOLS_IN_ITEMS = "tools_in_items"
    CONFIGURATION_UPDATE = "configuration_update"
    # content (§6)
    TEXT = "text"
    IMAGE = "image"
    IMAGE_DETAIL = "image_detail"
    FILE_ID = "file_id"
    DOCUMENT = "document"
    DOCUMENT_OPTIONS = "document_options"
    TEXT_DOCUMENT = "text_document"
    AUDIO = "audio"
    TOOL_RESULT_MEDIA = "tool_result_media"
    TOOL_ERROR = "tool_error"
    REFUSAL = "refusal"
    UNSUPPORTED_CONTENT = "unsupported_content"
    # tools (§7-§9)
    FUNCTION_TOOL = "function_tool"
    STRICT_SCHEMA = "strict_schema"
    ROOT_SCHEMA = "root_schema"
    CUSTOM_TOOL = "custom_tool"
    NAMESPACE = "namespace"
    TOOL_OPTIONS = "tool_options"
    TOOL_SEARCH = "tool_search"
    VENDOR_TOOL = "vendor_tool"
    TOOL_CHOICE = "tool_choice"
    ALLOWED_TOOLS = "allowed_tools"
    PARALLEL_CALLS = "parallel_calls"
    TOOL_NAME = "tool_name"
    CALL_ID = "call_id"
    ARGUMENTS = "arguments"
    # reasoning (§10, §11)
    EFFORT = "effort"
    THINKING_DISPLAY = "thinking_display"
    THINKING = "thinking"
    THINKING_SIGNATURE = "thinking_signature"
    COMPACTION = "compaction"
    # structured output (§12)
    OUTPUT_SCHEMA = "output_schema"
    JSON_MODE = "json_mode"
    # hosted tools and state (§13-§15)
    WEB_SEARCH = "web_search"
    WEB_FETCH = "web_fetch"
    CODE_EXECUTION = "code_execution"
    MCP = "mcp"
    HOSTED_TOOL = "hosted_tool"
    STORED_STATE = "stored_state"
    CONTEXT_MANAGEMENT = "context_management"
    CONTAINER = "container"
    CACHE_BREAKPOINT = "cache_breakpoint"
    # answers (§16-§20)
    STOP_REASON = "stop_reason"
    STOP_SEQUENCE = "stop_sequence"
    PAUSE = "pause"
    USAGE = "usage"
    CITATIONS = "citations"
    FAILURE = "failure"
    RATE_LIMITS = "rate_limits"
    # members that only one protocol has
    UNKNOWN_FIELD = "unknown_field"


Weight: TypeAlias = Literal["changes_response", "bookkeeping"]

# Features whose loss leaves conversation, tools, limits and content unchanged. The loss of any other feature changes
# the response.
BOOKKEEPING = frozenset(
    {
        # The prompt cache: price and latency.
        Feature.CACHE_KEY,
        Feature.CACHE_BREAKPOINT,
        Feature.PREWARM,
        # Latency and padding of the stream.
        Feature.PREDICTION,
        Feature.STREAM_OPTIONS,
        # Labels for billing and telemetry of the provider.
        Feature.END_USER,
        Feature.METADATA,
        Feature.TELEMETRY_LINE,
        # The model does not see this ID. Calls and results stay paired.
        Feature.CALL_ID,
        # Headers about the account.
        Feature.RATE_LIMITS,
        # The display of the same reasoning.
        Feature.THINKING_DISPLAY,
        # Every tool is declared at the start and can be called.
        Feature.TOOL_SEARCH,
    }
)
# Keyed by value: hashing an enum member is slow, and records store the values.
_WEIGHTS: dict[str, Weight] = {
    feature.value: "bookkeeping" if feature in BOOKKEEPING else "changes_response" for feature in Feature
}


def weight_of(feature: str) -> Weight:
    """Return the weight of a loss by the value of its feature. An unknown feature, from another release, changes the
    response."""
    return _WEIGHTS.get(feature, "changes_response")
