"""Telling when a provider refused reasoning, and what may be done about it."""

from __future__ import annotations

import json

import pytest

from dragoman.model.failure import Failure, FailureKind
from dragoman.rules.refused_reasoning import _SEARCHES, Remedy, remedy_for
from tests.backtracking import backtracking_repeats
from tests.byte_counting import CountedBytes


def _failure(message: str, status: int = 400, code: str | None = None) -> Failure:
    return Failure(kind=FailureKind.INVALID, status=status, message=message, code=code)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", None),
        ("messages.1.content.0: Invalid signature in thinking block", None),
        ("messages.1.content.0: Invalid `data` in `redacted_thinking` block", None),
        ('{"error":{"message":"messages.1.content.0: Invalid `signature` in `thinking`   block"}}', None),
        ("The encrypted content gAAA...DQ== could not be verified.", None),
        ("The encrypted content for item rs_1 could not be decrypted or parsed.", None),
        ("whatever", "invalid_encrypted_content"),
        ('upstream said: {"code":"invalid_encrypted_content"}', None),
    ],
)
def test_pitfall_109_refused_proof_is_recognised(message: str, code: str | None) -> None:
    assert remedy_for(_failure(message, code=code)) is Remedy.SEALS


@pytest.mark.parametrize(
    "message",
    [
        "Could not decrypt the provided encrypted_content. Ensure the value is the unmodified one of a response.",
        "Could not decode the compaction blob. Ensure it is unmodified from the compact response.",
        "Upstream request failed: [invalid_request_error] reasoning `encrypted_content` was not issued to this caller",
        "messages.5.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
        "modified. These blocks must remain as they were in the original response.",
        "messages.3: thinking blocks in the latest message cannot be modified",
        "Item with id 'rs_0123' not found. Items are not persisted when `store` is set to false.",
        "Item 'rs_0123' of type 'reasoning' was provided without its required following item.",
        "Item 'fc_0123' of type 'function_call' was provided without its required 'reasoning' item: 'rs_0123'.",
        "Encrypted content organization_id did not match the target organization.",
        "Invalid 'input[2].id': string too long. Expected a string with maximum length 64, but got one of 416 instead.",
        "Invalid 'input[66].id': 'item_df7e40c3'. Expected an ID that begins with 'rs'.",
        "Corrupted thought signature.",
        "messages.1.content.0.thinking.signature: Field required",
        "messages.3.content.0.thinking.thinking: Field required",
        "Unable to submit request because Thought signature is not valid..",
    ],
)
@pytest.mark.parametrize("status", [400, 403, 404, 422, 500])
def test_item_5_other_words_for_a_refused_proof(message: str, status: int) -> None:
    assert remedy_for(_failure(message, status)) is Remedy.SEALS


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When "
            "`thinking` is enabled, a final `assistant` message must start with a thinking block",
            Remedy.LOOP,
        ),
        ("The `content[].thinking` in the thinking mode must be passed back to the API.", Remedy.LOOP),
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", Remedy.LOOP),
        ("Missing `reasoning_content` field in the assistant message at message index 2.", Remedy.LOOP),
        ("thinking is enabled but reasoning_content is missing in assistant tool call message at index 2", Remedy.LOOP),
        ("Function call is missing a thought_signature in functionCall parts.", Remedy.CALLS),
        ("function call `default_api:f` in the 12. content block is missing a `thought_signature`.", Remedy.CALLS),
    ],
)
def test_item_5_reasoning_that_is_missed_is_another_matter(message: str, remedy: Remedy) -> None:
    assert remedy_for(_failure(message)) is remedy


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", 401),
        ("messages.1.content.0: Invalid `signature` in `thinking` block", 429),
        ("Invalid request signature", 400),
        ("The encrypted content is too long", 400),
        ("thinking.budget_tokens: cannot be modified", 400),
        ("Item with id 'msg_1' not found.", 404),
        ("`clear_thinking_20251015` strategy requires `thinking` to be enabled", 400),
        ("The model `thinking` was not found", 404),
        ("Could not decrypt the file", 400),
        ("Invalid 'input[2].name': string too long. Expected a string with maximum length 64.", 400),
        ("Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64.", 400),
        ("Encrypted function output content could not be decrypted or decoded.", 400),
    ],
)
def test_other_errors_are_not_refused_reasoning(message: str, status: int) -> None:
    assert remedy_for(_failure(message, status)) is None


REFUSED = "Invalid `signature` in `thinking` block"


@pytest.mark.parametrize(
    "message",
    [
        "messages.0.content: Input should be a valid list, got 'Why \u201e{}\u201c, caf\u00e9?'",
        "[{{'type': 'string_type', 'loc': ('body', 'x'), 'input': \"Why {}?\"}}]",
        'Invalid value: "{}". Supported values are: a, b.',
        'unknown member: {{"text": "{} and {}"}}',
    ],
)
@pytest.mark.parametrize("words", [REFUSED, "code invalid_encrypted_content"])
def test_item_5_words_that_an_error_quotes_are_the_clients(message: str, words: str) -> None:
    quoting = message.format(words, words)
    for ascii_only in (True, False):
        asked = json.dumps({"input": [words, f"Why {words}?", quoting]}, ensure_ascii=ascii_only).encode()
        assert remedy_for(_failure(quoting), asked) is None
        # Said beside the quotation, it is the provider's.
        assert remedy_for(_failure(f"{quoting} messages.1: {REFUSED}"), asked) is Remedy.SEALS
        assert remedy_for(_failure(quoting), b'{"input":"Why?"}') is Remedy.SEALS


def test_item_5_a_client_may_speak_of_the_refusal_that_it_meets() -> None:
    asked = json.dumps({"messages": [{"role": "user", "content": f"What is: {REFUSED}?"}]}).encode()
    assert remedy_for(_failure(f"messages.1.content.0: {REFUSED}"), asked) is Remedy.SEALS


def test_a_refusal_is_looked_for_in_the_beginning_of_an_error() -> None:
    blanks = " " * (16 * 1024)
    assert remedy_for(_failure(blanks[: -len(REFUSED)] + REFUSED)) is Remedy.SEALS
    assert remedy_for(_failure(blanks + REFUSED)) is None


def test_a_long_request_is_searched_a_few_times() -> None:
    message = "'invalid_encrypted_content " * 500
    # The request has every word that the error quotes, so that the search goes on.
    asked = CountedBytes(message.encode() * 2)
    assert remedy_for(_failure(message), asked) is None
    assert asked.counter.examined <= 8 * len(asked)


@pytest.mark.parametrize("remedy", Remedy)
def test_no_search_for_a_wording_is_tried_in_many_ways(remedy: Remedy) -> None:
    assert backtracking_repeats(dict(_SEARCHES)[remedy]) == []
