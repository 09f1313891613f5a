"""`GET /readyz`: whether requests are taken, and what is wrong with the accounts; `?verbose` has their figures."""

from __future__ import annotations

from msgspec.structs import asdict

from dragoman.gateway.observability.usage_recorder import UsageRecorder

# Units of figures that are no counts.
_UNITS = {"backlog": " bytes"}


def readiness(accounting: UsageRecorder, *, verbose: bool) -> tuple[int, bytes]:
    """A status, and lines; the first of them is one word where all is well."""
    lines: list[str] = []
    if accounting.problem:
        lines.append(f"exchanges cannot be written down: {accounting.problem}")
    if accounting.delay:
        lines.append(f"what exchanges came to waits in journals: {accounting.delay}")
    recorded = accounting.recorded()
    if verbose and recorded is not None:
        lines += [f"records {name}: {count}{_UNITS.get(name, '')}" for name, count in asdict(recorded).items()]
    elif lines and recorded is not None:
        lines.append(f"records backlog: {recorded.backlog}{_UNITS['backlog']}")
    refuses = accounting.refuses
    return 503 if refuses else 200, "\n".join(["refusing" if refuses else "ready", *lines, ""]).encode()
