"""Counts of what was not told: of requests, whole answers, streams and what came of them."""

from __future__ import annotations

import json
import re
import sys

import pytest

from dragoman.gateway.exchange import usage_estimate
from dragoman.gateway.exchange.usage_estimate import PREFIX_SAMPLE_BYTES, SAMPLE_BYTES, Counting, Passed
from dragoman.gateway.thread_offload import INLINE
from dragoman.model.response import INPUT, OUTPUT, Usage
from dragoman.tokens.families import family_of
from dragoman.tokens.request import count_request, count_texts
from dragoman.wire.json import decode_object
from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.says import SAID, frames, question, turn
from tests.sdk.providers import answer as answer_of


def passed(*chunks: bytes, opening: int = 0) -> Passed:
    """What came in pieces, of which so many say nothing."""
    made = Passed()
    for count, chunk in enumerate(chunks):
        made.take(chunk)
        if count >= opening:
            made.content_began()
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
    found = counting(protocol, full_body=body, client=protocol).count()
    assert found is not None
    assert found.input == count_request(decode_object(json.dumps(question(protocol, protocol))), "served").tokens
    assert found.output == tokens_of(SAID)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_is_counted_by_what_came_of_it(protocol: str) -> None:
    every = counting(protocol, passed(*frames(protocol))).count()
    assert every is not None and every.output == tokens_of(SAID)
    told = b"".join(frames(protocol))
    # In the middle of a word, or of a frame.
    for end in (len(told) // 2, len(told) // 3):
        part = counting(protocol, passed(told[:end])).count()
        assert part is not None and part.output <= every.output


NO_INPUT = Usage(output=9, thinking=3, unreported=(INPUT,))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pitfall_388_a_reported_zero_is_a_count_and_what_is_missing_is_counted(protocol: str) -> None:
    came = passed(*frames(protocol))
    zero = counting(protocol, came, reported=Usage(), final=True).count()
    assert zero == Usage()
    no_output = counting(protocol, came, reported=Usage(unreported=(OUTPUT,)), final=True).count()
    assert no_output == Usage(output=tokens_of(SAID))
    # The opening of a stream has no count yet.
    opening = counting(protocol, came, reported=Usage()).count()
    assert opening is not None and opening.input > 0 and opening.output == tokens_of(SAID)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pitfall_422_what_a_stream_tells_of_its_output_before_its_end_is_no_count(protocol: str) -> None:
    placeholder = Usage(input=4000, output=1, cache_read=3000, service_tier="priority")
    found = counting(protocol, passed(*frames(protocol)), reported=placeholder).count()
    assert found == Usage(input=4000, output=tokens_of(SAID), cache_read=3000, service_tier="priority")
    nothing = counting(protocol, reported=placeholder).count()
    assert nothing is not None and nothing.output == 0
    final = counting(protocol, passed(*frames(protocol)), reported=NO_INPUT, final=True).count()
    assert final is not None and final.output == 9 and final.input > 0 and final.thinking == 3


WORD = b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":" hello"},"finish_reason":null}]}\n\n'
ROLE = b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}\n\n'


def test_the_beginning_of_a_long_stream_stands_for_the_rest() -> None:
    count = 10 * SAMPLE_BYTES // len(WORD)
    long = passed(*[WORD] * count)
    assert long.size == count * len(WORD)
    assert len(long.sample) == len(WORD) + SAMPLE_BYTES
    found = counting(CHAT, long).count()
    assert found is not None
    assert abs(found.output - count) <= count // 8


def test_a_piece_that_is_longer_than_what_is_kept_is_no_less_counted() -> None:
    count = 20 * SAMPLE_BYTES // len(WORD)
    # All at once, or behind an opening; and one that is beyond what is kept of any.
    for pieces, opening in (([WORD * count], 0), ([ROLE, WORD * count], 1), ([ROLE * 20, WORD * count, WORD], 1)):
        fast = passed(*pieces, opening=opening)
        assert len(fast.sample) <= PREFIX_SAMPLE_BYTES + SAMPLE_BYTES < fast.size
        found = counting(CHAT, fast).count()
        assert found is not None
        assert abs(found.output - count) <= count // 8


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def echoed(size: int) -> bytes:
    """The first event of a stream that repeats so much of what was asked."""
    begun = json.loads(frames(RESPONSES)[0].partition(b"data: ")[2])
    begun["response"]["instructions"] = "x" * size
    return b"event: response.created\ndata: " + json.dumps(begun).encode() + b"\n\n"


