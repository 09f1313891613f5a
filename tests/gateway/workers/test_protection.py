"""Protection: what is asked for at the start, and which changes of the file may be applied (decision 19)."""

from __future__ import annotations

import socket

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Server, Settings, Storage
from dragoman.errors import ConfigError
from dragoman.gateway.processes.listen_socket import bind
from dragoman.gateway.workers.protection import (
    Protection,
    bound_host,
    judged,
    protection_at_start,
    protection_of,
    tightened,
)
from tests.identities.holders import holder

LOOPBACK = ["127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "localhost", "dragoman.localhost"]
# What is not certainly loopback is not: better asked for a key once too often.
OPEN = [
    "0.0.0.0",
    "::",
    "",
    "192.168.1.7",
    "10.0.0.1",
    "8.8.8.8",
    "fe80::1",
    "gateway.example.org",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.1",
    "2130706433",
    "0x7f000001",
    "1270.0.0.1",
    " 127.0.0.1",
]


ONE, OTHER = holder("one", b"1"), holder("other", b"2")
NONE = Settings(file="dragoman.toml")
REVOKED = replace(NONE, keys_table=True)
KEYED = replace(REVOKED, keys=(ONE,))
BOTH = replace(REVOKED, keys=(ONE, OTHER))
# As with a key of the command line: none is in the file.
GIVEN = replace(NONE, keys=(ONE,))
EMPTY = replace(NONE, empty=True)


@pytest.mark.parametrize("host", LOOPBACK)
def test_this_machine_alone_reaches(host: str) -> None:
    assert not protection_at_start(NONE, host, open_to_all=False).requires_keys


@pytest.mark.parametrize("host", OPEN)
def test_others_may_reach(host: str) -> None:
    with pytest.raises(ConfigError, match="dragoman key new") as caught:
        protection_at_start(NONE, host, open_to_all=False)
    assert caught.value.key == "server.host"
    assert caught.value.file == "dragoman.toml"


@pytest.mark.parametrize("host", [*LOOPBACK, *OPEN])
@pytest.mark.parametrize(
    ("settings", "insists", "asked"),
    [
        (KEYED, False, True),
        (KEYED, True, True),
        (GIVEN, False, True),
        (GIVEN, True, True),
        (REVOKED, False, True),
        (REVOKED, True, False),
        (NONE, True, False),
    ],
    ids=["keys", "keys, open", "a key given", "a key given, open", "none usable", "none usable, open", "none, open"],
)
def test_keys_are_asked_for_at_the_start(host: str, settings: Settings, insists: bool, asked: bool) -> None:
    assert protection_at_start(settings, host, open_to_all=insists).requires_keys is asked


def test_the_address_is_the_one_that_is_bound() -> None:
    with bind("localhost", 0) as listener:
        assert bound_host(listener) in ("127.0.0.1", "::1")
    with bind("0.0.0.0", 0) as listener:
        assert bound_host(listener) == "0.0.0.0"
    with socket.socket() as listener:
        listener.bind(("127.0.0.2", 0))
        assert bound_host(listener) == "127.0.0.2"


# The start, whether with `--no-auth`, what a reload finds, and a word of the refusal or whether keys are asked for.
RELOADS: dict[str, tuple[Settings, bool, Settings, str | bool]] = {
    "an empty file where there was a filled one": (NONE, False, EMPTY, "half-written"),
    "an empty file where there were keys": (KEYED, False, replace(EMPTY, keys=()), "half-written"),
    "an empty file where there was one": (EMPTY, False, EMPTY, False),
    "no keys although they are asked for": (KEYED, False, NONE, "empty [keys] table"),
    "no keys although none was usable": (REVOKED, False, NONE, "empty [keys] table"),
    "no keys although they are asked for, and open": (KEYED, True, NONE, "restart"),
    "all revoked": (KEYED, False, REVOKED, True),
    "all revoked, and open": (KEYED, True, REVOKED, True),
    "keys where there were none": (NONE, False, KEYED, True),
    "keys where there were none, and open": (NONE, True, KEYED, True),
    "a table where there was none": (NONE, False, REVOKED, True),
    "a table where there was none, and open": (NONE, True, REVOKED, True),
    "no table any more, and open": (REVOKED, True, NONE, False),
    "nothing new": (NONE, False, NONE, False),
    "a key of the command line, and still none in the file": (GIVEN, False, GIVEN, True),
    "a key of the command line, and those of the file gone": (BOTH, False, GIVEN, "keys are required"),
}


@pytest.mark.parametrize("case", RELOADS)
def test_a_reload_finds(case: str) -> None:
    started, insists, found, verdict = RELOADS[case]
    protection = protection_of(started, open_to_all=insists)
    if isinstance(verdict, str):
        with pytest.raises(ConfigError) as caught:
            judged(protection, started, found)
        assert verdict in str(caught.value)
        assert caught.value.file == "dragoman.toml"
        assert caught.value.remedy
    else:
        applied = judged(protection, started, found)
        assert tightened(protection, applied).requires_keys is verdict


def test_what_keys_were_added_later_is_asked_for_after_they_are_gone() -> None:
    protection = tightened(protection_of(NONE, open_to_all=True), KEYED)
    protection = tightened(protection, judged(protection, KEYED, REVOKED))
    assert protection.requires_keys
    with pytest.raises(ConfigError):
        judged(protection, REVOKED, NONE)


def test_host_port_workers_and_storage_stay_and_the_rest_is_applied() -> None:
    started = Settings(server=Server(host="127.0.0.1", port=1, workers=2), storage=Storage(response_days=3))
    found = Settings(
        server=Server(host="0.0.0.0", port=5, workers=6, allowed_hosts=("a.example",)),
        storage=Storage(response_days=7),
        routes=(RouteConfig(pattern="a", targets=("echo/text",)),),
    )
    applied = judged(Protection(), started, found)
    assert applied.server == replace(started.server, allowed_hosts=("a.example",))
    assert (applied.storage, applied.routes) == (started.storage, found.routes)


# Keys that were known one after the other, and whether what they made has to be told apart in the end.
KNOWN: dict[str, tuple[tuple[Settings, ...], bool]] = {
    "one": ((KEYED,), False),
    "none": ((NONE,), False),
    "two": ((BOTH,), True),
    "two, and one of them now": ((BOTH, KEYED), True),
    "one after the other": ((KEYED, replace(REVOKED, keys=(OTHER,))), True),
    "one after the other, with none between": ((KEYED, REVOKED, replace(REVOKED, keys=(OTHER,))), True),
    "the same again": ((KEYED, REVOKED, KEYED), False),
}


@pytest.mark.parametrize("case", KNOWN)
def test_owners_are_told_apart_once_there_were_several(case: str) -> None:
    (settings, *later), apart = KNOWN[case]
    protection = protection_of(settings)
    for found in later:
        settings = judged(protection, settings, found)
        protection = tightened(protection, settings)
    assert protection.several_owners is apart


@pytest.mark.parametrize("open_to_all", [False, True])
@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_keys_of_the_database_are_keys_at_the_start(host: str, open_to_all: bool) -> None:
    protection = protection_at_start(NONE, host, open_to_all=open_to_all, has_stored_keys=True)
    assert protection.requires_keys
    # The file of the configuration never had any: one without them may be applied.
    assert judged(protection, NONE, NONE) == NONE
