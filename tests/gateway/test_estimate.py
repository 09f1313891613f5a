"""Estimates: always positive, in proportion to what the model reads, and never broken by the shape of a request."""

from __future__ import annotations

import pytest

from dragoman.gateway.estimate import estimate
from dragoman.model.jsonvalue import JsonObject, JsonValue

WORDS = "The quick brown fox jumps over the lazy dog. "


def messages(*content: JsonValue) -> JsonObject:
    return {"model": "m", "messages": [{"role": "user", "content": list(content)}]}


def text(said: str) -> JsonObject:
    return {"type": "text", "text": said}


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"input": ""}, {"messages": None}, {"system": [], "tools": {}}])
def test_an_estimate_is_positive(body: JsonObject) -> None:
    assert estimate(body) > 0


def test_prose_counts_about_a_token_for_each_word() -> None:
    # 9 words and a stop: 10 tokens of usual tokenizers.
    assert 900 <= estimate(messages(text(WORDS * 100))) <= 1400


def test_other_scripts_count_more_for_each_character() -> None:
    latin, other = estimate(messages(text("a" * 1000))), estimate(messages(text("漢" * 1000)))
    assert other > 2 * latin


@pytest.mark.parametrize("member", ["system", "messages", "tools", "instructions", "input", "response_format", "text"])
def test_everything_that_the_model_reads_counts(member: str) -> None:
    short: JsonObject = {"model": "m", member: [text("x")]}
    long: JsonObject = {"model": "m", member: [text(WORDS * 50)]}
    assert estimate(long) > estimate(short) + 300


def test_what_the_model_does_not_read_does_not_count() -> None:
    body = messages(text("x"))
    assert estimate({**body, "metadata": {"user_id": WORDS * 100}, "model": "m" * 1000}) == estimate(body)
    sealed: JsonObject = {"type": "thinking", "thinking": "x", "signature": "s" * 100_000}
    assert estimate(messages(sealed)) < 100


DATA = "A" * 4_000_000
PICTURES: dict[str, JsonObject] = {
    "Messages": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
    "Chat": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
    "Responses": {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"},
    "a screenshot": {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{DATA}"},
    "a tool's result": {
        "type": "tool_result",
        "content": [{"type": "image", "source": {"type": "base64", "data": DATA}}],
    },
}


@pytest.mark.parametrize("case", PICTURES)
def test_a_picture_counts_as_one_and_not_by_its_bytes(case: str) -> None:
    counted = estimate(messages(PICTURES[case]))
    assert 500 < counted < 5000
    assert estimate(messages(PICTURES[case], PICTURES[case])) > counted + 500


def test_a_document_counts_by_its_pages_and_a_text_by_its_words() -> None:
    source: JsonObject = {"type": "base64", "media_type": "application/pdf", "data": "A" * 600_000}
    pages = estimate(messages({"type": "document", "source": source}))
    assert 10_000 < pages < 40_000
    plain: JsonObject = {"type": "text", "media_type": "text/plain", "data": WORDS * 10}
    assert 80 < estimate(messages({"type": "document", "source": plain})) < 200


SCHEMAS: dict[str, JsonObject] = {
    "several types": {"type": ["string", "null"]},
    "a property called type": {"type": "object", "properties": {"type": {"type": "string"}}},
    "a property called type without more": {"properties": {"type": {"enum": ["a", "b"]}}},
    "a property called role": {"type": "object", "properties": {"role": {"type": ["string"]}}},
    "a number for a type": {"type": 5},
    "no type": {"type": None},
}


@pytest.mark.parametrize("case", SCHEMAS)
def test_a_schema_counts_whatever_its_types_are(case: str) -> None:
    bare = estimate({"tools": [{"name": "f", "input_schema": {}}]})
    assert estimate({"tools": [{"name": "f", "input_schema": SCHEMAS[case]}]}) >= bare


def test_a_property_called_type_counts_with_what_stands_in_it() -> None:
    said: JsonObject = {"properties": {"type": {"description": WORDS * 20}}}
    assert estimate({"tools": [{"input_schema": said}]}) > 150


def test_a_number_counts_and_nothing_does_not() -> None:
    assert estimate({"messages": [1] * 100}) == estimate({"messages": []}) + 100
    assert estimate({"messages": [None] * 100}) == estimate({"messages": []})


def test_what_a_part_is_does_not_count_beside_what_it_says() -> None:
    plain = text("x")
    marked: JsonObject = {**plain, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert estimate(messages(marked)) == estimate(messages(plain))


def test_deep_nesting_is_walked_without_recursion() -> None:
    deep: JsonValue = "x"
    for _ in range(100_000):
        deep = [deep]
    assert estimate({"messages": deep}) > 0


@pytest.mark.parametrize("odd", [True, 5, 1.5, None, "x", [[]], [None, 1, "x", {}]])
def test_any_value_can_stand_where_messages_should(odd: JsonValue) -> None:
    assert estimate({"messages": odd, "input": odd, "tools": odd}) > 0
