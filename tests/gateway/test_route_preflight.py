"""`POST /route?check=1`: whether those that a name leads to can be used; nothing is paid, and nobody waits for long."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.gateway import route_preflight
from dragoman.gateway.check_cache import MAX_AGE_SECONDS
from dragoman.http.address import Origin
from dragoman.identities.identity import ADMIN, ALL_RIGHTS, COMMAND_LINE_KEY, Rights
from dragoman.identities.key_text import digest_of
from tests.gateway.harness import CHAT, PROVIDER_KEY, House, Received, Reply, passing, running, settings_for, whole
from tests.identities.holders import holder
from tests.ports import CLOSED_PORT

KEY = "sesame-open-the-gate"
BODY = {"model": "any", "messages": [{"role": "user", "content": "Hello."}]}
LIST = whole({"data": [{"id": "served"}, {"id": "served-too"}]})


def checks(house: House, model: str, **headers: str) -> list[tuple[object, object, str]]:
    """What is told of each target: its name, whether it can be used, and words."""
    told = house.post(f"/route?model={model}&client={CHAT}&check=1", BODY, **headers)
    assert told.status == 200, told.body
    found = told.json()["checked"]
    assert isinstance(found, list)
    return [(row["target"], row["able"], str(row["words"])) for row in found if isinstance(row, dict)]


def asking(port: int) -> Settings:
    """Providers that are asked what they have, in the place of those that are configured with it."""
    settings = settings_for(port)
    providers = {name: replace(provider, models=None) for name, provider in settings.providers.items()}
    return replace(
        settings, providers=providers, routes=(RouteConfig(pattern="two", targets=("chat/served", "chat/gone")),)
    )


def test_a_provider_that_answers_is_well_and_is_asked_once_for_all_of_its_models() -> None:
    with running(lambda _: LIST, asking) as house:
        found = checks(house, "two")
        received = house.provider.received
    assert found[0] == ("chat/served", True, "")
    # One that a provider does not list may still be there.
    assert found[1][:2] == ("chat/gone", True)
    assert "chat does not list `gone`" in found[1][2]
    assert [(call.method, call.target) for call in received] == [("GET", "/v1/models")]


def test_echo_is_always_there() -> None:
    with running(()) as house:
        assert checks(house, "echo/text") == [("echo/text", True, "")]


def test_a_provider_that_is_down_is_told_with_its_name_address_and_the_next_step() -> None:
    port = CLOSED_PORT
    with running((), lambda _: settings_for(port)) as house:
        ((target, able, words),) = checks(house, "chat/served")
    assert (target, able) == ("chat/served", False)
    assert words.startswith(f"chat at 127.0.0.1:{port} refused the connection: is it running?")


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_told_without_showing_it(status: int) -> None:
    with running(lambda _: whole({"error": {"message": f"bad key {PROVIDER_KEY}"}}, status)) as house:
        ((_, able, words),) = checks(house, "chat/served")
    assert able is False
    assert words == "chat refused the key providers.chat.api_key: is it right, and still good?"
    assert PROVIDER_KEY not in words


def test_a_provider_without_a_key_that_asks_for_one_is_told_so() -> None:
    with running(lambda _: whole({}, 401), lambda port: settings_for(port, provider_keys=())) as house:
        ((_, able, words),) = checks(house, "chat/served")
    assert (able, words) == (False, "chat asks for a key and has none here: set providers.chat.api_key")


@pytest.mark.parametrize("reply", [whole({}, 503), whole({}, 404)], ids=["503", "404"])
def test_another_status_is_a_note(reply: Reply) -> None:
    with running(lambda _: reply) as house:
        ((_, able, words),) = checks(house, "chat/served")
    assert (able, f"answered {reply.status}" in words) == (True, True)


def test_what_is_no_list_is_taken_on_trust() -> None:
    with running(lambda _: whole(b"<html>"), asking) as house:
        assert checks(house, "chat/served") == [("chat/served", True, "")]


def test_a_slow_provider_is_a_note() -> None:
    with running(lambda _: Reply(steps=(passing(), b"{}"))) as house:
        ((_, able, words),) = checks(house, "chat/served")
    assert (able, words.endswith(f"did not answer within {route_preflight.TIMEOUT:g} s")) == (True, True)


def test_a_list_that_anybody_may_read_says_nothing_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if it were on another machine.
    monkeypatch.setattr(route_preflight, "_origin", lambda _: AWAY)
    replies: dict[str, Callable[[Received], Reply]] = {
        "for anybody": lambda _: LIST,
        "for those with a key": lambda received: LIST if received.header("authorization") else whole({}, 401),
    }
    said = {}
    for case, reply in replies.items():
        with running(reply) as house:
            ((_, able, words),) = checks(house, "chat/served")
        assert able is True
        said[case] = words
    assert "shows its models to anybody" in said["for anybody"]
    assert said["for those with a key"] == ""


AWAY = Origin("https", "api.example.com", 443)


def test_addresses_are_told_to_who_started_the_gateway_and_not_to_every_key() -> None:
    port = CLOSED_PORT
    started = holder(COMMAND_LINE_KEY, digest_of("started-it-for-myself"), owner=b"")

    def settings(_: int) -> Settings:
        found = settings_for(port, keys=(KEY,), rights=ALL_RIGHTS)
        return replace(found, keys=(*found.keys, started))

    with running((), settings) as house:
        ((_, _, mine),) = checks(house, "chat/served", x_api_key="started-it-for-myself")
        ((_, _, theirs),) = checks(house, "chat/served", x_api_key=KEY)
        assert house.post("/route?model=chat/served&check=1", BODY).status == 401
    assert str(port) in mine
    assert str(port) not in theirs
    assert theirs == "chat refused the connection"


def test_nobody_is_asked_unless_that_is_wished() -> None:
    with running(()) as house:
        told = house.post(f"/route?model=chat/served&client={CHAT}", BODY).json()
        assert "checked" not in told
        assert not house.provider.received


def test_a_check_takes_a_place_among_the_exchanges_of_its_key() -> None:
    def settings(port: int) -> Settings:
        found = settings_for(port, keys=(KEY,), rights=ALL_RIGHTS)
        return replace(found, keys=(replace(found.keys[0], rights=Rights(role=ADMIN, concurrency=1)),))

    with running(lambda _: LIST, settings) as house:
        service = house.app.runtime
        place = service.key_calls.take(service.settings.keys[0])
        assert place is not None
        refused = house.post(f"/route?model=chat/served&client={CHAT}&check=1", BODY, x_api_key=KEY)
        place.release()
        assert (refused.status, len(house.provider.received)) == (429, 0)
        for _ in range(2):
            assert house.post(f"/route?model=chat/served&client={CHAT}&check=1", BODY, x_api_key=KEY).status == 200
        assert service.key_calls.taken(service.settings.keys[0]) == 0


def test_who_asks_again_and_again_has_nobody_called_for_it() -> None:
    with running(lambda _: LIST, asking) as house:
        service = house.app.runtime
        for _ in range(5):
            checks(house, "two")
        assert len(house.provider.received) == 1
        now = service.clock()
        service.checks._clock = lambda: now + MAX_AGE_SECONDS + 1.0
        checks(house, "two")
        assert len(house.provider.received) == 2
