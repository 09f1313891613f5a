"""Law: the translation of a prefix is a prefix of the translation. With a cache of translated parts a request becomes
the same bytes, ledger, names of tools and context as without one, whatever the history of the conversation was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.gateway.prefix_cache import PrefixCache
from dragoman.model.jsonvalue import JsonObject
from dragoman.translate import TranslatedRequest, translate_request
from dragoman.wire.json import decode_object, encode
from tests.golden.story import read
from tests.laws.histories import HISTORY, TARGETS, Call, calls
from tests.translation_cache import CacheOfTests

GOLDEN = Path(__file__).parents[1] / "golden"


def translated(call: Call, cache: CacheOfTests | None) -> TranslatedRequest | str:
    """The translation of a call; the error if it is refused."""
    target, model, vendor = call.target
    try:
        return translate_request(call.body, source=call.source, target=target, model=model, vendor=vendor, cache=cache)
    except DragomanError as error:
        return f"{type(error).__name__}: {error}"


def check_same(call: Call, cache: CacheOfTests) -> None:
    """Compare the translation with a cache to the one from scratch."""
    plain, cached = translated(call, None), translated(call, cache)
    if isinstance(plain, str) or isinstance(cached, str):
        assert plain == cached
        return
    assert cached.body == plain.body
    assert cached.ledger.entries == plain.ledger.entries
    assert cached.headers == plain.headers
    assert cached.context is not None and plain.context is not None
    assert cached.context.request == plain.context.request
    assert cached.context.stops == plain.context.stops
    assert cached.context.target == plain.context.target
    assert cached.context.table.entries == plain.context.table.entries


def check_seeds(seeds: range) -> Counter[str]:
    """Compare all calls of agents, in twos that share a cache, and count what the cache had."""
    results: Counter[str] = Counter()
    prefixes = PrefixCache(max_bytes=4 * 1024 * 1024)
    for seed in seeds:
        for call in calls(seed):
            cache = CacheOfTests(prefixes, call.source)
            check_same(call, cache)
            results.update(cache.results)
    return results


@pytest.mark.parametrize("block", range(8))
def test_a_cache_changes_nothing_of_a_translation(block: int) -> None:
    results = check_seeds(range(20 * block, 20 * (block + 1)))
    assert results["hit"] >= 30


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(25))
def test_a_cache_changes_nothing_of_100_000_translations(block: int) -> None:
    check_seeds(range(1000 + 500 * block, 1000 + 500 * (block + 1)))


def golden_calls() -> Iterator[list[Call]]:
    """The requests of all golden stories, for each target, as calls whose history grows by one message."""
    greeting: JsonObject = {"role": "user", "content": "The quick brown fox jumps over the lazy dog. " * 220}
    for path in sorted(GOLDEN.glob("*.txtar")):
        for section in read(path).inputs:
            protocol = section.words[-1]
            if section.words[:2] not in (["in", "request"], ["asked", "request"]) or protocol not in HISTORY:
                continue
            body = decode_object(section.text)
            history = body.get(HISTORY[protocol])
            if not isinstance(history, list):
                continue
            for target in TARGETS:
                if target[0] != protocol:
                    yield [
                        Call(protocol, target, encode({**body, HISTORY[protocol]: [greeting, *history[:count]]}))
                        for count in range(1, len(history) + 1)
                    ]


def test_a_cache_changes_nothing_of_golden_stories() -> None:
    prefixes = PrefixCache()
    results: Counter[str] = Counter()
    for story in golden_calls():
        for call in story:
            cache = CacheOfTests(prefixes, call.source)
            check_same(call, cache)
            results.update(cache.results)
    assert results["hit"] > 500
