"""A first dragoman.toml: the found keys and servers, with commented settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from dragoman.config.discovery import discover_providers
from dragoman.config.toml_lines import dotted
from dragoman.providers.catalogue import CatalogueEntry

# As many models as a comment names.
_MAX_NAMES = 4


class UsableProvider(Struct, frozen=True, kw_only=True):
    """A provider that could be used: its key is in a variable, or it is a server that answers at an address."""

    name: str
    title: str
    variable: str = ""
    base_url: str = ""
    # Whether the address is another one than the catalogue's.
    moved: bool = False
    models: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()


def with_keys(environ: Mapping[str, str], catalogue: Mapping[str, CatalogueEntry]) -> list[UsableProvider]:
    """The providers whose key is in the environment, and that can be used with it."""
    providers, _ = discover_providers(environ, catalogue, ())
    usable = []
    for name in providers:
        listing = catalogue[name]
        variable = next(variable for variable in listing.env if environ.get(variable, "").strip())
        usable.append(UsableProvider(name=name, title=listing.title, variable=variable, serves=listing.serves))
    return usable


def render_starter_file(chosen: Sequence[UsableProvider], others: Sequence[UsableProvider], key_hash: str = "") -> str:
    """The file, with comments; `others` were found and are not to be used."""
    return "\n".join(_lines(chosen, others, key_hash)) + "\n"


def _lines(chosen: Sequence[UsableProvider], others: Sequence[UsableProvider], key_hash: str) -> Iterator[str]:
    yield "# Written by `dragoman init`. A change applies without a restart; `dragoman check` reports what is wrong."
    yield "# `$NAME` is an environment variable: keys stay where they are."
    yield ""
    yield "[server]"
    yield '# host = "127.0.0.1"        # this machine alone'
    yield "# port = 8484"
    if others:
        yield f"# Found as well, and not used: {', '.join(other.name for other in others)}."
        yield "discover = false            # only the providers below"
    for each in chosen:
        yield from ("", *_provider(each))
    yield ""
    yield "[models]"
    yield "# Names of your own; if a target fails, the next one is called:"
    example = next((each for each in chosen if each.models), chosen[0])
    yield f'# "fast" = "{example.name}/{example.models[0] if example.models else "MODEL"}"'
    second = next((each for each in chosen if each is not example), None)
    if second is not None:
        yield f'# "smart" = ["{example.name}/MODEL", "{second.name}/MODEL"]'
    if key_hash:
        yield ""
        yield "# Only requests with the key of this hash are accepted; `dragoman key new --print` makes another."
        yield "[keys.default]"
        yield f'hash = "{key_hash}"'


def _provider(provider: UsableProvider) -> Iterator[str]:
    names = f"{provider.name}/MODEL"
    if provider.variable:
        by_itself = f"; by itself also {', '.join(provider.serves[:_MAX_NAMES])}" if provider.serves else ""
        yield f"# {provider.title}: its models are {names}{by_itself}"
        yield f"[providers.{dotted((provider.name,))}]"
        yield f'api_key = "${provider.variable}"'
        return
    yield f"# {provider.title}: its models are {names}; it needs no key"
    yield f"[providers.{dotted((provider.name,))}]"
    yield f'{"" if provider.moved else "# "}base_url = "{provider.base_url}"'
