"""The greeting of `dragoman serve`: whom it calls, and what to try first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from dragoman.config.settings import Settings

_MAX_MODELS = 6
_WIDTH = 80
# The models that servers of this machine listed, by their names.
LocalModels: TypeAlias = Mapping[str, tuple[str, ...]]


def provider_lines(settings: Settings, local_models: LocalModels) -> Iterator[str]:
    """Whom the gateway calls, with the models that are known."""
    for provider in settings.listed([settings.local[name] for name in local_models]):
        protocols = ", ".join(endpoint.protocol for endpoint in provider.endpoints)
        models = _models(provider.name, local_models.get(provider.name, provider.models))
        words = f"  {provider.name:12} {protocols}{models}"
        yield from textwrap.wrap(words, _WIDTH, subsequent_indent=" " * 15, break_on_hyphens=False)


def _models(name: str, models: tuple[str, ...] | None) -> str:
    if not models:
        return ""
    more = f" … {len(models)} in all" if len(models) > _MAX_MODELS else ""
    return ": " + " ".join(f"{name}/{model}" for model in models[:_MAX_MODELS]) + more


def lines_to_try(settings: Settings, local_models: LocalModels, address: str, *, keyed: bool) -> Iterator[str]:
    """What to try first: the embedded provider where there is no other, else one that is really asked."""
    others = [provider for provider in settings.providers.values() if provider.transport != "echo"]
    has_echo = len(others) < len(settings.providers)
    if not others and not local_models:
        yield from curl_lines(address, keyed=keyed) if has_echo else ()
        return
    model = _first_model(settings, local_models)
    if model:
        yield curl_line(address, "messages", _message(model), keyed=keyed)
        yield f"dragoman launch claude --model {model}"
    else:
        yield "dragoman models --live"
        by_itself = {
            route.pattern for route in settings.defaults if route.targets[0].split("/")[0] in settings.providers
        }
        named = "" if "claude-*" in by_itself else f" --model {others[0].name}/MODEL"
        yield f"dragoman launch claude{named}"
    if has_echo:
        yield "without a provider, which costs nothing:"
        yield curl_line(address, "messages", _message("echo/text"), keyed=keyed)


def _first_model(settings: Settings, local_models: LocalModels) -> str:
    """A name that is known to lead to a provider: a line's, a provider's own, or that of a server of this machine."""
    for route in settings.routes:
        if "*" not in route.pattern and not any(text.startswith("echo/") for text in route.targets):
            return route.pattern
    listed = {name: provider.models or () for name, provider in settings.providers.items() if name != "echo"}
    for name, models in {**listed, **local_models}.items():
        if models:
            return f"{name}/{models[0]}"
    return ""


def _message(model: str) -> str:
    return f'{{"model":"{model}","max_tokens":100,"messages":[{{"role":"user","content":"Hello from Messages"}}]}}'


def curl_lines(address: str, *, keyed: bool) -> list[str]:
    """One line per protocol; each is answered by the embedded provider in another protocol."""
    bodies = (
        ("messages", _message("echo/text")),
        (
            "chat/completions",
            '{"model":"echo/text@anthropic-messages","messages":[{"role":"user","content":"Hello from Chat"}]}',
        ),
        ("responses", '{"model":"echo/text","input":"Hello from Responses"}'),
    )
    return [curl_line(address, path, body, keyed=keyed) for path, body in bodies]


def curl_line(address: str, path: str, body: str, *, keyed: bool) -> str:
    """One request, as a line of a shell."""
    key = " -H 'x-api-key: '\"$DRAGOMAN_KEY\"" if keyed else ""
    return f"curl {address}/v1/{path} -H 'content-type: application/json'{key} -d '{body}'"
