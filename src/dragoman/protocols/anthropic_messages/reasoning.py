"""Encodes thinking, output limit and sampling of other protocols, which depend on one another (mapping.md §3, §10)."""

from __future__ import annotations

from math import inf

from msgspec import Struct

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, Number
from dragoman.model.request import Reasoning, Request, Sampling
from dragoman.protocols.anthropic_messages.encode_context import RequestEncodeContext
from dragoman.protocols.anthropic_messages.shapes import BETA_BINDING
from dragoman.rules.effort import EFFORTS, budget_for, clamp_budget, effort_for, nearest

_DEFAULT_CAP = 8192
_HIGHEST_DEFAULT_CAP = 32000
_MARGIN = 1024
_LOWEST_TOP_P = 0.95


class Depth(Struct, frozen=True, kw_only=True):
    thinking: JsonObject | None = None
    effort: str | None = None

    @property
    def mode(self) -> str:
        kind = self.thinking.get("type") if self.thinking is not None else None
        return kind if isinstance(kind, str) else ""

    @property
    def thinks(self) -> bool:
        return self.mode in ("enabled", "adaptive")


def encode_cap(request: Request, writing: RequestEncodeContext) -> int:
    """The output limit, which this protocol requires (D1)."""
    if request.prewarm:
        writing.ledger.approximated(Feature.PREWARM, ("prewarm",), "asked for by an output cap of 0")
        if request.max_tokens:
            writing.ledger.dropped(
                Feature.MAX_TOKENS, ("max_tokens",), "a request that only warms the cache says nothing"
            )
        return 0
    if request.max_tokens is not None:
        return request.max_tokens
    limit = writing.target.capabilities.max_output
    cap = _DEFAULT_CAP if limit is None else min(limit, _HIGHEST_DEFAULT_CAP)
    budget = _requested_budget(request.reasoning)
    if limit is not None and budget is not None and _is_manual(writing) and cap < budget + _MARGIN:
        cap = min(limit, budget + _MARGIN)
    writing.ledger.invented(Feature.MAX_TOKENS, ("max_tokens",), f"an output cap is required here; {cap} is used")
    return cap


def _is_manual(writing: RequestEncodeContext) -> bool:
    kinds = writing.target.capabilities.thinking
    return "enabled" in kinds and "adaptive" not in kinds


def _requested_budget(reasoning: Reasoning) -> int | None:
    if reasoning.budget is not None:
        return reasoning.budget
    effort = reasoning.effort
    if effort is None or effort == "none":
        return None
    # Efforts added later have meant more, not less.
    return budget_for(effort) or budget_for("max")


def encode_depth(request: Request, cap: int, writing: RequestEncodeContext, objection: str | None = None) -> Depth:
    """Effort, budget and display in the form of this model (E1, E3). `objection` is the reason against manual
    thinking."""
    reasoning = request.reasoning
    writing.drop(reasoning.extras, ("reasoning",))
    kinds = writing.target.capabilities.thinking
    if reasoning.effort is None and reasoning.budget is None and reasoning.summary is None:
        return Depth()
    if not kinds:
        _drop_depth(reasoning, writing)
        return Depth()
    depth = _adaptive(reasoning, writing) if "adaptive" in kinds else _manual(reasoning, cap, writing, objection)
    _encode_display(request, depth, writing)
    if depth.thinks and writing.target.capabilities.block_binding and depth.thinking is not None:
        # A prefix mismatch then costs the reasoning instead of the request (V6).
        depth.thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
        writing.betas.add(BETA_BINDING)
    return depth


def _drop_depth(reasoning: Reasoning, writing: RequestEncodeContext) -> None:
    ledger = writing.ledger
    if reasoning.effort is not None and reasoning.effort != "none":
        ledger.dropped(Feature.EFFORT, ("reasoning", "effort"), "this model does not think")
    if reasoning.budget is not None:
        ledger.dropped(Feature.EFFORT, ("reasoning", "budget"), "this model does not think")
    if reasoning.summary is not None:
        ledger.dropped(Feature.THINKING_DISPLAY, ("reasoning", "summary"), "this model does not think")


def _adaptive(reasoning: Reasoning, writing: RequestEncodeContext) -> Depth:
    capabilities, ledger = writing.target.capabilities, writing.ledger
    effort = reasoning.effort
    if reasoning.budget is not None:
        if effort is None:
            effort = effort_for(reasoning.budget)
        ledger.approximated(Feature.EFFORT, ("reasoning", "budget"), "this model takes an effort instead of a budget")
    if effort is None:
        return Depth(thinking={"type": "adaptive"}) if reasoning.summary is not None else Depth()
    if effort == "none":
        for off in ("disabled", "between_tools"):
            if off in capabilities.thinking:
                return Depth(thinking={"type": off})
        ledger.approximated(Feature.EFFORT, ("reasoning", "effort"), "this model always thinks; asked to do so least")
        return Depth(thinking={"type": "adaptive"}, effort=_level("low", capabilities.efforts))
    level = _level(effort, capabilities.efforts)
    if level != effort:
        ledger.approximated(Feature.EFFORT, ("reasoning", "effort"), f"{effort!r} is asked for as {level!r}")
    return Depth(thinking={"type": "adaptive"}, effort=level)


