"""The live check: every endpoint of every provider, in words an operator can use, and never a key."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from dragoman.gateway.provider_probe import ProbeResponse, check_live, probe_all
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PROVIDER_KEY,
    RESPONSES,
    Received,
    Reply,
    ScriptedProvider,
    settings_for,
    whole,
)

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
Found = dict[tuple[str, str], tuple[bool, str]]


def checked(reply: Reply) -> tuple[Found, list[Received]]:
    """What the check says of providers that all give one answer."""

    async def check() -> tuple[Found, list[Received]]:
        provider = ScriptedProvider(lambda received: reply)
        await provider.start()
        try:
            found = await check_live(settings_for(provider.port))
        finally:
            await provider.stop()
        return {(name, protocol): (well, words) for name, protocol, well, words in found}, provider.received

    return asyncio.run(check())


def test_every_endpoint_of_every_provider_is_called() -> None:
    found, received = checked(whole({"data": [{"id": "one"}, {"id": "two"}]}))
    assert {("messages", MESSAGES), ("chat", CHAT), ("all", RESPONSES), ("echo", CHAT)} <= set(found)
    assert found["chat", CHAT] == found["all", MESSAGES] == (True, "2 models")
    assert all(well for well, _ in found.values()), found
    assert len(received) == 6
    assert all(call.method == "GET" for call in received)


def test_a_refused_key_is_told_without_showing_it() -> None:
    found, _ = checked(whole({"error": {"message": f"bad key {PROVIDER_KEY}"}}, 401))
    words = "it answered 401: messages refused the key providers.messages.api_key: is it right, and still good?"
    assert found["messages", MESSAGES] == (False, words)
    assert PROVIDER_KEY not in str(found)


def test_one_model_is_no_plural() -> None:
    found, _ = checked(whole({"data": [{"id": "one"}]}))
    assert found["chat", CHAT] == (True, "1 model")


def test_a_list_at_no_path_of_the_provider_points_to_its_address() -> None:
    found, _ = checked(whole({"detail": "Not Found"}, 404))
    assert not found["chat", CHAT][0]
    assert "base_url" in found["chat", CHAT][1]


def test_a_provider_that_is_not_there_is_told_in_words() -> None:
    settings = settings_for(1)
    found = asyncio.run(check_live(replace(settings, providers={"chat": settings.providers["chat"]})))
    [(name, protocol, well, words)] = found
    assert (name, protocol, well) == ("chat", CHAT, False)
    # The same words as in the log of a gateway: it is the operator who asks.
    assert words.startswith("chat at 127.0.0.1:1 refused the connection: is it running?")


def test_a_page_is_no_list_of_models() -> None:
    found, _ = checked(whole(b"<html>", content_type="text/html"))
    assert not found["chat", CHAT][0]


def test_an_answer_says_when_it_was() -> None:
    async def check() -> list[ProbeResponse]:
        provider = ScriptedProvider(lambda received: replace(whole({"data": []}), headers=(("Date", DATE),)))
        await provider.start()
        try:
            return await probe_all(settings_for(provider.port), 30.0)
        finally:
            await provider.stop()

    found = {(answer.provider, answer.protocol): answer for answer in asyncio.run(check())}
    assert found["chat", CHAT].date == DATE
    assert found["echo", CHAT].date == ""
    assert found["chat", CHAT].received_at > 0
