"""Whether anybody answers at an address."""

from __future__ import annotations

import socket

import pytest

from dragoman.cli.doctor.addresses import problem_at


def test_somebody_listens_or_nobody_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        assert problem_at(url) == ""
    assert problem_at(url) == "nobody listens there"


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://x", "http://", "http://[::1", "http://x:99999"])
def test_what_is_no_address_is_told(url: str) -> None:
    assert problem_at(url) == "it is no address"


def test_a_host_that_does_not_exist_is_told() -> None:
    assert problem_at("http://nobody.invalid") in ("its host has no address", "nobody answers there in time")