def _level(effort: str, levels: tuple[str, ...] | None) -> str | None:
    if levels == ():
        return None
    return nearest("low" if effort == "minimal" else effort, levels)


def _manual(reasoning: Reasoning, cap: int, writing: RequestEncodeContext, objection: str | None) -> Depth:
    capabilities, ledger = writing.target.capabilities, writing.ledger
    effort = reasoning.effort
    budget = _requested_budget(reasoning)
    if budget is None:
        if effort == "none":
            return Depth(thinking={"type": "disabled"} if "disabled" in capabilities.thinking else None)
        return Depth()
    if objection is not None:
        ledger.approximated(Feature.THINKING, ("reasoning",), objection)
        return Depth(thinking={"type": "disabled"})
    at = ("reasoning", "budget" if reasoning.budget is not None else "effort")
    fitting = clamp_budget(budget, cap)
    if fitting is None:
        ledger.approximated(Feature.EFFORT, at, f"an output cap of {cap} leaves no room for thinking")
        return Depth(thinking={"type": "disabled"})
    if reasoning.budget is None or fitting != budget:
        ledger.approximated(Feature.EFFORT, at, f"asked for as a budget of {fitting} tokens")
    beside: str | None = None
    if capabilities.effort_beside_budget and effort in EFFORTS and effort != "none":
        beside = _level(effort, capabilities.efforts)
    elif effort is not None and reasoning.budget is not None:
        ledger.dropped(Feature.EFFORT, ("reasoning", "effort"), "this model takes the budget alone")
    return Depth(thinking={"type": "enabled", "budget_tokens": fitting}, effort=beside)


def _encode_display(request: Request, depth: Depth, writing: RequestEncodeContext) -> None:
    """The display of thinking, if the model has a setting for it (E3)."""
    summary = request.reasoning.summary
    thinking = depth.thinking
    if thinking is None or not depth.thinks or not writing.target.capabilities.display:
        if summary is not None:
            writing.ledger.dropped(Feature.THINKING_DISPLAY, ("reasoning", "summary"), "the model itself decides this")
        return
    # Responses clients get reasoning only on request. Chat clients have no such setting.
    shown = summary is not None or request.origin != "openai-responses"
    thinking["display"] = "summarized" if shown else "omitted"
    if summary is not None and summary != "auto":
        writing.ledger.approximated(Feature.THINKING_DISPLAY, ("reasoning", "summary"), "summarised in one way only")


def encode_sampling(sampling: Sampling, depth: Depth, body: JsonObject, writing: RequestEncodeContext) -> bool:
    """Sampling members that the model accepts (E5). Returns whether any was sent."""
    ledger = writing.ledger
    for member, feature, unknown in (
        ("frequency_penalty", Feature.PENALTIES, sampling.frequency_penalty),
        ("presence_penalty", Feature.PENALTIES, sampling.presence_penalty),
        ("seed", Feature.SAMPLING, sampling.seed),
        ("logit_bias", Feature.SAMPLING, sampling.logit_bias),
        ("others", Feature.SAMPLING, sampling.others),
    ):
        if unknown is not None:
            ledger.dropped(feature, ("sampling", member), "this provider has no such setting")
    sent = False
    for member, feature, value in (
        ("temperature", Feature.TEMPERATURE, sampling.temperature),
        ("top_p", Feature.TOP_P, sampling.top_p),
        ("top_k", Feature.TOP_K, sampling.top_k),
    ):
        if value is None:
            continue
        reason = _objection(member, value, sampling, depth, writing)
        if reason is not None:
            ledger.dropped(feature, ("sampling", member), reason)
            continue
        sent = True
        body[member] = value
        if member == "temperature" and _measure(value) > 1:
            ledger.approximated(feature, ("sampling", member), "1 is the highest here")
            body[member] = 1
    return sent


def _measure(value: int | float | Number) -> float:
    """A number for comparison. Overflow gives infinity."""
    try:
        return float(value)
    except OverflowError:
        return inf


def _objection(
    member: str, value: int | float | Number, sampling: Sampling, depth: Depth, writing: RequestEncodeContext
) -> str | None:
    """The reason why a sampling member is not sent, or None."""
    capabilities = writing.target.capabilities
    if not capabilities.sampling or (member == "top_k" and not capabilities.top_k):
        return "this model refuses it"
    if depth.thinks:
        number = _measure(value)
        if (
            member == "top_k"
            or (member == "temperature" and number != 1)
            or (member == "top_p" and number < _LOWEST_TOP_P)
        ):
            return "not together with thinking"
    if member == "top_p" and sampling.temperature is not None and not capabilities.sampling_pair:
        return "this model takes either temperature or top_p"
    return None
