"""Addresses: what a URL means on the wire, and which URLs mean nothing."""

from __future__ import annotations

import pytest

from dragoman.http import address
from dragoman.http.address import Origin, check_name, locate, request_line


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        ("https://api.example.org/v1", Origin("https", "api.example.org", 443), "/v1"),
        ("HTTPS://API.Example.ORG:8443", Origin("https", "api.example.org", 8443), "/"),
        ("http://127.0.0.1:8000/v1/chat?a=b&c", Origin("http", "127.0.0.1", 8000), "/v1/chat?a=b&c"),
        ("http://[::1]:8000/x", Origin("http", "::1", 8000), "/x"),
        ("http://host?q", Origin("http", "host", 80), "/?q"),
        ("http://host/a#fragment", Origin("http", "host", 80), "/a"),
        ("http://bücher.example/", Origin("http", "xn--bcher-kva.example", 80), "/"),
        ("http://my_host-1/%2F;a:b@c!", Origin("http", "my_host-1", 80), "/%2F;a:b@c!"),
    ],
)
def test_a_url_is_an_origin_and_a_target(url: str, origin: Origin, target: str) -> None:
    assert locate(url) == (origin, target)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/v1",
        "host/v1",
        "ftp://host/",
        "http://",
        "http:///path",
        "http://host:port/",
        "http://host:70000/",
        "http://user:secret@host/",
        "http://host/a b",
        "http://host/a\tb",
        "http://host/a\nb",
        "http://host/a\r\nx: y",
        "http://host/?a b",
        "http://host/é",
        "http://host/\x7f",
        "http://ho st/",
        "http://[::g]/",
        "http://[::1/",
        "http://a..ü/",
        "http://ho\rst/",
    ],
)
def test_a_url_that_cannot_be_called_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        locate(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("https://host/a", b"POST /a HTTP/1.1\r\nhost: host\r\n"),
        ("https://host:443/a", b"POST /a HTTP/1.1\r\nhost: host\r\n"),
        ("http://host:443/a", b"POST /a HTTP/1.1\r\nhost: host:443\r\n"),
        ("http://[::1]/a", b"POST /a HTTP/1.1\r\nhost: [::1]\r\n"),
        ("http://[::1]:81/a", b"POST /a HTTP/1.1\r\nhost: [::1]:81\r\n"),
    ],
)
def test_a_request_begins_with_its_line_and_its_host(url: str, line: bytes) -> None:
    assert request_line("POST", url, False) == line


def test_a_proxy_reads_the_whole_url() -> None:
    assert request_line("GET", "http://host:81/a?b", True) == b"GET http://host:81/a?b HTTP/1.1\r\nhost: host:81\r\n"


@pytest.mark.parametrize("method", ["", "GET /", "GET\r\n", "GÉT"])
def test_a_method_that_is_none_is_refused(method: str) -> None:
    with pytest.raises(ValueError, match=r"method|codec"):
        request_line(method, "http://host/", False)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost.example.org", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_loopback_hosts_are_known(host: str, loopback: bool) -> None:
    assert Origin("http", host, 80).loopback is loopback


def test_names_of_headers_are_tokens() -> None:
    check_name(b"x-api-key")
    for name in (b"", b"a b", b"a:", b"a\r", "é".encode(), b"host", b"Content-Length"):
        with pytest.raises(ValueError, match=r"header|Host"):
            check_name(name)


def test_long_addresses_are_not_remembered() -> None:
    before = address._located.cache_info().currsize, address._lined.cache_info().currsize
    long = "http://host/" + "a" * 1000
    assert locate(long)[1] == "/" + "a" * 1000
    assert request_line("GET", long, False).startswith(b"GET /aaa")
    assert (address._located.cache_info().currsize, address._lined.cache_info().currsize) == before
