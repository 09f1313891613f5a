"""Mutations: any JSON, and what becomes of a good document when somebody deletes, doubles, retypes or buries its parts.

Values that a writer of JSON would not spell so (`1e999`, four hundred brackets) stand in documents as `bare` strings
and are spelled out at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonValue
from tests.laws.shapes import Where, as_object, put
from tests.laws.strategies import answers, requests
from tests.laws.telling import streams

# Stands in every text of a prompt; whatever else it is found in has leaked.
CANARY = "kanarienvogel"
_BARE = re.compile('"<<(.*?)>>"')
_DEEP = 400
_BOTTOMLESS = 5000


def bare(text: str) -> str:
    """A string that is spelled without its quotes."""
    return f"<<{text}>>"


STRANGE: tuple[JsonValue, ...] = (
    None,
    True,
    False,
    0,
    -1,
    7,
    2**31,
    2**63,
    2**64,
    10**400,
    1.5,
    "",
    " ",
    "text",
    "\x00",
    "a\u2028b\u0085",
    "\ud800",
    "\udfff\ud800",
    "x" * 70,
    "user",
    "tool",
    "auto",
    "data:image/png;base64,AAAA",
    "data:,",
    "https://example.com/a",
    [],
    [[]],
    [{}],
    [None],
    ["text"],
    {},
    {"": ""},
    {"type": "text"},
    {"type": None},
    {"type": ["text"]},
    {"\ud800": 1},
    {"error": {"message": "no"}},
    *map(bare, ("1e999", "-0", "-0.0", "1E+2", "0.10", "123456789012345678901234567890", "1e-999", "5.0")),
    *map(bare, ('{"a":1,"a":2}', '{"type":"text","type":5}', '"\\ud83d\\ude00\\ud83d"', '"\\u0000"')),
    *map(bare, ("[" * _DEEP + "]" * _DEEP, '{"a":' * _DEEP + "1" + "}" * _DEEP)),
    *map(bare, ("[" * _BOTTOMLESS + "]" * _BOTTOMLESS, '{"a":' * _BOTTOMLESS + "1" + "}" * _BOTTOMLESS)),
)
# What makes a text no JSON at all.
BROKEN = ("NaN", "-Infinity", "01", "+1", "'x'", '"\\x"', '"\n"', "[1,]", "{a:1}", "nul", "", '"\\ud8"', "/**/1")

_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


def any_json() -> st.SearchStrategy[JsonValue]:
    """Any JSON value, small."""
    return st.recursive(
        _scalars | st.sampled_from(STRANGE),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | _NAMES, inner, max_size=4),
        max_leaves=8,
    )


_NAMES = st.sampled_from(
    (
        *("type", "role", "content", "messages", "input", "model", "stream", "tools", "text", "id", "name", "item"),
        *("output", "error", "usage", "choices", "delta", "message", "index", "status", "system", "instructions"),
        *("tool_calls", "function", "source", "data", "response", "output_index", "content_block", "item_id", "part"),
    )
)


def everywhere(value: JsonValue, where: Where = ()) -> Iterator[Where]:
    """Every place of a document but its root."""
    steps: Iterator[tuple[str | int, JsonValue]]
    if isinstance(value, dict):
        steps = iter(value.items())
    elif isinstance(value, list):
        steps = enumerate(value)
    else:
        return
    for step, member in steps:
        yield (*where, step)
        yield from everywhere(member, (*where, step))


def at(value: JsonValue, where: Where) -> JsonValue:
    """What stands at a place."""
    for step in where:
        if isinstance(value, dict) and isinstance(step, str):
            value = value[step]
        else:
            assert isinstance(value, list) and isinstance(step, int)
            value = value[step]
    return value


@st.composite
def mutated(draw: st.DrawFn, document: JsonValue, most: int = 3) -> JsonValue:
    """A document of which a few places are not what they were."""
    for _ in range(draw(st.integers(0, most))):
        places = list(everywhere(document))
        if not places:
            break
        where = draw(st.sampled_from(places))
        document = draw(_changed(document, where, places))
    return document


@st.composite
def _changed(draw: st.DrawFn, document: JsonValue, where: Where, places: list[Where]) -> JsonValue:
    parent, step, value = at(document, where[:-1]), where[-1], at(document, where)
    match draw(st.sampled_from(("delete", "double", "retype", "retype", "retype", "wrap", "graft", "rename", "any"))):
        case "delete" if isinstance(parent, dict):
            return put(document, where[:-1], {name: member for name, member in parent.items() if name != step})
        case "delete" if isinstance(parent, list):
            return put(document, where[:-1], [member for index, member in enumerate(parent) if index != step])
        case "double" if isinstance(parent, list):
            return put(document, where[:-1], [*parent, value])
        case "wrap":
            wraps: tuple[JsonValue, ...] = ([value], {"type": value}, {"text": value}, [[value]])
            return put(document, where, draw(st.sampled_from(wraps)))
        case "graft":
            return put(document, where, at(document, draw(st.sampled_from(places))))
        case "rename" if isinstance(parent, dict):
            name = draw(_NAMES)
            return put(document, where[:-1], {name if key == step else key: member for key, member in parent.items()})
        case "any":
            return put(document, where, draw(any_json()))
        case _:
            return put(document, where, draw(st.sampled_from(STRANGE)))


def spelled(document: JsonValue, *, plain: bool = False) -> bytes:
    """A document as text; `plain` leaves what is not ASCII unescaped, lone surrogates as broken UTF-8."""
    text = json.dumps(document, ensure_ascii=not plain)
    return _BARE.sub(lambda found: json.loads(f'"{found[1]}"'), text).encode("utf-8", "surrogatepass")


@st.composite
def spellings(draw: st.DrawFn, document: JsonValue) -> bytes:
    """A document as text that mostly is one: rarely a value that is none, or bytes that nobody meant."""
    text = spelled(document, plain=draw(st.booleans()))
    match draw(st.integers(0, 19)):
        case 0:
            return text.replace(b"null", draw(st.sampled_from(BROKEN)).encode(), 1)
        case 1:
            return draw(damaged(text))
        case 2:
            return draw(st.sampled_from((b"\xef\xbb\xbf", b" \r\n\t", b"\x0c", b"[]"))) + text
        case _:
            return text


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with a hole, an end before their time, or others put in."""
    start = draw(st.integers(0, len(data)))
    match draw(st.integers(0, 2)):
        case 0:
            return data[:start]
        case 1:
            return data[:start] + data[draw(st.integers(start, len(data))) :]
        case _:
            return data[:start] + draw(st.binary(min_size=1, max_size=8)) + data[start:]


