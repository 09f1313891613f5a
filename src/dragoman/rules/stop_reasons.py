"""Stop reasons of all servers in one table (mapping.md §17), because proxies forward another server's values in any
protocol and spelling. Unlisted values are classified by their keywords, then by whether the response looks
truncated."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.features import Feature
from dragoman.model.losses import Ledger
from dragoman.model.parts import InputForm, Part, ToolCall
from dragoman.model.response import Stop, StopReason, Usage
from dragoman.rules.arguments import is_complete

# Sources of the words that the protocols themselves do not have:
#   z.ai         https://docs.z.ai/api-reference/llm/chat-completion (sensitive, network_error and Anthropic's)
#   Mistral      https://docs.mistral.ai/api/endpoint/chat (model_length, error)
#   DeepSeek     https://api-docs.deepseek.com/api/create-chat-completion (insufficient_system_resource)
#   Gemini       https://ai.google.dev/api/generate-content#FinishReason
#   Bedrock      https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
#   Cohere       https://docs.cohere.com/reference/chat (complete, tool_call, timeout, user_cancel, error_toxic)
#   Together     https://docs.together.ai/reference/chat-completions-1 (eos)
#   TGI          https://huggingface.co/docs/text-generation-inference/reference/api_reference (eos_token)
#   watsonx      https://ibm.github.io/watsonx-ai-node-sdk/interfaces/1_6_x.WatsonXAI.TextChatResultChoice-1.html
#                (time_limit, cancelled, error)
#   vLLM         https://github.com/vllm-project/vllm/blob/main/vllm/v1/engine/__init__.py (abort, error, repetition)
#   Ollama       https://github.com/ollama/ollama/blob/main/docs/api.md (load, unload)
_END, _LENGTH, _FILTER = StopReason.END, StopReason.LENGTH, StopReason.FILTER
STOP_REASONS: dict[str, StopReason] = {
    "stop": _END,
    "end_turn": _END,
    "stop_sequence": _END,
    "eos": _END,
    "eos_token": _END,
    "endoftext": _END,
    "complete": _END,
    "completed": _END,
    "finished": _END,
    "done": _END,
    "normal": _END,
    "stop_criteria_met": _END,
    "steered": _END,
    "compaction": _END,
    "load": _END,
    "unload": _END,
    # Reasons that mean "calls" count only if there are calls.
    "tool_calls": _END,
    "tool_call": _END,
    "tool_use": _END,
    "function_call": _END,
    "length": _LENGTH,
    "max_tokens": _LENGTH,
    "max_output_tokens": _LENGTH,
    "max_length": _LENGTH,
    "max_messages": _LENGTH,
    "token_limit": _LENGTH,
    "time_limit": _LENGTH,
    "timeout": _LENGTH,
    "incomplete": _LENGTH,
    "repetition": _LENGTH,
    "pause_turn": _LENGTH,
    "model_context_window_exceeded": StopReason.CONTEXT_FULL,
    "model_length": StopReason.CONTEXT_FULL,
    "context_length_exceeded": StopReason.CONTEXT_FULL,
    "content_filter": _FILTER,
    "content_filtered": _FILTER,
    "guardrail_intervened": _FILTER,
    "sensitive": _FILTER,
    "refusal": _FILTER,
    "safety": _FILTER,
    "image_safety": _FILTER,
    "recitation": _FILTER,
    "language": _FILTER,
    "blocklist": _FILTER,
    "prohibited_content": _FILTER,
    "spii": _FILTER,
    "error_toxic": _FILTER,
}
# Reasons for a broken response. The value is True if it lacked context or memory.
FAILURES: dict[str, bool] = {
    "error": False,
    "network_error": False,
    "abort": False,
    "aborted": False,
    "cancel": False,
    "cancelled": False,
    "canceled": False,
    "user_cancel": False,
    "error_limit": False,
    # The model generated a call that its server could not parse. A retry usually succeeds.
    "malformed_function_call": False,
    "malformed_response": False,
    "unexpected_tool_call": False,
    "insufficient_system_resource": True,
    "overloaded": True,
}
# Sent while the response continues, or if the reason is unknown.
_NO_REASON = frozenset({"", "null", "none", "not_finished", "finish_reason_unspecified", "unspecified"})

# Keyword stems in order of precedence: `stopped_limit` means truncation; `error_limit` is listed above.
_ROOTS: tuple[tuple[tuple[str, ...], StopReason], ...] = (
    (("context_window", "context_length", "context_full"), StopReason.CONTEXT_FULL),
    (("filter", "safety", "moderat", "guardrail", "policy", "toxic", "prohibit", "sensitive", "block"), _FILTER),
    (("length", "limit", "max_", "_max", "exceed", "truncat", "incomplete", "timeout", "budget", "repet"), _LENGTH),
    (("stop", "end_", "eos", "eot", "complete", "finish", "done", "tool", "function"), _END),
)
_FAILING = ("error", "fail", "abort", "cancel", "interrupt", "unavailable", "overload", "malformed")


def stated_reason(word: str | None) -> str:
    """The provider's reason, or `""` for values that mean "not yet"."""
    if word is None or word in STOP_REASONS:
        return word or ""
    return word if _plain(word) not in _NO_REASON else ""


