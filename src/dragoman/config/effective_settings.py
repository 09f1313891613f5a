"""Effective settings: every setting that is not default, and its source. Values are shown of `[server]`, `[timeouts]`,
`[routing]`, `[limits]` and `[storage]`; tables of providers, keys and telemetry may hold secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import asdict

from dragoman.config.config_file import ConfigFile
from dragoman.config.parsing import parse
from dragoman.config.settings import Settings
from dragoman.config.toml_lines import KeyPath, Lines, dotted
from dragoman.providers.catalogue import CatalogueEntry

_SHOWN = ("server", "timeouts", "routing", "limits", "storage")
_NAMED = ("providers", "models", "prices", "keys", "telemetry")


class EffectiveSetting(Struct, frozen=True, kw_only=True):
    """One setting: its key, its value if it may be shown, and its source."""

    key: str
    source: str
    value: str = ""

    def __str__(self) -> str:
        text = f"{self.key} = {self.value}" if self.value else self.key
        return f"{text} ({self.source})"


def list_effective_settings(
    settings: Settings,
    file: ConfigFile | None,
    environ: Mapping[str, str],
    catalogue: Mapping[str, CatalogueEntry],
    overridden: Collection[str] = (),
) -> list[EffectiveSetting]:
    """The settings that are not default; `overridden` are members of `[server]` that the command line replaces."""
    # A pipe was read already, and has no lines any more.
    values, lines = parse(str(file), file.read()) if file is not None and file.is_plain() else ({}, None)
    effective = [
        *_simple(settings, values, lines, str(file or ""), overridden),
        *_named(values, lines, str(file or "")),
    ]
    written = values.get("providers")
    for name in settings.providers:
        listing = catalogue.get(name)
        if listing is None or (isinstance(written, dict) and name in written):
            continue
        variable = next((variable for variable in listing.env if environ.get(variable, "").strip()), None)
        if variable is not None:
            effective.append(EffectiveSetting(key=f"providers.{dotted((name,))}", source=f"the variable {variable}"))
    return effective


def _simple(
    settings: Settings, values: Mapping[str, object], lines: Lines | None, file: str, overridden: Collection[str]
) -> Iterator[EffectiveSetting]:
    """Settings that differ from their defaults, by section."""
    for section in _SHOWN:
        here: Struct = getattr(settings, section)
        table, defaults = values.get(section), asdict(type(here)())
        for name, value in asdict(here).items():
            if section == "server" and name in overridden:
                yield EffectiveSetting(key=f"{section}.{name}", source=f"--{name}", value=_format_value(value))
            elif isinstance(table, dict) and name in table and value != defaults[name]:
                source = _source(file, lines, (section, name))
                yield EffectiveSetting(key=f"{section}.{name}", source=source, value=_format_value(value))


def _named(values: Mapping[str, object], lines: Lines | None, file: str) -> Iterator[EffectiveSetting]:
    """Settings in tables of names: each member of a provider, and every other name."""
    for section in _NAMED:
        table = values.get(section)
        for name, member in table.items() if isinstance(table, dict) else ():
            inner = list(member) if section == "providers" and isinstance(member, dict) else []
            paths: list[KeyPath] = [(section, name, key) for key in inner]
            for path in paths or [(section, name)]:
                yield EffectiveSetting(key=dotted(path), source=_source(file, lines, path))


def _source(file: str, lines: Lines | None, path: KeyPath) -> str:
    return file if lines is None else f"{file}:{lines.of(path)}"


def _format_value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
