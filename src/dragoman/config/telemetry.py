"""`[telemetry]`: the collector of spans; if a value is missing, telemetry is off, and requests are served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config import file_schema
from dragoman.config.environment import Unset, header_value, resolved
from dragoman.config.settings import Missing, Telemetry
from dragoman.config.tables import ConfigTable
from dragoman.config.toml_lines import dotted
from dragoman.config.values import is_loopback
from dragoman.errors import ConfigError


class ReadTelemetry(Struct, frozen=True, kw_only=True):
    """The telemetry settings, or none and the reason."""

    telemetry: Telemetry = Telemetry()
    missing: tuple[Missing, ...] = ()


def read_telemetry(table: ConfigTable, environ: Mapping[str, str]) -> ReadTelemetry:
    """The table with its environment variables resolved; its problems are reported there."""
    table.refuse_others(file_schema.TELEMETRY)
    telemetry = table.fill(Telemetry, file_schema.TELEMETRY)
    if not telemetry.endpoint:
        if table.values and not table.has("endpoint"):
            table.complain("endpoint", "is missing", 'name the collector, for example "http://127.0.0.1:4318"')
        return ReadTelemetry()
    missing: list[Missing] = []
    endpoint = ""
    try:
        endpoint = file_schema.read_collector(resolved(telemetry.endpoint, environ))
    except Unset as unset:
        missing.append(_missing(table, "endpoint", unset.problem, unset.remedy, unset.variable))
    except ConfigError as error:
        table.complain("endpoint", error.problem, error.remedy or "name an address, with http:// or https://")
    headers = dict(_headers(table, telemetry, environ, missing))
    # Only needed with a collector.
    from dragoman.telemetry.export_queue import is_installed

    if not is_installed():
        problem = "sending spans needs OpenTelemetry's SDK, which is not installed"
        remedy = "install dragoman from its clone with that extra: '.[otel]' in place of ."
        missing.append(_missing(table, "endpoint", problem, remedy))
    if missing or not endpoint:
        return ReadTelemetry(missing=tuple(missing))
    return ReadTelemetry(telemetry=replace(telemetry, endpoint=endpoint, headers=headers))


def _headers(
    table: ConfigTable, telemetry: Telemetry, environ: Mapping[str, str], missing: list[Missing]
) -> Iterator[tuple[str, str]]:
    for name, text in telemetry.headers.items():
        try:
            yield name, header_value(text, environ)
        except Unset as unset:
            missing.append(_missing(table, "headers", unset.problem, unset.remedy, unset.variable))
        except ConfigError as error:
            table.complain("headers", f"{name} {error.problem}", error.remedy)


def _missing(table: ConfigTable, key: str, problem: str, remedy: str, variable: str = "") -> Missing:
    path = (*table.path, key)
    line = table.problems.line_of(path)
    return Missing(left_out="telemetry", key=dotted(path), problem=problem, remedy=remedy, variable=variable, line=line)


def sends_in_clear(telemetry: Telemetry) -> bool:
    """Whether headers, which may be secret, are sent in clear text."""
    host = urlsplit(telemetry.endpoint).hostname or ""
    return bool(telemetry.headers) and telemetry.endpoint.startswith("http://") and not is_loopback(host)
