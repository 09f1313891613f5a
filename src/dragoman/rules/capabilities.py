"""Capabilities of models and servers, as a table keyed by protocol, model and vendor (mapping.md §1.1). Rows apply from
general to specific, and each changes the members it names. Callers replace members of `capabilities_of`, or pass rows
of their own."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec
from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.rules import ids


class Capabilities(Struct, frozen=True, kw_only=True):
    """Capabilities of one model at one endpoint. The defaults suit an unknown server that supports only the common
    core."""

    # The endpoint is the vendor's own and accepts all optional members of the protocol.
    official: bool = False
    # Thinking types of a Messages model. Without thinking, no effort is sent, so that `disabled` is valid.
    thinking: tuple[str, ...] = ("enabled", "disabled")
    # Effort levels of the model. Without a value, they are unknown.
    efforts: tuple[str, ...] | None = None
    # Whether the model reasons. Without a value, that is unknown.
    reasons: bool | None = None
    # A Chat server enables reasoning by `thinking: {"type": "enabled"}` and disables it by `"disabled"`.
    thinking_switch: bool = False
    # The model accepts `output_config.effort` together with a thinking budget.
    effort_beside_budget: bool = False
    # The model accepts `thinking.display`.
    display: bool = False
    # The Messages endpoint has the beta for `thinking.block_binding` (V6).
    block_binding: bool = False
    # The model accepts sampling parameters.
    sampling: bool = True
    # The model accepts sampling parameters together with a reasoning effort.
    sampling_with_reasoning: bool = True
    # The model accepts `temperature` and `top_p` together.
    sampling_pair: bool = True
    # The model accepts `top_k`.
    top_k: bool = False
    # The Responses server accepts frequency and presence penalties.
    penalties: bool = True
    # Optional members that a Chat server rejects, which are therefore left out: `user`, `seed`, `stream_options`,
    # `parallel_tool_calls`, `logprobs`, `top_logprobs`, `logit_bias`, `frequency_penalty`, `presence_penalty`.
    refuses: tuple[str, ...] = ()
    # Maximum output tokens of the model.
    max_output: int | None = None
    # Chat takes the output limit as `max_completion_tokens`.
    max_completion_tokens: bool = False
    # The model accepts `system` messages inside the conversation.
    late_system: bool = False
    # The model accepts the role `developer`.
    developer_role: bool = False
    # The Chat server accepts system messages that are not first.
    system_anywhere: bool = True
    # On Chat, a user message or instructions may follow a tool message.
    user_after_tool: bool = True
    # On Chat, each tool result must directly follow the message with its call, also for parallel calls.
    results_apart: bool = False
    # The last message may be the assistant's: natively on Messages, by the option `prefix` on Chat.
    prefill: bool = False
    # The model can be forced to call a tool.
    forced_choice: bool = True
    # A Chat server can be forced to call a tool by its name.
    named_choice: bool = True
    # The model accepts a forced tool choice together with reasoning.
    forced_with_thinking: bool = False
    # The model accepts function tools together with a reasoning effort on Chat. Otherwise the request goes to Responses
    # (§1, rule 7).
    tools_with_reasoning: bool = True
    # The model accepts custom (free-text) tools.
    custom_tools: bool = False
    # Chat tool schemas need `type` inside the branches of `anyOf`, never next to `anyOf`.
    typed_branches: bool = False
    # The model accepts a JSON schema for its output.
    output_schema: bool = True
    # The model accepts JSON mode.
    json_mode: bool = True
    # The provider runs hosted tools, such as web search.
    hosted_tools: bool = False
    # A Chat search model that accepts `web_search_options`.
    search_model: bool = False
    # Messages accepts automatic prompt caching by a top-level `cache_control`.
    automatic_cache: bool = False
    # OpenAI accepts explicit cache breakpoints.
    breakpoints: bool = False
    # Maximum number of stop sequences. Without a value, there is no limit; 0 means none.
    stop_limit: int | None = None
    # Maximum number of tools. Without a value, there is no limit.
    tool_limit: int | None = None
    # The model accepts images.
    images: bool = True
    # The model accepts documents. Only routes with several targets check this; otherwise the provider decides.
    documents: bool = True
    # The model accepts audio.
    audio: bool = False
    # The model accepts `speed: fast`.
    fast: bool = False
    # Which reasoning of earlier turns is sent back on Chat: `calls` (with tool calls), `turns` (in all messages of a
    # user turn with a tool call, including the final one), `all` or `none`.
    echo_thinking: str = "calls"
    # The Chat server requires this reasoning.
    demands_thinking: bool = False
    # The text that is sent in its place if the reasoning is missing.
    missing_thinking: str = ""
    # On Messages, a tool loop must begin with thinking if a thinking budget is set.
    loops_need_thinking: bool = False
    # The signature that a Chat server accepts for a call of another model. Empty if it needs none.
    call_proof: str = ""
    # Inline `<think>` at the start of Chat content is reasoning.
    inline_thinking: bool = False
    # The Responses server checks reasoning for each call.
    thinking_per_call: bool = False
    # Other models whose encrypted reasoning this model can read.
    shares_thinking_with: tuple[str, ...] = ()
    # Accepted call IDs: `standard` are those of the protocol's vendor, `any` also those of the server itself (N2).
    call_ids: str = "standard"
    # Value of the header `anthropic-version` if the request has no sampling parameters.
    version: str = "2023-06-01"


class CapabilityRow(Struct, frozen=True, kw_only=True):
    """Capabilities of matching models. Patterns are shell patterns in lower case; None matches everything."""

    protocol: str
    model: str = "*"
    vendor: str | None = None
    changes: JsonObject
    # The source of the row, for users (docs/quirks.md); empty for the vendor's own protocol.
    source: str = ""


# The placeholder for a missing signature of a Gemini call.
NO_CALL_SIGNATURE = "skip_thought_signature_validator"

_DEEPSEEK_THINKING = "https://api-docs.deepseek.com/guides/thinking_mode"
_KIMI_THINKING = "https://platform.kimi.ai/docs/guide/use-kimi-k2-thinking-model"
_KIMI_CALLS = "https://github.com/MoonshotAI/Kimi-K2/blob/main/docs/tool_call_guidance.md"
_LONG_IDS = "https://github.com/camel-ai/camel/issues/2215"
_USER_AFTER_TOOL = "https://github.com/zed-industries/zed/issues/37021"
_MISTRAL_ORDER = (
    "https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/validator.py"
)
_MISTRAL = ("mistral", "ministral", "magistral", "mixtral", "devstral", "codestral", "pixtral")

_OPENAI_REASONERS = ("o[1-9]", "o[1-9]-*", "gpt-[5-9]*", "*/o[1-9]-*", "*/gpt-[5-9]*")

_ADAPTIVE: JsonList = ["adaptive", "disabled"]
_TO_MAX: JsonList = ["low", "medium", "high", "xhigh", "max"]
_A = "anthropic-messages"
_C = "openai-chat"
_R = "openai-responses"
_PROTOCOLS = (_A, _C, _R)

# Model families of anthropic-messages.md §23. The oldest are last, so that specific rows follow general ones.
_CLAUDE: JsonObject = {
    "official": True,
    "thinking": _ADAPTIVE,
    "efforts": _TO_MAX,
    "reasons": True,
    "display": True,
    "sampling": False,
    "hosted_tools": True,
    "automatic_cache": True,
    "forced_with_thinking": True,
    # "Expected `thinking` or `redacted_thinking`, but found `tool_use`":
    # https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    "loops_need_thinking": True,
    "version": "2026-10-21",
}
_LATE: JsonObject = {"late_system": True, "max_output": 128000}
_BEFORE_4_6: JsonObject = {
    "thinking": ["enabled", "disabled"],
    "efforts": [],
    "display": False,
    "sampling": True,
    "top_k": True,
    "prefill": True,
    "forced_with_thinking": False,
}

ROWS: tuple[CapabilityRow, ...] = (
    CapabilityRow(protocol=_A, model="*claude*", changes=_CLAUDE),
    CapabilityRow(protocol=_A, model="*claude*fable-5*", changes={**_LATE, "thinking": ["adaptive"]}),
    CapabilityRow(protocol=_A, model="*claude*mythos-5*", changes={**_LATE, "thinking": ["adaptive"]}),
    CapabilityRow(protocol=_A, model="*claude*fable-5[-.]1*", changes={"forced_choice": False}),
    CapabilityRow(protocol=_A, model="*claude*mythos-5[-.]1*", changes={"forced_choice": False}),
    CapabilityRow(protocol=_A, model="*claude*opus-5*", changes=_LATE),
    CapabilityRow(
        protocol=_A, model="*claude*opus-5[-.]5*", changes={"thinking": ["adaptive"], "forced_choice": False}
    ),
    CapabilityRow(protocol=_A, model="*claude*sonnet-5*", changes={"max_output": 128000}),
    CapabilityRow(
        protocol=_A,
        model="*claude*sonnet-5[-.]5*",
        changes={"thinking": ["adaptive", "between_tools"], "forced_choice": False, "late_system": True},
    ),
    CapabilityRow(protocol=_A, model="*claude*haiku-5[-.]5*", changes=_LATE),
    CapabilityRow(protocol=_A, model="*claude*opus-4[-.]8*", changes={**_LATE}),
    CapabilityRow(protocol=_A, model="*claude*opus-4[-.]7*", changes={"max_output": 128000}),
    *(
        CapabilityRow(
            protocol=_A,
            model=f"*claude*{series}-4[-.]6*",
            changes={
                "thinking": ["adaptive", "enabled", "disabled"],
                "efforts": ["low", "medium", "high", "max"],
                "sampling": True,
                "top_k": True,
                "max_output": limit,
            },
        )
        for series, limit in (("opus", 128000), ("sonnet", 64000))
    ),
    CapabilityRow(
        protocol=_A,
        model="*claude*opus-4[-.]5*",
        changes={
            **_BEFORE_4_6,
            "efforts": ["low", "medium", "high"],
            "effort_beside_budget": True,
            "max_output": 64000,
        },
    ),
    *(
        CapabilityRow(protocol=_A, model=model, changes={**_BEFORE_4_6, "max_output": limit})
        for limit, models in (
            (64000, ("*claude*sonnet-4[-.]5*", "*claude*haiku-4[-.]5*")),
            (32000, ("*claude*opus-4[-.]1*", "*claude*opus-4-2025*", "*claude*opus-4[-.]0*")),
            (64000, ("*claude*sonnet-4-2025*", "*claude*sonnet-4[-.]0*", "*claude-3-7*")),
        )
        for model in models
    ),
    CapabilityRow(
        protocol=_A, model="*claude-3-5*", changes={**_BEFORE_4_6, "thinking": [], "reasons": False, "max_output": 8192}
    ),
    CapabilityRow(
        protocol=_A,
        model="*claude-3-[hos]*",
        changes={**_BEFORE_4_6, "thinking": [], "reasons": False, "max_output": 4096},
    ),
    CapabilityRow(
        protocol=_R,
        changes={
            "official": True,
            "developer_role": True,
            "custom_tools": True,
            "hosted_tools": True,
            "display": True,
            "penalties": False,
            "forced_with_thinking": True,
        },
    ),
    # Compatible servers accept their own IDs, and Kimi's models fail on others.
    CapabilityRow(protocol=_C, changes={"stop_limit": 4, "forced_with_thinking": True, "call_ids": "any"}),
    CapabilityRow(protocol=_A, model="*kimi*", changes={"call_ids": "any"}, source=_KIMI_CALLS),
    CapabilityRow(
        protocol=_C,
        vendor="openai",
        changes={
            "official": True,
            "developer_role": True,
            "custom_tools": True,
            "max_completion_tokens": True,
            "tool_limit": 128,
        },
    ),
    CapabilityRow(protocol=_C, vendor="openai", changes={"call_ids": "standard"}, source=_LONG_IDS),
    # OpenAI's models have other names only at services that forward to OpenAI or Azure.
    *(
        CapabilityRow(protocol=_C, model=prefix + pattern, changes={"call_ids": "standard"}, source=_LONG_IDS)
        for prefix in ("", "*/")
        for pattern in ("o[1-9]", "o[1-9]-*", "gpt-[3-9]*", "chatgpt-*")
    ),
    # OpenAI's reasoning models reject `max_tokens` and `stop` at every vendor.
    *(
        CapabilityRow(
            protocol=_C, model=pattern, changes={"max_completion_tokens": True, "stop_limit": 0, "reasons": True}
        )
        for pattern in _OPENAI_REASONERS
    ),
    *(
        CapabilityRow(protocol=_C, model=pattern, vendor="openai", changes={"tools_with_reasoning": False})
        for pattern in ("o[1-9]", "o[1-9]-*", "gpt-[5-9]*")
    ),
    *(CapabilityRow(protocol=_R, model=pattern, changes={"reasons": True}) for pattern in _OPENAI_REASONERS),
    # While these models reason, they ignore sampling parameters.
    *(
        CapabilityRow(protocol=protocol, model=pattern, changes={"sampling_with_reasoning": False})
        for protocol in (_C, _R)
        for pattern in _OPENAI_REASONERS
    ),
    CapabilityRow(protocol=_C, model="*-search*", vendor="openai", changes={"search_model": True}),
    # The reasoning of a tool turn must be sent back in all later requests, at every vendor of these models.
    *(
        CapabilityRow(protocol=_C, model=model, vendor=upstream, changes={"echo_thinking": "turns"}, source=source)
        for model, upstream, source in (
            ("*deepseek*", None, _DEEPSEEK_THINKING),
            ("*kimi*", None, _KIMI_THINKING),
            ("*", "deepseek", _DEEPSEEK_THINKING),
            ("*", "moonshot", _KIMI_THINKING),
        )
    ),
    CapabilityRow(
        protocol=_C,
        vendor="deepseek",
        changes={"demands_thinking": True, "forced_with_thinking": False},
        source=_DEEPSEEK_THINKING,
    ),
    # These servers treat the empty string as missing.
    CapabilityRow(
        protocol=_C,
        model="*kimi*",
        vendor="moonshot",
        changes={"demands_thinking": True, "missing_thinking": " "},
        source="https://github.com/theopenco/llmgateway/pull/2093",
    ),
    CapabilityRow(
        protocol=_C,
        vendor="mistral",
        changes={"call_ids": "mistral"},
        source="https://github.com/anomalyco/opencode/issues/1680",
    ),
    CapabilityRow(
        protocol=_C,
        vendor="mistral",
        changes={"prefill": True},
        source="https://github.com/mistralai/client-python/blob/main/docs/models/assistantmessage.md",
    ),
    # The vendor's examples send back the thinking of every turn.
    CapabilityRow(
        protocol=_C,
        vendor="mistral",
        changes={"echo_thinking": "all"},
        source="https://docs.mistral.ai/capabilities/reasoning/",
    ),
    # "Unexpected role 'user' after role 'tool'", from Mistral's service and from servers of its models with its
    # tokenizer or template (vLLM, NIM): see also https://github.com/mistralai/mistral-vibe/issues/578 and
    # https://github.com/NousResearch/hermes-agent/issues/20154. Instructions after a response are rejected as well.
    *(
        CapabilityRow(protocol=_C, model=model, vendor=vendor, changes={name: False}, source=source)
        for name, source in (("user_after_tool", _USER_AFTER_TOOL), ("system_anywhere", _MISTRAL_ORDER))
        for model, vendor in (("*", "mistral"), *((f"*{family}*", None) for family in _MISTRAL))
    ),
    # Gemini 3 rejects a step whose first call has no signature. Calls of other models have none.
    *(
        CapabilityRow(
            protocol=_C,
            model=model,
            vendor="google",
            changes={"call_proof": NO_CALL_SIGNATURE},
            source="https://ai.google.dev/gemini-api/docs/thought-signatures",
        )
        for model in ("*gemini-[3-9]*", "*gemini-*-latest")
    ),
)

ID_RULES: dict[tuple[str, str], ids.IdRule] = {
    (_A, "standard"): ids.ANTHROPIC,
    (_C, "standard"): ids.CHAT,
    (_R, "standard"): ids.RESPONSES,
    **{(protocol, "any"): ids.ANY for protocol in _PROTOCOLS},
    **{(protocol, "mistral"): ids.MISTRAL_LIKE for protocol in _PROTOCOLS},
}


def capabilities_of(protocol: str, model: str, vendor: str = "", rows: tuple[CapabilityRow, ...] = ()) -> Capabilities:
    """Return the capabilities of a model at a vendor. The caller's rows win."""
    if not rows and (cached := _MEMO.get((protocol, model, vendor))) is not None:
        return cached
    for name in (protocol, *(row.protocol for row in rows)):
        if name not in _PROTOCOLS:
            raise DragomanError(f"unknown protocol {name!r}; known are {', '.join(_PROTOCOLS)}")
    capabilities = _built_in_capabilities(protocol, model.lower(), vendor)
    for row in rows:
        if _matches(row, protocol, model.lower(), vendor):
            capabilities = _changed(capabilities, row.changes)
    return capabilities


