"""Attempts with unknown keys are limited for each address, and the addresses are bounded."""

from __future__ import annotations

from dragoman.gateway.access.unknown_key_limit import MAX_ADDRESSES, MAX_ATTEMPTS, WINDOW_SECONDS, UnknownKeyLimit
from tests.store.opened import Clock


def waits(limit: UnknownKeyLimit, address: str, times: int) -> list[int]:
    return [limit.count(address) for _ in range(times)]


def test_attempts_beyond_the_limit_wait_for_the_end_of_the_window() -> None:
    clock = Clock()
    limit = UnknownKeyLimit(clock)
    assert waits(limit, "192.0.2.1", MAX_ATTEMPTS) == [0] * MAX_ATTEMPTS
    clock.now += 20.5
    assert limit.count("192.0.2.1") == WINDOW_SECONDS - 20
    # Another address is another client.
    assert limit.count("192.0.2.2") == 0
    clock.now += WINDOW_SECONDS - 20.6
    assert limit.count("192.0.2.1") == 1
    clock.now += 0.1
    assert waits(limit, "192.0.2.1", MAX_ATTEMPTS + 1) == [*[0] * MAX_ATTEMPTS, WINDOW_SECONDS]


def test_addresses_of_one_ipv6_network_are_one() -> None:
    limit = UnknownKeyLimit(Clock())
    addresses = [f"2001:db8:0:1::{number:x}" for number in range(MAX_ATTEMPTS)]
    assert [limit.count(address) for address in addresses] == [0] * MAX_ATTEMPTS
    assert limit.count("2001:db8:0:1:ffff::1%eth0") > 0
    assert limit.count("2001:db8:0:2::1") == 0


def test_a_limited_number_of_addresses_is_counted() -> None:
    limit = UnknownKeyLimit(Clock())
    waits(limit, "first", MAX_ATTEMPTS)
    waits(limit, "second", MAX_ATTEMPTS)
    for number in range(MAX_ADDRESSES - 1):
        assert limit.count(f"other {number}") == 0
    assert len(limit._attempts) == MAX_ADDRESSES
    # The one that began first was forgotten.
    assert (limit.count("second") > 0, limit.count("first")) == (True, 0)
