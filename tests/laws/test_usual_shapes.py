"""Law: usual requests and responses are translated as any other. If something is read or written in one step because
it has a usual shape, or not read because its bytes are known, it becomes the same bytes, ledger and context as member
by member."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DragomanError
from dragoman.gateway.prefix_cache import PrefixCache
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.anthropic_messages import turns as messages_turns
from dragoman.protocols.openai_chat import request_encoder as chat_request_encoder
from dragoman.protocols.openai_chat import response as chat_response
from dragoman.protocols.openai_chat import usage as chat_usage
from dragoman.protocols.registry import codec_of
from dragoman.translate import TranslatedRequest, translate_request, translate_response
from dragoman.wire.duplicate_keys import OBJECT
from dragoman.wire.json import encode
from tests.each_case import check_each
from tests.laws.histories import PROTOCOLS, TARGETS, Call, calls
from tests.laws.journey import STEADY, asked
from tests.laws.strategies import PAIRS, answers, requests, single_answers, single_requests
from tests.translation_cache import CacheOfTests

# Functions that read or write the usual shape in one step; each returns None for any other.
SHORT_WAYS = (
    (messages_turns, "encode_usual"),
    (chat_request_encoder, "encode_usual"),
    (chat_response, "encode_usual"),
    (chat_usage, "decode_usual"),
)


@contextmanager
def member_by_member() -> Iterator[None]:
    """Translate without the short ways."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in SHORT_WAYS:
            patch.setattr(module, name, lambda *_arguments: None)
        yield


def translated(call: Call, cache: CacheOfTests | None) -> TranslatedRequest | str:
    """The translation of a call; the error if it is refused."""
    target, model, vendor = call.target
    try:
        return translate_request(call.body, source=call.source, target=target, model=model, vendor=vendor, cache=cache)
    except DragomanError as error:
        return f"{type(error).__name__}: {error}"


def check_same(call: Call, prefixes: PrefixCache) -> None:
    """Compare three translations: member by member, with a glance and unknown tools, with a glance and known tools."""
    with member_by_member():
        plain = translated(call, None)
    for _ in range(2):
        cache = CacheOfTests(prefixes, call.source)
        cache.glance = codec_of(call.source).glance(OBJECT.decode(call.body), False, False)
        short = translated(call, cache)
        if isinstance(plain, str) or isinstance(short, str):
            assert plain == short
            continue
        assert short.body == plain.body
        assert short.ledger.entries == plain.ledger.entries
        assert short.headers == plain.headers
        assert short.context is not None and plain.context is not None
        assert short.context.request == plain.context.request
        assert short.context.stops == plain.context.stops
        assert short.context.target == plain.context.target
        assert short.context.table.entries == plain.context.table.entries


def calls_of(body: JsonObject, protocol: str) -> list[Call]:
    """A request for each target."""
    return [Call(protocol, target, encode(body)) for target in TARGETS if target[0] != protocol]


@pytest.mark.parametrize("block", range(4))
def test_the_short_calls_of_an_agent(block: int) -> None:
    prefixes = PrefixCache(max_bytes=4 * 1024 * 1024)
    for seed in range(20 * block, 20 * (block + 1)):
        for call in calls(seed, 4, is_short=True):
            check_same(call, prefixes)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(20))
def test_the_short_calls_of_many_agents(block: int) -> None:
    prefixes = PrefixCache(max_bytes=4 * 1024 * 1024)
    for seed in range(1000 + 500 * block, 1000 + 500 * (block + 1)):
        for call in calls(seed, 4, is_short=True):
            check_same(call, prefixes)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_requests_with_one_member_of_each_shape(protocol: str) -> None:
    prefixes = PrefixCache()
    bodies = [case.body for case in single_requests(protocol)]
    check_each(lambda call: check_same(call, prefixes), [call for body in bodies for call in calls_of(body, protocol)])


@given(st.data(), st.sampled_from(PROTOCOLS))
def test_requests_with_any_members(data: st.DataObject, protocol: str) -> None:
    prefixes = PrefixCache()
    for call in calls_of(data.draw(requests(protocol)), protocol):
        check_same(call, prefixes)


def check_same_response(source: str, target: str, body: bytes) -> None:
    """Compare a response with the one that is written member by member."""
    request = asked(target, source)
    with member_by_member():
        plain = translate_response(body, source=source, target=target, request=request, mint=STEADY)
    short = translate_response(body, source=source, target=target, request=request, mint=STEADY)
    assert (short.body, short.losses, short.usage) == (plain.body, plain.losses, plain.usage)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_responses_with_one_member_of_each_shape(source: str, target: str) -> None:
    bodies = [encode(case.body) for case in single_answers(source)]
    check_each(lambda body: check_same_response(source, target, body), bodies)


@given(st.data(), st.sampled_from(PAIRS))
def test_responses_with_any_members(data: st.DataObject, pair: tuple[str, str]) -> None:
    check_same_response(*pair, encode(data.draw(answers(pair[0]))))
