"""Where a client is: the end of the connection, or what trusted proxies say, and nobody else."""

from __future__ import annotations

import ipaddress
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.config.settings import Server, Settings
from dragoman.gateway.access.client_address import Network, client_address, networks, peer_address
from tests.gateway.access.test_guard import asked
from tests.gateway.harness import running, settings_for

PROXIES = networks(("127.0.0.1", "10.0.0.0/8", "fd00::/8"))


def told(peer: str, *forwarded: str, proxies: tuple[Network, ...] = PROXIES) -> str:
    request = asked(*(("x-forwarded-for", value) for value in forwarded))
    request.peer = peer
    return client_address(request, proxies)


CASES = {
    "nobody stands between": ("203.0.113.9", (), "203.0.113.9"),
    "a stranger says something": ("203.0.113.9", ("1.1.1.1",), "203.0.113.9"),
    "a proxy says it": ("127.0.0.1", ("198.51.100.7",), "198.51.100.7"),
    "a client invents one before it": ("127.0.0.1", ("1.1.1.1, 198.51.100.7",), "198.51.100.7"),
    "a client invents one in another line": ("127.0.0.1", ("1.1.1.1", "198.51.100.7"), "198.51.100.7"),
    "through several proxies": ("10.0.0.1", ("1.1.1.1, 198.51.100.7, 10.2.3.4,10.0.0.9",), "198.51.100.7"),
    "a client invents a proxy": ("127.0.0.1", ("10.1.1.1, 198.51.100.7",), "198.51.100.7"),
    "everybody is a proxy": ("127.0.0.1", ("10.1.1.1, 10.2.2.2",), "10.1.1.1"),
    "a proxy says nothing": ("127.0.0.1", (), "127.0.0.1"),
    "a proxy says nothing of use": ("127.0.0.1", ("1.1.1.1, unknown",), "127.0.0.1"),
    "garbage left of it": ("127.0.0.1", ("<script>, 198.51.100.7",), "198.51.100.7"),
    "a port": ("127.0.0.1", ("198.51.100.7:4711",), "198.51.100.7"),
    "IPv6": ("127.0.0.1", ("2001:DB8::1",), "2001:db8::1"),
    "IPv6 with a port": ("127.0.0.1", ("[2001:db8::1]:80",), "2001:db8::1"),
    "IPv6 in brackets": ("fd00::1", ("[2001:db8::1]",), "2001:db8::1"),
    "IPv4 in IPv6": ("::ffff:127.0.0.1", ("::ffff:198.51.100.7",), "198.51.100.7"),
    "IPv6 with a zone that is none": ("127.0.0.1", ("fe80::1%x y=z",), "127.0.0.1"),
    "letters behind a port": ("127.0.0.1", ("198.51.100.7:80x",), "127.0.0.1"),
    "an empty value": ("127.0.0.1", ("",), "127.0.0.1"),
    "a socket without an address": ("", ("198.51.100.7",), ""),
    "more than is looked at": ("127.0.0.1", ("9" * 5000 + ", 198.51.100.7",), "198.51.100.7"),
    "trusted ones without end": ("127.0.0.1", ("1.1.1.1," + "10.1.1.1," * 5000 + "10.1.1.1",), "10.1.1.1"),
}


@pytest.mark.parametrize("case", CASES)
def test_item_9_the_clients_address_when(case: str) -> None:
    peer, forwarded, address = CASES[case]
    assert told(peer, *forwarded) == address


PEERS = {
    "a client": ("203.0.113.9", "203.0.113.9"),
    "IPv4 in IPv6": ("::ffff:203.0.113.9", "203.0.113.9"),
    "IPv6 with a zone": ("fe80::1%eth0", "fe80::1"),
    "a proxy": ("10.2.3.4", ""),
    "a socket without an address": ("", ""),
}


@pytest.mark.parametrize("case", PEERS)
def test_the_other_end_of_a_connection_without_a_request_when_it_is(case: str) -> None:
    peer, address = PEERS[case]
    assert peer_address(peer, PROXIES) == address


def test_pitfall_587_without_trusted_proxies_nobody_is_believed() -> None:
    assert told("127.0.0.1", "198.51.100.7", proxies=()) == "127.0.0.1"
    assert told("::ffff:203.0.113.9", "198.51.100.7", proxies=()) == "203.0.113.9"


@given(
    st.text(st.characters(max_codepoint=255), max_size=100) | st.sampled_from(["::", "[", "]:", "1.1.1.1", "%", ","])
)
def test_whatever_is_said_the_address_is_one(value: str) -> None:
    ipaddress.ip_address(told("127.0.0.1", value))


def _behind(port: int) -> Settings:
    return replace(settings_for(port, keys=("a-key",)), server=Server(trusted_proxies=("127.0.0.1/32",)))


@pytest.mark.parametrize("trusted", [True, False])
def test_item_9_the_log_tells_where_exchanges_and_refused_requests_come_from(trusted: bool) -> None:
    with running((), _behind if trusted else lambda port: settings_for(port, keys=("a-key",))) as house:
        house.get("/v1/models", x_forwarded_for="198.51.100.7")
        house.get("/v1/models", x_forwarded_for="198.51.100.7", x_api_key="a-key")
    wanted = "198.51.100.7" if trusted else "127.0.0.1"
    lines = [json.loads(line) for line in house.log.getvalue().splitlines()]
    assert [(line["event"], line["address"]) for line in lines] == [("exchange", wanted), ("exchange", wanted)]
