"""Provider catalogue: built-in providers by name. catalogue.toml is the source; `make docs` compiles it to
catalogue.json, which loads in a tenth of the time. The tests of the package check the data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.provider import Endpoint
from dragoman.rules.capabilities import CapabilityRow

_FILE = Path(__file__).with_name("catalogue.json")
SOURCE = _FILE.with_suffix(".toml")


class ListedEndpoint(Endpoint, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str = ""


class _Facts(Struct, frozen=True, kw_only=True):
    """Members of an entry besides its name and capabilities. Members with a name of `Provider` have its meaning."""

    title: str
    # Other names in use for its models: `gemini/…` is Google's.
    aliases: tuple[str, ...] = ()
    # The source of address, authentication and variables.
    source: str
    endpoints: tuple[ListedEndpoint, ...]
    # Environment variables for the key. The first one that is set is used.
    env: tuple[str, ...] = ()
    # Bare model names that mean only this provider: literal, or with one `*` at the end.
    serves: tuple[str, ...] = ()
    # Required options, and environment variables that commonly hold options.
    needs: tuple[str, ...] = ()
    option_env: Mapping[str, tuple[str, ...]] = {}
    options: Mapping[str, str] = {}
    auth: str = ""
    transport: str = "http"
    streaming: str = "on-request"
    # Another entry's name, if everything known about that provider applies here, too.
    vendor: str = ""
    anthropic: bool = False
    counts_tokens: bool = False
    stores_responses: bool = True
    # The source for its support of `stream_options.include_usage`, or "".
    include_usage: str = ""


class CatalogueEntry(_Facts, frozen=True, kw_only=True):
    """One entry of the catalogue. The configuration makes a `Provider` of it, with a key and the operator's members."""

    name: str
    capabilities: tuple[CapabilityRow, ...] = ()

    @property
    def vendor_or_name(self) -> str:
        return self.vendor or self.name


class _CapabilityTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    protocol: str
    set: dict[str, bool | int | str | list[str]]
    source: str
    model: str = "*"


class _Entry(_Facts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    capabilities: tuple[_CapabilityTable, ...] = ()


@cache
def catalogue() -> Mapping[str, CatalogueEntry]:
    return MappingProxyType(_listed(msgspec.json.decode(_FILE.read_bytes(), type=dict[str, _Entry])))


def aliased(alias: str) -> tuple[CatalogueEntry, ...]:
    """The entries that an alias may mean, the likeliest first: its owner, then twins of the owner."""
    return _aliases().get(alias, ())


@cache
def _aliases() -> Mapping[str, tuple[CatalogueEntry, ...]]:
    entries = catalogue().values()
    return {
        alias: (entry, *(twin for twin in entries if twin.vendor == entry.name))
        for entry in entries
        for alias in entry.aliases
    }


def read(text: str) -> dict[str, CatalogueEntry]:
    """Parse the entries of a document. Errors are those of tomllib or msgspec."""
    # Only tests and tools read the source.
    import tomllib

    return _listed(msgspec.convert(tomllib.loads(text), dict[str, _Entry]))


def _listed(entries: Mapping[str, _Entry]) -> dict[str, CatalogueEntry]:
    return {name: _listing(name, entry, entries) for name, entry in entries.items()}


def _listing(name: str, entry: _Entry, entries: Mapping[str, _Entry]) -> CatalogueEntry:
    # Rows of its vendor come first, so that its own rows win.
    inherited = entries[entry.vendor].capabilities if entry.vendor in entries and entry.vendor != name else ()
    facts = {member: value for member, value in msgspec.structs.asdict(entry).items() if member != "capabilities"}
    if not entry.include_usage and entry.vendor in entries:
        facts["include_usage"] = entries[entry.vendor].include_usage
    return CatalogueEntry(
        name=name, capabilities=tuple(_capability_row(row) for row in (*inherited, *entry.capabilities)), **facts
    )


def _capability_row(table: _CapabilityTable) -> CapabilityRow:
    changes: JsonObject = {
        capability: [*value] if isinstance(value, list) else value for capability, value in table.set.items()
    }
    return CapabilityRow(protocol=table.protocol, model=table.model, changes=changes, source=table.source)
