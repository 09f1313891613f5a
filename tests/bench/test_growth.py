"""The parts of the growth benchmark: requests that grow, answers of any length, plots and their file."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import json

from bench.gateway import growth_report, plot
from bench.gateway.answers import PLACE, SHORT_CHUNKS, held, long, long_chunks
from bench.gateway.cases import HELD, LONG
from bench.gateway.growth import exchanges_in_round, main
from bench.gateway.growth_cases import EVENTS, GROWTHS, LANES, MESSAGE_COUNT, SIZE, STREAMS, TOOLS, asked
from bench.gateway.growth_report import Grown, slope, table
from bench.gateway.hearing import complaint
from bench.gateway.plot import Axis, Line, axis_of, drawn, short
from bench.gateway.questions import chunks_of, find_mark, new_mark
from bench.workloads import CHAT, PROTOCOLS
from dragoman.model.jsonvalue import JsonObject

ROOT = Path(__file__).parents[2]


def body_of(growth: str, value: int) -> JsonObject:
    question = asked(growth, value, CHAT, 1)
    request = question.marked(new_mark(question.mode))
    head, _, content = request.partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(content) in head
    body: JsonObject = json.decode(content)
    return body


@pytest.mark.parametrize("value", [1, 2, 9, 100])
def test_requests_have_as_much_as_they_should(value: int) -> None:
    messages, tools = body_of(MESSAGE_COUNT, value)["messages"], body_of(TOOLS, value)["tools"]
    assert isinstance(messages, list)
    assert isinstance(tools, list)
    assert len(messages) == value + (value % 2 == 0)
    assert len(tools) == value


def test_a_request_is_as_large_as_it_should_be() -> None:
    for size in (2_000, 128_000):
        question = asked(SIZE, size, CHAT, 1)
        assert size < len(question.tail) < 1.1 * size + 200


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("count", [1, 10, 450])
def test_a_long_stream_has_as_many_chunks_as_its_mark_asks_for(protocol: str, count: int) -> None:
    mark = new_mark(f"{LONG}{count}")
    assert chunks_of(mark) == count
    assert find_mark(b"x" + mark + b"y") == mark
    assert len(mark) == len(PLACE)
    content = b"".join(unchunked(long(protocol, count).filled(mark)))
    assert complaint(protocol, f"{LONG}{count}", mark, 200, content) is None
    assert len(long_chunks("m", count)) == count
    assert complaint(protocol, f"{LONG}{count + 1}", mark, 200, content) is not None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_held_stream_is_a_short_one_in_two_writes(protocol: str) -> None:
    mark = new_mark(HELD)
    first, rest = held(protocol).filled(mark)
    assert mark in first
    assert complaint(protocol, HELD, mark, 200, b"".join(unchunked([first + rest]))) is None
    assert first.count(b"data: ") < SHORT_CHUNKS


def unchunked(writes: list[bytes]) -> list[bytes]:
    """The frames of writes with chunked encoding, behind the head."""
    frames = []
    rest = b"".join(writes).partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        frames.append(rest[:length])
        rest = rest[length + 2 :]
    return frames


def test_a_round_is_long_enough_and_bounded() -> None:
    assert [exchanges_in_round(seconds) for seconds in (1e-6, 0.01, 10.0)] == [150, 25, 2]


def test_an_axis_has_all_values_between_its_ends() -> None:
    axis = axis_of([2_000, 8_000_000])
    assert axis == Axis(3, 7)
    assert [axis.place(1e3), axis.place(1e5), axis.place(1e7)] == [0.0, 0.5, 1.0]
    assert axis_of([5.0]) == Axis(0, 1)
    zero = axis_of([0, 10, 1000])
    assert (zero.place(0), zero.ticks()) == (0.0, [0.0, 10.0, 100.0, 1000.0])
    assert len(axis_of([1e-9, 1e12]).ticks()) <= 9


def test_a_drawing_is_well_formed_and_follows_the_user_into_the_dark() -> None:
    text = drawn("a < b", "bytes", "µs", [Line("one", [(0, 1.0), (10, 20.0)]), Line("two", [(1, 3.0)])])
    root = ElementTree.fromstring(text)
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert (names.count("polyline"), names.count("circle")) == (2, 3)
    assert "prefers-color-scheme: dark" in text
    for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
        assert plot.LEFT <= float(circle.attrib["cx"]) <= plot.WIDTH - plot.RIGHT
        assert plot.TOP <= float(circle.attrib["cy"]) <= plot.HEIGHT - plot.BOTTOM


def test_figures_are_short() -> None:
    assert [short(value) for value in (0.5, 10, 2_000, 8_000_000, 1e9)] == ["0.5", "10", "2k", "8M", "1G"]


def test_the_slope_of_the_end_tells_linear_from_quadratic() -> None:
    assert slope([(1, 7.0), (10, 10.0), (100, 100.0)]) == pytest.approx(1.0)
    assert slope([(10, 1.0), (100, 100.0)]) == pytest.approx(2.0)
    assert math.isnan(slope([(0, 1.0), (100, 100.0)]))


def test_what_was_not_measured_stays_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "growth.json"
    growth_report.write(Grown(name=SIZE, seconds=1, lines={"relay": [(1, 2.0)]}), file, tmp_path)
    growth_report.write(Grown(name=TOOLS, seconds=1, lines={"relay": [(1, 3.0), (10, 30.0)]}), file, tmp_path)
    assert set(json.decode(file.read_bytes())["growths"]) == {SIZE, TOOLS}
    assert {path.name for path in tmp_path.glob("*.svg")} == {"growth-size.svg", "growth-tools.svg"}
    assert "exponent at the end 1.00" in table([Grown(name=TOOLS, seconds=1, lines={"x": [(1, 3.0), (10, 30.0)]})])


def test_every_growth_is_on_the_page_with_its_method() -> None:
    page = " ".join((ROOT / "docs/internals/benchmarks.md").read_text(encoding="utf-8").split())
    for growth in GROWTHS:
        assert f"growth-{growth.name}.svg" in page
        assert growth.method in page
    assert set(LANES) == {"relay", "translated"}
    assert {SIZE, MESSAGE_COUNT, TOOLS, EVENTS, STREAMS} < {growth.name for growth in GROWTHS}


def test_an_unknown_growth_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--growth", "nothing"]) == 2
    assert "nothing that grows is called nothing" in capsys.readouterr().err