def with_canaries(value: JsonValue) -> JsonValue:
    """A prompt whose texts all hold the canary; words that steer (types, roles, names) have no blanks and stay."""
    if isinstance(value, str):
        return f"{value} {CANARY}" if " " in value and not value.startswith("<<") else value
    if isinstance(value, list):
        return [with_canaries(member) for member in value]
    if isinstance(value, dict):
        return {name: with_canaries(member) for name, member in value.items()}
    return value


@st.composite
def mutated_requests(draw: st.DrawFn, protocol: str, model: str) -> bytes:
    """A request with a few changes, mostly still to that model, streamed as often as not."""
    asked = {**as_object(with_canaries(draw(requests(protocol)))), "model": model, "stream": draw(st.booleans())}
    changed = draw(mutated(asked))
    # Whatever stands for a model's name is logged as one, be it a prompt.
    if isinstance(changed, dict) and (CANARY in str(changed.get("model")) or draw(st.integers(0, 9))):
        changed = {**changed, "model": model}
    return draw(spellings(changed))


@st.composite
def mutated_answers(draw: st.DrawFn, protocol: str) -> bytes:
    """A whole answer with a few changes."""
    return draw(spellings(draw(mutated(draw(answers(protocol))))))


@st.composite
def mutated_streams(draw: st.DrawFn, protocol: str) -> bytes:
    """A stream with frames changed, lost, doubled or out of order."""
    frames = list(draw(streams(protocol, lying=True)).frames)
    for _ in range(draw(st.integers(0, 3))):
        if not frames:
            break
        place = draw(st.integers(0, len(frames) - 1))
        match draw(st.integers(0, 5)):
            case 0:
                del frames[place]
            case 1:
                frames.insert(place, frames[place])
            case 2:
                frames.insert(draw(st.integers(0, len(frames) - 1)), frames.pop(place))
            case 3:
                frames[place] = draw(damaged(frames[place]))
            case _:
                head, data, event = frames[place].partition(b"data: ")
                # One that was damaged or buried before stays as it is.
                with suppress(ValueError, RecursionError):
                    frames[place] = head + data + spelled(draw(mutated(json.loads(event), 2))) + b"\n\n"
    return b"".join(frames)
