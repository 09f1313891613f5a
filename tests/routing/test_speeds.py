"""How fast targets answered of late."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.routing.plan_inputs import PlanInputs
from dragoman.routing.route_summary import RouteSummary
from dragoman.routing.speed import Speed
from dragoman.routing.speeds import HALF_LIFE, LARGE, Speeds
from tests.routing.lines import line, target
from tests.step_counting import StepCounter

A = "one/model"


def streamed(speeds: Speeds, first: float, now: float = 0.0, size: int = 10) -> None:
    speeds.record_response(A, size, now, first=first, seconds=2.0, tokens=100.0)


def known(speeds: Speeds, now: float = 0.0, size: int = 10) -> Speed:
    speed = speeds.speed(A, size, now)
    assert speed is not None
    return speed


def test_pitfall_367_nothing_measured_is_nothing_known() -> None:
    speeds = Speeds()
    assert speeds.speed(A, 10, 0.0) is None
    speeds.record_failure(A, 10, 0.0)
    assert speeds.speed(A, 10, 0.0) is None


def test_a_stream_tells_its_first_content_and_its_rate() -> None:
    speeds = Speeds()
    streamed(speeds, 0.5)
    assert known(speeds) == Speed(first_token=0.5, rate=50.0, success_rate=1.0, age=0.0, samples=1)


def test_small_and_large_requests_are_apart() -> None:
    speeds = Speeds()
    streamed(speeds, 0.5)
    streamed(speeds, 5.0, size=LARGE)
    assert known(speeds).first_token == 0.5
    assert known(speeds, size=LARGE - 1).first_token == 0.5
    assert known(speeds, size=LARGE).first_token == pytest.approx(5.0)


def test_a_whole_answer_counts_where_no_stream_was_seen() -> None:
    speeds = Speeds()
    speeds.record_response(A, 10, 0.0, seconds=4.0, tokens=200.0)
    assert (known(speeds).first_token, known(speeds).rate) == (0.0, 50.0)
    speeds.record_response(A, 10, 0.0, first=1.0, seconds=2.0, tokens=60.0)
    assert (known(speeds).first_token, known(speeds).rate) == (1.0, 30.0)


def test_a_sample_counts_for_half_after_twenty_others() -> None:
    speeds = Speeds()
    for _ in range(500):
        streamed(speeds, 1.0)
    for _ in range(20):
        streamed(speeds, 3.0)
    assert known(speeds).first_token == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize("began", [0.0, 1e6])
def test_a_sample_counts_for_half_after_ten_minutes(began: float) -> None:
    speeds = Speeds()
    streamed(speeds, 1.0, now=began)
    streamed(speeds, 4.0, now=began + HALF_LIFE)
    weight = 0.5 * 0.5 ** (1 / 20)
    assert known(speeds, began + HALF_LIFE).first_token == pytest.approx((weight + 4.0) / (weight + 1.0))
    streamed(speeds, 1.5, now=began + HALF_LIFE * 11)
    assert known(speeds, began + HALF_LIFE * 11).first_token == pytest.approx(1.5, abs=0.01)


def test_pitfall_364_figures_have_an_age() -> None:
    speeds = Speeds()
    streamed(speeds, 1.0, now=100.0)
    assert known(speeds, 160.0).age == 60.0


def test_pitfall_365_fast_failures_do_not_look_fast() -> None:
    speeds = Speeds()
    streamed(speeds, 1.0)
    before = known(speeds).expected(256)
    for _ in range(20):
        speeds.record_failure(A, 10, 0.0)
    assert known(speeds).first_token == pytest.approx(1.0)
    assert known(speeds).success_rate < 0.2
    assert known(speeds).expected(256) > 5 * before
    # What failed long ago is held against nobody.
    assert known(speeds, HALF_LIFE * 20).success_rate == pytest.approx(1.0, abs=0.01)


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.tuples(st.none() | numbers, numbers, numbers, st.floats(0, 1e6), st.booleans()), max_size=20))
def test_pitfall_367_no_value_breaks_the_figures(
    samples: list[tuple[float | None, float, float, float, bool]],
) -> None:
    speeds, now = Speeds(), 0.0
    for first, seconds, tokens, passed, good in samples:
        now += passed
        if good:
            speeds.record_response(A, 10, now, first=first, seconds=seconds, tokens=tokens)
        else:
            speeds.record_failure(A, 10, now)
    speed = speeds.speed(A, 10, now)
    if speed is not None:
        assert speed.first_token >= 0.0
        assert speed.rate >= 0.0
        assert 0.0 < speed.success_rate <= 1.0
        assert not math.isnan(speed.expected(256))


class _Known(PlanInputs, frozen=True, kw_only=True):
    """Speeds, and nothing else."""

    of: list[Speed | None]

    def speeds(self, summary: RouteSummary, size: int) -> list[Speed | None]:
        return self.of


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.none() | st.floats(0, 9),
            st.floats(0, 9),
            st.integers(0, 900),
            st.floats(0, 900),
            st.sampled_from([True, True, False]),
        ),
        max_size=20,
    ),
    st.integers(0, 256),
)
def test_who_only_asks_for_the_first_is_told_whom_all_figures_say(
    samples: list[tuple[str, float | None, float, int, float, bool]], output: int
) -> None:
    speeds, now = Speeds(), 0.0
    outline, four = line(*map(target, "abcd")).summary, [f"{name}/m" for name in "abcd"]
    for name, first, seconds, tokens, passed, good in samples:
        now += passed
        if good:
            speeds.record_response(f"{name}/m", 10, now, first=first, seconds=seconds, tokens=float(tokens))
        else:
            speeds.record_failure(f"{name}/m", 10, now)
        for later in (now, now + 30.0, now - 30.0):
            told = _Known(of=speeds.speeds(four, 10, later)).soonest(outline, 10, output)
            assert speeds.soonest(four, 10, later, output) == told


def test_what_was_measured_days_ago_is_as_good_as_never_measured() -> None:
    speeds = Speeds()
    streamed(speeds, 1.0)
    speeds.record_failure(A, 10, 1e6)
    assert speeds.speed(A, 10, 1e6) is None


def test_the_number_of_targets_is_bounded() -> None:
    speeds = Speeds(max_targets=8)
    for number in range(100):
        speeds.record_failure(f"made/up{number}", 10, float(number))
    streamed(speeds, 1.0, now=100.0)
    assert known(speeds, 100.0).samples == 1


def test_the_target_that_nothing_was_heard_of_for_the_longest_is_forgotten() -> None:
    speeds = Speeds(max_targets=3)
    for now, (name, size) in enumerate([("a", LARGE), ("b", 10), ("c", 10), ("a", LARGE), ("d", 10)]):
        speeds.record_response(name, size, float(now), seconds=1.0, tokens=10.0)
    assert speeds.speed("b", 10, 5.0) is None
    assert speeds.speed("a", LARGE, 5.0) is not None
    assert speeds.speed("c", 10, 5.0) is not None and speeds.speed("d", 10, 5.0) is not None


def test_the_work_for_a_sample_does_not_grow_with_the_number_of_targets() -> None:
    def steps(number: int) -> int:
        """The steps of one more target, where there is no room for it."""
        speeds = Speeds(max_targets=number)
        for each in range(number):
            speeds.record_failure(f"t{each}", 10, float(each))
        with StepCounter() as counter:
            speeds.record_failure("new", 10, float(number))
        return counter.steps

    assert steps(10) == steps(1000)


def test_questions_between_samples_make_no_difference() -> None:
    asked, unasked = Speeds(), Speeds()
    for count in range(100):
        for speeds in (asked, unasked):
            if count % 3 == 0:
                speeds.record_failure(A, 10, float(count))
            else:
                streamed(speeds, 0.5 + count / 100, now=float(count))
        asked.speed(A, 10, float(count))
    assert known(asked, 100.0) == known(unasked, 100.0)


def test_item_22_b12_one_sample_far_from_the_others_is_looked_at_again_by_one_request() -> None:
    speeds = Speeds()
    for second in range(20):
        speeds.record_response("a", 10, second, seconds=1.0, tokens=100, first=0.5)
    assert not speeds.has_doubts(["a"], 10)
    speeds.record_response("a", 10, 20.0, seconds=0.1, tokens=100, first=0.05)
    assert (
        speeds.has_doubts(["b", "a"], 10) and not speeds.has_doubts(["a"], LARGE) and not speeds.has_doubts(["b"], 10)
    )
    found = speeds.speed("a", 10, 20.0)
    assert found is not None and found.in_doubt
    speeds.explore("a", 10)
    assert not speeds.has_doubts(["a"], 10)
    # It was a single one.
    speeds.record_response("a", 10, 21.0, seconds=1.0, tokens=100, first=0.5)
    assert not speeds.has_doubts(["a"], 10)
    found = speeds.speed("a", 10, 21.0)
    assert found is not None and found.first_token > 0.45


@pytest.mark.parametrize("first", [0.05, None], ids=["streamed", "full"])
@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_item_22_b12_after_three_in_a_row_the_averages_begin_anew(factor: float, first: float | None) -> None:
    speeds = Speeds()
    usual = None if first is None else 0.5
    for second in range(50):
        speeds.record_response("a", 10, second, seconds=1.0, tokens=100, first=usual)
    for second in range(50, 53):
        began = None if usual is None else usual * factor
        speeds.record_response("a", 10, second, seconds=1.0 * factor, tokens=100, first=began)
    found = speeds.speed("a", 10, 53.0)
    assert found is not None and not found.in_doubt
    assert found.rate == pytest.approx(100 / factor)
    assert found.first_token == pytest.approx((usual or 0.0) * factor)


def test_item_22_b12_samples_on_both_sides_are_no_change() -> None:
    speeds = Speeds()
    for second in range(60):
        speeds.record_response("a", 10, second, seconds=0.2 if second % 2 else 5.0, tokens=100, first=0.1)
    found = speeds.speed("a", 10, 60.0)
    assert found is not None and 20 < found.rate < 80
