"""`GET /readyz`: whether requests are taken, and what is wrong with the database, the records, the contents and the
keys of the database; `?verbose` has figures. A database that is away stops no request that does not need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from dragoman.gateway.access.identity_table import IdentityTable
from dragoman.gateway.observability.usage_recorder import UsageRecorder
from dragoman.store.server_state import ServerState

if TYPE_CHECKING:
    from dragoman.contents.writer import ContentsWriter

# Units of figures that are no counts.
_UNITS = {"backlog": " bytes"}


def readiness(
    usage_recorder: UsageRecorder,
    identities: IdentityTable,
    server: ServerState | None = None,
    contents: ContentsWriter | None = None,
    *,
    verbose: bool,
) -> tuple[int, bytes]:
    """A status, and lines; the first of them is one word where all is well."""
    lines: list[str] = []
    is_away = server is not None and server.is_away
    if server is not None and is_away:
        lines.append(f"the database is away: {server.problem}")
        lines.append(
            f"gateway keys of the database are {'accepted' if identities.is_current() else 'refused with 503'}"
        )
    if usage_recorder.problem:
        lines.append(f"cannot record requests: {usage_recorder.problem}")
    if usage_recorder.delay and not is_away:
        lines.append(f"cannot ingest journals: {usage_recorder.delay}")
    if identities.problem and not is_away:
        lines.append(f"cannot read gateway keys of the database: {identities.problem}")
    if identities.hidden:
        names = ", ".join(sorted(identities.hidden))
        lines.append(f"gateway keys of the database are refused, as the configuration has the same: {names}")
    if contents is not None and contents.problem:
        lines.append(f"cannot store contents: {contents.problem}")
    recorded = usage_recorder.recorded()
    if verbose and server is not None:
        lines.append(f"database server: {server.epoch or 'has not answered yet'}")
    if verbose and recorded is not None:
        lines += [f"records {name}: {count}{_UNITS.get(name, '')}" for name, count in asdict(recorded).items()]
    elif lines and recorded is not None:
        lines.append(f"records backlog: {recorded.backlog}{_UNITS['backlog']}")
    if contents is not None:
        lines.append("contents of conversations are stored")
        if verbose:
            lines += [
                f"contents written: {contents.written}",
                f"contents dropped: {contents.dropped}",
                f"contents removed: {contents.removed}",
            ]
    refuses = usage_recorder.refuses
    return 503 if refuses else 200, "\n".join(["refusing" if refuses else "ready", *lines, ""]).encode()
