import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonValue, Number
from dragoman.rules.timestamps import format_duration, parse_duration
from tests.rules.vectors import rows, text


def seconds(value: JsonValue) -> float:
    assert isinstance(value, int | Number)
    return float(value)


@pytest.mark.parametrize("row", rows("durations"), ids=str)
def test_a_duration_has_its_golden_length(row: list[JsonValue]) -> None:
    assert parse_duration(text(row[0])) == pytest.approx(seconds(row[1]))


@pytest.mark.parametrize("row", rows("seconds_to_duration"), ids=str)
def test_a_length_has_its_golden_spelling(row: list[JsonValue]) -> None:
    assert format_duration(seconds(row[0])) == row[1]


@pytest.mark.parametrize(
    ("spelled", "length"),
    [
        ("1m30.951s", 90.951),
        ("7.66s", 7.66),
        (" 12s ", 12),
        ("1d2h", 93600),
        ("500µs", 0.0005),
        ("60", 60),
        ("", None),
        ("s", None),
        ("-1s", None),
        ("1 s", None),
        ("1s!", None),
        ("soon", None),
        ("1e5s", None),
        ("\u0661s", None),
        ("9" * 400 + "s", None),
    ],
)
def test_other_spellings_are_read_or_refused(spelled: str, length: float | None) -> None:
    assert parse_duration(spelled) == (None if length is None else pytest.approx(length))


@pytest.mark.parametrize(
    ("length", "spelled"),
    [
        (-3, "0s"),
        (0.0001, "1ms"),
        (0.07, "70ms"),
        (0.9995, "1s"),
        (1.0001, "2s"),
        (59, "59s"),
        (60, "1m0s"),
        (3600, "1h0m0s"),
        (90000, "25h0m0s"),
    ],
)
def test_lengths_are_rounded_up(length: float, spelled: str) -> None:
    assert format_duration(length) == spelled


@given(st.integers(0, 10**7))
def test_whole_seconds_return(length: int) -> None:
    assert parse_duration(format_duration(length)) == length


@given(st.integers(1, 999))
def test_milliseconds_return(milliseconds: int) -> None:
    assert format_duration(milliseconds / 1000) == f"{milliseconds}ms"
