import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.features import Feature
from dragoman.model.losses import Ledger
from dragoman.rules.stop_sequences import StopScanner, watched

STOPS = st.lists(st.text(alphabet="ab\n", max_size=5), max_size=4).map(tuple)


def run(stops: tuple[str, ...], fragments: list[str]) -> tuple[str, str | None]:
    scanner = StopScanner(stops)
    said = "".join(scanner.feed(fragment) for fragment in fragments)
    return said + scanner.close(), scanner.matched


def simply(stops: tuple[str, ...], text: str) -> tuple[str, str | None]:
    """Look at every beginning of the text, as nobody would in a stream."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if complete:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    return text, None


@pytest.mark.parametrize(
    ("stops", "fragments", "said", "matched"),
    [
        (("END",), ["one E", "N", "D two"], "one ", "END"),
        (("END",), ["one E", "N", "E"], "one ENE", None),
        (("abcd", "bc"), ["xabcd"], "xa", "bc"),
        (("abc", "bc"), ["xabc"], "x", "abc"),
        (("aab",), ["a", "a", "a", "b"], "a", "aab"),
        (("",), ["text"], "text", None),
        ((), ["te", "xt"], "text", None),
    ],
    ids=["across cuts", "almost", "first complete", "longest of equals", "overlapping", "empty stop", "no stops"],
)
def test_text_is_cut_before_the_stop(
    stops: tuple[str, ...], fragments: list[str], said: str, matched: str | None
) -> None:
    assert run(stops, fragments) == (said, matched)


@given(STOPS, st.lists(st.text(alphabet="ab\n", max_size=6), max_size=8))
def test_any_cut_says_the_same(stops: tuple[str, ...], fragments: list[str]) -> None:
    assert run(stops, fragments) == simply(stops, "".join(fragments))


@given(STOPS, st.text(alphabet="ab\n", max_size=30))
def test_only_what_may_become_a_stop_is_held(stops: tuple[str, ...], text: str) -> None:
    scanner = StopScanner(stops)
    said = scanner.feed(text)
    if scanner.matched is None:
        held = text[len(said) :]
        suffixes = [text[start:] for start in range(len(text))]
        longest = next((s for s in suffixes if any(stop.startswith(s) and stop != s for stop in stops)), "")
        assert held == longest


def test_nothing_is_said_after_a_hit() -> None:
    scanner = StopScanner(("!",))
    assert scanner.feed("a!b") == "a"
    assert scanner.feed("c") == ""
    assert scanner.close() == ""
    assert scanner.matched == "!"


def test_very_many_stop_strings_are_looked_for_at_once() -> None:
    stops = tuple(f"stop {number}." for number in range(1000))
    scanner = StopScanner(stops)
    assert scanner.feed("say " + "stop 1" * 5000) + scanner.feed("000. stop 99") == "say " + "stop 1" * 5000 + "000. "
    assert scanner.feed("9. more") == ""
    assert scanner.matched == "stop 999."


def test_more_stop_strings_than_anybody_needs_are_reported() -> None:
    ledger = Ledger()
    assert watched(("a", "b"), ledger) == ("a", "b")
    assert not len(ledger)
    assert watched(("a", "b" * 20_000, "c"), ledger) == ("a",)
    assert [(loss.feature, loss.at) for loss in ledger.losses] == [(Feature.STOP_SEQUENCES, "stop[1]")]
