"""The Responses wire as shapes: every member of openai-responses.md §3-§14."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonValue
from tests.laws.shapes import (
    ARGUMENTS,
    BASE64,
    CALL_ID,
    COUNT,
    FILE_ID,
    FLAG,
    INDEX,
    ITEM_ID,
    JSON,
    LOGPROB,
    PROOF,
    SCHEMA,
    SHORT,
    TEXT,
    TOOL_NAME,
    URL,
    Field,
    Kind,
    Record,
    Shape,
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


def _as_user_parts(value: JsonValue) -> JsonValue:
    return [{"type": "input_text", "text": value}] if isinstance(value, str) else value


def _as_assistant_parts(value: JsonValue) -> JsonValue:
    return [{"type": "output_text", "text": value}] if isinstance(value, str) else _without_empty(value)


def _without_empty(value: JsonValue) -> JsonValue:
    """Output text without annotations may say so with an empty list."""
    if not isinstance(value, list):
        return value
    return [
        {name: member for name, member in part.items() if not (name in ("annotations", "logprobs") and member == [])}
        if isinstance(part, dict)
        else part
        for part in value
    ]


def _unless_text(value: JsonValue) -> JsonValue:
    """Free text is what a custom tool takes if it says nothing."""
    return None if value == {"type": "text"} else value


def _as_items(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": _as_user_parts(value)}]
    return value


def _as_message(value: JsonValue) -> JsonValue:
    """A message may omit its `type` (§4)."""
    return {"type": "message", **value} if isinstance(value, dict) and "type" not in value else value


BREAKPOINT = record(mode=required(word("explicit")), ttl=word("30m", "12h"))
DETAIL = word("auto", "low", "high", "original")
INPUT_TEXT = record("input_text", text=required(TEXT), prompt_cache_breakpoint=BREAKPOINT)
INPUT_IMAGE = either(
    record(
        "input_image",
        image_url=required(either(URL, leaf(Kind.DATA_URL, "data:image/png;base64,AAECAwQF"))),
        detail=DETAIL,
        prompt_cache_breakpoint=BREAKPOINT,
    ),
    record("input_image", file_id=required(FILE_ID), detail=DETAIL),
)
INPUT_FILE = either(
    record("input_file", file_id=required(FILE_ID)),
    record("input_file", file_url=required(URL), detail=kept(DETAIL)),
    record(
        "input_file",
        file_data=required(leaf(Kind.DATA_URL, "data:application/pdf;base64,AAECAwQF")),
        filename=required(SHORT),
        prompt_cache_breakpoint=BREAKPOINT,
    ),
    record(
        "input_file",
        file_data=required(leaf(Kind.DATA_URL, "data:text/plain;base64,AAECAwQF")),
        filename=required(SHORT),
    ),
)
INPUT_AUDIO = record(
    "input_audio", input_audio=required(record(data=required(BASE64), format=required(word("mp3", "wav"))))
)
ANNOTATION = either(
    record(
        "url_citation",
        url=required(URL),
        title=required(SHORT),
        start_index=required(leaf(Kind.INTEGER, 0)),
        end_index=required(leaf(Kind.INTEGER, 3)),
    ),
    record("file_citation", file_id=required(FILE_ID), filename=kept(SHORT), index=kept(INDEX)),
    record(
        "container_file_citation",
        container_id=kept(SHORT),
        file_id=kept(FILE_ID),
        filename=kept(SHORT),
        start_index=kept(INDEX),
        end_index=kept(INDEX),
    ),
    record("file_path", file_id=kept(FILE_ID), index=kept(INDEX)),
)
OUTPUT_TEXT = record(
    "output_text", text=required(TEXT), annotations=many(ANNOTATION, 2), logprobs=kept(many(LOGPROB, 1))
)
REFUSAL = record("refusal", refusal=required(TEXT))
USER_PARTS: tuple[Shape, ...] = (INPUT_TEXT, INPUT_IMAGE, INPUT_FILE, INPUT_AUDIO)
STATUS = kept(word("completed", "incomplete"))
ID = ITEM_ID
CALLER = kept(either(record("direct"), record("program", caller_id=kept_required(SHORT))))


def _message(role: Field, content: Shape, **others: Shape | Field) -> Shape:
    bare = record(role=role, content=required(content), **others)
    return either(record("message", role=role, content=required(content), **others), bare, canon=_as_message)


USER_MESSAGE = _message(
    required(word("user")), either(TEXT, some(either(*USER_PARTS)), canon=_as_user_parts), id=ID, status=STATUS
)
SYSTEM_MESSAGE = _message(
    required(word("system", "developer")), either(TEXT, some(INPUT_TEXT), canon=_as_user_parts), id=ID, status=STATUS
)
ASSISTANT_MESSAGE = _message(
    required(word("assistant")),
    either(TEXT, some(either(OUTPUT_TEXT, REFUSAL)), canon=_as_assistant_parts),
    id=ID,
    status=STATUS,
    phase=kept(word("commentary", "final_answer")),
)
SUMMARY = record(type=kept_required(leaf(Kind.TAG, "summary_text")), text=required(TEXT))
REASONING = record(
    "reasoning",
    id=required(ID),
    summary=required(many(SUMMARY, 2)),
    content=nullable(some(record("reasoning_text", text=required(TEXT)), 1)),
    encrypted_content=nullable(PROOF),
    status=STATUS,
)
FUNCTION_CALL = record(
    "function_call",
    call_id=required(CALL_ID),
    name=required(TOOL_NAME),
    arguments=required(ARGUMENTS),
    id=ID,
    namespace=leaf(Kind.TOOL_NAME, "files"),
    caller=CALLER,
    async_=kept(FLAG),
    status=STATUS,
)
OUTPUT = either(TEXT, some(either(INPUT_TEXT, INPUT_IMAGE, INPUT_FILE)), canon=_as_user_parts)
FUNCTION_OUTPUT = record(
    "function_call_output",
    output=required(OUTPUT),
    call_id=required(CALL_ID),
    id=ID,
    name=kept(TOOL_NAME),
    namespace=kept(leaf(Kind.TOOL_NAME, "files")),
    caller=CALLER,
    status=STATUS,
)
CUSTOM_CALL = record(
    "custom_tool_call",
    call_id=required(CALL_ID),
    name=required(TOOL_NAME),
    input=required(TEXT),
    id=ID,
    namespace=leaf(Kind.TOOL_NAME, "files"),
    caller=CALLER,
    async_=kept(FLAG),
)
CUSTOM_OUTPUT = record(
    "custom_tool_call_output", call_id=required(CALL_ID), output=required(OUTPUT), id=ID, caller=CALLER
)
WEB_SEARCH_CALL = record(
    "web_search_call",
    id=required(ID),
    status=kept(word("completed", "failed")),
    action=kept(
        either(
            record("search", query=TEXT, queries=kept(many(SHORT)), sources=some(record("url", url=required(URL)), 2)),
            record("open_page", url=kept(URL)),
            record("find_in_page", url=kept(URL), pattern=kept(SHORT)),
        )
    ),
)
FILE_SEARCH_CALL = record(
    "file_search_call",
    id=kept_required(ID),
    status=kept(word("completed")),
    queries=kept(many(SHORT)),
    results=kept(
        many(
            record(
                file_id=FILE_ID,
                filename=SHORT,
                score=leaf(Kind.NUMBER, 0.5),
                text=TEXT,
                attributes=leaf(Kind.JSON, {"year": "2026"}),
            )
        )
    ),
)
CODE_CALL = record(
    "code_interpreter_call",
    id=required(ID),
    status=kept(word("completed")),
    code=nullable(TEXT),
    container_id=kept(SHORT),
    outputs=kept(many(either(record("logs", logs=required(TEXT)), record("image", url=required(URL))), 2)),
)
IMAGE_CALL = record(
    "image_generation_call",
    id=kept_required(ID),
    status=kept(word("completed")),
    result=kept(BASE64),
    revised_prompt=kept(TEXT),
)
COMPUTER_ACTION = record("click", button=word("left"), x=INDEX, y=INDEX)
COMPUTER_CALL = record(
    "computer_call",
    id=required(ID),
    call_id=required(CALL_ID),
    action=kept(COMPUTER_ACTION),
    actions=kept(many(COMPUTER_ACTION)),
    pending_safety_checks=kept(many(record(id=SHORT, code=SHORT, message=TEXT))),
    status=STATUS,
)
COMPUTER_OUTPUT = record(
    "computer_call_output",
    call_id=required(CALL_ID),
    output=kept_required(
        record("computer_screenshot", image_url=leaf(Kind.DATA_URL, "data:image/png;base64,AAECAwQF"))
    ),
    acknowledged_safety_checks=kept(many(record(id=SHORT))),
    id=ID,
    status=STATUS,
)
LOCAL_SHELL_CALL = record(
    "local_shell_call",
    id=required(leaf(Kind.CALL_ID, "lsh_1")),
    call_id=required(leaf(Kind.CALL_ID, "lsh_1")),
    action=kept_required(record("exec", command=some(SHORT), env=JSON, timeout_ms=COUNT, working_directory=SHORT)),
    status=STATUS,
)
LOCAL_SHELL_OUTPUT = record(
    "local_shell_call_output", id=required(leaf(Kind.CALL_ID, "lsh_1")), output=kept_required(TEXT), status=STATUS
)
SHELL_CALL = record(
    "shell_call",
    call_id=required(CALL_ID),
    id=ID,
    action=kept_required(record(commands=some(SHORT), timeout_ms=COUNT, max_output_length=COUNT)),
    environment=kept(record("local")),
    status=STATUS,
)
SHELL_OUTPUT = record(
    "shell_call_output",
    call_id=required(CALL_ID),
    id=ID,
    output=kept_required(
        some(
            record(
                stdout=TEXT,
                stderr=TEXT,
                outcome=either(record("exit", exit_code=required(INDEX)), record("timeout")),
            )
        )
    ),
    max_output_length=kept(COUNT),
)
PATCH_CALL = record(
    "apply_patch_call",
    call_id=required(CALL_ID),
    id=ID,
    operation=kept_required(
        either(
            record("create_file", path=required(SHORT), diff=required(TEXT)),
            record("update_file", path=required(SHORT), diff=required(TEXT)),
            record("delete_file", path=required(SHORT)),
        )
    ),
    status=STATUS,
)
PATCH_OUTPUT = record(
    "apply_patch_call_output",
    call_id=required(CALL_ID),
    id=ID,
    status=kept_required(word("completed", "failed")),
    output=kept(TEXT),
)
MCP_LIST = record(
    "mcp_list_tools",
    id=required(ID),
    server_label=required(SHORT),
    tools=kept_required(many(record(name=required(SHORT), description=TEXT, input_schema=JSON))),
    error=kept(TEXT),
)
MCP_CALL = record(
    "mcp_call",
    id=required(ID),
    server_label=required(SHORT),
    name=required(SHORT),
    arguments=required(ARGUMENTS),
    output=nullable(TEXT),
    approval_request_id=kept(SHORT),
    status=kept(word("completed")),
)
FAILED_MCP_CALL = record(
    "mcp_call",
    id=required(ID),
    server_label=required(SHORT),
    name=required(SHORT),
    arguments=required(ARGUMENTS),
    error=kept_required(TEXT),
    status=kept_required(word("failed")),
)
MCP_APPROVAL = record(
    "mcp_approval_request",
    id=kept_required(ID),
    server_label=kept(SHORT),
    name=kept(SHORT),
    arguments=kept(ARGUMENTS),
)
MCP_ANSWER = record(
    "mcp_approval_response", approval_request_id=kept_required(SHORT), approve=kept_required(FLAG), reason=kept(TEXT)
)
COMPACTION = record("compaction", encrypted_content=required(PROOF), id=ID)
TRIGGER = record("compaction_trigger")
REFERENCE = record("item_reference", id=required(ID))

FUNCTION_TOOL = record(
    "function",
    name=required(TOOL_NAME),
    parameters=nullable(SCHEMA),
    strict=nullable(FLAG),
    description=nullable(TEXT),
    defer_loading=FLAG,
    allowed_callers=some(word("direct", "programmatic")),
    output_schema=kept(JSON),
    async_=kept(FLAG),
)
CUSTOM_TOOL = record(
    "custom",
    name=required(TOOL_NAME),
    description=TEXT,
    format=nullable(
        either(
            record("text"),
            record("grammar", syntax=required(word("lark", "regex")), definition=required(TEXT)),
            canon=_unless_text,
        )
    ),
    defer_loading=FLAG,
    allowed_callers=some(word("direct")),
    async_=kept(FLAG),
)
NAMESPACE = record(
    "namespace",
    name=required(leaf(Kind.TOOL_NAME, "files")),
    description=required(TEXT),
    tools=required(some(either(FUNCTION_TOOL, CUSTOM_TOOL), 2)),
)
LOCATION = unread(record("approximate", city=SHORT, region=SHORT, country=SHORT, timezone=SHORT))
SERVER_TOOLS: tuple[Record, ...] = (
    record(
        "web_search",
        filters=record(allowed_domains=some(leaf(Kind.TEXT, "example.com"))),
        search_context_size=word("low", "medium", "high"),
        user_location=LOCATION,
        external_web_access=kept(FLAG),
    ),
    record(
        "web_search_preview",
        search_context_size=word("low", "medium", "high"),
        user_location=LOCATION,
        search_content_types=kept(many(SHORT)),
    ),
    record(
        "file_search",
        vector_store_ids=kept_required(some(SHORT)),
        filters=kept(JSON),
        max_num_results=kept(INDEX),
        ranking_options=kept(JSON),
    ),
    record(
        "code_interpreter",
        container=required(
            either(
                leaf(Kind.TEXT, "cntr_1"),
                unread(record("auto", file_ids=some(FILE_ID), memory_limit=word("1g", "4g"), network_policy=JSON)),
                unread(record("auto")),
            )
        ),
        allowed_callers=kept(some(word("direct"))),
    ),
    record("image_generation", model=kept(SHORT), size=kept(SHORT), quality=kept(SHORT), partial_images=kept(INDEX)),
    record(
        "mcp",
        server_label=required(SHORT),
        server_url=required(URL),
        authorization=SHORT,
        headers=JSON,
        allowed_tools=either(some(SHORT), unread(record(tool_names=some(SHORT), read_only=FLAG))),
        require_approval=either(word("never", "always"), unread(record(never=required(JSON)))),
        server_description=kept(TEXT),
        defer_loading=FLAG,
        allowed_callers=kept(some(word("direct"))),
    ),
    record(
        "mcp",
        server_label=required(SHORT),
        server_url=required(URL),
        authorization=SHORT,
        allowed_tools=either(some(SHORT), unread(record(tool_names=some(SHORT), read_only=FLAG))),
        require_approval=required(either(word("never"), unread(record(never=required(JSON))))),
    ),
    record(
        "mcp", server_label=required(SHORT), connector_id=kept_required(SHORT), require_approval=kept(word("never"))
    ),
    record("tool_search", execution=kept(word("server", "client")), description=kept(TEXT), parameters=kept(JSON)),
    record("programmatic_tool_calling"),
)
VENDOR_TOOLS: tuple[Record, ...] = (
    record("local_shell"),
    record("shell", environment=kept(record("local"))),
    record("shell", environment=kept_required(record("container_auto"))),
    record("apply_patch", allowed_callers=kept(some(word("direct")))),
    record("computer"),
    record(
        "computer_use_preview",
        display_width=kept_required(COUNT),
        display_height=kept_required(COUNT),
        environment=kept_required(SHORT),
    ),
)
TOOL = either(FUNCTION_TOOL, CUSTOM_TOOL, NAMESPACE, *SERVER_TOOLS, *VENDOR_TOOLS)
FORMAT = either(
    record("text"),
    record("json_object"),
    record("json_schema", name=required(SHORT), schema=required(SCHEMA), description=TEXT, strict=nullable(FLAG)),
)
EFFORT = word("none", "minimal", "low", "medium", "high", "xhigh", "max")
ADDITIONAL_TOOLS = record(
    "additional_tools", role=kept_required(word("developer")), tools=required(some(FUNCTION_TOOL, 2)), id=kept(ID)
)
TOOL_SEARCH_CALL = record(
    "tool_search_call",
    id=kept(ID),
    call_id=kept(CALL_ID),
    arguments=kept_required(JSON),
    execution=kept(word("server")),
    status=STATUS,
)
TOOL_SEARCH_OUTPUT = record(
    "tool_search_output",
    id=kept(ID),
    call_id=kept(CALL_ID),
    tools=required(some(FUNCTION_TOOL, 2)),
    execution=kept(word("server")),
)
CLIENT_SEARCH_CALL = record(
    "tool_search_call",
    id=ID,
    call_id=required(CALL_ID),
    arguments=kept_required(record(query=TEXT)),
    execution=kept_required(word("client")),
    status=STATUS,
)
CLIENT_SEARCH_OUTPUT = record(
    "tool_search_output",
    id=ID,
    call_id=required(CALL_ID),
    tools=required(some(FUNCTION_TOOL, 2)),
    execution=kept_required(word("client")),
    status=STATUS,
)
CONFIGURATION = record(
    "configuration_update", reasoning=record(effort=required(EFFORT)), text=record(format=required(FORMAT)), id=kept(ID)
)
PROGRAM = record(
    "program", id=kept(ID), call_id=kept_required(SHORT), code=kept_required(TEXT), fingerprint=kept_required(SHORT)
)
PROGRAM_OUTPUT = record(
    "program_output",
    id=kept(ID),
    call_id=kept(SHORT),
    result=kept_required(TEXT),
    status=kept_required(word("completed")),
)
MODEL_ITEMS: tuple[Shape, ...] = (
    REASONING,
    FUNCTION_CALL,
    CUSTOM_CALL,
    WEB_SEARCH_CALL,
    FILE_SEARCH_CALL,
    CODE_CALL,
    IMAGE_CALL,
    COMPUTER_CALL,
    LOCAL_SHELL_CALL,
    SHELL_CALL,
    PATCH_CALL,
    MCP_LIST,
    MCP_CALL,
    FAILED_MCP_CALL,
    MCP_APPROVAL,
    TOOL_SEARCH_CALL,
    TOOL_SEARCH_OUTPUT,
    CLIENT_SEARCH_CALL,
    PROGRAM,
    PROGRAM_OUTPUT,
    COMPACTION,
)
CLIENT_ITEMS: tuple[Shape, ...] = (
    FUNCTION_OUTPUT,
    CUSTOM_OUTPUT,
    COMPUTER_OUTPUT,
    LOCAL_SHELL_OUTPUT,
    SHELL_OUTPUT,
    PATCH_OUTPUT,
    CLIENT_SEARCH_OUTPUT,
    MCP_ANSWER,
    ADDITIONAL_TOOLS,
    CONFIGURATION,
    REFERENCE,
    TRIGGER,
)
ITEM = either(USER_MESSAGE, SYSTEM_MESSAGE, ASSISTANT_MESSAGE, *MODEL_ITEMS, *CLIENT_ITEMS)
_SERVERS = record("mcp", server_label=kept_required(SHORT))
TOOL_CHOICE = either(
    word("none", "auto", "required"),
    record("function", name=required(TOOL_NAME)),
    record("custom", name=required(TOOL_NAME)),
    record("mcp", server_label=kept_required(SHORT), name=kept(SHORT)),
    record(
        "allowed_tools",
        mode=required(word("auto", "required")),
        tools=required(some(either(record("function", name=required(TOOL_NAME)), _SERVERS))),
    ),
    record("web_search_preview"),
    record("code_interpreter"),
    record("shell"),
    record("apply_patch"),
)
INCLUDES = (
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
    "web_search_call.action.sources",
    "file_search_call.results",
    "message.input_image.image_url",
)
_MODE = record(mode=required(word("score", "block")))
REQUEST = record(
    model=required(leaf(Kind.TEXT, "gpt-5", "gpt-4o", "o3")),
    input=required(either(TEXT, some(ITEM, 6), canon=_as_items)),
    instructions=nullable(TEXT),
    previous_response_id=nullable(SHORT),
    conversation=kept(either(SHORT, record(id=required(SHORT)))),
    store=nullable(FLAG),
    background=nullable(FLAG),
    stream=unless(False),
    stream_options=nullable(record(include_obfuscation=FLAG)),
    include=nullable(some(word(*INCLUDES))),
    max_output_tokens=nullable(COUNT),
    max_tool_calls=nullable(INDEX),
    tools=some(TOOL, 4),
    tool_choice=TOOL_CHOICE,
    parallel_tool_calls=nullable(FLAG),
    text=record(format=FORMAT, verbosity=nullable(word("low", "medium", "high"))),
    reasoning=nullable(
        record(
            effort=nullable(EFFORT),
            summary=nullable(word("auto", "concise", "detailed")),
            context=kept(word("auto", "current_turn")),
            mode=kept(word("standard", "pro")),
        )
    ),
    temperature=nullable(leaf(Kind.NUMBER, 0.5, 1, 1.5)),
    top_p=nullable(leaf(Kind.NUMBER, 0.97, 1)),
    top_logprobs=nullable(leaf(Kind.INTEGER, 5)),
    presence_penalty=nullable(leaf(Kind.NUMBER, 0.25)),
    frequency_penalty=nullable(leaf(Kind.NUMBER, 0.75)),
    truncation=kept(word("auto", "disabled")),
    context_management=kept(some(record("compaction", compact_threshold=COUNT), 1)),
    prompt=kept(record(id=SHORT, version=SHORT, variables=JSON)),
    metadata=leaf(Kind.JSON, {"team": "blue"}),
    service_tier=nullable(word("auto", "default", "flex", "scale", "priority", "fast", "ultrafast")),
    safety_identifier=nullable(SHORT),
    prompt_cache_key=nullable(SHORT),
    prompt_cache_options=record(
        mode=word("implicit", "explicit"), ttl=word("30m", "12h"), prewarm=FLAG, comparison_response_id=kept(SHORT)
    ),
    prompt_cache_retention=nullable(word("in_memory", "24h")),
    moderation=nullable(record(model=kept_required(SHORT), policy=kept(record(input=_MODE, output=_MODE)))),
    image=kept(record(context_compression=word("auto", "enabled"))),
    access_programs=kept(record(cyber=SHORT)),
    multi_agent=kept(record(enabled=FLAG, max_concurrent_subagents=INDEX)),
    user=SHORT,
)

USAGE = record(
    input_tokens=required(COUNT),
    input_tokens_details=required(record(cached_tokens=required(INDEX), cache_write_tokens=INDEX)),
    output_tokens=required(COUNT),
    output_tokens_details=required(record(reasoning_tokens=required(INDEX))),
    total_tokens=kept_required(COUNT),
)
ANSWER_MESSAGE = record(
    "message",
    id=required(ID),
    role=kept_required(leaf(Kind.TAG, "assistant")),
    status=kept_required(word("completed")),
    content=required(
        either(
            some(
                either(
                    record(
                        "output_text",
                        text=required(TEXT),
                        annotations=required(many(ANNOTATION, 2)),
                        logprobs=kept(many(LOGPROB, 1)),
                    ),
                    REFUSAL,
                ),
                2,
            ),
            canon=_without_empty,
        )
    ),
    phase=kept(word("commentary", "final_answer")),
)
ANSWER_CALL = record(
    "function_call",
    id=required(ID),
    call_id=required(CALL_ID),
    name=required(TOOL_NAME),
    arguments=required(ARGUMENTS),
    status=kept_required(word("completed")),
    namespace=leaf(Kind.TOOL_NAME, "files"),
)
ANSWER_CUSTOM = record(
    "custom_tool_call", id=required(ID), call_id=required(CALL_ID), name=required(TOOL_NAME), input=required(TEXT)
)
ANSWER_REASONING = record(
    "reasoning",
    id=required(ID),
    summary=required(many(SUMMARY, 2)),
    content=some(record("reasoning_text", text=required(TEXT)), 1),
    encrypted_content=PROOF,
)
ANSWER_ITEMS: tuple[Record, ...] = (
    ANSWER_MESSAGE,
    ANSWER_REASONING,
    ANSWER_CALL,
    ANSWER_CUSTOM,
    WEB_SEARCH_CALL,
    FILE_SEARCH_CALL,
    CODE_CALL,
    MCP_LIST,
    MCP_CALL,
    FAILED_MCP_CALL,
    SHELL_CALL,
    PATCH_CALL,
    COMPACTION,
)
ANSWER = record(
    id=required(leaf(Kind.OBJECT_ID, "resp_AbCdEfGhIjKlMnOpQr", "resp_1")),
    object=kept_required(leaf(Kind.TAG, "response")),
    created_at=required(leaf(Kind.INTEGER, 1700000000)),
    completed_at=kept(leaf(Kind.INTEGER, 1700000001)),
    status=required(word("completed", "incomplete")),
    error=nullable(leaf(Kind.NULL, None)),
    incomplete_details=nullable(record(reason=required(word("max_output_tokens", "content_filter", "steered")))),
    model=required(leaf(Kind.OBJECT_ID, "gpt-5-2025-08-07")),
    output=required(many(either(*ANSWER_ITEMS), 4)),
    usage=nullable(USAGE),
    instructions=kept(leaf(Kind.NULL, None)),
    parallel_tool_calls=kept(FLAG),
    tool_choice=kept(word("auto")),
    tools=kept(leaf(Kind.ANY, [])),
    temperature=kept(leaf(Kind.NUMBER, 1)),
    top_p=kept(leaf(Kind.NUMBER, 1)),
    service_tier=word("default", "priority"),
    metadata=kept(JSON),
    store=kept(FLAG),
)
