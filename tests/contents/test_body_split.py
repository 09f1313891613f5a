"""Bodies are cut at their lists, and joined to the same bytes."""

from __future__ import annotations

import json

import pytest

from dragoman.contents.body_split import SplitBody, joined, split
from tests.step_counting import count_steps

LONG = "x" * 300


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_lists_long_texts_and_objects_are_apart(separators: tuple[str, str]) -> None:
    value = {
        "model": "m",
        "messages": [{"role": "user", "content": "a" * 60}, {"role": "assistant", "content": "b" * 60}],
        "system": LONG,
        "metadata": {"x": LONG},
        "stop": ["a", "b"],
    }
    body = json.dumps(value, separators=separators).encode()
    parts = split(body)
    assert [len(elements.elements) for elements in parts.lists] == [2, 1, 1]
    assert parts.lists[0].separator == separators[0].encode()
    assert joined(parts.literals, parts.lists) == body
    assert b"stop" in parts.literals[-1]


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":[' + b"1," * 200 + b"1]}",
        b'{"messages":[{"a":"' + b"x" * 99 + b'"},  {"a":"' + b"x" * 99 + b'"}, {"a":"' + b"x" * 99 + b'"}]}',
        b'{"messages":[{"a":1' + b" " * 300 + b"}",
        b"event: x\n" * 60,
        b"\x00" * 300,
    ],
)
def test_what_has_no_such_lists_is_one_list_of_one(body: bytes) -> None:
    parts = split(body)
    assert parts.literals == (b"", b"") and parts.lists[0].elements == (body,)


def test_a_short_text_is_a_literal() -> None:
    assert split(b"") == SplitBody((b"",)) and split(b'{"a":[]}') == SplitBody((b'{"a":[]}',))


def test_work_is_linear_in_the_number_of_elements() -> None:
    def steps(count: int) -> int:
        body = json.dumps(
            {"messages": [{"content": "x" * 60}] * count, **{f"m{n}": LONG for n in range(count)}}
        ).encode()
        return count_steps(lambda: split(body))

    assert steps(400) <= 2.2 * steps(200)
