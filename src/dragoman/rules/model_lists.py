"""Model lists: reads the metadata that servers report under various names, and writes the form of OpenAI's protocols.
One reader serves all servers, since servers copy members from each other. Of several sizes the smallest counts, because
a server may load a model with less than its maximum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.listing import ListedModel
from dragoman.model.parts import Extras
from dragoman.rules.timestamps import format_instant, parse_instant

OPENAI = "openai"
# Limits of a list: the number of models, and the length of names and titles.
_MAX_MODELS = 5000
_MAX_TEXT_LENGTH = 200
_MAX_TOKENS = 10**9
# The creation time of other models is unknown. Both formats use the epoch.
EPOCH = 0
# Larger timestamps are milliseconds.
_LATEST = 10**11

# Names of the context window in servers' lists. A dot leads into an object.
_WINDOWS = (
    "max_input_tokens",  # Anthropic, LiteLLM
    "context_length",  # OpenRouter, Together, Fireworks
    "context_window",  # Groq, Vercel
    "max_context_length",  # Mistral, LM Studio
    "loaded_context_length",  # LM Studio
    "max_model_len",  # vLLM, SGLang
    "context_size",  # Novita
    "max_context_window",
    "input_token_limit",
    "inputTokenLimit",  # Google
    "n_ctx",
    "meta.n_ctx",  # llama.cpp
    "meta.n_ctx_train",
    "top_provider.context_length",  # OpenRouter
    "metadata.context_length",  # DeepInfra
    "limits.max_context_length",
    "limit.context",
    "capabilities.limits.max_context_window_tokens",  # GitHub
    "capabilities.limits.max_prompt_tokens",
)
_CAPS = (
    "max_tokens",  # Anthropic, Vercel, LiteLLM
    "max_output_tokens",
    "max_completion_tokens",  # Groq
    "max_output_length",
    "output_token_limit",
    "outputTokenLimit",  # Google
    "top_provider.max_completion_tokens",  # OpenRouter
    "metadata.max_output_tokens",
    "limits.max_completion_tokens",
    "limit.output",
    "capabilities.limits.max_output_tokens",  # GitHub
)
_SIZES = frozenset(path.partition(".")[0] for path in (*_WINDOWS, *_CAPS)) - {"capabilities", "meta", "metadata"}
# Members that `ListedModel` has fields for, and private ones: paths on the server's disk, its operator's rights, local
# addresses.
_MODEL_MEMBERS = frozenset({"id", "object", "type", "created", "created_at", "display_name", "owned_by"})
_RETIREMENT = frozenset({"retires_at", "shutdown_date"})
_PRIVATE = frozenset({"root", "parent", "permission", "links"})


def decode_models(body: JsonValue, form: str) -> list[ListedModel]:
    models: list[ListedModel] = []
    for entry in _entries(body) or ():
        if len(models) == _MAX_MODELS:
            break
        name = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(entry, dict) and isinstance(name, str) and 0 < len(name) <= _MAX_TEXT_LENGTH:
            models.append(_model(name, entry, form))
    return models


def is_list(body: JsonValue) -> bool:
    """Whether a body is a model list. Some servers send null for an empty list."""
    return _entries(body) is not None or (isinstance(body, dict) and body.get("object") == "list")


def _entries(body: JsonValue) -> list[JsonValue] | None:
    data = body.get("data") if isinstance(body, dict) else body
    return data if isinstance(data, list) else None


def _model(name: str, entry: JsonObject, form: str) -> ListedModel:
    window = _smallest(entry, _WINDOWS)
    cap = _smallest(entry, _CAPS)
    if window is not None and cap is not None and cap >= window:
        # This server uses the name for the context window.
        cap = None
    rest = {key: value for key, value in entry.items() if key not in _MODEL_MEMBERS | _RETIREMENT | _PRIVATE}
    return ListedModel(
        id=name,
        title=_text(entry.get("display_name")) or _text(entry.get("name")),
        owner=_text(entry.get("owned_by")),
        created=_first(entry, ("created", "created_at")),
        retires=_first(entry, ("retires_at", "shutdown_date")),
        window=window,
        cap=cap,
        extras=Extras(origin=form, fields=rest) if rest else None,
    )


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) and len(value) <= _MAX_TEXT_LENGTH and value.isprintable() else ""


def _first(entry: JsonObject, names: Sequence[str]) -> int | None:
    return next((time for name in names if (time := _time(entry.get(name))) is not None), None)


def _time(value: JsonValue) -> int | None:
    if isinstance(value, str):
        instant = parse_instant(value) or parse_instant(f"{value}T00:00:00Z")
        return None if instant is None or instant <= EPOCH else int(instant)
    number = _number(value)
    if number is None or number <= EPOCH:
        return None
    return number // 1000 if number >= _LATEST else number


def _smallest(entry: JsonObject, paths: Sequence[str]) -> int | None:
    return min(_counts(entry, paths), default=None)


def _counts(entry: JsonObject, paths: Sequence[str]) -> Iterator[int]:
    for path in paths:
        value: JsonValue = entry
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        number = _number(value)
        if number is not None and 0 < number <= _MAX_TOKENS:
            yield number


def _number(value: JsonValue) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 15:
        return int(value)
    if isinstance(value, float | Number):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 10**15 else None
    return None


def restated(model: ListedModel, window: int | None, cap: int | None) -> ListedModel:
    """Replace the sizes of a model and remove members that would contradict them."""
    if (model.window, model.cap) == (window, cap):
        return model
    extras = model.extras
    if extras is not None:
        extras = replace(extras, fields={name: value for name, value in extras.fields.items() if name not in _SIZES})
    return replace(model, window=window, cap=cap, extras=extras)


def extras_for(model: ListedModel, form: str) -> JsonObject:
    return model.extras.fields if model.extras is not None and model.extras.origin == form else {}


def encode_openai_model(model: ListedModel) -> JsonObject:
    """One model in OpenAI's form: https://platform.openai.com/docs/api-reference/models/object."""
    encoded: JsonObject = {
        "id": model.id,
        "object": "model",
        "created": EPOCH if model.created is None else model.created,
        "owned_by": model.owner,
    }
    if model.retires is not None:
        encoded["shutdown_date"] = format_instant(model.retires).partition("T")[0]
    return {**encoded, **extras_for(model, OPENAI)}


def encode_openai_models(models: Sequence[ListedModel]) -> JsonObject:
    return {"object": "list", "data": [encode_openai_model(model) for model in models]}
