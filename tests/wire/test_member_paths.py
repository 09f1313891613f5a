"""Member paths: the strings at given places, and nothing that a reader may find in another place."""

from __future__ import annotations

import pytest
from msgspec import Raw

from dragoman.errors import WireError
from dragoman.wire.member_paths import path_tree, strings_at

TREE = path_tree(["tools/*/model", "fallbacks", "fallbacks/*", "fallbacks/*/model", "byname/*"])


def _nothing(body: bytes, members: dict[str, Raw], names: frozenset[str]) -> None:
    pass


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"{}", []),
        (b"[]", []),
        (b'"model"', []),
        (b'{"model":"a","tools":[{"model":"b"},{"name":"c"},[{"model":"d"}],"e"]}', ["b"]),
        (b'{"tools":{"x":{"model":"b"}}}', ["b"]),
        (b'{"tools":null,"fallbacks":null}', []),
        (b'{"fallbacks":"a"}', ["a"]),
        (b'{"fallbacks":["a",{"model":"b","thinking":{"model":"c"}},{"model":null}]}', ["a", "b"]),
        (b'{"byname":{"x":"a","*":"b","":"c"}}', ["a", "b", "c"]),
        (b'{"*":"a","":"b"}', []),
        (b'{"tools":[{"mod\\u0065l":"\\u0062"}]}', ["b"]),
    ],
)
def test_the_strings_at_the_places_are_found(body: bytes, found: list[str]) -> None:
    assert list(strings_at(body, TREE, _nothing)) == found


@pytest.mark.parametrize(
    "body",
    [
        b'{"tools":[{"model":{"id":"a"}}]}',
        b'{"tools":[{"model":["a"]}]}',
        b'{"tools":[{"model":7}]}',
        b'{"fallbacks":true}',
        b'{"byname":{"x":["a"]}}',
    ],
)
def test_what_is_no_string_where_one_stands_is_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        list(strings_at(body, TREE, _nothing))


def test_every_object_on_the_way_is_checked_for_the_names_that_count_in_it() -> None:
    checked: list[tuple[bytes, frozenset[str]]] = []

    def check(body: bytes, members: dict[str, Raw], names: frozenset[str]) -> None:
        checked.append((body, names))

    body = b'{"tools":[{"model":"a","parameters":{"model":"b"}}],"byname":{"x":"c"}}'
    assert list(strings_at(body, TREE, check)) == ["a", "c"]
    assert checked == [
        (body, frozenset({"tools", "fallbacks", "byname"})),
        (b'{"model":"a","parameters":{"model":"b"}}', frozenset({"model"})),
        (b'{"x":"c"}', frozenset({"x"})),
    ]
