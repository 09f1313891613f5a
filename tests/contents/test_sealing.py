"""Sealed bytes open with their key, at their place."""

from __future__ import annotations

import sys

import pytest

from dragoman.contents.sealing import SALT_SIZE, Sealer, check_key
from dragoman.errors import ConfigError
from dragoman.store.errors import StoreError

SALT = bytes(SALT_SIZE)


def test_sealed_bytes_open_at_their_place_alone() -> None:
    sealer = Sealer("a long key of somebody", SALT)
    sealed = sealer.seal(b"text", b"here")
    assert sealer.encrypts and b"text" not in sealed and sealer.seal(b"text", b"here") != sealed
    assert Sealer("a long key of somebody", SALT).open(sealed, b"here") == b"text"
    for other, data, place in (
        (sealer, sealed, b"there"),
        (sealer, sealed[:-1], b"here"),
        (sealer, b"", b"here"),
        (Sealer("a long key of somebody", b"1" * SALT_SIZE), sealed, b"here"),
        (Sealer("another key of somebody", SALT), sealed, b"here"),
    ):
        with pytest.raises(StoreError, match="damaged"):
            other.open(data, place)


def test_the_secret_follows_from_the_key() -> None:
    assert Sealer("a long key of somebody", SALT).secret == Sealer("a long key of somebody", SALT).secret != b""
    assert Sealer("another key of somebody", SALT).secret != Sealer("a long key of somebody", SALT).secret


def test_without_a_key_bytes_stay() -> None:
    sealer = Sealer()
    assert (sealer.seal(b"text", b""), sealer.open(b"text", b""), sealer.encrypts) == (b"text", b"text", False)


def test_a_key_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    check_key("x" * 16)
    with pytest.raises(ConfigError, match="fewer than 16"):
        check_key("x" * 15)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ConfigError, match=r"dragoman\[contents\]"):
        check_key("x" * 16)
