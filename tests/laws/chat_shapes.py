"""The Chat Completions wire as shapes: every member of openai-chat-completions.md §3-§13 and §17."""

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
    JSON,
    LOGPROB,
    PROOF,
    SCHEMA,
    SHORT,
    TEXT,
    TOOL_NAME,
    URL,
    Kind,
    either,
    kept,
    kept_required,
    leaf,
    nullable,
    record,
    required,
    some,
    unless,
    word,
)


def _as_parts(value: JsonValue) -> JsonValue:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


def _unless_text(value: JsonValue) -> JsonValue:
    """Free text is what a custom tool takes if it says nothing."""
    return None if value == {"type": "text"} else value


def _or_null(value: JsonValue) -> JsonValue:
    """An answer without text may say so with an empty one (mapping.md §16)."""
    return value or None


def _as_stops(value: JsonValue) -> JsonValue:
    return [value] if isinstance(value, str) else value


BREAKPOINT = record(mode=required(word("explicit")), ttl=word("30m", "12h"))
CACHE = record("ephemeral", ttl=word("5m", "1h"))
TEXT_PART = record("text", text=required(TEXT), prompt_cache_breakpoint=BREAKPOINT)
MARKED_TEXT = record("text", text=required(TEXT), cache_control=required(CACHE))
DATA_IMAGE = leaf(Kind.DATA_URL, "data:image/png;base64,AAECAwQF")
IMAGE_PART = record(
    "image_url",
    image_url=required(record(url=required(either(URL, DATA_IMAGE)), detail=word("auto", "low", "high", "original"))),
    prompt_cache_breakpoint=BREAKPOINT,
)
AUDIO_PART = record(
    "input_audio", input_audio=required(record(data=required(BASE64), format=required(word("wav", "mp3"))))
)
FILE_PART = either(
    record("file", file=required(record(file_id=required(FILE_ID)))),
    record(
        "file",
        file=required(
            record(file_data=required(leaf(Kind.DATA_URL, "data:application/pdf;base64,AAECAwQF")), filename=SHORT)
        ),
        prompt_cache_breakpoint=BREAKPOINT,
    ),
    record("file", file=required(record(file_data=required(leaf(Kind.DATA_URL, "data:text/plain;base64,AAECAwQF"))))),
)
REFUSAL_PART = record("refusal", refusal=required(TEXT))
USER_PARTS = (TEXT_PART, MARKED_TEXT, IMAGE_PART, AUDIO_PART, FILE_PART)
TEXT_CONTENT = either(TEXT, some(either(TEXT_PART, MARKED_TEXT)), canon=_as_parts)

