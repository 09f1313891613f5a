"""Providers: whether each of them responds, and accepts its key. And the clock, by their times."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from dragoman.cli.doctor.report import CLOCK, REFUSED_CONNECTION, REFUSED_KEY, DoctorFinding, Section
from dragoman.config.settings import Settings
from dragoman.providers.catalogue import catalogue

if TYPE_CHECKING:
    from dragoman.gateway.provider_probe import ProbeResponse

# Timeout of all checks together.
TIMEOUT = 8.0
# Signatures of clouds are refused from five minutes on, and certificates may seem not to hold yet.
MAX_SKEW_SECONDS = 60.0
# The statuses of a rejected key.
_NO_KEY = frozenset({401, 403})


def probe_providers(settings: Settings, timeout: float = TIMEOUT) -> list[ProbeResponse]:
    # The gateway is needed for this alone.
    from dragoman.gateway.provider_probe import probe_all

    return asyncio.run(probe_all(settings, timeout))


def providers(settings: Settings, responses: Sequence[ProbeResponse] | None, environ: Mapping[str, str]) -> Section:
    """The configured providers; without `responses`, none was called."""
    if responses is None:
        named = ", ".join(settings.providers)
        return Section("Providers", (("set up", named), ("called", "none, because of --offline")))
    facts = tuple(
        (f"{answer.provider} {answer.protocol}", ("ok: " if answer.well else "failed: ") + answer.message)
        for answer in responses
    )
    findings = tuple(_finding(answer, environ) for answer in _failed(responses))
    if not findings and all(provider.transport == "echo" for provider in settings.providers.values()):
        only = DoctorFinding(
            "no provider is set up but the embedded echo",
            "set a key, such as OPENAI_API_KEY, or write a table into dragoman.toml (`dragoman providers`)",
            wrong=False,
        )
        findings = (only,)
    return Section("Providers", facts, findings=findings)


def _failed(responses: Sequence[ProbeResponse]) -> Iterator[ProbeResponse]:
    """One failed response of each provider."""
    seen: set[tuple[str, str]] = set()
    for response in responses:
        if not response.well and (response.provider, response.message) not in seen:
            seen.add((response.provider, response.message))
            yield response


def _finding(response: ProbeResponse, environ: Mapping[str, str]) -> DoctorFinding:
    name, words = response.provider, f"{response.provider}: {response.message}"
    if response.status in _NO_KEY:
        return DoctorFinding(words, f"look at {_key(name, environ)}", heading=REFUSED_KEY)
    if "base_url" in response.message:
        return DoctorFinding(words, f"look at providers.{name}.base_url")
    advice = f"is {name} running, and can it be reached from here? `dragoman check --live` calls it again"
    return DoctorFinding(words, advice, heading=REFUSED_CONNECTION if "connect" in response.message else "")


def _key(name: str, environ: Mapping[str, str]) -> str:
    """Where the key of a provider is from, by name."""
    listing = catalogue().get(name)
    variables = listing.env if listing is not None else ()
    variable = next((variable for variable in variables if environ.get(variable, "").strip()), None)
    written = f"providers.{name}.api_key in the configuration"
    return f"{variable}, or {written}" if variable else written


def clock(responses: Sequence[ProbeResponse]) -> Section:
    """The difference of this machine's clock to the clocks of providers."""
    differences = [
        (response.provider, difference) for response in responses if (difference := _difference(response)) is not None
    ]
    if not differences:
        return Section("Clock", (("compared", "with none: no provider sent its time"),))
    provider, seconds = min(differences, key=lambda pair: abs(pair[1]))
    facts = (("compared", f"with {provider}: {seconds:+.0f} s"),)
    if abs(seconds) <= MAX_SKEW_SECONDS:
        return Section("Clock", facts)
    ahead = "ahead" if seconds > 0 else "behind"
    finding = DoctorFinding(
        f"the clock of this machine is {abs(seconds):.0f} s {ahead} of that of {provider}",
        "set it, for example by `timedatectl set-ntp true`",
        heading=CLOCK,
    )
    return Section("Clock", facts, findings=(finding,))


def _difference(response: ProbeResponse) -> float | None:
    try:
        provider_time = parsedate_to_datetime(response.date)
    except ValueError:
        return None
    provider_time = provider_time.replace(tzinfo=UTC) if provider_time.tzinfo is None else provider_time
    return (datetime.fromtimestamp(response.received_at, UTC) - provider_time).total_seconds()
