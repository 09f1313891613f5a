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
    assert settings.limits.request_body == 32 * MEBIBYTE
    assert (settings.timeouts.connect, settings.timeouts.first_byte) == (10, 300)
    assert (settings.timeouts.idle, settings.timeouts.total, settings.timeouts.effective_total) == (120, None, 1800)
    assert (settings.timeouts.heartbeat, settings.timeouts.drain) == (15, 30)
    assert (settings.routing.max_attempts, settings.routing.max_billed_retries) == (8, 1)
    assert (settings.routing.heartbeat_after, settings.routing.exploration_rate) == (10, 0.05)
