"""Law 4, any cut: however a provider's bytes are cut and whatever ends its lines, the client gets the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.streaming import StreamPipeline
from tests.laws.journey import asked
from tests.laws.strategies import PAIRS, PROTOCOLS
from tests.laws.telling import streams

LINE_ENDS = (b"\n", b"\r\n", b"\r")
EVERYWHERE = -1
CUTS = st.lists(st.integers(0, 5000), max_size=12) | st.just([EVERYWHERE])
# How many blank lines follow each frame beyond the one that ends it, in turn.
BLANKS = st.lists(st.integers(0, 3), min_size=1, max_size=4)
# Events that say nothing, whatever they are called.
SILENT = (
    b":\n\n",
    b": ping\n\n",
    b"\n",
    b"data\n\n",
    b"event: error\ndata: \nid: 1\n\n",
    b"id: 7\n:\n\n",
    b"database\n\n",
)
SILENCES = st.lists(st.lists(st.sampled_from(SILENT), max_size=4).map(b"".join), min_size=1, max_size=4)


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    if places == [EVERYWHERE]:
        return [stream[index : index + 1] for index in range(len(stream))]
    edges = sorted({0, len(stream), *(place for place in places if place < len(stream))})
    return [stream[start:end] for start, end in pairwise(edges)]


def spaced(frames: Sequence[bytes], blanks: list[int]) -> bytes:
    return b"".join(frame + b"\n" * extra for frame, extra in zip(frames, cycle(blanks), strict=False))


def fed(translator: StreamPipeline, chunks: list[bytes]) -> bytes:
    return b"".join([*(translator.feed(chunk) for chunk in chunks), translator.close()])


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data(), cuts=CUTS, line_end=st.sampled_from(LINE_ENDS), marked=st.booleans())
def test_cuts_and_line_ends_never_show(
    provider: str, client: str, data: st.DataObject, cuts: list[int], line_end: bytes, marked: bool
) -> None:
    told = data.draw(streams(provider, lying=True))
    request = asked(client, provider)
    whole = fed(StreamPipeline(source=provider, target=client, request=request), [told.stream])
    bytes_ = (b"\xef\xbb\xbf" if marked else b"") + told.stream.replace(b"\n", line_end)
    translator = StreamPipeline(source=provider, target=client, request=request)
    assert fed(translator, cut(bytes_, cuts)) == whole


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data(), end=st.integers(0, 3000), cuts=CUTS, blanks=BLANKS)
def test_a_stream_that_breaks_off_breaks_off_alike(
    provider: str, client: str, data: st.DataObject, end: int, cuts: list[int], blanks: list[int]
) -> None:
    stream = spaced(data.draw(streams(provider)).frames, blanks)
    request = asked(client, provider)
    part = stream[: end % (len(stream) + 1)]
    whole = fed(StreamPipeline(source=provider, target=client, request=request), [part])
    translator = StreamPipeline(source=provider, target=client, request=request)
    assert fed(translator, cut(part, cuts)) == whole


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data(), cuts=CUTS, line_end=st.sampled_from(LINE_ENDS), blanks=BLANKS)
def test_the_relay_passes_every_byte_on(
    protocol: str, data: st.DataObject, cuts: list[int], line_end: bytes, blanks: list[int]
) -> None:
    stream = spaced(data.draw(streams(protocol)).frames, blanks).replace(b"\n", line_end)
    translator = StreamPipeline(source=protocol, target=protocol)
    assert fed(translator, cut(stream, cuts)) == stream


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data(), cuts=CUTS, silences=SILENCES)
def test_events_that_say_nothing_are_relayed_as_they_came_and_translated_to_nothing(
    provider: str, client: str, collect: bool, data: st.DataObject, cuts: list[int], silences: list[bytes]
) -> None:
    frames = data.draw(streams(provider)).frames
    filled = b"".join(silence + frame for frame, silence in zip(frames, cycle(silences), strict=False))
    request = asked(client, provider)
    translator = StreamPipeline(source=provider, target=client, request=request, collect=collect)
    told = fed(translator, cut(filled, cuts))
    if provider == client and not collect:
        assert told == filled
    else:
        plain = StreamPipeline(source=provider, target=client, request=request, collect=collect)
        assert told == fed(plain, [b"".join(frames)])


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data(), cuts=CUTS)
def test_a_collected_stream_is_the_same_however_it_was_cut(
    provider: str, client: str, data: st.DataObject, cuts: list[int]
) -> None:
    told = data.draw(streams(provider, lying=True))
    request = asked(client, provider)
    bodies = []
    for chunks in ([told.stream], cut(told.stream, cuts)):
        translator = StreamPipeline(source=provider, target=client, request=request, collect=True)
        bodies.append((fed(translator, chunks), translator.status))
    assert bodies[0] == bodies[1]
