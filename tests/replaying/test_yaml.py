"""The YAML of cassettes: each style that PyYAML, Psych and Go's writers use."""

from __future__ import annotations

import pytest

from tools.replaying.yaml import YamlError, load

CASES: dict[str, tuple[str, object]] = {
    "a mapping of plain words": (
        "a: 1\nb: true\nc: ~\nd: 1.5\ne: word\nf:\n",
        {"a": 1, "b": True, "c": None, "d": 1.5, "e": "word", "f": None},
    ),
    "a sequence at the depth of its key": ("a:\n- 1\n- b: 2\n  c: 3\nd: 4\n", {"a": [1, {"b": 2, "c": 3}], "d": 4}),
    "sequences in sequences": ("- - 1\n  - 2\n- 3\n", [[1, 2], 3]),
    "quotes over several lines": (
        "a: 'it''s\n\n  two\n  lines'\nb: \"x\\n\\\n  \\ y\"\n",
        {"a": "it's\ntwo lines", "b": "x\n y"},
    ),
    "escapes and a pair of surrogates": (r'a: "\x41\u00e9\ud83d\ude00\t"', {"a": "Aé😀\t"}),
    "a literal that keeps its end": (
        "a: |+\n  data: 1\n\nb: |\n  x\n   y\nc: |-\n  z\n",
        {"a": "data: 1\n\n", "b": "x\n y\n", "c": "z"},
    ),
    "a literal with a mark of its depth": ("a: |2\n   x\n  y\n", {"a": " x\ny\n"}),
    "nothing but line ends": ("a: |2+\n\n\nb: 1\n", {"a": "\n\n", "b": 1}),
    "a folded scalar": ("a: >\n  one\n  two\n\n  three\n", {"a": "one two\nthree\n"}),
    "plain text over several lines": ("a: one\n  two\nb: 1\n", {"a": "one two", "b": 1}),
    "flow collections that are JSON": ('a: []\nb: {}\nc: ["x", 1]\n', {"a": [], "b": {}, "c": ["x", 1]}),
    "binary": ("a: !!binary |\n  aGk=\nb: !binary aGk=\n", {"a": b"hi", "b": b"hi"}),
    "an anchor and its alias": ("a: &id001\n- 1\nb: *id001\n", {"a": [1], "b": [1]}),
    "keys in quotes, keys with colons": ("\"a b\": 1\n'c: d': 2\ne:f: 3\n", {"a b": 1, "c: d": 2, "e:f": 3}),
    "a key behind a question mark": ("? !!python/name\n- Accept\n: - 1\nb: 2\n", {"Accept": [1], "b": 2}),
    "a head, a comment and a second document": ("---\n# said\na: 1\n---\nb: 2\n", {"a": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_reads(case: str) -> None:
    text, value = CASES[case]
    assert load(text) == value


@pytest.mark.parametrize("text", ["a: 'never closed\n", "a: {never: closed\n", "a: 'x' y\n", "? a\nb: 1\n"])
def test_says_what_it_cannot_read(text: str) -> None:
    with pytest.raises(YamlError):
        load(text)
