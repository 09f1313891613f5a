"""A PDF counts by its pages, as far as they can be seen."""

from __future__ import annotations

import base64

import pytest

from dragoman.tokens.pictures import is_pdf, pages_of


def encoded(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def pdf(pages: int, *, spaced: bool = True) -> bytes:
    kind = b"/Type /Page" if spaced else b"/Type/Page"
    kids = b"".join(b"%d 0 obj << %s /Parent 2 0 R >> endobj\n" % (number + 3, kind) for number in range(pages))
    return b"%PDF-1.7\n2 0 obj << /Type /Pages /Count 99 >> endobj\n" + kids + b"%%EOF"


@pytest.mark.parametrize("spaced", [True, False])
def test_listed_pages_are_counted(spaced: bool) -> None:
    assert is_pdf(encoded(pdf(3)))
    assert pages_of(encoded(pdf(3, spaced=spaced))) == 3


def test_pages_in_compressed_objects_are_told_by_the_root_of_their_tree() -> None:
    assert pages_of(encoded(b"%PDF-1.7\n<< /Type /Pages /Count 12 >> << /Count 5 >>")) == 12


def test_a_file_that_tells_nothing_counts_by_its_size() -> None:
    assert pages_of(encoded(b"%PDF-1.7\n" + b"\0" * 450_000)) == 10
    assert pages_of("A" * 600_000) == 10
    assert pages_of("") == 1


@pytest.mark.parametrize("data", ["JVBERi0", "JVBERi0é", "JVBERi0=" * 3])
def test_a_broken_file_is_a_page_at_least(data: str) -> None:
    assert pages_of(data) >= 1


def test_a_very_large_file_is_not_searched() -> None:
    many = encoded(pdf(2) + b"\0" * 10_000_000)
    assert pages_of(many) > 200


def test_pages_are_found_wherever_the_search_is_cut() -> None:
    page = b"<< /Type /Page >>\n"
    for shift in (0, 5, 9):
        filler = b" " * (256 * 1024 - shift)
        octets = b"%PDF-1.4\n" + page + filler[9 + len(page) :] + page * 3
        assert pages_of(base64.b64encode(octets).decode()) == 4
