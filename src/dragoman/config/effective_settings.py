"""In force: every setting that is not as it is by default, and where it is from.

Values of `[server]`, `[timeouts]`, `[routing]`, `[limits]` and `[storage]` are shown, since none of them is secret. Of
everything else the name alone is told: tables of providers, keys and telemetry may hold secrets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import asdict

from dragoman.config.config_file import ConfigFile
from dragoman.config.parsing import parse
from dragoman.config.settings import Limits, Routing, Server, Settings, Storage, Timeouts
from dragoman.config.toml_lines import KeyPath, Lines, dotted
from dragoman.providers.catalogue import CatalogueEntry

_NAMED = ("providers", "models", "prices", "keys", "telemetry")


class InForce(Struct, frozen=True, kw_only=True):
    """One setting: its key, its value where that may be shown, and where it was said."""

    key: str
    source: str
    value: str = ""

    def __str__(self) -> str:
        said = f"{self.key} = {self.value}" if self.value else self.key
        return f"{said} ({self.source})"


def settings_in_force(
    settings: Settings,
    file: ConfigFile | None,
    environ: Mapping[str, str],
    catalogue: Mapping[str, CatalogueEntry],
    said: Collection[str] = (),
) -> list[InForce]:
    """The settings that are not default; `said` are members of `[server]` that the command line says instead."""
    values, lines = _parsed(file)
    found = [*_simple(settings, values, lines, str(file or ""), said), *_named(values, lines, str(file or ""))]
    written = values.get("providers")
    for name in settings.providers:
        listing = catalogue.get(name)
        if listing is None or (isinstance(written, dict) and name in written):
            continue
        variable = next((variable for variable in listing.env if environ.get(variable, "").strip()), None)
        if variable is not None:
            found.append(InForce(key=f"providers.{dotted((name,))}", source=f"the variable {variable}"))
    return found


def _parsed(file: ConfigFile | None) -> tuple[Mapping[str, object], Lines | None]:
    # A pipe was read already, and has no lines any more.
    if file is None or not file.is_plain():
        return {}, None
    return parse(str(file), file.read())


def _simple(
    settings: Settings, values: Mapping[str, object], lines: Lines | None, file: str, said: Collection[str]
) -> Iterator[InForce]:
    """What is not as its default, by section."""
    sections: tuple[tuple[str, Struct, Struct], ...] = (
        ("server", settings.server, Server()),
        ("timeouts", settings.timeouts, Timeouts()),
        ("routing", settings.routing, Routing()),
        ("limits", settings.limits, Limits()),
        ("storage", settings.storage, Storage()),
    )
    for section, here, usual in sections:
        table, defaults = values.get(section), asdict(usual)
        for name, value in asdict(here).items():
            if section == "server" and name in said:
                yield InForce(key=f"{section}.{name}", source=f"--{name}", value=_shown(value))
            elif isinstance(table, dict) and name in table and value != defaults[name]:
                place = _place(file, lines, (section, name))
                yield InForce(key=f"{section}.{name}", source=place, value=_shown(value))


def _named(values: Mapping[str, object], lines: Lines | None, file: str) -> Iterator[InForce]:
    """What is written in tables of names: each member of a provider, and every other name."""
    for section in _NAMED:
        table = values.get(section)
        for name, member in table.items() if isinstance(table, dict) else ():
            inner = list(member) if section == "providers" and isinstance(member, dict) else []
            paths: list[KeyPath] = [(section, name, key) for key in inner]
            for path in paths or [(section, name)]:
                yield InForce(key=dotted(path), source=_place(file, lines, path))


def _place(file: str, lines: Lines | None, path: KeyPath) -> str:
    return file if lines is None else f"{file}:{lines.of(path)}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
