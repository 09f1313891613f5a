"""A whole request counts by everything that the model reads: instructions, tools, pictures, files, calls; once each."""

from __future__ import annotations

import base64

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.tokens import request
from dragoman.tokens.families import family_of
from dragoman.tokens.request import CountedTokens, count_request, count_texts
from tests.tokens.test_documents import pdf
from tests.tokens.test_pictures import png

WORDS = "The quick brown fox jumps over the lazy dog. "
# As many tokens of o200k_base as the sentence has.
PER_SENTENCE = 10
CLAUDE, GPT, OTHER = "claude-opus-4-5", "gpt-4o", "served"


def messages(*parts: JsonValue) -> JsonObject:
    return {"model": "m", "messages": [{"role": "user", "content": list(parts)}]}


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def count(body: JsonObject, model: str = GPT) -> int:
    return count_request(body, model).tokens


@pytest.fixture
def calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tokenizer is installed."""
    monkeypatch.setattr(request, "count_by_tokenizer", lambda vocabulary, texts: None)


def test_an_empty_request_is_not_nothing() -> None:
    assert count({}) >= 1
    assert count(messages(text("hello"))) < 20


def test_the_tokenizer_counts_text_if_it_is_installed() -> None:
    counted = count_texts([WORDS * 100], family_of(GPT))
    assert counted.by == "tokenizer"
    assert abs(counted.tokens - 100 * PER_SENTENCE) <= 2


@pytest.mark.usefixtures("calibrated")
def test_the_estimate_counts_it_if_not() -> None:
    counted = count_texts([WORDS * 100], family_of(GPT))
    assert counted.by == "calibrated"
    assert 0.9 * 100 * PER_SENTENCE <= counted.tokens <= 1.2 * 100 * PER_SENTENCE


def test_families_are_told_apart() -> None:
    body = messages(text(WORDS * 100))
    assert count(body, GPT) < count(body, OTHER) < count(body, CLAUDE) < count(body, "claude-opus-5")


def test_the_older_vocabulary_is_used_for_older_models() -> None:
    body = messages(text("Переводчик " * 100))
    assert count(body, "gpt-4") > 1.2 * count(body, "gpt-4o")


@pytest.mark.parametrize("member", ["system", "messages", "instructions", "input", "response_format", "text"])
def test_everything_that_the_model_reads_counts(member: str) -> None:
    short: JsonObject = {"model": "m", member: [text("x")]}
    long: JsonObject = {"model": "m", member: [text(WORDS * 50)]}
    assert 450 < count(long) - count(short) < 550


@pytest.mark.parametrize("member", ["system", "instructions", "input"])
def test_a_plain_string_counts_as_a_part_of_text(member: str) -> None:
    assert count({member: WORDS * 50}) > 450


@pytest.mark.parametrize("kind", ["text", "input_text", "output_text", "summary_text", "reasoning_text"])
def test_texts_of_all_names_count_alike(kind: str) -> None:
    assert count(messages({"type": kind, "text": WORDS * 50})) == count(messages(text(WORDS * 50)))


def test_what_the_model_does_not_read_does_not_count() -> None:
    body = messages(text("x"))
    assert count({**body, "metadata": {"user_id": WORDS * 100}, "model": "m" * 1000}) == count(body)
    marked: JsonObject = {**text("x"), "cache_control": {"type": "ephemeral", "ttl": "1h"}, "citations": [text(WORDS)]}
    assert count(messages(marked)) == count(body)


TOOL: JsonObject = {
    "name": "look",
    "description": WORDS * 20,
    "parameters": {"type": "object", "properties": {"where": {"type": "string", "description": WORDS * 10}}},
}
TOOLS: dict[str, JsonObject] = {
    "Messages": {"tools": [{"name": "look", "description": WORDS * 20, "input_schema": TOOL["parameters"]}]},
    "Chat": {"tools": [{"type": "function", "function": TOOL}]},
    "Chat, older": {"functions": [TOOL]},
    "Responses": {"tools": [{"type": "function", **TOOL}]},
    "a namespace": {"tools": [{"type": "namespace", "name": "eyes", "tools": [{"type": "function", **TOOL}]}]},
}


@pytest.mark.parametrize("case", TOOLS)
@pytest.mark.parametrize("model", [GPT, CLAUDE, OTHER])
def test_tools_count_with_their_descriptions_and_schemas(model: str, case: str) -> None:
    assert 290 < count(TOOLS[case], model) - count({}, model) < 900


def test_claude_is_told_about_tools_once() -> None:
    tools = TOOLS["Messages"]["tools"]
    assert isinstance(tools, list)
    one, two = count(TOOLS["Messages"], CLAUDE), count({"tools": tools * 2}, CLAUDE)
    assert one - count({}, CLAUDE) > (two - one) + 300


ARGUMENTS = '{"where":"' + WORDS * 20 + '"}'
CALLS: dict[str, JsonObject] = {
    "Messages": messages({"type": "tool_use", "id": "t" * 500, "name": "look", "input": {"where": WORDS * 20}}),
    "Chat": {
        "messages": [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c" * 500, "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}
                ],
            }
        ]
    },
    "Responses": {"input": [{"type": "function_call", "call_id": "c" * 500, "name": "look", "arguments": ARGUMENTS}]},
    "a custom call": {"input": [{"type": "custom_tool_call", "call_id": "c", "name": "look", "input": WORDS * 20}]},
    "a shell call": {"input": [{"type": "local_shell_call", "call_id": "c", "action": {"command": [WORDS * 20]}}]},
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call_counts_by_its_name_and_arguments(case: str) -> None:
    assert 200 < count(CALLS[case]) < 260


RESULTS: dict[str, JsonObject] = {
    "Messages": messages({"type": "tool_result", "tool_use_id": "t", "content": WORDS * 20}),
    "Messages, in parts": messages({"type": "tool_result", "tool_use_id": "t", "content": [text(WORDS * 20)]}),
    "Chat": {"messages": [{"role": "tool", "tool_call_id": "c", "content": WORDS * 20}]},
    "Responses": {"input": [{"type": "function_call_output", "call_id": "c", "output": WORDS * 20}]},
}


@pytest.mark.parametrize("case", RESULTS)
def test_a_result_counts_by_what_it_says(case: str) -> None:
    assert 200 < count(RESULTS[case]) < 230


SEALED = "s" * 6000
THOUGHTS: dict[str, tuple[JsonObject, int]] = {
    "text with a signature": (messages({"type": "thinking", "thinking": WORDS * 20, "signature": SEALED}), 200),
    "sealed": (messages({"type": "redacted_thinking", "data": SEALED}), 1000),
    "a signature alone": (messages({"type": "thinking", "thinking": "", "signature": SEALED}), 0),
    "sealed with a summary": (
        {"input": [{"type": "reasoning", "summary": [text(WORDS * 20)], "encrypted_content": SEALED}]},
        1000,
    ),
    "text and sealed": (
        {
            "input": [
                {
                    "type": "reasoning",
                    "summary": [text(WORDS)],
                    "content": [{"type": "reasoning_text", "text": WORDS * 20}],
                    "encrypted_content": SEALED,
                }
            ]
        },
        200,
    ),
    "a summary": ({"input": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": WORDS * 20}]}]}, 200),
    "under three names": (
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": "x",
                    "reasoning_content": WORDS * 20,
                    "reasoning": WORDS * 20,
                    "reasoning_details": [{"type": "reasoning.text", "text": WORDS * 20}],
                }
            ]
        },
        200,
    ),
}


@pytest.mark.parametrize("case", THOUGHTS)
def test_reasoning_counts_once(case: str) -> None:
    body, tokens = THOUGHTS[case]
    assert tokens <= count(body) <= tokens + 20


SQUARE = base64.b64encode(png(1000, 1000)).decode()


def pictures(data: str) -> dict[str, JsonObject]:
    url = f"data:image/png;base64,{data}"
    native: JsonObject = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    return {
        "Messages": native,
        "Chat": {"type": "image_url", "image_url": {"url": url}},
        "Responses": {"type": "input_image", "image_url": url},
        "a screenshot": {"type": "computer_screenshot", "image_url": url},
        "a tool's result": {"type": "tool_result", "content": [native]},
    }


@pytest.mark.parametrize("case", pictures(""))
def test_a_picture_counts_by_its_size(case: str) -> None:
    part = pictures(SQUARE)[case]
    assert 1334 <= count(messages(part), CLAUDE) < 1360
    assert 765 <= count(messages(part), GPT) < 790


@pytest.mark.parametrize("case", pictures(""))
def test_a_picture_never_counts_by_its_octets(case: str) -> None:
    one = count(messages(pictures("A" * 4_000_000)[case]))
    assert 700 < one < 5000
    assert count(messages(*[pictures("A" * 4_000_000)[case]] * 2)) > one + 700


@pytest.mark.parametrize(
    "where", [{"type": "url", "url": "https://example.org/a.png"}, {"type": "file", "file_id": "f"}]
)
def test_a_picture_that_is_elsewhere_counts_as_a_large_one(where: JsonObject) -> None:
    assert count(messages({"type": "image", "source": where}), CLAUDE) >= 1600


@pytest.mark.parametrize("odd", ["https://example.org/a.png", "data:nothing", "", None, 5, {}, {"url": None}])
def test_any_address_of_a_picture_will_do(odd: JsonValue) -> None:
    assert count(messages({"type": "image_url", "image_url": odd})) > 700


def test_low_detail_is_cheap() -> None:
    url = f"data:image/png;base64,{SQUARE}"
    assert count(messages({"type": "image_url", "image_url": {"url": url, "detail": "low"}})) < 100
    assert count(messages({"type": "input_image", "image_url": url, "detail": "low"})) < 100


PDF = base64.b64encode(pdf(3)).decode()
FILES: dict[str, JsonObject] = {
    "Messages": {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
    "Chat": {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
    "Responses": {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
    "Responses, bare": {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
}


@pytest.mark.parametrize("case", FILES)
def test_a_pdf_counts_by_its_pages(case: str) -> None:
    counted = count(messages(FILES[case]))
    assert 3 * 1500 < counted < 3 * 4000


SAID = base64.b64encode((WORDS * 20).encode()).decode()
TEXTS: dict[str, JsonObject] = {
    "Messages": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": WORDS * 20}},
    "Messages, in parts": {"type": "document", "source": {"type": "content", "content": [text(WORDS * 20)]}},
    "Chat": {"type": "file", "file": {"filename": "a.txt", "file_data": f"data:text/plain;base64,{SAID}"}},
    "Responses": {"type": "input_file", "filename": "a.txt", "file_data": f"data:text/plain;base64,{SAID}"},
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_text_file_counts_by_its_words(case: str) -> None:
    assert 200 < count(messages(TEXTS[case])) < 230


def test_a_file_that_is_elsewhere_counts_as_a_page() -> None:
    assert 1500 < count(messages({"type": "input_file", "file_id": "file-1"})) < 5000


def test_sound_counts_by_its_length_and_not_as_text() -> None:
    sound: JsonObject = {"type": "input_audio", "input_audio": {"data": "A" * 400_000, "format": "mp3"}}
    assert 500 < count(messages(sound)) < 1500


def test_a_property_called_type_or_file_is_no_part() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"type": {"description": WORDS * 20}, "n": {"type": ["null"]}},
    }
    assert count({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}) > 200
    assert count({"tools": [{"name": "f", "input_schema": schema}]}) > 200


def test_numbers_count_and_nothing_does_not() -> None:
    assert count({"messages": [1] * 100}) == count({"messages": []}) + 100
    assert count({"messages": [None] * 100}) == count({"messages": []})


def test_deep_nesting_is_walked_without_recursion() -> None:
    deep: JsonValue = "x"
    for _ in range(100_000):
        deep = [deep]
    assert count({"messages": deep}) > 0
    assert count(messages({"type": "tool_use", "name": "f", "input": deep})) > 0


@pytest.mark.parametrize("odd", [True, 5, 1.5, None, "x", "\ud800", [[]], [None, 1, "x", {}]])
def test_any_value_can_stand_where_messages_should(odd: JsonValue) -> None:
    assert count({name: odd for name in ("messages", "input", "tools", "system", "text")}) > 0


@pytest.mark.parametrize(
    "kind",
    [
        "text",
        "tool_use",
        "tool_result",
        "thinking",
        "reasoning",
        "image",
        "document",
        "file",
        "input_audio",
        "unknown_call",
    ],
)
@pytest.mark.parametrize("odd", [None, 5, "x", [], [5], {}, {"type": 5}])
def test_any_value_can_stand_in_a_part(kind: str, odd: JsonValue) -> None:
    names = (
        "text",
        "input",
        "content",
        "thinking",
        "summary",
        "source",
        "file",
        "input_audio",
        "image_url",
        "function",
    )
    assert count(messages({"type": kind, **dict.fromkeys(names, odd)})) > 0


def test_a_count_says_what_made_it() -> None:
    assert isinstance(count_request({}, GPT), CountedTokens)
    assert count_request({}, GPT).by == "tokenizer"