_MEMO: dict[tuple[str, str, str], Capabilities] = {}
_MEMO_LIMIT = 1024


def _built_in_capabilities(protocol: str, model: str, vendor: str) -> Capabilities:
    key = (protocol, model, vendor)
    capabilities = _MEMO.get(key)
    if capabilities is None:
        capabilities = Capabilities()
        for row in ROWS:
            if _matches(row, protocol, model, vendor):
                capabilities = _changed(capabilities, row.changes)
        if len(_MEMO) >= _MEMO_LIMIT:
            _MEMO.clear()
        _MEMO[key] = capabilities
    return capabilities


def _matches(row: CapabilityRow, protocol: str, model: str, vendor: str) -> bool:
    return (
        row.protocol == protocol
        and (row.vendor is None or row.vendor == vendor)
        and fnmatchcase(model, row.model.lower())
    )


def _changed(capabilities: Capabilities, changes: JsonObject) -> Capabilities:
    field_names = set(Capabilities.__struct_fields__)
    for name in changes:
        if name not in field_names:
            raise DragomanError(f"unknown capability {name!r}; known are {', '.join(sorted(field_names))}")
    merged = {**msgspec.to_builtins(capabilities), **changes}
    try:
        return msgspec.convert(merged, Capabilities)
    except msgspec.ValidationError as error:
        raise DragomanError(f"a capability of the wrong type: {error}") from None
