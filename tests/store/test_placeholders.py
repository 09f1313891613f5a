"""Placeholders of statements for PostgreSQL."""

from __future__ import annotations

import pytest

from dragoman.store.placeholders import numbered


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT 1", b"SELECT 1"),
        ("SELECT ?, ?", b"SELECT $1, $2"),
        ("SELECT '?', ? -- why?\n, ?", b"SELECT '?', $1 -- why?\n, $2"),
        ("SELECT 'it''s ?' || ?", b"SELECT 'it''s ?' || $1"),
        ('SELECT "a?" FROM t /* ?\n? */ WHERE a = ?', b'SELECT "a?" FROM t /* ?\n? */ WHERE a = $1'),
        ("SELECT a FROM t WHERE a LIKE '100%' AND b % 2 = ?", b"SELECT a FROM t WHERE a LIKE '100%' AND b % 2 = $1"),
        ("VALUES (?,?),(?,?)", b"VALUES ($1,$2),($3,$4)"),
        ("SELECT 'ä' || ?", "SELECT 'ä' || $1".encode()),
    ],
)
def test_a_question_mark_outside_of_texts_names_and_comments_is_a_value(statement: str, expected: bytes) -> None:
    assert numbered(statement) == expected


def test_a_statement_is_rewritten_once() -> None:
    assert numbered("SELECT ? AS once") is numbered("SELECT ? AS once")
