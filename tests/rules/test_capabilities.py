"""What is known of models: mapping.md §1.1 and the matrix of anthropic-messages.md §23."""

from __future__ import annotations

import pytest

from dragoman.config.capability_overrides import CHOICES
from dragoman.errors import DragomanError
from dragoman.providers.catalogue import catalogue
from dragoman.rules import ids
from dragoman.rules.capabilities import ID_RULES, CapabilityRow, capabilities_of

MESSAGES = "anthropic-messages"


@pytest.mark.parametrize(
    ("model", "thinking", "sampling", "late_system", "forced"),
    [
        ("claude-opus-5-5", ("adaptive",), False, True, False),
        ("claude-sonnet-5-5", ("adaptive", "between_tools"), False, True, False),
        ("claude-haiku-5-5", ("adaptive", "disabled"), False, True, True),
        ("claude-opus-5", ("adaptive", "disabled"), False, True, True),
        ("claude-sonnet-5", ("adaptive", "disabled"), False, False, True),
        ("claude-opus-4-8", ("adaptive", "disabled"), False, True, True),
        ("claude-opus-4-7", ("adaptive", "disabled"), False, False, True),
        ("claude-opus-4-6", ("adaptive", "enabled", "disabled"), True, False, True),
        ("claude-opus-4-5-20251101", ("enabled", "disabled"), True, False, True),
        ("claude-sonnet-4-5", ("enabled", "disabled"), True, False, True),
        ("anthropic.claude-3-7-sonnet-v1:0", ("enabled", "disabled"), True, False, True),
        ("claude-something-new", ("adaptive", "disabled"), False, False, True),
        ("kimi-k2", ("enabled", "disabled"), True, False, True),
    ],
)
def test_the_matrix_of_claude_models(
    model: str, thinking: tuple[str, ...], sampling: bool, late_system: bool, forced: bool
) -> None:
    known = capabilities_of(MESSAGES, model)
    assert (known.thinking, known.sampling, known.late_system, known.forced_choice) == (
        thinking,
        sampling,
        late_system,
        forced,
    )


def test_openais_own_chat_takes_what_others_may_not() -> None:
    assert capabilities_of("openai-chat", "gpt-4.1", "openai").developer_role
    assert not capabilities_of("openai-chat", "gpt-4.1", "vllm").developer_role
    assert capabilities_of("openai-chat", "gpt-5.1", "proxy").max_completion_tokens


def test_rows_of_the_caller_have_the_last_word() -> None:
    row = CapabilityRow(protocol=MESSAGES, model="claude-opus-5-5", changes={"max_output": 7})
    assert capabilities_of(MESSAGES, "claude-opus-5-5", rows=(row,)).max_output == 7
    assert capabilities_of(MESSAGES, "claude-opus-5", rows=(row,)).max_output == 128000


def test_a_row_for_no_protocol_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(DragomanError, match="unknown protocol 'openai'; known are anthropic-messages"):
        capabilities_of(MESSAGES, "claude", rows=(CapabilityRow(protocol="openai", changes={}),))


@pytest.mark.parametrize("changes", [{"no_such_ability": True}, {"max_output": "many"}])
def test_a_wrong_row_is_an_error_that_names_it(changes: dict[str, bool | str]) -> None:
    row = CapabilityRow(protocol=MESSAGES, changes=dict(changes))
    with pytest.raises(DragomanError, match="ability"):
        capabilities_of(MESSAGES, "claude", rows=(row,))


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(("model", "both"), [("gpt-5.1", False), ("o3", False), ("x/gpt-6", False), ("gpt-4.1", True)])
def test_openais_reasoning_models_take_no_sampling_while_they_reason(protocol: str, model: str, both: bool) -> None:
    assert capabilities_of(protocol, model).sampling_with_reasoning is both


@pytest.mark.parametrize(
    ("protocol", "model", "upstream", "rule"),
    [
        ("openai-chat", "gpt-4o", "openai", ids.CHAT),
        ("openai-chat", "ft-of-ours", "openai", ids.CHAT),
        ("openai-chat", "gpt-5.2", "github", ids.CHAT),
        ("openai-chat", "openai/o3", "openrouter", ids.CHAT),
        ("openai-chat", "gpt-oss-120b", "vllm", ids.ANY),
        ("openai-chat", "kimi-k2.7", "moonshot", ids.ANY),
        ("openai-chat", "grok-4", "xai", ids.ANY),
        ("openai-chat", "mistral-large-latest", "mistral", ids.MISTRAL_LIKE),
        ("openai-chat", "mistral-large-latest", "openrouter", ids.ANY),
        ("anthropic-messages", "claude-opus-4-6", "anthropic", ids.ANTHROPIC),
        ("anthropic-messages", "other", "", ids.ANTHROPIC),
        ("anthropic-messages", "kimi-k2.7", "moonshot", ids.ANY),
        ("openai-responses", "gpt-5.2", "openai", ids.RESPONSES),
    ],
)
def test_item_10_ids_are_changed_only_where_the_receiver_refuses_them(
    protocol: str, model: str, upstream: str, rule: ids.IdRule
) -> None:
    assert ID_RULES[(protocol, capabilities_of(protocol, model, upstream).call_ids)] is rule


def test_item_10_azure_refuses_long_ids_too() -> None:
    azure = catalogue()["azure"]
    rows = azure.capabilities
    known = capabilities_of("openai-chat", "our-deployment", azure.vendor_or_name, rows)
    assert ID_RULES[("openai-chat", known.call_ids)] is ids.CHAT


def test_item_10_every_rule_stands_for_every_protocol() -> None:
    for protocol in ("anthropic-messages", "openai-chat", "openai-responses"):
        for word in CHOICES["call_ids"]:
            assert (protocol, word) in ID_RULES