@pytest.mark.parametrize("echo", [0, SAMPLE_BYTES // 2, 2 * SAMPLE_BYTES, 2 * PREFIX_SAMPLE_BYTES])
def test_a_stream_that_begins_with_what_was_asked_is_counted_by_what_it_says(echo: int) -> None:
    opening, said = echoed(echo), frames(RESPONSES)[1:]
    found = counting(RESPONSES, passed(opening, opening, *said, opening=2)).count()
    assert found is not None and found.output == tokens_of(SAID)


@pytest.mark.parametrize("piece", [1000, 16_384, 4 * SAMPLE_BYTES])
@pytest.mark.parametrize("echo", [PREFIX_SAMPLE_BYTES, 5 * PREFIX_SAMPLE_BYTES + 77])
def test_a_gap_before_what_is_said_does_no_harm_however_it_is_cut(echo: int, piece: int) -> None:
    """The last piece of what was echoed has the first words in it, and what follows is more than is kept."""
    opening = cut(echoed(echo), piece)
    count = 4 * SAMPLE_BYTES // len(WORD)
    words = [b"".join([opening.pop(), WORD]), *[WORD] * (count - 1)]
    long = passed(*opening, *words, opening=len(opening))
    assert len(long.sample) <= PREFIX_SAMPLE_BYTES + SAMPLE_BYTES < long.size
    found = counting(CHAT, long).count()
    assert found is not None and abs(found.output - count) <= count // 8


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_said_behind_any_gap_is_counted_in_every_protocol(protocol: str) -> None:
    signs = b": a sign of life\n\n" * 1000
    said = frames(protocol)
    silent = [said[0], *[signs] * (PREFIX_SAMPLE_BYTES // len(signs) + 2)]
    found = counting(protocol, passed(*silent, *said[1:], opening=len(silent))).count()
    assert found is not None and found.output == tokens_of(SAID)


def test_one_event_that_is_too_long_to_be_kept_is_not_counted_as_nothing() -> None:
    pieces = cut(WORD.replace(b" hello", b"word " * PREFIX_SAMPLE_BYTES), SAMPLE_BYTES)
    came = passed(*pieces, opening=len(pieces) - 1)
    assert counting(CHAT, came).count() is None
    # The same if something follows it that says no more.
    came.take(WORD.replace(b" hello", b""))
    assert counting(CHAT, came).count() is None


def test_little_is_kept_of_a_stream_that_comes_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = 16 * 1024
    monkeypatch.setattr(usage_estimate, "PREFIX_SAMPLE_BYTES", kept)
    came = Passed()
    for _ in range(3 * kept):
        came.take(b"x")
    assert len(came.sample) == kept
    assert sys.getsizeof(came.before) < 3 * kept


def test_one_event_that_is_longer_than_what_is_kept_is_counted() -> None:
    text = "word " * SAMPLE_BYTES
    event = WORD.replace(b" hello", text.encode())
    pieces = cut(event, SAMPLE_BYTES)
    found = counting(CHAT, passed(*pieces, opening=len(pieces) - 1)).count()
    assert found is not None and found.output == tokens_of(text)
    # A whole answer that became a stream has such events.
    whole = counting(CHAT, full_body=event, client=CHAT).count()
    assert whole is not None and whole.output == tokens_of(text)


@pytest.mark.parametrize("first", [0, 2])
def test_all_choices_are_counted(first: int) -> None:
    text = "some words " * 20
    choices = [(first + number) % 4 for number in range(4)]
    told = [{"index": index, "message": {"role": "assistant", "content": text}} for index in choices]
    body = json.dumps({"id": "x", "model": "m", "choices": told}).encode()
    found = counting(CHAT, full_body=body, client=CHAT).count()
    assert found is not None and found.output == 4 * tokens_of(text)
    chunks = [
        WORD.replace(b'"index":0', b'"index":%d' % index).replace(b" hello", word.encode() + b" ")
        for word in text.split()
        for index in choices
    ]
    streamed = counting(CHAT, passed(*chunks)).count()
    assert streamed is not None
    assert abs(streamed.output - 4 * tokens_of(text)) <= 4
    # Many of them, and a chunk that cannot be read, take no harm.
    odd = counting(CHAT, passed(*chunks, b'data: {"choices":[{"index":null}]}\n\n')).count()
    assert odd is not None and odd.output >= tokens_of(text)


def test_of_a_stream_that_says_nothing_not_all_is_kept() -> None:
    silent = passed(*[b": a sign of life\n\n" * 1000] * 100, opening=100)
    assert len(silent.sample) == PREFIX_SAMPLE_BYTES < silent.size
    found = counting(CHAT, silent).count()
    assert found is not None and found.output == 0


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
    assert counting(CHAT, full_body=b"x" * (3 * INLINE), client=CHAT).size > 3 * INLINE


def test_nothing_that_was_said_is_in_what_is_counted() -> None:
    found = counting(CHAT, passed(*frames(CHAT))).count()
    assert not any(word in repr(found) for word in re.findall(r"\w+", SAID))
