"""`GET /readyz`: whether requests are taken, and what is wrong with the records and with the keys of the database;
`?verbose` has the figures of the records."""

from __future__ import annotations

from msgspec.structs import asdict

from dragoman.gateway.access.identity_table import IdentityTable
from dragoman.gateway.observability.usage_recorder import UsageRecorder

# Units of figures that are no counts.
_UNITS = {"backlog": " bytes"}


def readiness(usage_recorder: UsageRecorder, identities: IdentityTable, *, verbose: bool) -> tuple[int, bytes]:
    """A status, and lines; the first of them is one word where all is well."""
    lines: list[str] = []
    if usage_recorder.problem:
        lines.append(f"cannot record requests: {usage_recorder.problem}")
    if usage_recorder.delay:
        lines.append(f"cannot ingest journals: {usage_recorder.delay}")
    if identities.problem:
        lines.append(f"cannot read gateway keys of the database: {identities.problem}")
    if identities.hidden:
        names = ", ".join(sorted(identities.hidden))
        lines.append(f"gateway keys of the database are refused, as the configuration has the same: {names}")
    recorded = usage_recorder.recorded()
    if verbose and recorded is not None:
        lines += [f"records {name}: {count}{_UNITS.get(name, '')}" for name, count in asdict(recorded).items()]
    elif lines and recorded is not None:
        lines.append(f"records backlog: {recorded.backlog}{_UNITS['backlog']}")
    refuses = usage_recorder.refuses
    return 503 if refuses else 200, "\n".join(["refusing" if refuses else "ready", *lines, ""]).encode()
