"""Counts of what was not told: of requests, whole answers, streams and what came of them."""

from __future__ import annotations

import json
import re

import pytest

from dragoman.gateway.exchange.estimates import KEPT, Counting, Passed
from dragoman.gateway.large_work import INLINE
from dragoman.model.response import Usage
from dragoman.tokens.families import family_of
from dragoman.tokens.request import count_request, count_texts
from dragoman.wire.json import decode_object
from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS
from tests.gateway.says import SAID, frames, question, turn
from tests.sdk.providers import answer as answer_of


def passed(*chunks: bytes) -> Passed:
    made = Passed()
    for chunk in chunks:
        made.take(chunk)
    return made


def counting(protocol: str, came: Passed | None = None, **more: object) -> Counting:
    asked = json.dumps(question(protocol, protocol)).encode()
    given = {"protocol": protocol, "model": "served", "request": asked, "passed": came or Passed(), **more}
    return Counting(**given)  # type: ignore[arg-type]


def tokens_of(text: str) -> int:
    return count_texts([text], family_of("served")).tokens


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_whole_answer_is_counted_by_its_body(protocol: str) -> None:
    body = json.dumps(answer_of(protocol, turn(protocol))).encode()
    found = counting(protocol, whole=body, client=protocol).count()
    assert found is not None
    assert found.input == count_request(decode_object(json.dumps(question(protocol, protocol))), "served").tokens
    assert found.output == tokens_of(SAID)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_is_counted_by_what_came_of_it(protocol: str) -> None:
    every = counting(protocol, passed(*frames(protocol))).count()
    assert every is not None and every.output == tokens_of(SAID)
    cut = b"".join(frames(protocol))
    # In the middle of a word, or of a frame.
    for end in (len(cut) // 2, len(cut) // 3):
        part = counting(protocol, passed(cut[:end])).count()
        assert part is not None and part.output <= every.output


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pitfall_422_what_a_stream_tells_of_its_output_before_its_end_is_no_count(protocol: str) -> None:
    placeholder = Usage(input=4000, output=1, cache_read=3000, service_tier="priority")
    found = counting(protocol, passed(*frames(protocol)), told=placeholder).count()
    assert found == Usage(input=4000, output=tokens_of(SAID), cache_read=3000, service_tier="priority")
    nothing = counting(protocol, told=placeholder).count()
    assert nothing is not None and nothing.output == 0
    final = counting(protocol, passed(*frames(protocol)), told=Usage(output=9, thinking=3), final=True).count()
    assert final is not None and final.output == 9 and final.input > 0 and final.thinking == 3


def test_the_beginning_of_a_long_stream_stands_for_the_rest() -> None:
    word = b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":" hello"},"finish_reason":null}]}\n\n'
    count = 10 * KEPT // len(word)
    long = passed(*[word] * count)
    assert long.size == count * len(word)
    assert KEPT - len(word) < len(long.beginning) <= KEPT
    found = counting(CHAT, long).count()
    assert found is not None
    assert abs(found.output - count) <= count // 8


ODD = {
    "a request that is none": (b"nonsense", None),
    "a stream that is none": (b'{"model":"served","messages":[]}', 0),
}


@pytest.mark.parametrize("case", ODD)
def test_what_cannot_be_read_is_not_counted(case: str) -> None:
    request, output = ODD[case]
    made = Counting(protocol=MESSAGES, model="served", request=request, passed=passed(b"data: \xff{\n\n", b"event"))
    found = made.count()
    assert (None if found is None else found.output) == output


def test_it_is_never_counted_on_the_loop() -> None:
    assert counting(CHAT).size > INLINE
    assert counting(CHAT, whole=b"x" * (3 * INLINE), client=CHAT).size > 3 * INLINE


def test_nothing_that_was_said_is_in_what_is_counted() -> None:
    found = counting(CHAT, passed(*frames(CHAT))).count()
    assert not any(word in repr(found) for word in re.findall(r"\w+", SAID))
