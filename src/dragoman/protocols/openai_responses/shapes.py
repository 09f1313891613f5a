"""Literal names of the Responses protocol (https://platform.openai.com/docs/api-reference/responses). No logic."""

from __future__ import annotations

from typing import Final

NAME: Final = "openai-responses"
VENDOR = "openai"
PATH = "/v1/responses"

# Both OpenAI protocols have the same issuer of files.
FILE_ISSUER = "openai"

MINIMUM_CAP = 16
SAFETY_IDENTIFIER_LIMIT = 64

INCLUDE_ENCRYPTED = "reasoning.encrypted_content"
INCLUDE_LOGPROBS = "message.output_text.logprobs"
INCLUDE_SOURCES = "web_search_call.action.sources"

MESSAGE = "message"
REASONING = "reasoning"
FUNCTION_CALL = "function_call"
FUNCTION_OUTPUT = "function_call_output"
CUSTOM_CALL = "custom_tool_call"
CUSTOM_OUTPUT = "custom_tool_call_output"
COMPACTION = "compaction"
COMPACTION_TRIGGER = "compaction_trigger"
WEB_SEARCH_CALL = "web_search_call"
CODE_CALL = "code_interpreter_call"
MCP_CALL = "mcp_call"
MCP_LISTING = "mcp_list_tools"

COMPLETED = "completed"
INCOMPLETE = "incomplete"
IN_PROGRESS = "in_progress"
FAILED = "failed"
MAX_OUTPUT_TOKENS = "max_output_tokens"
CONTENT_FILTER = "content_filter"

# Prefixes of the IDs of output items (N4).
ID_PREFIXES = {
    MESSAGE: "msg_",
    REASONING: "rs_",
    FUNCTION_CALL: "fc_",
    CUSTOM_CALL: "ctc_",
    COMPACTION: "cmp_",
    WEB_SEARCH_CALL: "ws_",
    CODE_CALL: "ci_",
    MCP_CALL: "mcp_",
    MCP_LISTING: "mcpl_",
    "local_shell_call": "lsh_",
    "shell_call": "sh_",
    "apply_patch_call": "apc_",
    "computer_call": "cu_",
    "tool_search_call": "tsc_",
}

# Events of a stream (openai-responses.md §15).
CREATED = "response.created"
STARTED = "response.in_progress"
ITEM_ADDED = "response.output_item.added"
ITEM_DONE = "response.output_item.done"
PART_ADDED = "response.content_part.added"
PART_DONE = "response.content_part.done"
TEXT_DELTA = "response.output_text.delta"
TEXT_DONE = "response.output_text.done"
ANNOTATION_ADDED = "response.output_text.annotation.added"
REFUSAL_DELTA = "response.refusal.delta"
REFUSAL_DONE = "response.refusal.done"
ARGUMENTS_DELTA = "response.function_call_arguments.delta"
ARGUMENTS_DONE = "response.function_call_arguments.done"
INPUT_DELTA = "response.custom_tool_call_input.delta"
INPUT_DONE = "response.custom_tool_call_input.done"
SUMMARY_PART_ADDED = "response.reasoning_summary_part.added"
SUMMARY_PART_DONE = "response.reasoning_summary_part.done"
SUMMARY_DELTA = "response.reasoning_summary_text.delta"
SUMMARY_DONE = "response.reasoning_summary_text.done"
RESPONSE_COMPLETED = "response.completed"
RESPONSE_INCOMPLETE = "response.incomplete"
RESPONSE_FAILED = "response.failed"
ERROR = "error"

# Known members of a stream, level by level; all others are reported. Events have positions, content, and padding.
EVENT_MEMBERS = frozenset(
    {
        "type",
        "sequence_number",
        "obfuscation",
        "stream_id",
        "response",
        "item",
        "item_id",
        "output_index",
        "content_index",
        "summary_index",
        "annotation_index",
        "command_index",
        "partial_image_index",
        "delta",
        "logprobs",
        "text",
        "refusal",
        "part",
        "annotation",
        "arguments",
        "input",
        "name",
        "code",
        "command",
        "partial_image_b64",
        "status",
    }
)

PART_MEMBERS = frozenset({"type", "text", "refusal", "annotations", "logprobs"})
CALL_MEMBERS = frozenset({"type", "id", "call_id", "name", "namespace", "arguments", "input", "status"})
REASONING_MEMBERS = frozenset({"type", "id", "summary", "content", "encrypted_content", "status"})

# Events that repeat the end of their item, or only report progress.
REPEATED = frozenset(
    {
        "keepalive",
        "response.content_part.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.image_generation_call.in_progress",
        "response.image_generation_call.generating",
        "response.image_generation_call.partial_image",
        "response.image_generation_call.completed",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed",
        "response.shell_call_command.added",
        "response.shell_call_command.delta",
        "response.shell_call_command.done",
        "response.shell_call_output_content.delta",
        "response.shell_call_output_content.done",
        "response.compaction.compacting",
    }
)

# The user message after an assistant message that the provider cannot continue (T14).
CONTINUATION = "Continue exactly where your last message stops. Output only the continuation."
SUMMARY_OPENING = "Summary of the conversation so far:\n"

# A tool may call another model (image generation), also one inside an item. Other servers have lists of models.
MODEL_MEMBERS = (
    "tools/*/model",
    "tools/*/parameters/model",
    "input/*/tools/*/model",
    "input/*/tools/*/parameters/model",
    "models",
    "models/*",
    "preset",
    "plugins/*/model",
    "plugins/*/analysis_models/*",
    "tools/*/parameters/analysis_models/*",
    "providerOptions/gateway/models/*",
    "fallbacks",
    "fallbacks/*",
    "fallbacks/*/model",
)
