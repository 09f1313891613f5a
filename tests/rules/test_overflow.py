import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.rules.overflow import anthropic_overflow_message, is_context_overflow
from tests.rules.vectors import number, objects, text


def upstream(row: JsonObject) -> JsonObject:
    content = row["upstream"]
    assert isinstance(content, dict)
    return content


def code(value: JsonValue) -> str | None:
    assert value is None or isinstance(value, str)
    return value


@pytest.mark.parametrize("row", objects("context_overflow"), ids=lambda row: row["upstream"]["message"])
def test_an_overflow_is_recognised_and_told_as_the_golden_row_says(row: JsonObject) -> None:
    error = upstream(row)
    message = text(error["message"])
    assert is_context_overflow(number(error["status"]), code(error.get("code")), message)
    expected = row.get("a")
    if isinstance(expected, dict):
        assert anthropic_overflow_message(message) == expected["message"]


@pytest.mark.parametrize(
    ("status", "error_code", "message", "expected"),
    [
        (500, "context_length_exceeded", "", True),
        (400, None, "This model's Maximum Context Length is 8192 tokens.", True),
        (413, None, "Prompt is too long", True),
        (400, None, "request exceeds the available context size (4096 tokens)", True),
        (400, "other", "the context limit was reached", True),
        (400, None, "Input is too long.", True),
        (400, None, "The input token count (1052000) exceeds the maximum number of tokens allowed (1048576).", True),
        (400, None, "Your request exceeded model token limit: 131072", True),
        (400, None, "Range of input length should be [1, 129024]", True),
        (400, None, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 and 100", True),
        (422, None, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", True),
        (422, None, "inputs tokens + max_new_tokens must be <= 16000", True),
        (
            400,
            None,
            "Please reduce the length of the messages or completion. Current length is 9 while limit is 8",
            True,
        ),
        (400, None, "prompt token count of 90000 exceeds the limit of 64000", True),
        (400, "model_max_prompt_tokens_exceeded", "too much", True),
        (400, None, "number of input tokens (70000) have exceeded max_prompt_tokens (65536) limit.", True),
        (400, None, "Total tokens of image and text exceed max message tokens. Request id: 7", True),
        (400, None, "too many tokens: size limit exceeded by 120 tokens. Try using shorter or fewer inputs.", True),
        (400, None, "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292.", True),
        (400, None, "The total length of all messages is too long.", True),
        (400, None, "Your request exceeds the model's maximum context. Please reduce your prompt.", True),
        (400, None, "too many tokens: max tokens must be less than or equal to 4096 - received 8192.", False),
        (422, None, "The model `large` was not found", False),
        (429, None, "Please reduce the length of the messages", False),
        (400, None, "string too long. Expected a string with maximum length 64", False),
        (500, None, "context window", False),
        (429, None, "context window", False),
        (400, None, "max_tokens is too large", False),
        (413, None, "request body too large", False),
    ],
)
def test_an_overflow_is_recognised_by_code_or_wording(
    status: int, error_code: str | None, message: str, expected: bool
) -> None:
    assert is_context_overflow(status, error_code, message) is expected


@pytest.mark.parametrize(
    ("message", "opening"),
    [
        (
            "This model's maximum context length is 8,192 tokens. However, your messages resulted in 10,240 tokens.",
            "prompt is too long: 10240 tokens > 8192 maximum",
        ),
        (
            "the request (5000 tokens) exceeds the available context size (4096 tokens)",
            "prompt is too long: 5000 tokens > 4096 maximum",
        ),
        (
            "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
            "prompt is too long: 42328 tokens > 40000 maximum",
        ),
        ("prompt token count of 90000 exceeds the limit of 64000", "prompt is too long: 90000 tokens > 64000 maximum"),
        ("The context window of gpt-4.1 is 1000 tokens, got 2000.", "prompt is too long: 2000 tokens > 1000 maximum"),
        ("maximum context length is 8192 tokens, you asked for 100", "prompt is too long"),
        ("context window exceeded by request 12", "prompt is too long"),
        ("40112 tokens do not fit the context window", "prompt is too long"),
        (f"context limit {'9' * 5000}", "prompt is too long"),
    ],
    ids=[
        "separators",
        "numbers before",
        "current length",
        "prompt count",
        "digits in names",
        "smaller",
        "one number",
        "none after",
        "absurd",
    ],
)
def test_numbers_are_used_only_if_they_make_sense(message: str, opening: str) -> None:
    assert anthropic_overflow_message(message) == f"{opening} ({message})"


def test_the_fixed_wording_is_not_said_twice() -> None:
    message = "prompt is too long: 90210 tokens > 64000 maximum"
    assert anthropic_overflow_message(message) == message


def test_an_empty_text_adds_no_parentheses() -> None:
    assert anthropic_overflow_message("") == "prompt is too long"


def test_only_the_beginning_of_a_long_error_is_searched() -> None:
    words = "prompt is too long"
    assert is_context_overflow(400, None, "x" * 16_000 + words)
    assert not is_context_overflow(400, None, "x" * 17_000 + words)
