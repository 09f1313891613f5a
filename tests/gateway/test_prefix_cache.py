"""The cache of message arrays: what is found, for whom, and what goes when there is no room."""

from __future__ import annotations

import json

from msgspec import Struct

from dragoman.gateway.prefix_cache import MIN_ARRAY, HandedMatch, PrefixCache, PrefixMatch, Scope

SCOPE = Scope("alice", "chat")
HINTS = "hints"


class Made(Struct, frozen=True):
    """A state of a test, and the bytes that it pretends to take."""

    name: str
    size: int = 10


def elements(*texts: str) -> list[str]:
    """Messages of a thousand bytes each."""
    return [json.dumps({"role": "user", "content": f"{text} " * (1000 // (len(text) + 1))}) for text in texts]


def array(*texts: str) -> bytes:
    return f"[{','.join(elements(*texts))}]".encode()


def stored(
    cache: PrefixCache, name: str, *texts: str, scope: Scope = SCOPE, slot: str = HINTS, count: int | None = None
) -> PrefixMatch:
    match = cache.match(scope, array(*texts))
    cache.store(match, slot, Made(name), count)
    return match


def found(cache: PrefixCache, *texts: str, scope: Scope = SCOPE, slot: str = HINTS) -> tuple[int, str] | None:
    state = cache.match(scope, array(*texts)).state(slot)
    if state is None:
        return None
    assert isinstance(state[1], Made)
    return state[0], state[1].name


def test_a_request_finds_the_earlier_elements_of_its_conversation() -> None:
    cache = PrefixCache()
    stored(cache, "first", *"abcde")
    match = cache.match(SCOPE, array(*"abcdefg"))
    assert (match.count, match.state(HINTS)) == (5, (5, Made("first")))
    assert json.loads(match.tail(5).written) == json.loads(array(*"fg"))
    assert json.loads(match.tail(3).written) == json.loads(array(*"defg"))
    assert match.tail(0).written == match.written


def test_edited_history_is_found_up_to_the_edit() -> None:
    cache = PrefixCache()
    stored(cache, "first", *"abcdefgh")
    assert found(cache, *"abcdeX") == (5, "first")
    assert found(cache, *"abcde") == (5, "first")
    assert found(cache, *"Xbcdefgh") is None


def test_no_other_key_or_protocol_finds_an_array() -> None:
    cache = PrefixCache()
    stored(cache, "first", *"abcdef")
    assert found(cache, *"abcdef", scope=Scope("bob", "chat")) is None
    assert found(cache, *"abcdef", scope=Scope("alice", "responses")) is None
    assert found(cache, *"abcdef", slot="translation") is None


def test_a_longer_array_replaces_the_one_that_it_continues_and_takes_its_states_over() -> None:
    cache = PrefixCache()
    stored(cache, "first", *"abcde")
    stored(cache, "translated", *"abcde", slot="translation")
    size = cache.size
    stored(cache, "second", *"abcdeX")
    assert cache.size < size + 2000
    assert found(cache, *"abcdeXY") == (6, "second")
    # It holds for as many elements as both had.
    assert found(cache, *"abcdeXY", slot="translation") == (5, "translated")


def test_two_uses_of_one_request_share_its_array() -> None:
    cache = PrefixCache()
    match = stored(cache, "hints", *"abcdef")
    size = cache.size
    cache.store(match, "translation", Made("translated"))
    assert cache.size == size + 10
    assert found(cache, *"abcdefg", slot="translation") == (6, "translated")


def test_forks_stay_beside_each_other() -> None:
    cache = PrefixCache()
    stored(cache, "first", *"abcdefghij")
    stored(cache, "fork", *"abcXYZUVW")
    assert found(cache, *"abcdefghijk") == (10, "first")
    assert found(cache, *"abcXYZUVWk") == (9, "fork")


def test_conversations_with_a_common_start_are_told_apart_by_later_bytes() -> None:
    cache = PrefixCache()
    conversations = [[*"abcde", *(f"{number} {at}" for at in range(15))] for number in range(10)]
    for number, texts in enumerate(conversations):
        stored(cache, str(number), *texts)
    for number, texts in enumerate(conversations):
        assert found(cache, *texts, "more") == (20, str(number))


def test_the_oldest_go_when_there_is_no_room() -> None:
    cache = PrefixCache(max_bytes=40_000)
    for name in ("first", "second", "third", "fourth", "fifth"):
        stored(cache, name, *(name + text for text in "abcdefgh"))
        assert cache.size <= 40_000
    assert found(cache, *("first" + text for text in "abcdefgh")) is None
    assert found(cache, *("fifth" + text for text in "abcdefgh")) == (8, "fifth")
    # One that is large enough to take the place of all others is not stored.
    stored(cache, "large", *map(str, range(20)))
    assert found(cache, *map(str, range(20))) is None


def test_small_arrays_are_not_stored() -> None:
    cache = PrefixCache()
    assert len(array(*"abc")) < MIN_ARRAY
    stored(cache, "small", *"abc")
    assert cache.size == 0


def test_what_is_removed_is_not_found() -> None:
    cache, bob = PrefixCache(), Scope("bob", "chat")
    stored(cache, "first", *"abcdef")
    stored(cache, "other", *"abcdef", scope=bob)
    assert found(cache, *"abcdef") == (6, "first")
    assert found(cache, *"abcdef", scope=bob) == (6, "other")
    cache.clear()
    assert (found(cache, *"abcdef"), found(cache, *"abcdef", scope=bob), cache.size) == (None, None, 0)


def test_an_array_may_be_stored_with_the_ends_of_its_latest_elements() -> None:
    cache, texts = PrefixCache(), [f"{number} " for number in range(40)]
    stored(cache, "first", *texts, count=40)
    match = cache.match(SCOPE, array(*texts, "more"))
    assert (match.count, match.state(HINTS)) == (40, (40, Made("first")))
    for count in (40, 35, 10, 1, 0):
        assert json.loads(match.tail(count).written) == json.loads(array(*texts[count:], "more"))
    # Of an array that is edited before them nothing is known.
    assert found(cache, *texts[:10], "edited") is None


def test_a_match_from_before_an_eviction_may_be_stored() -> None:
    cache = PrefixCache(max_bytes=30_000)
    stored(cache, "first", *"abcdef")
    match = cache.match(SCOPE, array(*"abcdefg"))
    for others in ("hijklm", "nopqrs", "tuvwxy", "zABCDE"):
        stored(cache, "other", *others)
    assert found(cache, *"abcdef") is None
    cache.store(match, HINTS, Made("second"))
    assert found(cache, *"abcdefg") == (7, "second")
    cache.clear()
    assert cache.size == 0


def test_what_is_found_stays_longer_than_what_is_not() -> None:
    cache = PrefixCache(max_bytes=40_000)
    tools = [f"tool{text}" for text in "abcdefgh"]
    stored(cache, "tools", *tools)
    for name in ("first", "second", "third", "fourth", "fifth"):
        assert found(cache, *tools) == (8, "tools")
        stored(cache, name, *(name + text for text in "abcdefgh"))
    assert found(cache, *tools) == (8, "tools")


def test_a_match_is_current_in_its_own_cache_until_that_is_cleared() -> None:
    cache = PrefixCache()
    match = stored(cache, "first", *"abcde")
    assert cache.is_current(match)
    assert not PrefixCache().is_current(match)
    cache.clear()
    assert not cache.is_current(match)
    assert cache.is_current(cache.match(SCOPE, array(*"abcde")))


def test_two_states_of_one_match_are_one_entry() -> None:
    cache = PrefixCache()
    stored(cache, "first", *"abcde")
    match = cache.match(SCOPE, array(*"abcdef"))
    cache.store(match, HINTS, Made("hints"), 6)
    size = cache.size
    cache.store(match, "translation", Made("translation"))
    assert cache.size == size + Made("translation").size
    assert found(cache, *"abcdef") == (6, "hints")
    assert found(cache, *"abcdef", slot="translation") == (6, "translation")


def test_a_handed_match_is_taken_once() -> None:
    match = PrefixCache().match(SCOPE, array(*"abc"))
    handed = HandedMatch(match)
    assert handed.take() is match
    assert handed.take() is None


def test_what_was_cleared_does_not_come_back_by_a_request_under_way() -> None:
    cache = PrefixCache()
    stored(cache, "first", *"abcde")
    match = cache.match(SCOPE, array(*"abcdef"))
    cache.clear()
    cache.store(match, HINTS, Made("late"))
    assert (cache.size, found(cache, *"abcdef")) == (0, None)


def test_an_array_is_found_as_a_whole_however_small_it_is() -> None:
    cache = PrefixCache()
    for texts in ("a", "abcdef"):
        match = cache.match(SCOPE, array(*texts))
        cache.store(match, HINTS, Made(texts), least=0)
        assert cache.find(SCOPE, array(*texts), HINTS) == Made(texts)
        assert cache.find(SCOPE, array(*texts, "more"), HINTS) is None
        assert cache.find(SCOPE, array(*texts[:-1], "X"), HINTS) is None
        assert cache.find(Scope("bob", "chat"), array(*texts), HINTS) is None
        assert cache.find(SCOPE, array(*texts), "translation") is None
    cache.clear()
    assert cache.find(SCOPE, array("a"), HINTS) is None


def test_a_small_array_that_is_found_stays_longer_than_one_that_is_not() -> None:
    cache = PrefixCache(max_bytes=20_000)
    for name in "ab":
        cache.store(cache.match(SCOPE, array(name)), HINTS, Made(name), least=0)
    for number in range(20):
        assert cache.find(SCOPE, array("a"), HINTS) == Made("a")
        cache.store(cache.match(SCOPE, array(str(number))), HINTS, Made("other"), least=0)
        assert cache.size <= 20_000
    assert cache.find(SCOPE, array("b"), HINTS) is None
