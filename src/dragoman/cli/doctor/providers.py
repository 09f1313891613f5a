"""Providers: does each of them answer, and take its key? And the clock, by what they say the time is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from dragoman.cli.doctor.headings import CLOCK, REFUSED_CONNECTION, REFUSED_KEY
from dragoman.cli.doctor.report import DoctorFinding, Section
from dragoman.config.settings import Settings
from dragoman.providers.catalogue import catalogue

if TYPE_CHECKING:
    from dragoman.gateway.provider_probe import ProbeResponse

# So long each of them may take, all at once.
PATIENCE = 8.0
# Signatures of clouds are refused from five minutes on, and certificates may seem not to hold yet.
MOST_SECONDS = 60.0
# What a key that is not taken is answered with.
_NO_KEY = frozenset({401, 403})


def ask(settings: Settings, patience: float = PATIENCE) -> list[ProbeResponse]:
    """What every provider answers."""
    # The gateway is needed for this alone.
    from dragoman.gateway.provider_probe import ask_all

    return asyncio.run(ask_all(settings, patience))


def providers(settings: Settings, answers: Sequence[ProbeResponse] | None, environ: Mapping[str, str]) -> Section:
    """The providers that are set up; without answers nobody was asked."""
    if answers is None:
        named = ", ".join(settings.providers)
        return Section(title="Providers", facts=(("set up", named), ("asked", "nobody, as --offline says")))
    facts = tuple(
        (f"{answer.provider} {answer.protocol}", ("ok: " if answer.well else "failed: ") + answer.words)
        for answer in answers
    )
    findings = tuple(_finding(answer, environ) for answer in _failed(answers))
    if not findings and all(provider.transport == "echo" for provider in settings.providers.values()):
        only = DoctorFinding(
            words="nobody but the embedded echo is set up",
            advice="set a key, such as OPENAI_API_KEY, or write a table into dragoman.toml (`dragoman providers`)",
            wrong=False,
        )
        findings = (only,)
    return Section(title="Providers", facts=facts, findings=findings)


def _failed(answers: Sequence[ProbeResponse]) -> Iterator[ProbeResponse]:
    """One answer of each provider that failed, by what it says."""
    seen: set[tuple[str, str]] = set()
    for answer in answers:
        if not answer.well and (answer.provider, answer.words) not in seen:
            seen.add((answer.provider, answer.words))
            yield answer


def _finding(answer: ProbeResponse, environ: Mapping[str, str]) -> DoctorFinding:
    name, words = answer.provider, f"{answer.provider}: {answer.words}"
    if answer.status in _NO_KEY:
        return DoctorFinding(words=words, advice=f"look at {_key(name, environ)}", heading=REFUSED_KEY)
    if "base_url" in answer.words:
        return DoctorFinding(words=words, advice=f"look at providers.{name}.base_url")
    advice = f"is {name} running, and can it be reached from here? `dragoman check --live` asks again"
    return DoctorFinding(words=words, advice=advice, heading=REFUSED_CONNECTION if "connect" in answer.words else "")


def _key(name: str, environ: Mapping[str, str]) -> str:
    """Where the key of a provider is from, by name."""
    listing = catalogue().get(name)
    variables = listing.env if listing is not None else ()
    variable = next((variable for variable in variables if environ.get(variable, "").strip()), None)
    written = f"providers.{name}.api_key in the configuration"
    return f"{variable}, or {written}" if variable else written


def clock(answers: Sequence[ProbeResponse]) -> Section:
    """How far this machine's clock is from those of providers that said what time it is."""
    differences = [(answer.provider, found) for answer in answers if (found := _difference(answer)) is not None]
    if not differences:
        return Section(title="Clock", facts=(("compared", "with nobody: no provider said what time it is"),))
    provider, seconds = min(differences, key=lambda pair: abs(pair[1]))
    facts = (("compared", f"with {provider}: {seconds:+.0f} s"),)
    if abs(seconds) <= MOST_SECONDS:
        return Section(title="Clock", facts=facts)
    ahead = "ahead" if seconds > 0 else "behind"
    finding = DoctorFinding(
        words=f"the clock of this machine is {abs(seconds):.0f} s {ahead} of what {provider} says",
        advice="set it, for example by `timedatectl set-ntp true`",
        heading=CLOCK,
    )
    return Section(title="Clock", facts=facts, findings=(finding,))


def _difference(answer: ProbeResponse) -> float | None:
    try:
        said = parsedate_to_datetime(answer.date)
    except ValueError:
        return None
    said = said.replace(tzinfo=UTC) if said.tzinfo is None else said
    return (datetime.fromtimestamp(answer.heard, UTC) - said).total_seconds()
