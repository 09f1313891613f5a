"""An order tells nobody its key or its words."""

from __future__ import annotations

from tests.providers.orders import order_to, provider_of


def test_an_order_shows_neither_key_nor_body() -> None:
    provider = provider_of("https://example.org/v1", keys=("sk-secret",))
    shown = repr(order_to(provider, key="sk-secret", body=b'{"prompt":"private"}', headers=[(b"x", b"private")]))
    assert "secret" not in shown and "private" not in shown
    assert "cloud" in shown
