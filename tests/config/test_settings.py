"""Defaults: what a gateway is that nobody configured."""

from __future__ import annotations

from dragoman.config.settings import MEBIBYTE, Settings


def test_a_gateway_that_nobody_configured_serves_this_machine_alone() -> None:
    settings = Settings()
    assert (settings.server.host, settings.server.port, settings.server.workers) == ("127.0.0.1", 8484, 1)
    assert settings.server.discover
    assert not settings.server.strict
    assert not settings.keys and not settings.routes and not settings.warnings


def test_limits_are_those_that_are_promised() -> None:
    settings = Settings()
    assert settings.limits.body == 32 * MEBIBYTE
    assert (settings.timeouts.connect, settings.timeouts.first_byte) == (10, 300)
    assert (settings.timeouts.idle, settings.timeouts.total, settings.timeouts.whole) == (120, None, 1800)
    assert (settings.timeouts.keep_alive, settings.timeouts.drain) == (15, 30)
    assert (settings.routing.attempts, settings.routing.replays) == (8, 1)
    assert (settings.routing.hold, settings.routing.explore) == (10, 0.05)
