"""The Messages wire as shapes: every member of anthropic-messages.md §3-§14."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonValue
from tests.laws.shapes import (
    BASE64,
    CALL_ID,
    COUNT,
    FILE_ID,
    FLAG,
    INDEX,
    JSON,
    PROOF,
    SCHEMA,
    SERVER_ID,
    SHORT,
    TEXT,
    TOOL_NAME,
    URL,
    Field,
    Kind,
    Record,
    Shape,
    as_object,
    either,
    kept,
    kept_required,
    leaf,
    many,
    nullable,
    record,
    required,
    some,
    unless,
    unread,
    word,
)


def _as_blocks(value: JsonValue) -> JsonValue:
    """A string equals one `text` block (§4)."""
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


def _as_function(value: JsonValue) -> JsonValue:
    """`type` is "custom" or absent (§7)."""
    return {"type": "custom", **value} if isinstance(value, dict) and "type" not in value else value


def _unless_bare(value: JsonValue) -> JsonValue:
    """Details that give neither category nor explanation say no more than the reason to stop."""
    return None if value == {"type": "refusal"} else value


CACHE = record("ephemeral", ttl=word("5m", "1h"))
CITING = record(enabled=FLAG)
CALLER = either(record("direct"), record("code_execution_20250825", tool_id=kept_required(SERVER_ID)))

_DOCUMENT_CITATION: dict[str, Shape | Field] = {
    "document_index": kept_required(INDEX),
    "document_title": kept(SHORT),
    "cited_text": required(TEXT),
    "file_id": kept(FILE_ID),
}
CITATION = either(
    record("char_location", start_char_index=kept(INDEX), end_char_index=kept(INDEX), **_DOCUMENT_CITATION),
    record("page_location", start_page_number=kept(INDEX), end_page_number=kept(INDEX), **_DOCUMENT_CITATION),
    record("content_block_location", start_block_index=kept(INDEX), end_block_index=kept(INDEX), **_DOCUMENT_CITATION),
    record(
        "search_result_location",
        search_result_index=kept(INDEX),
        source=kept_required(either(URL, SHORT)),
        title=kept(SHORT),
        start_block_index=kept(INDEX),
        end_block_index=kept(INDEX),
        cited_text=required(TEXT),
    ),
    record(
        "web_search_result_location",
        url=required(URL),
        title=kept(SHORT),
        encrypted_index=kept_required(PROOF),
        cited_text=required(TEXT),
    ),
)

IMAGE_SOURCE = either(
    record(
        "base64",
        media_type=required(word("image/png", "image/jpeg", "image/gif", "image/webp")),
        data=required(BASE64),
    ),
    record("url", url=required(URL)),
    record("file", file_id=required(FILE_ID)),
)
TEXT_BLOCK = record("text", text=required(TEXT), cache_control=CACHE)
CITED_TEXT = record("text", text=required(TEXT), citations=some(CITATION, 2), cache_control=CACHE)
IMAGE = record(
    "image",
    source=required(IMAGE_SOURCE),
    transformations=kept(record(oversized_image=word("downsize", "error"))),
    cache_control=CACHE,
)
DOCUMENT_SOURCE = either(
    record("base64", media_type=required(word("application/pdf")), data=required(BASE64)),
    record("url", url=required(URL)),
    record("text", media_type=required(word("text/plain")), data=required(TEXT)),
    record("content", content=required(either(TEXT, some(either(TEXT_BLOCK, IMAGE)), canon=_as_blocks))),
    record("file", file_id=required(FILE_ID)),
)
DOCUMENT = record(
    "document",
    source=required(DOCUMENT_SOURCE),
    title=SHORT,
    context=TEXT,
    citations=CITING,
    cache_control=CACHE,
)
SEARCH_RESULT = record(
    "search_result",
    content=required(some(record("text", text=required(TEXT)))),
    source=required(either(URL)),
    title=required(SHORT),
    citations=kept(CITING),
    cache_control=kept(CACHE),
)
THINKING = record("thinking", thinking=required(TEXT), signature=required(PROOF))
REDACTED = record("redacted_thinking", data=required(PROOF))
TOOL_USE = record(
    "tool_use",
    id=required(CALL_ID),
    name=required(TOOL_NAME),
    input=required(JSON),
    caller=kept(CALLER),
    cache_control=CACHE,
)
TOOLSET_USE = record(
    "tool_use",
    id=required(CALL_ID),
    name=required(leaf(Kind.TOOL_NAME, "screenshot", "zoom")),
    input=required(JSON),
    toolset_name=required(word("computer", "browser")),
)
TOOL_REFERENCE = record("tool_reference", tool_name=required(TOOL_NAME))
BROWSER_STATE = record(
    "browser_state",
    tabs=kept_required(some(record(tab_id=SHORT, title=SHORT, url=URL, active=FLAG))),
    state_changes=kept(many(SHORT)),
)
TOOL_RESULT = record(
    "tool_result",
    tool_use_id=required(CALL_ID),
    content=either(
        TEXT, some(either(TEXT_BLOCK, IMAGE, DOCUMENT, SEARCH_RESULT, TOOL_REFERENCE, BROWSER_STATE)), canon=_as_blocks
    ),
    is_error=FLAG,
    toolset_name=kept(word("browser", "computer")),
    cache_control=CACHE,
)
SERVER_TOOL_USE = record(
    "server_tool_use",
    id=required(SERVER_ID),
    name=required(
        word(
            "web_search",
            "web_fetch",
            "code_execution",
            "bash_code_execution",
            "text_editor_code_execution",
            "tool_search_tool_regex",
            "tool_search_tool_bm25",
            "advisor",
        )
    ),
    input=required(JSON),
    caller=kept(CALLER),
)


def _result(tag: str, *contents: Shape) -> Record:
    return record(tag, tool_use_id=required(SERVER_ID), content=kept_required(either(*contents)), caller=kept(CALLER))


WEB_SEARCH_RESULT = _result(
    "web_search_tool_result",
    some(
        record(
            "web_search_result",
            url=required(URL),
            title=required(SHORT),
            encrypted_content=required(PROOF),
            page_age=SHORT,
        )
    ),
    record("web_search_tool_result_error", error_code=required(word("unavailable", "max_uses_exceeded"))),
)
WEB_FETCH_RESULT = _result(
    "web_fetch_tool_result",
    record("web_fetch_result", url=required(URL), retrieved_at=SHORT, content=required(DOCUMENT)),
    record("web_fetch_tool_result_error", error_code=required(word("url_not_allowed", "unavailable"))),
)
_OUTPUT: dict[str, Shape | Field] = {
    "stdout": required(TEXT),
    "stderr": required(TEXT),
    "return_code": required(INDEX),
    "content": many(record("code_execution_output", file_id=FILE_ID)),
}
CODE_RESULT = _result(
    "code_execution_tool_result",
    record("code_execution_result", **_OUTPUT),
    record("encrypted_code_execution_result", encrypted_stdout=required(PROOF), stderr=TEXT, return_code=INDEX),
    record("code_execution_tool_result_error", error_code=required(word("unavailable"))),
)
BASH_RESULT = _result("bash_code_execution_tool_result", record("bash_code_execution_result", **_OUTPUT))
EDITOR_RESULT = _result(
    "text_editor_code_execution_tool_result",
    record("text_editor_code_execution_view_result", content=TEXT, file_type=SHORT, num_lines=INDEX),
)
TOOL_SEARCH_RESULT = _result(
    "tool_search_tool_result",
    record("tool_search_tool_search_result", tool_references=some(record("tool_reference", tool_name=TOOL_NAME))),
)
MCP_USE = record(
    "mcp_tool_use", id=required(SERVER_ID), name=required(SHORT), server_name=required(SHORT), input=required(JSON)
)
MCP_RESULT = record(
    "mcp_tool_result",
    tool_use_id=required(SERVER_ID),
    content=either(TEXT, some(record("text", text=required(TEXT)))),
    is_error=FLAG,
)
MCP_LISTING = record(
    "mcp_tool_listing",
    mcp_server_name=required(SHORT),
    tools=kept_required(some(record(name=required(SHORT), description=TEXT, input_schema=JSON))),
)
ADVISOR_RESULT = record(
    "advisor_tool_result",
    tool_use_id=kept_required(SERVER_ID),
    content=kept_required(record("advisor_result", text=TEXT)),
)
COMPACTION = record(
    "compaction", content=nullable(TEXT), encrypted_content=PROOF, signature=PROOF, tool_changes=kept(many(JSON))
)
FALLBACK = record(
    "fallback",
    from_=kept_required(record(model=SHORT)),
    to=kept_required(record(model=SHORT)),
    trigger=kept(SHORT),
)
CONTAINER_UPLOAD = record("container_upload", file_id=kept_required(FILE_ID))
USER_BLOCKS: tuple[Record, ...] = (TEXT_BLOCK, IMAGE, DOCUMENT, SEARCH_RESULT, TOOL_RESULT, CONTAINER_UPLOAD)
HOSTED_BLOCKS: tuple[Record, ...] = (
    SERVER_TOOL_USE,
    WEB_SEARCH_RESULT,
    WEB_FETCH_RESULT,
    CODE_RESULT,
    BASH_RESULT,
    EDITOR_RESULT,
    TOOL_SEARCH_RESULT,
    MCP_USE,
    MCP_RESULT,
    MCP_LISTING,
    ADVISOR_RESULT,
    FALLBACK,
)
ASSISTANT_BLOCKS: tuple[Record, ...] = (
    TEXT_BLOCK,
    CITED_TEXT,
    THINKING,
    REDACTED,
    TOOL_USE,
    TOOLSET_USE,
    *HOSTED_BLOCKS,
)

FUNCTION_TOOL = record(
    name=required(TOOL_NAME),
    input_schema=required(SCHEMA),
    type=word("custom"),
    description=TEXT,
    strict=FLAG,
    cache_control=CACHE,
    defer_loading=FLAG,
    allowed_callers=some(word("direct", "code_execution_20250825")),
    input_examples=some(JSON, 2),
    eager_input_streaming=kept(FLAG),
)
_DOMAINS = some(leaf(Kind.TEXT, "example.com", "docs.example.org"))
LOCATION = unread(record("approximate", city=SHORT, region=SHORT, country=SHORT, timezone=SHORT))
VENDOR_TOOLS: tuple[Record, ...] = (
    record("bash_20250124", name=required(word("bash")), cache_control=CACHE),
    record("text_editor_20250124", name=required(word("str_replace_editor"))),
    record("text_editor_20250728", name=required(word("str_replace_based_edit_tool")), max_characters=kept(COUNT)),
    record("memory_20250818", name=required(word("memory"))),
    record("computer_toolset_20260801", configs=kept(JSON)),
    record("browser_toolset_20260801", configs=kept(JSON)),
    record(
        "computer_20251124",
        name=required(word("computer")),
        display_width_px=kept_required(COUNT),
        display_height_px=kept_required(COUNT),
        display_number=kept(INDEX),
        enable_zoom=kept(FLAG),
    ),
)
SERVER_TOOLS: tuple[Record, ...] = (
    record(
        "web_search_20260318",
        name=required(word("web_search")),
        max_uses=COUNT,
        allowed_domains=_DOMAINS,
        user_location=LOCATION,
        response_inclusion=kept(word("full", "excluded")),
        allowed_callers=kept(some(word("direct"))),
        cache_control=CACHE,
    ),
    record("web_search_20250305", name=required(word("web_search")), blocked_domains=_DOMAINS),
    record(
        "web_fetch_20260318",
        name=required(word("web_fetch")),
        max_uses=COUNT,
        allowed_domains=_DOMAINS,
        max_content_tokens=kept(COUNT),
        citations=kept(CITING),
        url_sources=kept(many(SHORT)),
        use_cache=kept(FLAG),
        response_inclusion=kept(word("full", "excluded")),
        cache_control=CACHE,
    ),
    record("code_execution_20260521", name=required(word("code_execution")), cache_control=CACHE),
    record("tool_search_tool_bm25_20251119", name=required(word("tool_search_tool_bm25"))),
    record("tool_search_tool_regex", name=required(word("tool_search_tool_regex")), cache_control=CACHE),
    record(
        "advisor_20260301",
        name=kept_required(word("advisor")),
        model=kept(SHORT),
        max_uses=kept(COUNT),
        max_tokens=kept(COUNT),
        caching=kept(JSON),
    ),
)
MCP_TOOLSET = record(
    "mcp_toolset",
    mcp_server_name=required(leaf(Kind.TOOL_NAME, "docs")),
    default_config=record(enabled=FLAG, defer_loading=FLAG),
    configs=leaf(Kind.JSON, {"search": {"enabled": True}, "write": {"enabled": False}}),
    cache_control=CACHE,
)
MCP_SERVER = record(
    "url",
    url=required(URL),
    name=required(leaf(Kind.TOOL_NAME, "docs")),
    authorization_token=SHORT,
    tool_configuration=kept(record(enabled=FLAG, allowed_tools=many(SHORT))),
)
TOOL = either(FUNCTION_TOOL, *VENDOR_TOOLS, *SERVER_TOOLS, MCP_TOOLSET, canon=_as_function)
TOOL_CHOICE = either(
    record("auto", disable_parallel_tool_use=FLAG),
    record("any", disable_parallel_tool_use=FLAG),
    record("tool", name=required(TOOL_NAME), disable_parallel_tool_use=FLAG),
    record("none"),
)
EFFORT = word("low", "medium", "high", "xhigh", "max")
BINDING = record(prefix_mismatch_behavior=word("error", "drop_block"))
DISPLAY = word("summarized", "omitted", "updates")
THINKING_CONFIG = either(
    record(
        "enabled", budget_tokens=required(leaf(Kind.INTEGER, 2048, 10000)), display=DISPLAY, block_binding=kept(BINDING)
    ),
    record("adaptive", display=DISPLAY, block_binding=kept(BINDING)),
    record("between_tools"),
    record("disabled"),
)
FORMAT = record("json_schema", schema=required(SCHEMA))
OUTPUT_CONFIG = record(
    effort=EFFORT,
    format=FORMAT,
    task_budget=kept(record("tokens", total=required(COUNT), remaining=COUNT)),
)
TOOL_ADDITION = record(
    "tool_addition",
    tool=required(record("tool_definition", definition=required(either(FUNCTION_TOOL, canon=_as_function)))),
)
TOOL_REMOVAL = record("tool_removal", tool=required(record("tool_reference", name=required(TOOL_NAME))))
USER_MESSAGE = record(
    role=required(word("user")),
    content=required(either(TEXT, some(either(*USER_BLOCKS, COMPACTION)), canon=_as_blocks)),
)
ASSISTANT_MESSAGE = record(
    role=required(word("assistant")),
    content=required(either(TEXT, some(either(*ASSISTANT_BLOCKS)), canon=_as_blocks)),
)
SYSTEM_MESSAGE = record(
    role=required(word("system")),
    content=required(either(TEXT, some(either(TEXT_BLOCK, TOOL_ADDITION, TOOL_REMOVAL)), canon=_as_blocks)),
    clear_at=word("never", "next_user_message"),
    output_config=record(effort=required(EFFORT)),
)
MESSAGE = either(USER_MESSAGE, ASSISTANT_MESSAGE, SYSTEM_MESSAGE)
EDITS = some(
    either(
        record(
            "clear_tool_uses_20250919",
            trigger=record("input_tokens", value=COUNT),
            keep=record("tool_uses", value=INDEX),
            clear_at_least=record("input_tokens", value=COUNT),
            exclude_tools=many(TOOL_NAME),
            clear_tool_inputs=either(FLAG, many(TOOL_NAME)),
        ),
        record("clear_thinking_20251015", keep=either(word("all"), record("thinking_turns", value=INDEX))),
        record(
            "compact_20260112",
            trigger=record("input_tokens", value=leaf(Kind.INTEGER, 150000)),
            pause_after_compaction=FLAG,
            instructions=TEXT,
        ),
    )
)
REQUEST = record(
    model=required(leaf(Kind.TEXT, "claude-opus-5", "claude-sonnet-4-5", "claude-haiku-5-5", "glm-4")),
    messages=required(some(MESSAGE, 5)),
    max_tokens=required(COUNT),
    system=either(TEXT, some(TEXT_BLOCK), canon=_as_blocks),
    stream=unless(False),
    stop_sequences=some(leaf(Kind.TEXT, "STOP", "###")),
    tools=some(TOOL, 4),
    tool_choice=TOOL_CHOICE,
    thinking=THINKING_CONFIG,
    output_config=OUTPUT_CONFIG,
    cache_control=CACHE,
    metadata=record(user_id=nullable(SHORT)),
    service_tier=word("auto", "standard_only"),
    speed=nullable(word("standard", "fast")),
    inference_geo=kept(SHORT),
    container=kept(either(SHORT, record(id=SHORT, skills=many(record("custom", skill_id=SHORT, version=SHORT))))),
    diagnostics=kept(record(previous_message_id=SHORT)),
    user_profile_id=kept(SHORT),
    context_management=kept(record(edits=EDITS)),
    compaction=kept(record("summarize", instructions=TEXT)),
    mcp_servers=some(MCP_SERVER, 1),
    fallbacks=kept(either(word("default"), some(record(model=SHORT, max_tokens=COUNT, speed=word("fast"))))),
    fallback_credit_token=kept(either(SHORT, record(token=SHORT, mode=SHORT))),
    thread=kept(either(record("create"), record("continue", previous_message_id=SHORT))),
    temperature=leaf(Kind.NUMBER, 0.5, 1),
    top_p=leaf(Kind.NUMBER, 0.97, 0.5),
    top_k=leaf(Kind.INTEGER, 40),
    output_format=FORMAT,
)

USAGE = record(
    input_tokens=required(COUNT),
    output_tokens=required(COUNT),
    cache_creation_input_tokens=nullable(COUNT),
    cache_read_input_tokens=nullable(COUNT),
    cache_creation=kept(record(ephemeral_5m_input_tokens=COUNT, ephemeral_1h_input_tokens=COUNT)),
    output_tokens_details=record(thinking_tokens=required(COUNT)),
    server_tool_use=record(web_search_requests=required(INDEX), web_fetch_requests=kept(INDEX)),
    service_tier=word("standard", "priority", "batch"),
    speed=kept(word("standard")),
    inference_geo=kept(SHORT),
)
ANSWER_BLOCKS: tuple[Record, ...] = (
    record("text", text=required(TEXT)),
    record("text", text=required(TEXT), citations=some(CITATION, 2)),
    THINKING,
    REDACTED,
    record("tool_use", id=required(CALL_ID), name=required(TOOL_NAME), input=required(JSON), caller=kept(CALLER)),
    *HOSTED_BLOCKS,
    CONTAINER_UPLOAD,
)
STOP_REASONS = (
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "compaction",
)
ANSWER = record(
    "message",
    id=required(leaf(Kind.OBJECT_ID, "msg_01AbCdEfGhIjKlMnOpQr", "msg_1")),
    role=required(leaf(Kind.TAG, "assistant")),
    model=required(leaf(Kind.OBJECT_ID, "claude-opus-5")),
    content=required(many(either(*ANSWER_BLOCKS), 5)),
    stop_reason=required(word(*STOP_REASONS)),
    stop_sequence=nullable(leaf(Kind.TEXT, "STOP")),
    stop_details=nullable(
        either(
            record("refusal", category=nullable(word("cyber", "bio")), explanation=nullable(TEXT)), canon=_unless_bare
        )
    ),
    usage=required(USAGE),
    container=kept(record(id=SHORT, expires_at=leaf(Kind.TEXT, "2026-11-15T00:00:00Z"))),
    diagnostics=kept(record(cache_miss_reason=JSON)),
    context_management=kept(record(applied_edits=many(JSON))),
)


def tool_loop(call: JsonValue, result: JsonValue) -> list[JsonValue]:
    """An assistant turn that calls and the user turn that answers."""
    return [
        {"role": "user", "content": "Please look."},
        {"role": "assistant", "content": [as_object(call)]},
        {"role": "user", "content": [as_object(result)]},
    ]
