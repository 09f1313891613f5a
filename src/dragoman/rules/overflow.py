"""Context overflow (O1): recognises each server's wording, and sends Messages clients a fixed one. Agents compact their
conversation only if they see the wording of the Messages service; with any other text they end the session."""

from __future__ import annotations

import re

CODE = "context_length_exceeded"

_CODES = frozenset(
    {
        CODE,
        # https://github.com/microsoft/copilot-intellij-feedback/issues/94
        "model_max_prompt_tokens_exceeded",
    }
)
# Text Generation Inference returns 422: https://github.com/bytedance/UI-TARS-desktop/issues/626
_STATUSES = frozenset({400, 413, 422})
_PHRASES = (
    "prompt is too long",
    "input is too long",
    # Venice leaves out the length: https://docs.venice.ai/api-reference/error-codes
    "maximum context",
    "context ?window",
    "context length",
    "context limit",
    "available context size",
    "maximum model length",
    "maximum prompt length",
    "maximum number of tokens allowed",
    "model token limit",
    "input token length too long",
    "prompt exceeds max length",
    "tokens in request more than max tokens allowed",
    "range of input length should be",
    "model only supports up to",
    r"`?inputs`? tokens \+ `?max_new_tokens`?",
    # Cerebras and Groq: https://github.com/cline/cline/issues/5140
    "reduce the length of the messages",
    # GitHub Copilot: https://github.com/microsoft/vscode-copilot-release/issues/6700
    r"prompt token count of \d+ exceeds the limit",
    # SiliconFlow: https://github.com/continuedev/continue/issues/9971
    "exceeded max_prompt_tokens",
    # Volcengine Ark: https://github.com/agentscope-ai/QwenPaw/issues/272
    "tokens of image and text exceed max message tokens",
    # Cohere uses the same text for a limit that is too high: https://docs.cohere.com/reference/errors
    r"too many tokens: (?:size limit exceeded|(?:the )?total number of tokens in the prompt)",
    # Perplexity: https://github.com/BerriAI/litellm/pull/21647
    "total length of all messages is too long",
)
_has_wording = re.compile("|".join(_PHRASES), re.IGNORECASE).search
# Errors name it at their start. Searching a megabyte would take a second.
_MAX_SEARCHED = 16 * 1024

_OPENING = "prompt is too long"
_is_native_message = re.compile(rf"{_OPENING}: \d+ tokens > \d+ maximum", re.IGNORECASE).match
_find_limit_word = re.compile(r"maximum|limit|window|context", re.IGNORECASE).search
# Digits inside a name or a version (gpt-4.1, 32k) are no token counts.
_INTEGER = re.compile(r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?![\w]|[.,]\d)", re.ASCII)


def is_context_overflow(status: int, code: str | None, message: str) -> bool:
    """Whether an error means that the conversation exceeds the context window."""
    return code in _CODES or (status in _STATUSES and _has_wording(message, 0, _MAX_SEARCHED) is not None)


def anthropic_overflow_message(message: str) -> str:
    """An overflow in the wording of the Messages service, with the provider's own text in parentheses."""
    if _is_native_message(message):
        return message
    counts = _counts(message)
    opening = f"{_OPENING}: {counts[0]} tokens > {counts[1]} maximum" if counts else _OPENING
    return f"{opening} ({message})" if message else opening


def _counts(message: str) -> tuple[int, int] | None:
    """The size of the prompt and the limit, if the text states both."""
    word = _find_limit_word(message)
    limit = _INTEGER.search(message, word.end()) if word else None
    if limit is None:
        return None
    maximum = _integer(limit[0])
    tokens = max(_integer(match[0]) for match in _INTEGER.finditer(message))
    return (tokens, maximum) if tokens > maximum else None


def _integer(text: str) -> int:
    return int(text.replace(",", ""))