FUNCTION_CALL = record(
    "function",
    id=required(CALL_ID),
    function=required(record(name=required(TOOL_NAME), arguments=required(ARGUMENTS))),
)
SIGNED_CALL = record(
    "function",
    id=required(CALL_ID),
    function=required(record(name=required(TOOL_NAME), arguments=required(ARGUMENTS))),
    extra_content=kept(record(google=record(thought_signature=PROOF))),
)
CUSTOM_CALL = record(
    "custom", id=required(CALL_ID), custom=required(record(name=required(TOOL_NAME), input=required(TEXT)))
)
CALL = either(FUNCTION_CALL, SIGNED_CALL, CUSTOM_CALL)
DETAIL = either(
    record(
        "reasoning.text",
        text=required(TEXT),
        signature=PROOF,
        id=SHORT,
        format=word("unknown", "google-gemini-v1"),
        index=required(leaf(Kind.INTEGER, 0)),
    ),
    record(
        "reasoning.summary",
        summary=required(TEXT),
        format=word("xai-responses-v1"),
        index=required(leaf(Kind.INTEGER, 0)),
    ),
    record(
        "reasoning.encrypted",
        data=required(PROOF),
        id=SHORT,
        format=word("unknown"),
        index=required(leaf(Kind.INTEGER, 0)),
    ),
)
SYSTEM_MESSAGE = record(role=required(word("system", "developer")), content=required(TEXT_CONTENT), name=SHORT)
USER_MESSAGE = record(
    role=required(word("user")),
    content=required(either(TEXT, some(either(*USER_PARTS)), canon=_as_parts)),
    name=SHORT,
)
ASSISTANT_CONTENT = either(TEXT, some(TEXT_PART, 2), canon=_as_parts)
ASSISTANT_MESSAGE = record(
    role=required(word("assistant")),
    content=nullable(ASSISTANT_CONTENT),
    refusal=nullable(TEXT),
    tool_calls=some(CALL, 2),
    audio=kept(record(id=SHORT)),
    name=SHORT,
    reasoning_content=nullable(TEXT),
)
REFUSING_MESSAGE = record(
    role=required(word("assistant")),
    content=required(either(some(either(REFUSAL_PART, TEXT_PART), 2), TEXT, canon=_as_parts)),
)
REASONING_MESSAGE = record(
    role=required(word("assistant")),
    content=nullable(ASSISTANT_CONTENT),
    reasoning=required(TEXT),
    tool_calls=some(CALL, 2),
)
DETAILED_MESSAGE = record(
    role=required(word("assistant")),
    content=nullable(ASSISTANT_CONTENT),
    reasoning_details=required(some(DETAIL, 1)),
    tool_calls=some(CALL, 2),
)
LEGACY_CALL_MESSAGE = record(
    role=required(word("assistant")),
    content=nullable(ASSISTANT_CONTENT),
    function_call=required(record(name=required(TOOL_NAME), arguments=required(ARGUMENTS))),
)
TOOL_MESSAGE = record(role=required(word("tool")), content=required(TEXT_CONTENT), tool_call_id=required(CALL_ID))
FUNCTION_MESSAGE = record(role=required(word("function")), name=required(TOOL_NAME), content=required(TEXT_CONTENT))
MESSAGES = (
    SYSTEM_MESSAGE,
    USER_MESSAGE,
    ASSISTANT_MESSAGE,
    REFUSING_MESSAGE,
    REASONING_MESSAGE,
    DETAILED_MESSAGE,
    LEGACY_CALL_MESSAGE,
    TOOL_MESSAGE,
    FUNCTION_MESSAGE,
)
FUNCTION = record(name=required(TOOL_NAME), description=TEXT, parameters=SCHEMA, strict=nullable(FLAG))
FORMAT = either(
    record("text"),
    record("grammar", grammar=required(record(syntax=required(word("lark", "regex")), definition=required(TEXT)))),
    canon=_unless_text,
)
FUNCTION_TOOL = record("function", function=required(FUNCTION), cache_control=CACHE)
CUSTOM_TOOL = record(
    "custom", custom=required(record(name=required(TOOL_NAME), description=TEXT, format=nullable(FORMAT)))
)
TOOL = either(FUNCTION_TOOL, CUSTOM_TOOL)
_NAMED = record(name=required(TOOL_NAME))
TOOL_CHOICE = either(
    word("none", "auto", "required"),
    record("function", function=required(_NAMED)),
    record("custom", custom=required(_NAMED)),
    record(
        "allowed_tools",
        allowed_tools=required(
            record(
                mode=required(word("auto", "required")),
                tools=required(some(record("function", function=required(_NAMED)))),
            )
        ),
    ),
)
RESPONSE_FORMAT = either(
    record("text"),
    record("json_object"),
    record(
        "json_schema",
        json_schema=required(record(name=required(SHORT), description=TEXT, schema=SCHEMA, strict=nullable(FLAG))),
    ),
)
_APPROXIMATE = record(city=SHORT, region=SHORT, country=SHORT, timezone=SHORT)
_MODE = record(mode=required(word("score", "block")))
REQUEST = record(
    model=required(leaf(Kind.TEXT, "gpt-5", "gpt-4o", "deepseek-chat", "gpt-4o-search-preview")),
    messages=required(some(either(*MESSAGES), 5)),
    stream=unless(False),
    stream_options=nullable(record(include_usage=FLAG, include_obfuscation=FLAG)),
    max_completion_tokens=nullable(COUNT),
    max_tokens=nullable(COUNT),
    n=nullable(leaf(Kind.INTEGER, 1, 3)),
    temperature=nullable(leaf(Kind.NUMBER, 0.5, 1, 1.5)),
    top_p=nullable(leaf(Kind.NUMBER, 0.97, 1)),
    frequency_penalty=nullable(leaf(Kind.NUMBER, 0.25, -1)),
    presence_penalty=nullable(leaf(Kind.NUMBER, 0.75, 2)),
    stop=nullable(either(leaf(Kind.TEXT, "STOP"), some(leaf(Kind.TEXT, "END", "###")), canon=_as_stops)),
    seed=nullable(leaf(Kind.INTEGER, 42)),
    logit_bias=leaf(Kind.JSON, {"50256": -100}),
    logprobs=nullable(FLAG),
    top_logprobs=nullable(leaf(Kind.INTEGER, 5)),
    response_format=RESPONSE_FORMAT,
    tools=some(TOOL, 4),
    tool_choice=TOOL_CHOICE,
    parallel_tool_calls=FLAG,
    functions=some(FUNCTION, 2),
    function_call=either(word("none", "auto"), _NAMED),
    reasoning_effort=nullable(word("none", "minimal", "low", "medium", "high", "xhigh", "max")),
    verbosity=nullable(word("low", "medium", "high")),
    modalities=kept(some(word("text", "audio"))),
    audio=kept(record(voice=SHORT, format=word("wav"))),
    prediction=kept(record("content", content=either(TEXT, some(record("text", text=TEXT))))),
    web_search_options=record(
        search_context_size=word("low", "medium", "high"),
        user_location=record("approximate", approximate=required(_APPROXIMATE)),
    ),
    moderation=nullable(record(model=kept_required(SHORT), policy=kept(record(input=_MODE, output=_MODE)))),
    metadata=leaf(Kind.JSON, {"team": "blue"}),
    store=nullable(FLAG),
    service_tier=nullable(word("auto", "default", "flex", "scale", "priority", "fast")),
    prompt_cache_key=nullable(SHORT),
    prompt_cache_options=record(mode=word("implicit", "explicit"), ttl=word("30m")),
    prompt_cache_retention=nullable(word("in_memory", "24h")),
    safety_identifier=SHORT,
    user=SHORT,
    top_k=leaf(Kind.INTEGER, 40),
    min_p=kept(leaf(Kind.NUMBER, 0.05)),
    repetition_penalty=kept(leaf(Kind.NUMBER, 1.1)),
    chat_template_kwargs=kept(record(enable_thinking=FLAG)),
    reasoning=kept(record(effort=word("low", "high"), max_tokens=COUNT, exclude=FLAG, enabled=FLAG)),
    thinking=kept(record("enabled", budget_tokens=COUNT)),
    enable_thinking=kept(FLAG),
    thinking_budget=kept(COUNT),
    provider=kept(JSON),
    guided_json=kept(JSON),
)

