"""Looking before the leap: is a model known, does its provider answer, does it take the key."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, ValidationError, convert

from dragoman.cli import documents
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.launching.clients import CLAUDE_SUFFIX, LaunchableClient
from dragoman.launching.gateway import PageError, route_of
from dragoman.launching.keys import GivenKey
from dragoman.wire.json import encode

# What a name that leads nowhere is answered with.
_UNKNOWN = 404
_NO_KEY = 401


class _Target(Struct):
    target: str
    able: bool
    words: str


class _RoutePage(Struct):
    # An older gateway does not check.
    checked: list[_Target] = []


def preflight(
    client: LaunchableClient, models: Iterable[str | None], settings: Settings, key: GivenKey, address: str
) -> None:
    """Ask the gateway of the models that are asked for; an error if one of them cannot be used."""
    # Here, so that the other commands start without it.
    from concurrent.futures import ThreadPoolExecutor

    names = list(dict.fromkeys(name.removesuffix(CLAUDE_SUFFIX) for name in models if name is not None))
    notes: list[str] = []
    if names:
        # At the same time: nobody waits twice for the same slow network.
        with ThreadPoolExecutor(len(names)) as pool:
            notes += [
                note
                for model_notes in pool.map(lambda name: _notes(name, settings, key, address), names)
                for note in model_notes
            ]
    elif client.usual:
        try:
            notes += _notes(client.usual, settings, key, address)
        except DragomanError as error:
            # Which model it will ask for is not known; this one is of the kind.
            notes.append(f"{client.name} asks for models of its own choice here: {error} (--model NAME)")
    for note in dict.fromkeys(notes):
        documents.complain(f"note: {note}")


def _notes(name: str, settings: Settings, key: GivenKey, address: str) -> list[str]:
    """What to say of a model before its client is started; an error if it cannot be used."""
    body = encode({"model": name, "messages": [{"role": "user", "content": "Hello."}]})
    given = "" if key.is_placeholder else key.text
    try:
        page = route_of(address, given, {"model": name, "check": "1"}, body, "dragoman")
    except PageError as error:
        if error.status == _UNKNOWN:
            raise DragomanError(error.reason) from None
        if error.status == _NO_KEY:
            raise DragomanError(f"the gateway at {address} does not take the key: {error.reason}") from None
        return [str(error)]
    try:
        targets = convert(page, _RoutePage).checked
    except ValidationError:
        return []
    able = [target for target in targets if target.able]
    if targets and not able:
        words = "; ".join(dict.fromkeys(_with_address(target, settings) for target in targets))
        raise DragomanError(f"{name} cannot be used now: {words}")
    return [_with_address(target, settings) for target in targets if target.words]


def _with_address(target: _Target, settings: Settings) -> str:
    """What is wrong with a target; where it is the configuration says, which whoever has it may read."""
    name = target.target.partition("/")[0]
    provider = settings.providers.get(name)
    if provider is None or not target.words.startswith(f"{name} ") or target.words.startswith(f"{name} at "):
        return target.words
    return target.words.replace(name, f"{name} at {provider.endpoints[0].base_url}", 1)
