"""Fuzz: every known member, at every depth, with everything that cannot stand there, in every direction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DragomanError, RefusedError, WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.translate import TranslatedResponse, translate_request, translate_response
from tests.each_case import each_of
from tests.laws.grammar import check
from tests.laws.journey import asked, translated_stream
from tests.laws.shapes import Found, Kind, Leaf, Record, Where, as_object, json_type, places, put, types_of
from tests.laws.strategies import (
    ANSWERS,
    CHAT,
    FIELDS,
    PAIRS,
    PROTOCOLS,
    RESPONSES,
    Case,
    answers,
    single_answers,
    single_requests,
)
from tests.laws.telling import frame, streams, tell

# One or two values of each JSON type, with and without something inside.
WRONG: tuple[JsonValue, ...] = ("", "text", 7, 7.5, True, False, [], ["text"], [{}], [[]], {}, {"a": 1})
STRANGE: tuple[JsonValue, ...] = (
    None,
    10**400,
    -(2**63),
    Number("1e999"),
    Number("-0.0"),
    "\ud800",
    "a\udfffb",
    "\x00",
    "x" * 70,
    {"\ud800": 1},
    [None],
)
MISREAD: tuple[JsonValue, ...] = (7, "text", [], {"a": 1}, None, [5])
DEPTH = 3000


# What servers are known to send instead, and is read (openai-chat-completions.md §18): the end of a place, and a type.
TOLERATED: dict[str, tuple[tuple[str, str], ...]] = {
    CHAT: (
        ("/message/content", "array"),
        ("/created", "number"),
        ("/function/arguments", "object"),
        ("/function_call/arguments", "object"),
    ),
    RESPONSES: (("/created_at", "number"),),
}
# And what clients are known to send instead (Mistral's).
WELCOME: dict[str, tuple[tuple[str, str], ...]] = {CHAT: (("/image_url", "string"),)}


def is_welcome(protocol: str, where: Where, value: JsonValue) -> bool:
    known = WELCOME.get(protocol, ())
    return bool(value) and any(pointer(where).endswith(end) and json_type(value) == kind for end, kind in known)


def is_tolerated(protocol: str, where: Where, value: JsonValue) -> bool:
    return any(pointer(where).endswith(end) and json_type(value) == kind for end, kind in TOLERATED.get(protocol, ()))


# What an answer says about itself and its cost: unreadable it is reported, and no reason to lose the answer (U3, N4).
REPORTED = frozenset({"usage", "id", "model", "created", "created_at", "service_tier"})


def others(protocol: str) -> list[str]:
    return [target for source, target in PAIRS if source == protocol]


def pointer(where: Where) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in where)


def misfits(found: Found) -> Iterator[JsonValue]:
    """Values of JSON types that cannot stand at a place; fractions cannot stand for integers either."""
    allowed = types_of(found.allowed)
    whole = isinstance(found.shape, Leaf) and found.shape.kind is Kind.INTEGER
    for value in WRONG:
        if json_type(value) not in allowed or (whole and value == 7.5):
            yield value


def new_places(case: Case) -> list[Found]:
    """The places of a case that no case before it has: most members of a case stand in every one."""
    return _new_places()[_key(case)]


@cache
def _new_places() -> dict[str, list[Found]]:
    made: dict[str, list[Found]] = {}
    for shapes, singles in ((FIELDS, single_requests), (ANSWERS, single_answers)):
        for protocol in PROTOCOLS:
            seen: set[str] = set()
            for case in singles(protocol):
                new = made.setdefault(_key(case), [])
                for found in places(shapes[protocol], case.body):
                    allowed = sorted(types_of(found.allowed))
                    key = str((kinds_around(case.body, found.where), json_type(found.value), allowed, found.checked))
                    if key not in seen:
                        seen.add(key)
                        new.append(found)
    return made


def _key(case: Case) -> str:
    return f"{case}: {case.body}"


def kinds_around(body: JsonObject, where: Where) -> tuple[JsonValue, ...]:
    """The names on the way to a place, and what the objects that hold it say of their kind."""
    value: JsonValue = body
    kinds: list[JsonValue] = []
    for step in where:
        if isinstance(value, dict):
            kinds += [value.get("type"), value.get("role"), step]
            value = value[str(step)]
        elif isinstance(value, list):
            value = value[int(step)]
    return tuple(kinds)


def spoiled(case: Case) -> Iterator[tuple[str, Found, JsonObject, JsonValue]]:
    """Every wrong value at every new place of a case, each for one of the other protocols in turn."""
    wrong = [(found, value) for found in new_places(case) if found.where for value in misfits(found)]
    targets = others(case.protocol)
    for number, (found, value) in enumerate(wrong):
        yield targets[number % len(targets)], found, as_object(put(case.body, found.where, value)), value


def error_of(body: JsonObject, source: str, target: str) -> DragomanError | None:
    try:
        translate_request(body, source=source, target=target)
    except DragomanError as error:
        return error
    return None


@each_of([case for protocol in PROTOCOLS for case in single_requests(protocol)])
def test_a_wrong_type_in_a_request_is_refused_by_its_path(case: Case) -> None:
    accepted: list[str] = []
    for target, found, body, value in spoiled(case):
        if is_welcome(case.protocol, found.where, value):
            continue
        error = error_of(body, case.protocol, target)
        if found.checked and not (isinstance(error, WireError) and error.path == pointer(found.where)):
            accepted.append(f"{pointer(found.where)} = {value!r} -> {error!r}")
    assert accepted == []


@each_of([case for protocol in PROTOCOLS for case in single_requests(protocol)])
def test_strange_values_raise_nothing_of_their_own(case: Case) -> None:
    for found in new_places(case):
        if found.where:
            for value in STRANGE:
                body = as_object(put(case.body, found.where, value))
                for target in others(case.protocol):
                    error_of(body, case.protocol, target)


@each_of([case for protocol in PROTOCOLS for case in single_requests(protocol)])
def test_unknown_members_never_raise(case: Case) -> None:
    for found in new_places(case):
        if isinstance(found.shape, Record):
            grown: JsonObject = {**as_object(found.value), "zz_unknown": {"deep": [1, None]}}
            body = as_object(put(case.body, found.where, grown))
            for target in others(case.protocol):
                error = error_of(body, case.protocol, target)
                known = error_of(case.body, case.protocol, target)
                assert error is None or isinstance(known, RefusedError), (pointer(found.where), error)


def nested(depth: int) -> JsonValue:
    value: JsonValue = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_deep_nesting_is_refused_or_carried(protocol: str) -> None:
    deep = nested(DEPTH)
    for case in single_requests(protocol):
        for found in places(FIELDS[protocol], case.body):
            if found.where and isinstance(found.shape, Leaf) and found.shape.kind in (Kind.JSON, Kind.TEXT, Kind.ANY):
                value: JsonValue = {"a": deep} if found.shape.kind is Kind.JSON else deep
                for target in others(protocol):
                    error_of(as_object(put(case.body, found.where, value)), protocol, target)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_deep_nesting_in_text_is_refused(protocol: str) -> None:
    text = b'{"model":"m","max_tokens":5,"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for target in PROTOCOLS:
        with pytest.raises(WireError):
            translate_request(text, source=protocol, target=target)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_last_of_duplicate_members_counts(protocol: str) -> None:
    for case in single_requests(protocol)[:40]:
        text = json.dumps(case.body)
        for name, value in case.body.items():
            member = f"{json.dumps(name)}: {json.dumps(value)}"
            doubled = text.replace("{", '{"model": 5, ' + f"{json.dumps(name)}: 5, ", 1)
            assert member in doubled
            for target in others(protocol):
                expected, found = error_of(case.body, protocol, target), None
                try:
                    translate_request(doubled, source=protocol, target=target)
                except DragomanError as error:
                    found = error
                assert type(found) is type(expected)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"5", b"null", b'"x"', b"\xff", b'{"model":"\xff"}', b"{}", b'{"a":NaN}']
)
@pytest.mark.parametrize(("source", "target"), [*PAIRS, *((one, one) for one in PROTOCOLS)])
def test_what_is_no_request_is_refused(body: bytes, source: str, target: str) -> None:
    if body == b"{}" and source == target:
        return
    with pytest.raises(WireError):
        translate_request(body, source=source, target=target)


# --- answers ---------------------------------------------------------------------------------------------------------


def is_reported(where: Where, told: TranslatedResponse) -> bool:
    """Whether the ledger tells of a place that need not be readable."""
    first = str(where[0])
    return first in REPORTED and any(loss["at"].split(".")[0].split("[")[0] == first for loss in told.losses)


@each_of([case for protocol in PROTOCOLS for case in single_answers(protocol)])
def test_a_wrong_type_in_an_answer_is_refused_by_its_path(case: Case) -> None:
    accepted: list[str] = []
    for target, found, body, value in spoiled(case):
        if is_tolerated(case.protocol, found.where, value):
            continue
        raised: DragomanError | None = None
        told: TranslatedResponse | None = None
        try:
            told = translate_response(body, source=case.protocol, target=target, request=asked(target, case.protocol))
        except DragomanError as error:
            raised = error
        if (
            found.checked
            and not (told is not None and (told.failed or is_reported(found.where, told)))
            and not (isinstance(raised, WireError) and raised.path == pointer(found.where))
        ):
            accepted.append(f"{pointer(found.where)} = {value!r} -> {raised!r}")
    assert accepted == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data(), value=st.sampled_from(STRANGE))
def test_strange_values_in_answers_raise_nothing_of_their_own(
    protocol: str, data: st.DataObject, value: JsonValue
) -> None:
    answer = data.draw(answers(protocol))
    found = data.draw(st.sampled_from([found for found in places(ANSWERS[protocol], answer) if found.where]))
    body = as_object(put(answer, found.where, value))
    for target in PROTOCOLS:
        for stream in (False, True):
            try:
                translate_response(body, source=protocol, target=target, stream=stream)
            except DragomanError:
                # Said so: any other exception is what this looks for.
                continue


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@pytest.mark.parametrize(
    "error", [{"message": "busy", "type": "server_error"}, {"message": "busy", "code": 503}, "busy"]
)
def test_an_error_inside_a_200_is_an_error(provider: str, client: str, error: JsonValue) -> None:
    told = translate_response({"type": "error", "error": error}, source=provider, target=client)
    assert told.failed
    assert told.status >= 400
    assert b"busy" in told.body


# --- streams ---------------------------------------------------------------------------------------------------------


def everywhere(value: JsonValue, where: Where = ()) -> Iterator[Where]:
    """Every place of a document."""
    yield where
    if isinstance(value, dict):
        for name, member in value.items():
            yield from everywhere(member, (*where, name))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from everywhere(member, (*where, index))


@pytest.mark.parametrize(("provider", "client"), PAIRS)
def test_no_frame_of_a_provider_breaks_a_clients_stream(provider: str, client: str) -> None:
    """Wrong types at every place of every kind of frame: nothing is raised, and the client's stream stays legal."""
    request = asked(client, provider)
    for case in single_answers(provider)[::6]:
        frames = tell(provider, case.body, 9).frames
        known: set[tuple[JsonValue, Where]] = set()
        for number, one in enumerate(frames):
            head, _, data = one.partition(b"data: ")
            if data.startswith(b"[DONE]"):
                continue
            event = as_object(json.loads(data))
            for where in everywhere(event):
                key = (
                    str(event.get("type", event.get("object"))),
                    tuple(step for step in where if isinstance(step, str)),
                )
                if key in known or not where:
                    continue
                known.add(key)
                for value in MISREAD:
                    spoilt = head + b"data: " + json.dumps(put(event, where, value)).encode() + b"\n\n"
                    stream = b"".join([*frames[:number], spoilt, *frames[number + 1 :]])
                    check(client, translated_stream(provider, client, stream, request))


