"""Providers that answer or do not, and the clock by what they say."""

from __future__ import annotations

import socket
from email.utils import formatdate

import pytest

from dragoman.cli.doctor.providers import clock, probe_providers, providers
from dragoman.cli.doctor.report import CLOCK, REFUSED_CONNECTION, REFUSED_KEY
from dragoman.config.load import read_settings
from dragoman.config.settings import Settings
from dragoman.gateway.provider_probe import ProbeResponse
from dragoman.providers.catalogue import catalogue
from dragoman.providers.provider import Endpoint, Provider

KEY = "sk-0123456789abcdef-secret"
ENVIRON = {"OPENAI_API_KEY": KEY}
SETTINGS = read_settings(None, ENVIRON, catalogue())
NOW = 1_700_000_000.0


def answer(
    provider: str, words: str, *, well: bool = False, status: int = 0, ahead: float | None = None
) -> ProbeResponse:
    """What a provider said, and how far our clock is ahead of its own."""
    date = formatdate(NOW - ahead, usegmt=True) if ahead is not None else ""
    return ProbeResponse(
        provider=provider, protocol="openai-chat", well=well, message=words, status=status, date=date, received_at=NOW
    )


def test_who_answers_is_a_fact_and_who_does_not_is_wrong() -> None:
    told = [
        answer("openai", "it answered 401: openai refused the key OPENAI_API_KEY", status=401),
        answer("openai", "it answered 401: openai refused the key OPENAI_API_KEY", status=401),
        answer("box", "box at 127.0.0.1:1 refused the connection: is it running?"),
        answer("far", "it answered 404: it lists no models, or base_url is not what its SDK takes", status=404),
        answer("echo", "12 models", well=True),
    ]
    section = providers(SETTINGS, told, ENVIRON)
    assert section.facts[-1] == ("echo openai-chat", "ok: 12 models")
    key, box, far = section.findings
    assert (key.advice, key.heading) == (
        "look at OPENAI_API_KEY, or providers.openai.api_key in the configuration",
        REFUSED_KEY,
    )
    assert box.advice.startswith("is box running") and box.heading == REFUSED_CONNECTION
    assert far.advice == "look at providers.far.base_url"
    assert KEY not in str(section)


def test_nobody_but_echo_is_worth_knowing() -> None:
    alone = read_settings(None, {}, catalogue())
    (finding,) = providers(alone, probe_providers(alone), {}).findings
    assert not finding.wrong and "OPENAI_API_KEY" in finding.advice


def test_a_provider_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint(protocol="openai-chat", base_url=f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        slow = Settings(providers={"slow": Provider(name="slow", endpoints=(endpoint,), auth="none")})
        (told,) = probe_providers(slow, 0.2)
    assert (told.well, told.message) == (False, "no answer in time")


def test_nobody_is_asked_offline() -> None:
    section = providers(SETTINGS, None, ENVIRON)
    assert dict(section.facts) == {"set up": "openai, echo", "called": "none, because of --offline"}


@pytest.mark.parametrize(("ahead", "words"), [(3600.0, "3600 s ahead of"), (-300.0, "300 s behind")])
def test_a_clock_that_is_wrong_is_told(ahead: float, words: str) -> None:
    (finding,) = clock([answer("a", "", ahead=ahead), answer("b", "")]).findings
    assert words in finding.message and finding.heading == CLOCK


def test_a_clock_is_right_if_it_is_so_by_one_of_them() -> None:
    section = clock([answer("a", "", ahead=7200.0), answer("b", "", ahead=2.0)])
    assert (section.facts, section.findings) == ((("compared", "with b: +2 s"),), ())
    assert "with none" in clock([answer("a", "")]).facts[0][1]
    odd = ProbeResponse(provider="a", protocol="", well=True, message="", date="yesterday", received_at=NOW)
    assert "with none" in clock([odd]).facts[0][1]