def reason_of(word: str) -> StopReason:
    """The meaning of a reason. A missing one is a normal end."""
    usual = STOP_REASONS.get(word)
    if usual is not None:
        return usual
    plain = _plain(word)
    if plain in _NO_REASON:
        return _END
    mapped = STOP_REASONS.get(plain)
    if mapped is not None:
        return mapped
    for roots, reason in _ROOTS:
        if any(root in plain for root in roots):
            return reason
    return StopReason.OTHER


def broken_off(word: str | None) -> Failure | None:
    """The failure that a reason stands for, if any."""
    if word in STOP_REASONS:
        return None
    plain = _plain(word or "")
    crowded = FAILURES.get(plain)
    if crowded is None:
        if plain in STOP_REASONS or not any(root in plain for root in _FAILING):
            return None
        crowded = "overload" in plain or "unavailable" in plain
    kind, status = (FailureKind.OVERLOADED, 503) if crowded else (FailureKind.INTERNAL, 500)
    return Failure(kind=kind, status=status, message=f"the provider stopped: {word}", native=word or "")


def _plain(word: str) -> str:
    """A reason in canonical spelling: `FINISH_REASON_MAX_TOKENS`, `content_filter: RECITATION`, `tool-calls`."""
    if word in STOP_REASONS:
        return word
    plain = word.rpartition(":")[2].strip().lower().replace("-", "_").replace(" ", "_")
    return plain if plain in _NO_REASON else plain.removeprefix("finish_reason_")


_CUT = "the provider's word for the end is not known, and the answer looks cut: told as cut at its length"


def finalize_stop(stop: Stop, ledger: Ledger, *, cut: bool) -> Stop:
    """The stop reason of a response. An unknown reason must not hide a truncation."""
    if not cut or is_conclusive(stop):
        return stop
    ledger.approximated(Feature.STOP_REASON, ("stop", "reason"), _CUT)
    return replace(stop, reason=_LENGTH)


def is_conclusive(stop: Stop) -> bool:
    """Whether a stop reason alone states how the response ended, so that truncation need not be checked."""
    if stated_reason(stop.native) and reason_of(stop.native) is not StopReason.OTHER:
        return True
    return stop.reason in (StopReason.REFUSAL, StopReason.SEQUENCE)


def at_cap(usage: Usage | None, cap: int | None) -> bool:
    return usage is not None and cap is not None and 0 < cap <= usage.output


def has_open_call(parts: Iterable[Part]) -> bool:
    """Whether the arguments of a call are incomplete."""
    return any(
        isinstance(part, ToolCall)
        and part.form is InputForm.JSON
        and part.arguments.strip() != ""
        and not is_complete(part.arguments)
        for part in parts
    )
