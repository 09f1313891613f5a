"""Rewriting entries of a list in its own bytes."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonValue
from dragoman.rules.repairs import has_envelope, is_ours, rewritten

BODY = b'{ "n": 1.0, "list": [ "one" , "two", "three" ], "list": ["two"] }'


def _says_two(body: bytes, start: int, end: int) -> bool:
    return body.find(b"two", start, end) >= 0


@pytest.mark.parametrize(
    ("instead", "expected"),
    [
        ([], b'{ "n": 1.0, "list": [ "one" , "three" ], "list": [] }'),
        ([b"2"], b'{ "n": 1.0, "list": [ "one" , 2, "three" ], "list": [2] }'),
        ([b"2", b"22"], b'{ "n": 1.0, "list": [ "one" , 2,22, "three" ], "list": [2,22] }'),
        (None, None),
    ],
    ids=["cut out", "replaced by one", "replaced by several", "left alone"],
)
def test_only_suspect_entries_are_rewritten(instead: list[bytes] | None, expected: bytes | None) -> None:
    seen: list[tuple[bytes, int]] = []

    def rewrite(entry: bytes, number: int) -> list[bytes] | None:
        seen.append((entry, number))
        return instead

    assert rewritten(BODY, "list", _says_two, rewrite) == expected
    assert seen == [(b'"two"', 1), (b'"two"', 0)]


def test_a_body_that_needs_nothing_is_not_taken_apart() -> None:
    def rewrite(entry: bytes, number: int) -> list[bytes] | None:
        raise AssertionError("not asked for")

    assert rewritten(b"not even JSON", "list", _says_two, rewrite) is None


def test_an_envelope_is_seen_within_its_bounds() -> None:
    body = b'["rsv1.abc","rsv1z.abc"]'
    assert has_envelope(body, 0, len(body))
    assert has_envelope(body, 12, len(body))
    assert not has_envelope(body, 1, 5)
    assert not has_envelope(b'["a rsv1.abc"]', 0, 14)


@pytest.mark.parametrize(
    ("token", "ours"),
    [("rsv1.abc", True), ("rsv1z.", True), ("rsv2.abc", False), ("", False), (None, False), (["rsv1.abc"], False)],
)
def test_an_envelope_is_ours_by_its_beginning(token: JsonValue, ours: bool) -> None:
    assert is_ours(token) is ours
