"""Members: what is said twice, or in other letters, is found whatever it is written like."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.wire.duplicate_keys import OBJECT, ambiguous, folded, joined
from tests.byte_counting import CountedBytes
from tests.step_counting import StepCounter, assert_linear

NAMES = frozenset({"id", "model", "stream", "input", "previous_response_id"})


def found(body: str) -> str | None:
    data = body.encode()
    return ambiguous(data, OBJECT.decode(data), NAMES)


TWICE = {
    "twice": '{"model":"a","model":"b"}',
    "twice with others between": '{"model":"a","x":[{"y":1}],"model":"a"}',
    "twice among white space": '\n{ "x" : 1 , "model" : "a" ,\t"model":"b" }',
    "twice, once with an escape": '{"model":"a","mod\\u0065l":"b"}',
    "with a long value": '{"model":"' + "m" * 5000 + '","stream":true,"model":""}',
    "the same value twice": '{"x":{"model":1},"model":{"a":[1,2]},"y":1,"model":{"a":[1,2]}}',
}
OTHER_LETTERS = {
    "Model": '{"model":"a","Model":"b"}',
    "MODEL": '{"MODEL":"a"}',
    "\u017ftream": '{"model":"a","\u017ftream":true}',
    "\u0130nput": '{"model":"a","\u0130nput":[]}',
    "prev\u0131ous_response_id": '{"prev\\u0131ous_response_id":"a"}',
    "Previous_Response_Id": '{"x":1,"Previous_Response_Id":"a"}',
}
ONCE = (
    '{"model":"a","stream":true,"input":[{"model":1,"model":2}],"x":1,"x":2}',
    '{ "model" : "\\"model\\":1,\\"model\\":2" , "y" : {"id":1,"id":2} }',
    '{"models":1,"Models":2,"mode":1}',
    "{}",
    "  {  }  ",
)


@pytest.mark.parametrize("case", TWICE)
def test_a_member_that_is_said_twice_is_found(case: str) -> None:
    assert found(TWICE[case]) == "model"


@pytest.mark.parametrize("name", OTHER_LETTERS)
def test_a_member_in_other_letters_is_found(name: str) -> None:
    assert found(OTHER_LETTERS[name]) == name


@pytest.mark.parametrize("body", ONCE)
def test_what_is_said_once_is_not_disturbed(body: str) -> None:
    assert found(body) is None


@given(
    keys=st.lists(st.sampled_from(["model", "Model", "id", "x", "stream", "mod\u00e9l", ""]), max_size=6),
    value=st.sampled_from(["1", '"a"', '{"model":1}', "[ ]", '"' + "t" * 3000 + '"', '"\\\\"']),
    blanks=st.text(" \n", max_size=3),
    escaped=st.booleans(),
)
def test_it_is_found_exactly_where_a_plain_count_finds_it(
    keys: list[str], value: str, blanks: str, escaped: bool
) -> None:
    names = [json.dumps(key) if not escaped else '"' + "".join(f"\\u{ord(c):04x}" for c in key) + '"' for key in keys]
    body = "{" + ",".join(f"{blanks}{name}{blanks}:{blanks}{value}{blanks}" for name in names) + "}"
    wrong = any(key in NAMES and keys.count(key) > 1 for key in keys) or "Model" in keys
    assert (found(body) is not None) is wrong


def test_names_fold_as_those_read_them_who_take_no_notice_of_case() -> None:
    assert [folded(name) for name in ("MODEL", "\u017ftream", "\u212aey", "\u0130d", "\u0131d", "\uff4d")] == [
        "model",
        "stream",
        "key",
        "id",
        "id",
        "\uff4d",
    ]


@pytest.mark.parametrize(
    "name",
    ["previousResponseId", "PreviousResponseID", "previous-response-id", "previousresponseid", "previous_responseId"],
)
def test_a_member_whose_words_are_joined_otherwise_is_found_where_it_is_asked_for(name: str) -> None:
    body = b'{"model":"a","%b":"b"}' % name.encode()
    others = {"previousresponseid": "previous_response_id"}
    assert ambiguous(body, OBJECT.decode(body), NAMES, others) == name
    assert ambiguous(body, OBJECT.decode(body), NAMES) is None
    # A name that nobody asks for is not found by the others.
    assert ambiguous(body, OBJECT.decode(body), NAMES - {"previous_response_id"}, others) is None
    assert joined(name) == "previousresponseid"


def test_any_number_of_members_takes_steps_in_proportion_to_it() -> None:
    def work_on(count: int) -> Callable[[], object]:
        body = b'{"x":0' + b',"a":[1]' * count + b"}"
        members = OBJECT.decode(body)
        return lambda: ambiguous(body, members, NAMES)

    assert_linear(work_on, 1_000)


def test_any_number_of_members_is_copied_once_at_most() -> None:
    body = CountedBytes(b'{"x":0' + b',"a":[1]' * 2_000 + b"}")
    ambiguous(body, OBJECT.decode(body), NAMES)
    assert body.counter.examined <= len(body)


MANY = {
    "of one name": b'{"x":0' + b',"a":1' * 100_000 + b"}",
    "of as many names": b'{"x":0' + b"".join(b',"%d":1' % number for number in range(20_000)) + b"}",
}


@pytest.mark.parametrize("case", MANY)
def test_more_members_than_anybody_writes_are_refused_before_they_are_walked(case: str) -> None:
    members = OBJECT.decode(MANY[case])
    with StepCounter() as counter, pytest.raises(WireError, match="at most 4096 members"):
        ambiguous(MANY[case], members, NAMES)
    # A million of them once took seconds. A member takes about 60 steps, and 4096 of them are walked.
    assert counter.steps < 100 * 4096


def test_as_many_members_as_may_be_are_read() -> None:
    names = ",".join(f'"{number}": 1' for number in range(4095))
    assert found("{" + names + ', "model": 2}') is None
    assert found('{"model":"a",' + names.replace("4094", "model") + "}") == "model"


def test_what_is_remembered_of_one_set_of_names_hides_nothing_of_another() -> None:
    joint = {"previousresponseid": "previous_response_id"}
    for names, found in ((frozenset({"id"}), None), (NAMES, "previousresponseid")):
        body = b'{"previousresponseid":"x","user":"y"}'
        for _ in range(2):
            assert ambiguous(body, OBJECT.decode(body), names, joint) == found