GARBAGE = (
    b"\xff\xfe",
    b"data: {\n\n",
    b"data: 5\n\n",
    b"data: [1]\n\n",
    b'data: "x"\n\n',
    b"data: null\n\n",
    b"data: {}\n\n",
    b"event: \xff\ndata: \xff\n\n",
    b'data: {"type":"\xff"}\n\n',
    b'data: {"type":"unknown.event","sequence_number":5}\n\n',
    b'event: message_start\ndata: {"type":"message_start","message":"\\ud800"}\n\n',
    b": comment\n\n",
    b"data:\n\n",
    b"\x00",
    b"data: " + b"[" * 50_000 + b"\n\n",
    b"data: [DONE]\n\n",
    frame({"error": {}}),
    frame({"error": "text"}),
    frame({"error": 5}),
    frame({"type": "error"}, "error"),
    frame({"type": "error", "error": []}, "error"),
)


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data(), garbage=st.sampled_from(GARBAGE), at=st.integers(0, 10_000), between=st.booleans())
def test_garbage_in_a_stream_raises_nothing_and_ends_legally(
    provider: str, client: str, data: st.DataObject, garbage: bytes, at: int, between: bool
) -> None:
    told = data.draw(streams(provider, lying=True))
    if between:
        cut = at % (len(told.frames) + 1)
        stream = b"".join([*told.frames[:cut], garbage, *told.frames[cut:]])
    else:
        cut = at % (len(told.stream) + 1)
        stream = told.stream[:cut] + garbage + told.stream[cut:]
    check(client, translated_stream(provider, client, stream, asked(client, provider)))


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(stream=st.binary(max_size=200) | st.lists(st.sampled_from(GARBAGE), max_size=5).map(b"".join))
def test_nothing_but_garbage_ends_legally(provider: str, client: str, stream: bytes) -> None:
    check(client, translated_stream(provider, client, stream, asked(client, provider)))
