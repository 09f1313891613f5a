"""Decodes requests of this protocol. `request_encoder` encodes those of others."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Extras
from dragoman.model.request import CacheOptions, Demand, OutputFormat, OutputKind, Reasoning, Request, Sampling
from dragoman.model.tools import ToolSpec
from dragoman.protocols.openai_chat.messages import MessageDecoder
from dragoman.protocols.openai_chat.parts import unmodelled
from dragoman.protocols.openai_chat.shapes import NAME, OTHER_SAMPLING
from dragoman.protocols.openai_chat.tool_decoder import (
    decode_choice,
    decode_legacy_choice,
    decode_legacy_function,
    decode_parallel,
    decode_search,
    decode_tool,
    plain_function,
)
from dragoman.rules.translated_parts import NOTHING_KNOWN, KnownParts
from dragoman.wire.fields import Fields


def recognises(body: JsonObject) -> bool:
    return "messages" in body


# Members of nearly every request. A request with no others is decoded in one step.
_PLAIN = frozenset(
    {
        "model",
        "messages",
        "tools",
        "parallel_tool_calls",
        "max_completion_tokens",
        "stream",
        "stream_options",
        "reasoning_effort",
        "temperature",
    }
)


def decode_request(body: JsonObject, known: KnownParts = NOTHING_KNOWN) -> Request:
    fields = Fields(body)
    tools = known.tools
    if tools is not None:
        fields.skip("tools")
    else:
        tools = _decode_tools(fields) if "tools" in body else ()
    messages = known.messages
    if messages and body["messages"] == []:
        fields.skip("messages")
    else:
        messages = MessageDecoder(tools).decode_all(fields, messages)
    if not messages:
        raise fields.wrong("messages", "at least one message", "none")
    include_usage, obfuscation, extras = _decode_stream_options(fields) if "stream_options" in body else _NO_OPTIONS
    effort = fields.optional_text("reasoning_effort") if "reasoning_effort" in body else None
    temperature = fields.optional_number("temperature") if "temperature" in body else None
    request = Request(
        origin=NAME,
        model=fields.text("model"),
        messages=messages,
        tools=tools,
        parallel_calls=None if _CHOOSING.isdisjoint(body) else decode_parallel(fields),
        max_tokens=fields.optional_cap("max_completion_tokens"),
        sampling=_NO_SAMPLING if temperature is None else Sampling(temperature=temperature),
        reasoning=_NO_REASONING if effort is None else Reasoning(effort=effort),
        stream=("stream" in body and fields.optional_flag("stream")) or False,
        include_usage=include_usage,
        obfuscation=obfuscation,
        extras=extras,
    )
    return request if body.keys() <= _PLAIN else _with_the_others(request, fields)


_NO_OPTIONS = (None, None, None)
_CHOOSING = frozenset({"parallel_tool_calls", "tool_choice"})
_NO_SAMPLING = Sampling()
_NO_REASONING = Reasoning()


def _with_the_others(request: Request, fields: Fields) -> Request:
    nested: JsonObject = dict(request.extras.fields) if request.extras is not None else {}
    functions = tuple(decode_legacy_function(function) for function in fields.each("functions"))
    search = fields.optional_fields("web_search_options")
    choice = decode_choice(fields)
    if choice is None:
        choice = decode_legacy_choice(fields)
    elif "function_call" in fields.value:
        nested["function_call"] = fields.raw("function_call")
    choices = fields.optional_cap("n")
    return replace(
        request,
        tools=request.tools + functions + (() if search is None else (decode_search(search),)),
        tool_choice=choice,
        max_tokens=_decode_cap(request.max_tokens, fields),
        sampling=_decode_sampling(fields),
        stop=_decode_stop(fields),
        reasoning=_decode_reasoning(fields),
        output=_decode_output(fields),
        verbosity=fields.optional_text("verbosity"),
        choices=choices,
        logprobs=fields.optional_flag("logprobs"),
        top_logprobs=fields.optional_integer("top_logprobs"),
        end_user=_decode_end_user(fields),
        metadata=fields.optional_object("metadata"),
        service_tier=fields.optional_text("service_tier"),
        store=fields.optional_flag("store"),
        cache_key=fields.optional_text("prompt_cache_key"),
        cache=_decode_cache_options(fields),
        moderation=_decode_moderation(fields),
        legacy_functions=bool(functions),
        demands=_decode_demands(fields, choices),
        extras=_rest(fields, nested),
    )


def _decode_demands(fields: Fields, choices: int | None) -> tuple[Demand, ...]:
    demands: list[Demand] = []
    if choices is not None and choices > 1:
        demands.append(Demand(feature=Feature.CHOICES, member="n", note="only one choice can be asked for"))
    modalities = fields.value.get("modalities")
    if isinstance(modalities, list) and "audio" in modalities:
        note = "answers in sound cannot be asked for"
        demands.append(Demand(feature=Feature.MODALITIES, member="modalities", note=note))
    return tuple(demands)


def _decode_stream_options(fields: Fields) -> tuple[bool | None, bool | None, Extras | None]:
    """Whether usage and padding are requested, and other stream options."""
    value = fields.value.get("stream_options")
    if type(value) is dict and len(value) == 1 and value.get("include_usage") is True:
        fields.skip("stream_options")
        return True, None, None
    options = fields.optional_fields("stream_options")
    if options is None:
        return None, None, None
    usage, obfuscation = options.optional_flag("include_usage"), options.optional_flag("include_obfuscation")
    rest = unmodelled(options)
    extras = None if rest is None else Extras(origin=NAME, fields={"stream_options": rest.fields})
    return usage, obfuscation, extras


def _rest(fields: Fields, nested: JsonObject) -> Extras | None:
    rest = unmodelled(fields)
    if not nested:
        return rest
    return Extras(origin=NAME, fields={**(rest.fields if rest is not None else {}), **nested})


def _decode_tools(fields: Fields) -> tuple[ToolSpec, ...]:
    tools = fields.optional_list("tools")
    if not tools:
        return ()
    path = (fields.path, "tools")
    specs: list[ToolSpec] = []
    for index, tool in enumerate(tools):
        plain = plain_function(tool) if type(tool) is dict else None
        specs.append(decode_tool(tool, path, index) if plain is None else plain)
    return tuple(specs)


def _decode_cap(cap: int | None, fields: Fields) -> int | None:
    """The newer member wins. An older one next to it stays in the extras."""
    if cap is None and fields.value.get("max_tokens") is not None:
        return fields.optional_cap("max_tokens")
    return cap


def _decode_end_user(fields: Fields) -> str | None:
    user = fields.optional_text("safety_identifier")
    if user is None and fields.value.get("user") is not None:
        return fields.optional_text("user")
    return user


def _decode_sampling(fields: Fields) -> Sampling:
    others = {key: fields.raw(key) for key in OTHER_SAMPLING if fields.value.get(key) is not None}
    return Sampling(
        temperature=fields.optional_number("temperature"),
        top_p=fields.optional_number("top_p"),
        top_k=fields.optional_integer("top_k"),
        frequency_penalty=fields.optional_number("frequency_penalty"),
        presence_penalty=fields.optional_number("presence_penalty"),
        seed=fields.optional_integer("seed"),
        logit_bias=fields.optional_object("logit_bias"),
        others=others or None,
    )


def _decode_stop(fields: Fields) -> tuple[str, ...]:
    if isinstance(fields.value.get("stop"), str):
        return (fields.text("stop"),)
    return fields.texts("stop")


def _decode_reasoning(fields: Fields) -> Reasoning:
    """Effort, and the extensions by which servers take a budget or a switch (mapping.md §10)."""
    effort = fields.optional_text("reasoning_effort")
    budget: int | None = None
    extras: Extras | None = None
    unified = fields.optional_fields("reasoning")
    if unified is not None:
        if effort is None and unified.value.get("effort") is not None:
            effort = unified.optional_text("effort")
        budget = unified.optional_cap("max_tokens", 0)
        rest = unmodelled(unified)
        if rest is not None:
            extras = Extras(origin=NAME, fields={"reasoning": rest.fields})
    switch = fields.value.get("thinking")
    if isinstance(switch, dict) and switch.keys() <= {"type", "budget_tokens"}:
        kind, given = switch.get("type"), switch.get("budget_tokens")
        if kind == "disabled" and effort is None and given is None:
            effort = "none"
            fields.skip("thinking")
        elif kind == "enabled" and given is not None and budget is None:
            budget = Fields(switch, (fields.path, "thinking")).optional_cap("budget_tokens")
            fields.skip("thinking")
    if budget is None and fields.value.get("thinking_budget") is not None:
        budget = fields.optional_integer("thinking_budget")
    return Reasoning(effort=effort, budget=budget, extras=extras)


def _decode_output(fields: Fields) -> OutputFormat | None:
    value = fields.value.get("response_format")
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind not in _OUTPUT_KINDS:
        # A form that only some servers have stays in the extras.
        return None
    form = fields.optional_fields("response_format")
    if form is None:
        return None
    output_kind = _OUTPUT_KINDS[form.text("type")]
    if output_kind is not OutputKind.SCHEMA:
        return OutputFormat(kind=output_kind, extras=unmodelled(form))
    inner = form.fields("json_schema")
    if "name" in inner.value:
        inner.name("name")
    schema, name = inner.optional_object("schema"), inner.optional_text("name")
    description, strict = inner.optional_text("description"), inner.optional_flag("strict")
    outer, rest = unmodelled(form), unmodelled(inner)
    extras: JsonObject = {**(outer.fields if outer is not None else {})}
    if rest is not None:
        extras["json_schema"] = rest.fields
    return OutputFormat(
        kind=output_kind,
        schema=schema,
        name=name,
        description=description,
        strict=strict,
        extras=Extras(origin=NAME, fields=extras) if extras else None,
    )


_OUTPUT_KINDS = {"text": OutputKind.TEXT, "json_object": OutputKind.JSON, "json_schema": OutputKind.SCHEMA}


def _decode_cache_options(fields: Fields) -> CacheOptions | None:
    options = fields.optional_fields("prompt_cache_options")
    retention = fields.optional_text("prompt_cache_retention")
    if options is None and retention is None:
        return None
    if options is None:
        return CacheOptions(retention=retention)
    mode = options.optional_text("mode")
    return CacheOptions(
        explicit=None if mode is None else mode == "explicit",
        ttl=options.optional_text("ttl"),
        retention=retention,
        extras=unmodelled(options),
    )


def _decode_moderation(fields: Fields) -> JsonObject | None:
    """Moderation as given. A provider without it rejects a blocking policy."""
    moderation = fields.optional_fields("moderation")
    if moderation is None:
        return None
    policy = moderation.optional_fields("policy")
    if policy is not None:
        policy.optional_object("input")
        policy.optional_object("output")
    return moderation.value
