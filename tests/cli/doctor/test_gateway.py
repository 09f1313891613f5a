"""The gateway that runs here, as doctor finds it."""

from __future__ import annotations

import os
import socket

import pytest
from msgspec.structs import replace

from dragoman import __version__
from dragoman.cli.doctor.service import gateway
from dragoman.config.settings import Server, Settings
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.launching.gateway import greeting_of
from tests.gateway.harness import running, settings_for

KEY = "dk-0123456789abcdefghijklmnopqrstuvwxyz"


def at(port: int) -> Settings:
    """Settings whose gateway is at a port."""
    return Settings(server=Server(port=port))


def test_a_gateway_is_told_with_its_process_and_version() -> None:
    with running(()) as house:
        section = gateway(at(house.port), {})
    facts = dict(section.facts)
    assert facts["running"] == f"http://127.0.0.1:{house.port}"
    assert facts["process"] == str(os.getpid())
    assert (facts["version"], facts["workers"]) == (__version__, "1")
    assert section.findings == ()


def test_a_gateway_that_asks_for_a_key_is_a_note() -> None:
    with running((), lambda port: settings_for(port, keys=[KEY], rights=ALL_RIGHTS)) as house:
        (finding,) = gateway(at(house.port), {}).findings
        known = gateway(at(house.port), {"DRAGOMAN_KEY": KEY})
    assert not finding.wrong and "DRAGOMAN_KEY" in finding.advice
    assert known.findings == ()
    assert KEY not in str(known)


def test_a_port_of_another_program_is_wrong_and_a_free_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    # Seconds that a program has to answer in.
    monkeypatch.setattr(greeting_of, "__defaults__", (0.1,))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        # It never answers, and is asked for so long only.
        listener.listen(0)
        listener.settimeout(0)
        (finding,) = gateway(at(port), {}).findings
    assert finding.message == f"port {port} is taken by another program (process {os.getpid()})"
    with socket.socket() as bound:
        # Taken, so that nobody else takes it meanwhile, and yet nobody listens.
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        free = gateway(at(port), {})
    assert (free.facts, free.findings) == ((("running", f"none at port {port}"),), ())
    any_port = replace(Settings(), server=Server(port=0))
    assert gateway(any_port, {}).findings == ()
