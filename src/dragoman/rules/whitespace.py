"""Blank text, which some protocols reject as a block of its own: it is joined to the next text (T7). Providers put the
white space between two cited sentences into its own block. Without a next text it stays, and the encoder reports it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dragoman.model.parts import Part, Text


def with_blanks(parts: Sequence[Part]) -> list[tuple[int, Part]]:
    """The parts with their locations. Blank text moves to the start of the text directly after it."""
    for part in parts:
        if type(part) is Text and (not part.text or part.text.isspace()):
            break
    else:
        return list(enumerate(parts))
    merged: list[tuple[int, Part]] = []
    for index, part in enumerate(parts):
        if type(part) is Text and merged and is_blank(before := merged[-1][1]) and part.text:
            assert isinstance(before, Text)
            merged[-1] = (index, prepend_blank(before, part))
        elif type(part) is not Text or part.text or part.citations or part.extras is not None:
            merged.append((index, part))
    return merged


def is_blank(part: Part) -> bool:
    return type(part) is Text and part.text.isspace() and not part.citations and part.extras is None


def prepend_blank(blank: Text, text: Text) -> Text:
    shift = len(blank.text)
    citations = tuple(
        [
            replace(one, span=(one.span[0] + shift, one.span[1] + shift)) if one.span is not None else one
            for one in text.citations
        ]
    )
    return replace(text, text=blank.text + text.text, citations=citations, cache=text.cache or blank.cache)