USAGE = record(
    prompt_tokens=required(COUNT),
    completion_tokens=required(COUNT),
    total_tokens=kept_required(COUNT),
    prompt_tokens_details=nullable(
        record(cached_tokens=nullable(INDEX), cache_write_tokens=nullable(INDEX), audio_tokens=kept(INDEX))
    ),
    completion_tokens_details=nullable(
        record(reasoning_tokens=nullable(INDEX), accepted_prediction_tokens=kept(INDEX), audio_tokens=kept(INDEX))
    ),
)
ANNOTATION = record(
    "url_citation",
    url_citation=required(
        record(
            url=required(URL),
            title=required(SHORT),
            start_index=required(leaf(Kind.INTEGER, 0)),
            end_index=required(leaf(Kind.INTEGER, 3)),
        )
    ),
)
FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter", "eos", "max_tokens", "tool_use")
ANSWER_MESSAGE = record(
    role=required(leaf(Kind.TAG, "assistant")),
    content=nullable(either(TEXT, canon=_or_null)),
    refusal=nullable(TEXT),
    annotations=some(ANNOTATION, 2),
    tool_calls=some(either(FUNCTION_CALL, CUSTOM_CALL), 3),
    reasoning_content=nullable(either(TEXT, canon=_or_null)),
    audio=kept(record(id=SHORT, data=BASE64, expires_at=COUNT, transcript=TEXT)),
)
REASONING_ANSWER = record(
    role=required(leaf(Kind.TAG, "assistant")),
    content=nullable(either(TEXT, canon=_or_null)),
    refusal=nullable(TEXT),
    reasoning=TEXT,
    tool_calls=some(FUNCTION_CALL, 3),
)
DETAILED_ANSWER = record(
    role=required(leaf(Kind.TAG, "assistant")),
    content=nullable(either(TEXT, canon=_or_null)),
    refusal=nullable(TEXT),
    reasoning_details=some(DETAIL, 1),
)
LEGACY_ANSWER = record(
    role=required(leaf(Kind.TAG, "assistant")),
    content=nullable(either(TEXT, canon=_or_null)),
    refusal=nullable(TEXT),
    function_call=record(name=required(TOOL_NAME), arguments=required(ARGUMENTS)),
)
CHOICE = record(
    index=required(leaf(Kind.INTEGER, 0)),
    message=required(either(ANSWER_MESSAGE, REASONING_ANSWER, DETAILED_ANSWER, LEGACY_ANSWER)),
    finish_reason=nullable(word(*FINISH_REASONS)),
    logprobs=nullable(record(content=nullable(some(LOGPROB, 1)), refusal=nullable(some(LOGPROB, 1)))),
    stop_reason=kept(leaf(Kind.TEXT, "STOP")),
    native_finish_reason=kept(SHORT),
)
ANSWER = record(
    id=required(leaf(Kind.OBJECT_ID, "chatcmpl-AbCdEfGhIjKlMnOpQr", "x")),
    object=required(leaf(Kind.TAG, "chat.completion")),
    created=required(leaf(Kind.INTEGER, 1700000000)),
    model=required(leaf(Kind.OBJECT_ID, "gpt-4o-2024-08-06")),
    choices=required(some(CHOICE, 1)),
    usage=nullable(USAGE),
    service_tier=word("default", "priority"),
    system_fingerprint=kept(leaf(Kind.OBJECT_ID, "fp_1")),
)
