"""What a launch came to, in words."""

from __future__ import annotations

import pytest

from dragoman.launching.summary import Launch, short, summary

BEFORE = Launch(processes=("a",))


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (Launch(calls=1, input_tokens=7, processes=("a",)), "1 call, 7 tokens, no losses"),
        (
            Launch(
                calls=41,
                input_tokens=800_000,
                output_tokens=12_345,
                losses={"thinking": 1, "sampling": 2},
                processes=("a",),
            ),
            "41 calls, 812k tokens, 3 losses: sampling ×2, thinking",
        ),
        (
            Launch(calls=41, input_tokens=812_000, cost_nano_usd=1_915_200_000, processes=("a",)),
            "41 calls, 812k tokens, $1.92, no losses",
        ),
        (
            Launch(calls=1, cost_nano_usd=0, processes=("a",)),
            "1 call, 0 tokens, $0.00, no losses",
        ),
        (
            Launch(calls=5, cost_nano_usd=1_915_200_000, unpriced_requests=3, processes=("a",)),
            "5 calls, 0 tokens, at least $1.92 (3 calls unpriced), no losses",
        ),
        (
            Launch(calls=2, cost_nano_usd=38_000, unpriced_requests=1, processes=("a",)),
            "2 calls, 0 tokens, at least $0.000038 (1 call unpriced), no losses",
        ),
        (
            Launch(calls=1, cost_nano_usd=0, unpriced_requests=1, processes=("a",)),
            "1 call, 0 tokens, 1 call unpriced, no losses",
        ),
        (
            Launch(calls=2, failed=1, losses={"sampling": 1}, processes=("b",)),
            "at least 2 calls (1 failed), 0 tokens, 1 loss: sampling",
        ),
        (
            Launch(calls=6, losses={"cache_breakpoint": 30, "end_user": 6}, processes=("a",)),
            "6 calls, 0 tokens, no losses (36 bookkeeping)",
        ),
        (
            Launch(calls=6, losses={"cache_breakpoint": 30, "thinking": 2}, processes=("a",)),
            "6 calls, 0 tokens, 2 losses: thinking ×2 (30 bookkeeping)",
        ),
        (
            Launch(calls=2, losses={f"l{n}": 1 for n in range(10)}, processes=("a", "b")),
            "2 calls, 0 tokens, 10 losses: l0, l1, l2, l3, l4, l5, l6, l7 and 2 more",
        ),
    ],
)
def test_pitfall_557_558_a_launch_is_summed_up_in_one_line(launch: Launch, words: str) -> None:
    assert summary(launch, BEFORE) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (1234, "1.2k"),
        (9_960, "10k"),
        (812_345, "812k"),
        (999_400, "999k"),
        (999_600, "1M"),
        (1_250_000, "1.2M"),
        (42_000_000, "42M"),
    ],
)
def test_numbers_are_said_as_people_say_them(number: int, words: str) -> None:
    assert short(number) == words
