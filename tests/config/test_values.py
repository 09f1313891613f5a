"""Each kind of value is read as people write it, and refused in plain words."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable

import pytest

from dragoman.config import values
from dragoman.errors import ConfigError

SECRET = "sk-very-secret-value"


@pytest.mark.parametrize(
    ("read", "value", "meaning"),
    [
        (values.read_string, "a", "a"),
        (values.read_strings, "a", ("a",)),
        (values.read_strings, ["a", "b"], ("a", "b")),
        (values.read_boolean, False, False),
        (values.read_strict, True, True),
        (values.read_strict, "all", "all"),
        (values.integer(0, 65535), 0, 0),
        (values.choice("a", "b"), "b", "b"),
        (values.duration(), 10, 10.0),
        (values.duration(), 0.5, 0.5),
        (values.duration(), "30 s", 30.0),
        (values.duration(), "2min", 120.0),
        (values.duration(), "1.5 h", 5400.0),
        (values.duration(), "250 ms", 0.25),
        (values.duration(0.0), 0, 0.0),
        (values.read_size, 1024, 1024),
        (values.read_size, "32 MiB", 33554432),
        (values.read_size, "1.1kB", 1100),
        (values.read_size, "2 gib", 2147483648),
        (values.read_size, "7 B", 7),
        (values.read_share, 0, 0.0),
        (values.read_share, 0.05, 0.05),
        (values.read_share, 1, 1.0),
        (values.read_cost, 2, 2_000_000_000),
        (values.read_cost, 0.05, 50_000_000),
        (values.read_cost, 0.1 + 0.2, 300_000_000),
        (values.read_cost, 0, 0),
        (values.read_host, "LocalHost", "localhost"),
        (values.read_host, "0.0.0.0", "0.0.0.0"),
        (values.read_host, "::", "::"),
        (values.read_host, "my_box.example.org.", "my_box.example.org"),
        (values.each_of(values.read_host), "a.example", ("a.example",)),
        (values.each_of(values.read_host), [], ()),
        (
            values.each_of(values.read_origin),
            ["https://Example.org", "http://[::1]:80"],
            ("https://example.org", "http://[::1]:80"),
        ),
        (values.read_origin, "chrome-extension://abcdef", "chrome-extension://abcdef"),
        (
            values.each_of(values.read_network),
            ["10.0.0.0/8", "127.0.0.1", "::1"],
            ("10.0.0.0/8", "127.0.0.1/32", "::1/128"),
        ),
        (values.each_of(values.read_passthrough_path), "DELETE /files/*", ("DELETE /files/*",)),
        (values.each_of(values.read_passthrough_path), ["post  /v1/v1/evals/", "* /*"], ("POST /evals", "* /*")),
        (values.read_url, "https://api.example.org/v1/", "https://api.example.org/v1"),
        (values.read_url, "http://[::1]:8000", "http://[::1]:8000"),
        (values.read_headers, {"X-Team": "$TEAM"}, {"x-team": "$TEAM"}),
    ],
)
def test_what_people_write_is_understood(read: Callable[[object], object], value: object, meaning: object) -> None:
    assert read(value) == meaning


@pytest.mark.parametrize(
    ("read", "value", "problem"),
    [
        (values.read_string, 1, "expected a string, got an integer"),
        (values.read_string, " ", "expected a string that is not empty, got an empty one"),
        (values.read_strings, {}, "expected a string or an array of strings, got a table"),
        (values.read_network, "10.0.0.1/8", 'expected a network, got "10.0.0.1/8", an address within one'),
        (values.each_of(values.read_network), ["lb"], 'expected an IP address or a network as 10.0.0.0/8, got "lb"'),
        (values.each_of(values.read_network), 1, "expected a string, got an integer"),
        (values.each_of(values.read_passthrough_path), ["/files/*"], 'expected a method and a path, got "/files/*"'),
        (values.read_passthrough_path, "GET files", 'expected a method and a path, got "GET files"'),
        (values.read_passthrough_path, "GET /files/%2e", 'expected a method and a path, got "GET /files/%2e"'),
        (values.read_passthrough_path, "GET /files/../x", 'expected a method and a path, got "GET /files/../x"'),
        (values.read_passthrough_path, "GET /files/a*", 'expected a method and a path, got "GET /files/a*"'),
        (
            values.read_passthrough_path,
            "PUT /files/x",
            'expected GET (which is HEAD, too), POST, DELETE or * before the path, got "PUT"',
        ),
        (values.read_strings, [], "expected at least one string, got an empty array"),
        (values.read_strings, ["a", 1.5], "expected a string, got a float"),
        (values.read_strict, "some", 'expected true, false or "all", got "some"'),
        (values.read_strict, 1, 'expected true, false or "all", got an integer'),
        (values.read_boolean, "yes", "expected a boolean, got a string"),
        (values.read_boolean, 1, "expected a boolean, got an integer"),
        (values.integer(0, 65535), 65536, "expected an integer from 0 to 65535, got 65536"),
        (values.integer(0, 65535), "8484", 'expected an integer from 0 to 65535, got the string "8484"'),
        (values.integer(0, 65535), True, "expected an integer from 0 to 65535, got a boolean"),
        (values.choice("a", "b"), "c", 'expected one of a, b, got "c"'),
        (values.duration(), "30", 'expected a duration with a unit of ms, s, min or h, got "30"'),
        (values.duration(), "3 parsecs", 'expected a duration with a unit of ms, s, min or h, got "3 parsecs"'),
        (values.duration(), 0, "expected a duration from 0.001 s to 168 h, got 0"),
        (values.duration(), -1, "expected a duration from 0.001 s to 168 h, got -1"),
        (values.duration(), float("nan"), "expected a duration from 0.001 s to 168 h, got nan"),
        (values.duration(), float("inf"), "expected a duration from 0.001 s to 168 h, got inf"),
        (values.duration(), True, "expected a duration as a number or a string, got a boolean"),
        (values.duration(), datetime.time(1), "expected a duration as a number or a string, got a time"),
        (values.read_size, "32 MX", 'expected a size with a unit of B, kB, MB, GB, KiB, MiB or GiB, got "32 MX"'),
        (values.read_size, 1.5, "expected a size in whole bytes, got 1.5"),
        (values.read_size, 0, "expected a size from 1 B to 1024 GiB, got 0"),
        (values.read_share, "5 %", "expected a number from 0 to 1, got a string"),
        (values.read_share, 1.5, "expected a number from 0 to 1, got 1.5"),
        (values.read_share, math.nan, "expected a number from 0 to 1, got nan"),
        (values.read_cost, "1", "expected US dollars as a number, got a string"),
        (values.read_cost, 1e-10, "expected US dollars with at most 9 decimals, got 1e-10"),
        (values.read_cost, math.inf, "expected US dollars from 0 to 1000000, got inf"),
        (values.read_size, datetime.date(2026, 1, 1), "expected a size as a number or a string, got a date"),
        (values.read_host, "[::1]", 'expected a host name or an IP address without a port, got "[::1]"'),
        (values.read_host, "a:80", 'expected a host name or an IP address without a port, got "a:80"'),
        (values.read_host, "-a", 'expected a host name or an IP address without a port, got "-a"'),
        (values.read_host, "300.1.1.1", 'expected a host name or an IP address without a port, got "300.1.1.1"'),
        (values.read_host, "a\nb", 'expected a host name or an IP address without a port, got "a�b"'),
        (values.read_origin, "example.org", 'expected an origin, got "example.org"'),
        (values.read_origin, "https://example.org/", 'expected an origin, got "https://example.org/"'),
        (values.read_origin, "*", 'expected an origin, got "*"'),
        (values.read_url, "ftp://a", "expected an address with http:// or https://, got another"),
        (values.read_url, "localhost:8000", "expected an address with http:// or https://, got another"),
        (values.read_url, "http://", "expected an address with a host and without blanks, got another"),
        (values.read_url, "http://a b", "expected an address with a host and without blanks, got another"),
        (values.read_url, "http://a:99999", "expected an address, got one with a broken host or port"),
        (values.read_url, "http://a:0", "expected an address with a host and without blanks, got another"),
        (values.read_url, "http://a..b", "expected an address with a host name or an IP address, got another"),
        (values.read_url, f"https://u:{SECRET}@a", "expected an address without credentials, got some"),
        (values.read_url, f"https://a/v1?key={SECRET}", "expected an address without ? and #, got one"),
        (values.read_url, "https://a/v1#", "expected an address without ? and #, got one"),
        (values.read_url, "https://a/v1/chat/completions", "ends in /chat/completions, which is added to it"),
        (values.read_url, "https://a/v1/messages/", "ends in /v1/messages, which is added to it"),
        (values.read_headers, [], "expected a table of header names and strings, got an array"),
        (values.read_headers, {"a b": "c"}, 'expected a header name, got "a b"'),
        (values.read_headers, {"Content-Length": "1"}, "content-length belongs to the connection"),
        (values.read_headers, {"x": 1}, "expected a string for x, got an integer"),
    ],
)
def test_what_cannot_be_used_is_refused_in_plain_words(
    read: Callable[[object], object], value: object, problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(value)
    assert refused.value.problem == problem
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST.", "a.localhost"])
def test_this_machine_is_recognised(host: str) -> None:
    assert values.is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example.org", "example.org", ""])
def test_other_machines_are_not_taken_for_this_one(host: str) -> None:
    assert not values.is_loopback(host)


@pytest.mark.parametrize(
    ("host", "address"),
    [("0.0.0.0", "http://127.0.0.1:80"), ("::", "http://[::1]:80"), ("gateway.local", "http://gateway.local:80")],
)
def test_a_server_is_called_by_an_address_that_can_be_called(host: str, address: str) -> None:
    assert values.address_to_call(host, 80) == address


def test_names_can_stand_in_headers_and_model_names() -> None:
    assert values.is_name("my-box_2.eu")
    assert not any(map(values.is_name, ("", "a/b", "a b", "-a", "ä", "a\n", "x" * 65)))


def test_long_texts_are_shown_by_their_beginning() -> None:
    assert values.quoted("x" * 100) == '"' + "x" * 59 + '…"'
