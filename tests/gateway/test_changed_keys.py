"""Keys that change: one that loses its rights while a request waits for a slot calls no provider, and a rotated one
finds what it stored."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings
from dragoman.gateway.admission import Slot
from dragoman.gateway.thread_offload import INLINE
from dragoman.identities.identity import ADMIN, AcceptedDigest, Identity, Rights
from dragoman.identities.key_text import digest_of
from tests.gateway.harness import CHAT, MESSAGES, PATHS, House, running, settings_for
from tests.gateway.says import log_lines, question
from tests.sdk.digging import Object
from tests.waiting import LIMIT, wait_until

KEY = "sk-of-ann-0123456789abcdef"
# Every kind of request that is sent to a provider: the provider, the path, and the body.
REQUESTS: dict[str, tuple[str, str, Object]] = {
    "a conversation": ("chat", PATHS[CHAT], question(CHAT, CHAT)),
    "a count of tokens": ("messages", "/v1/messages/count_tokens", question(MESSAGES, MESSAGES)),
    "embeddings": ("chat", "/v1/embeddings", {"model": "chat/served", "input": "x"}),
    "a compaction": ("responses", "/v1/responses/compact", {"model": "responses/served", "input": "x"}),
}
Change = Callable[[Identity], tuple[Identity, ...]]
CHANGES: dict[str, tuple[Change, int]] = {
    "removed": (lambda key: (), 401),
    "narrowed": (lambda key: (replace(key, rights=Rights(models=("other",))),), 403),
    "ended": (lambda key: (replace(key, expires=1.0),), 401),
    # The same identity has another text.
    "replaced": (lambda key: (replace(key, digests=(AcceptedDigest(digest=digest_of("sk-newer")),)),), 401),
}
# Requests that change or tell something without a call to a provider, or before one.
OTHERS: dict[str, tuple[str, Object]] = {
    "a key": ("/admin/v1/keys", {"name": "own", "role": "admin"}),
    "a reset": ("/status", {"reset": "chat/served"}),
    "an explanation": ("/route?check=1", question(CHAT, CHAT)),
    "a conversation": ("/v1/conversations", {"items": []}),
    "a count of tokens": ("/v1/messages/count_tokens", {**question(MESSAGES, MESSAGES), "model": "echo/text"}),
}


def settings(port: int) -> Settings:
    """Providers that have one call at a time."""
    made = settings_for(port, keys=(KEY,))
    limited = {name: replace(each, concurrency=1, counts_tokens=True) for name, each in made.providers.items()}
    return replace(made, providers=limited)


def taken(house: House, provider: str) -> Slot:
    """The slot of a provider."""

    async def take() -> Slot:
        slot = house.app.runtime.admission.enter(provider, "another key")
        assert isinstance(slot, Slot)
        return slot

    return house.run(take())


def waiting(house: House) -> int:
    """How many requests wait for a slot."""

    async def count() -> int:
        return sum(load.waiting for load in house.app.runtime.admission.loads().values())

    return house.run(count())


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", REQUESTS)
def test_pitfall_445_a_key_is_checked_again_before_the_first_call(kind: str, change: str) -> None:
    provider, path, body = REQUESTS[kind]
    changed, status = CHANGES[change]
    with running(settings=settings) as house, ThreadPoolExecutor(1) as client:
        slot = taken(house, provider)
        answer = client.submit(house.post, path, body, authorization=f"Bearer {KEY}")
        wait_until(lambda: waiting(house) == 1, "the request waits for a slot")

        async def configure() -> None:
            runtime = house.app.runtime
            runtime.guard.identities.configure(changed(runtime.settings.keys[0]))
            slot.release()

        house.run(configure())
        assert answer.result().status == status
        house.run(asyncio.sleep(0))
        assert not house.provider.received
        [line] = wait_until(lambda: log_lines(house), "the line of the request")
        # No call was made, and none counts against the provider.
        assert (line["status"], line["attempt_count"]) == (status, 0)
        assert house.app.runtime.health_reports() == []


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", OTHERS)
def test_pitfall_445_a_key_is_checked_again_after_a_slow_body(kind: str, change: str) -> None:
    path, body = OTHERS[kind]
    changed, status = CHANGES[change]
    content = json.dumps(body).encode()
    with running(settings=lambda port: settings_for(port, keys=(KEY,), rights=Rights(role=ADMIN))) as house:
        runtime = house.app.runtime
        connection = http.client.HTTPConnection("127.0.0.1", house.port, timeout=LIMIT)
        with closing(connection):
            connection.putrequest("POST", path)
            for name, value in (("authorization", f"Bearer {KEY}"), ("content-length", str(len(content)))):
                connection.putheader(name, value)
            connection.endheaders(content[:5])
            wait_until(lambda: runtime.unfinished.size + runtime.unfinished.held > 0, "a part of the body has come")

            async def configure() -> None:
                runtime.guard.identities.configure(changed(runtime.settings.keys[0]))

            house.run(configure())
            connection.send(content[5:])
            assert connection.getresponse().status == status
        assert not house.provider.received


def test_pitfall_445_a_key_is_checked_again_after_a_body_waited_to_be_decompressed() -> None:
    path, body = OTHERS["a count of tokens"]
    content = gzip.compress(json.dumps({**body, "system": "x" * 4 * INLINE}).encode())
    with running(settings=lambda port: settings_for(port, keys=(KEY,))) as house, ThreadPoolExecutor(1) as client:
        runtime = house.app.runtime
        name = runtime.settings.keys[0].name

        async def take_turns() -> asyncio.Semaphore:
            async with runtime.unfinished.turn(name):
                turns = runtime.unfinished._turns[name]
            while not turns.locked():
                await turns.acquire()
            return turns

        turns = house.run(take_turns())
        answer = client.submit(house.post, path, content, authorization=f"Bearer {KEY}", **{"content-encoding": "gzip"})
        wait_until(lambda: bool(turns._waiters), "the body waits")

        async def configure() -> None:
            runtime.guard.identities.configure([])
            turns.release()

        house.run(configure())
        assert answer.result().status == 401


def test_a_key_that_got_more_rights_goes_on() -> None:
    with running(settings=settings) as house, ThreadPoolExecutor(1) as client:
        slot = taken(house, "echo")
        body = {**question(CHAT, CHAT), "model": "echo/text@openai-chat"}
        answer = client.submit(house.post, PATHS[CHAT], body, authorization=f"Bearer {KEY}")
        wait_until(lambda: waiting(house) == 1, "the request waits for a slot")

        async def configure() -> None:
            runtime = house.app.runtime
            runtime.guard.identities.configure([replace(runtime.settings.keys[0], rights=Rights(concurrency=7))])
            slot.release()

        house.run(configure())
        assert answer.result().status == 200


def test_a_rotated_key_finds_what_its_former_text_stored() -> None:
    other, newer = "sk-of-bob-0123456789abcdef", "sk-of-ann-fedcba9876543210"
    with running(settings=lambda port: settings_for(port, keys=(KEY, other))) as house:
        request: Object = {"model": "echo/text@openai-responses", "input": "x"}
        stored = house.post("/v1/responses", request, authorization=f"Bearer {KEY}").json()["id"]
        assert isinstance(stored, str)
        ann, bob = house.app.runtime.settings.keys
        former = AcceptedDigest(digest=digest_of(KEY), until=1e12)

        async def rotate(*digests: AcceptedDigest) -> None:
            house.app.runtime.guard.identities.configure([replace(ann, digests=digests), bob])

        def statuses(path: str) -> list[int]:
            return [house.get(path, authorization=f"Bearer {text}").status for text in (newer, KEY, other)]

        house.run(rotate(AcceptedDigest(digest=digest_of(newer)), former))
        assert statuses(f"/v1/responses/{stored}") == [200, 200, 404]
        house.run(rotate(AcceptedDigest(digest=digest_of(newer))))
        assert statuses(f"/v1/responses/{stored}") == [200, 401, 404]
        request["previous_response_id"] = stored
        for text, status in ((newer, 200), (other, 400)):
            assert house.post("/v1/responses", request, authorization=f"Bearer {text}").status == status
