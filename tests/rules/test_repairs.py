"""Rewriting entries of a list in its own bytes, and telling when a provider refused proof of reasoning."""

from __future__ import annotations

import pytest

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonValue
from dragoman.rules.repairs import has_envelope, is_ours, is_seal_rejection, rewritten

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


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", None),
        ("messages.1.content.0: Invalid signature in thinking block", None),
        ("messages.1.content.0: Invalid `data` in `redacted_thinking` block", None),
        ('{"error":{"message":"messages.1.content.0: Invalid `signature` in `thinking`   block"}}', None),
        ("The encrypted content gAAA...DQ== could not be verified.", None),
        ("The encrypted content for item rs_1 could not be decrypted or parsed.", None),
        ("whatever", "invalid_encrypted_content"),
        ('upstream said: {"code":"invalid_encrypted_content"}', None),
    ],
)
def test_pitfall_109_refused_proof_is_recognised(message: str, code: str | None) -> None:
    assert is_seal_rejection(Failure(kind=FailureKind.INVALID, status=400, message=message, code=code))


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", 401),
        ("Expected `thinking` or `redacted_thinking`, but found `tool_use`", 400),
        (
            "messages.3: `thinking` or `redacted_thinking` blocks in the latest message cannot be modified",
            400,
        ),
        ("Invalid request signature", 400),
        ("The encrypted content is too long", 400),
    ],
)
def test_other_errors_are_not_refused_proof(message: str, status: int) -> None:
    assert not is_seal_rejection(Failure(kind=FailureKind.INVALID, status=status, message=message))
