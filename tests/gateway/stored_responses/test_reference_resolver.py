"""What a request refers to: looked up, put in its place, or refused; everything else byte for byte as it was said."""

from __future__ import annotations

import json

import pytest

from dragoman.errors import ClientError
from dragoman.gateway.stored_responses.reference_resolver import items_to_add, storing_provider_of
from dragoman.gateway.stored_responses.references import items_of, named_in, references_in
from dragoman.store import Tables
from dragoman.store.responses import Item, StoredResponse
from dragoman.wire.duplicate_keys import OBJECT
from tests.gateway.stored_responses.recalling import recall
from tests.store.opened import ALICE, BOB, opened

QUESTION = b'{"role":"user","content":"first \\ud83d\\ude00 1.0e5"}'
ANSWER = b'{"id":"msg_a","type":"message","role":"assistant","content":[]}'
REASONING = b'{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA+/=="}'


def _kept(
    response_id: str, previous: str | None = None, status: str = "completed", body: bytes = b"{}"
) -> StoredResponse:
    return StoredResponse(
        id=response_id, status=status, previous=previous, background=False, provider="first", alive=0, body=body
    )


def _told(store: Tables) -> None:
    """One response, and a conversation of one message."""
    store.responses.add(ALICE, _kept("resp_1"), items_of([QUESTION]), items_of([REASONING, ANSWER]))
    store.conversations.create(ALICE, "conv_1", b"{}", items_of([QUESTION]))


def _refused(store: Tables | None, body: bytes, *, native: bool = False, shared: bool = False) -> ClientError:
    with pytest.raises(ClientError) as told:
        recall(store, ALICE, body, native=native, shared=shared)
    return told.value


def test_what_was_said_before_goes_before_the_input_as_it_was_said() -> None:
    body = b'{"model":"m", "previous_response_id": "resp_1", "input":"second \\u00e9", "x": 1.50}'
    with opened() as store:
        _told(store)
        found = recall(store, ALICE, body)
    assert found is not None
    second = b'{"type":"message","role":"user","content":"second \\u00e9"}'
    assert found.body == b'{"model":"m", "x": 1.50,"input":[' + b",".join((QUESTION, REASONING, ANSWER, second)) + b"]}"
    assert [item.body for item in found.before] == [QUESTION, REASONING, ANSWER]
    assert [item.body for item in found.new_items] == [second]
    assert (found.is_stored, found.previous, found.conversation, found.background) == (True, "resp_1", None, False)


@pytest.mark.parametrize("written", [b'"conv_1"', b'{"id":"conv_1"}', b' { "id" : "conv_1" } '])
def test_a_conversation_may_be_named_in_both_forms(written: bytes) -> None:
    with opened() as store:
        _told(store)
        found = recall(store, ALICE, b'{"conversation":' + written + b',"input":[' + ANSWER + b'],"store":false}')
    assert found is not None
    assert found.body == b'{"store":false,"input":[' + QUESTION + b"," + ANSWER + b"]}"
    assert (found.conversation, found.previous, found.is_stored) == ("conv_1", None, False)
    assert [item.id for item in found.new_items] == ["msg_a"]


@pytest.mark.parametrize("input", [b"", b',"input":null', b',"input":[]'])
def test_a_reference_alone_is_input_enough(input: bytes) -> None:
    with opened() as store:
        _told(store)
        found = recall(store, ALICE, b'{"previous_response_id":"resp_1"' + input + b"}")
    assert found is not None
    assert found.body == b'{"input":[' + b",".join((QUESTION, REASONING, ANSWER)) + b"]}"
    assert found.new_items == ()


@pytest.mark.parametrize(
    "reference",
    [b'{"type":"item_reference","id":"rs_1"}', b'{"id":"rs_1"}', b'{"i\\u0064":"rs_1"}', b'{"type":null,"id":"rs_1"}'],
)
def test_an_item_stands_in_the_place_of_its_reference(reference: bytes) -> None:
    with opened() as store:
        _told(store)
        found = recall(store, ALICE, b'{"input":[' + QUESTION + b"," + reference + b"," + ANSWER + b"]}")
    assert found is not None
    assert found.body == b'{"input":[' + b",".join((QUESTION, REASONING, ANSWER)) + b"]}"
    assert [item.body for item in found.new_items] == [QUESTION, REASONING, ANSWER]


@pytest.mark.parametrize(
    ("body", "status", "param", "code"),
    [
        (b'{"previous_response_id":"resp_9"}', 400, "previous_response_id", "previous_response_not_found"),
        (b'{"previous_response_id":"resp_1","conversation":"conv_1"}', 400, "previous_response_id", None),
        (b'{"conversation":"conv_9"}', 404, "conversation", None),
        (b'{"conversation":{"id":"conv_9"}}', 404, "conversation", None),
        (b'{"input":[{"type":"item_reference","id":"msg_9"}]}', 404, "input", None),
        (b'{"input":[{"id":"msg_9"}],"store":false}', 404, "input", None),
        (b'{"input":"x","background":true,"store":false}', 400, "background", "unsupported_parameter"),
        (b'{"input":"x","previous_response_id":"resp_runs"}', 400, "previous_response_id", None),
        (
            b'{"input":"x","previous_response_id":"resp_far"}',
            400,
            "previous_response_id",
            "previous_response_not_found",
        ),
    ],
)
def test_what_leads_nowhere_is_refused_with_its_name(body: bytes, status: int, param: str, code: str | None) -> None:
    with opened() as store:
        _told(store)
        store.responses.add(ALICE, _kept("resp_runs", status="in_progress"))
        store.responses.record_owner(ALICE, "resp_far", "second")
        told = _refused(store, body)
    assert (told.status, told.param, told.code) == (status, param, code)


def test_who_keeps_a_response_is_told_to_those_who_ask_another_provider_for_it() -> None:
    with opened() as store:
        store.responses.record_owner(ALICE, "resp_far", "second")
        assert "second" in _refused(store, b'{"input":"x","previous_response_id":"resp_far"}').message


@pytest.mark.parametrize(
    "reference",
    [
        b'"previous_response_id":"resp_1"',
        b'"conversation":"conv_1"',
        b'"input":[{"type":"item_reference","id":"rs_1"}]',
        b'"input":[{"id":"msg_a"}]',
    ],
)
@pytest.mark.parametrize("native", [False, True])
def test_nothing_of_one_owner_is_there_for_another(reference: bytes, native: bool) -> None:
    with opened() as store:
        _told(store)
        with pytest.raises(ClientError) as told:
            recall(store, BOB, b"{" + reference + b"}", native=native, shared=True)
        assert "not found" in told.value.message


@pytest.mark.parametrize(
    "body",
    [
        b'{"input":"x","previous_response_id":"resp_far"}',
        b'{"input":[{"id":"msg_far"}]}',
        b'{"input":"x","conversation":"conv_far"}',
        b'{"input":"x","background":true,"store":false}',
        b'{"input":"x"}',
    ],
)
def test_what_a_provider_keeps_is_its_own_to_know(body: bytes) -> None:
    with opened() as store:
        _told(store)
        assert recall(store, ALICE, body, native=True) is None


def test_where_several_have_state_at_a_provider_only_what_is_known_to_be_ones_own_goes_on() -> None:
    with opened() as store:
        store.responses.record_owner(ALICE, "resp_far", "second", ["msg_far"])
        own = b'{"input":[{"id":"msg_far"}],"previous_response_id":"resp_far"}'
        assert recall(store, ALICE, own, native=True, shared=True) is None
        for body in (b'{"previous_response_id":"resp_9"}', b'{"conversation":"c"}', b'{"input":[{"id":"msg_9"}]}'):
            assert "not found" in _refused(store, body, native=True, shared=True).message
            assert "not found" in _refused(None, body, native=True, shared=True).message


@pytest.mark.parametrize("shared", [False, True])
def test_where_several_have_state_at_a_provider_what_was_kept_is_read_as_closely_as_a_request(shared: bool) -> None:
    twice = b'{"type":"reasoning","id":"rs_1","id":"rs_2","summary":[],"encrypted_content":"gAAA"}'
    with opened() as store:
        store.responses.add(ALICE, _kept("resp_1"), items_of([QUESTION]), items_of([twice]))
        body = b'{"input":"x","previous_response_id":"resp_1"}'
        if shared:
            assert "twice" in _refused(store, body, native=True, shared=True).message
        else:
            assert recall(store, ALICE, body, native=True) is not None


def test_without_a_store_a_request_goes_on_as_it_is() -> None:
    assert recall(None, ALICE, b'{"input":"x","previous_response_id":"resp_9"}', native=True) is None
    assert recall(None, ALICE, b'{"input":"x","previous_response_id":"resp_9"}') is None


def test_what_is_kept_here_is_told_to_a_provider_that_keeps_state_of_its_own() -> None:
    with opened() as store:
        _told(store)
        body = b'{"input":"x","previous_response_id":"resp_1","background":true}'
        found = recall(store, ALICE, body, native=True)
    assert found is not None and not found.background
    assert json.loads(found.body)["background"] is True
    assert "previous_response_id" not in json.loads(found.body)


def test_a_providers_own_reference_stays_beside_an_item_that_is_kept_here() -> None:
    with opened() as store:
        _told(store)
        body = b'{"previous_response_id":"resp_far","background":true,"input":[{"id":"rs_1"}]}'
        found = recall(store, ALICE, body, native=True)
    assert found is not None
    assert found.body == b'{"previous_response_id":"resp_far","background":true,"input":[' + REASONING + b"]}"


def test_in_a_conversation_that_is_kept_here_a_provider_runs_nothing_by_itself() -> None:
    with opened() as store:
        _told(store)
        body = b'{"input":"x","conversation":"conv_1","background":true}'
        assert _refused(store, body, native=True).param == "background"


@pytest.mark.parametrize(
    "body",
    [b'{"input":5}', b'{"input":[1,{"a":1}],"store":false}', b'{"model":"m"}'],
)
def test_what_cannot_be_read_or_refers_to_nothing_is_left_to_whoever_reads_it(body: bytes) -> None:
    with opened() as store:
        assert recall(store, ALICE, body) is None


def test_of_members_that_are_said_twice_the_last_counts_and_none_stays() -> None:
    with opened() as store:
        _told(store)
        body = b'{"previous_response_id":"resp_9","input":"x","input":[],"previous_response_id":"resp_1"}'
        found = recall(store, ALICE, body)
    assert found is not None
    assert found.body == b'{"input":[' + b",".join((QUESTION, REASONING, ANSWER)) + b"]}"


@pytest.mark.parametrize(
    ("body", "keeps", "background"),
    [
        (b'{"input":"x"}', True, False),
        (b'{"input":"x","store":null}', True, False),
        (b'{"input":"x","store":true,"background":true}', True, True),
        (b'{"input":"x","background":false}', True, False),
    ],
)
def test_a_response_is_kept_unless_the_client_says_no(body: bytes, keeps: bool, background: bool) -> None:
    with opened() as store:
        found = recall(store, ALICE, body)
    assert found is not None
    assert (found.is_stored, found.background) == (keeps, background)
    assert json.loads(found.body).get("background") is (False if b"false" in body else None)


def test_what_is_not_to_be_stored_and_refers_to_nothing_leaves_no_trace() -> None:
    with opened() as store:
        assert recall(store, ALICE, b'{"input":"x","store":false}') is None


def test_items_are_kept_under_their_own_ids_or_one_that_is_made_for_them() -> None:
    bodies = [
        ANSWER,
        QUESTION,
        b'{"type":"function_call"}',
        b'{"type":"custom_tool_call","id":null}',
        b'{"id":5}',
        b"7",
    ]
    found = items_of(bodies)
    assert [item.body for item in found] == bodies
    assert found[0].id == "msg_a"
    assert [item.id.split("_")[0] for item in found[1:]] == ["msg", "fc", "ctc", "msg", "msg"]
    assert len({item.id for item in items_of([QUESTION] * 100)}) == 100
    assert named_in(b"7").id is None


def test_an_item_that_was_kept_can_be_referred_to_by_the_id_that_was_made_for_it() -> None:
    with opened() as store:
        said = items_of([QUESTION])
        store.responses.add(ALICE, _kept("resp_1"), said)
        found = recall(store, ALICE, b'{"input":[{"id":"' + said[0].id.encode() + b'"}]}')
        assert found is not None and found.new_items[0].body == QUESTION
        assert isinstance(found.new_items[0], Item)


@pytest.mark.parametrize(
    "said",
    [
        b'"conversation":{"id":"conv_9","type":5}',
        b'"input":[{"type":"item_reference","id":"msg_9","role":5}]',
        b'"input":[{"type":"reasoning","id":"rs_9","summary":[]}]',
        b'"input":[{"type":"reasoning","id":"rs_9","summary":[],"content":[ ],"encrypted_content":null}]',
        b'"input":[{"type":"image_generation_call","id":"ig_9"}]',
    ],
)
def test_where_several_have_state_at_a_provider_an_odd_form_is_a_reference_all_the_same(said: bytes) -> None:
    with opened() as store:
        assert "not found" in _refused(store, b"{" + said + b"}", native=True, shared=True).message
        store.responses.record_owner(ALICE, "resp_9", "second", ["msg_9", "rs_9", "ig_9"])
        store.conversations.create(ALICE, "conv_9", b"{}", ())
        recall(store, ALICE, b"{" + said + b"}", native=True, shared=True)


@pytest.mark.parametrize(
    "item",
    [
        REASONING,
        b'{"type":"reasoning","id":"rs_9","content":[{"type":"reasoning_text","text":"x"}]}',
        b'{"type":"image_generation_call","id":"ig_9","result":"aGk="}',
        b'{"type":"message","id":"msg_9","role":"assistant","content":"x"}',
        b'{"type":"reasoning","summary":[]}',
    ],
)
def test_an_item_that_says_itself_what_it_is_refers_to_nothing(item: bytes) -> None:
    assert recall(None, ALICE, b'{"input":[' + item + b"]}", native=True, shared=True) is None


@pytest.mark.parametrize(
    ("said", "param"),
    [
        (b'"previous_response_id":"resp_1","input":"x"', "previous_response_id"),
        (b'"conversation":"conv_1","input":"x"', "conversation"),
        (b'"input":[{"id":"rs_1"},{"id":"rs_1"},{"id":"rs_1"}]', "input"),
        (b'"previous_response_id":"resp_0","input":"' + b"x" * 200 + b'"', "input"),
    ],
)
def test_what_is_referred_to_is_no_longer_than_a_request_may_be(said: bytes, param: str) -> None:
    with opened() as store:
        store.responses.add(ALICE, _kept("resp_0"))
        _told(store)
        store.conversations.append(ALICE, "conv_1", items_of([REASONING, ANSWER]))
        assert recall(store, ALICE, b"{" + said + b"}", limit=1000) is not None
        with pytest.raises(ClientError) as told:
            recall(store, ALICE, b"{" + said + b"}", limit=100)
        assert (told.value.status, told.value.param, told.value.code) == (400, param, "context_length_exceeded")


def test_no_more_items_are_kept_of_a_request_than_are_soon_written() -> None:
    body = b'{"input":[' + b",".join([b'{"role":"user","content":"x"}'] * 10_001) + b"]}"
    with opened() as store:
        assert _refused(store, body).param == "input"
        assert recall(store, ALICE, body[:-1] + b',"store":false}') is None
        assert recall(store, ALICE, body, native=True) is None


TRIGGER, COMPACTION = (
    b'{"type":"compaction_trigger"}',
    b'{"type":"compaction","id":"cmp_1","encrypted_content":"rsv1.x"}',
)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ([QUESTION, TRIGGER, COMPACTION, ANSWER], [COMPACTION, ANSWER]),
        ([QUESTION, TRIGGER, COMPACTION, ANSWER, TRIGGER, COMPACTION], [COMPACTION]),
        ([QUESTION, TRIGGER, ANSWER], [QUESTION, ANSWER]),
        ([QUESTION, TRIGGER, COMPACTION, ANSWER, TRIGGER], [COMPACTION, ANSWER]),
        ([QUESTION, COMPACTION], [QUESTION, COMPACTION]),
    ],
)
def test_a_compaction_stands_for_what_was_said_before_it_was_asked_for(said: list[bytes], left: list[bytes]) -> None:
    with opened() as store:
        store.responses.add(ALICE, _kept("resp_1"), items_of(said))
        found = recall(store, ALICE, b'{"previous_response_id":"resp_1"}')
    assert found is not None and [item.body for item in found.before] == left


def test_references_in_a_conversation_are_looked_up_when_they_are_said() -> None:
    with opened() as store:
        _told(store)
        store.responses.record_owner(ALICE, "resp_far", "second", ["msg_far"])
        far, unknown = b'{"type":"item_reference","id":"msg_far"}', b'{"id":"msg_9"}'
        said = items_to_add(store, ALICE, "conv_1", [b'{"id":"rs_1"}', far, QUESTION], native=True, shared=True)
        assert [item.body for item in said] == [REASONING, far, QUESTION]
        assert items_to_add(store, ALICE, "conv_1", [unknown], native=True, shared=False)[0].body == unknown
        for owner, reference in ((ALICE, unknown), (BOB, b'{"id":"rs_1"}'), (BOB, far)):
            with pytest.raises(ClientError) as told:
                items_to_add(store, owner, "conv_1", [reference], native=False, shared=True)
            assert (told.value.status, told.value.param) == (404, "items")
        with pytest.raises(ClientError) as told:
            items_to_add(store, ALICE, "conv_1", [QUESTION], native=False, shared=True, limit=80)
        assert told.value.code == "context_length_exceeded"


def test_what_a_provider_would_complete_is_said_in_a_conversation_by_those_whose_it_is() -> None:
    bare, own = b'{"type":"reasoning","id":"rs_9","summary":[]}', b'{"type":"reasoning","id":"rs_1","summary":[]}'
    with opened() as store:
        _told(store)
        # What was told of an answer comes back.
        items_to_add(store, ALICE, "conv_1", [own, REASONING], native=True, shared=True)
        with pytest.raises(ClientError) as told:
            items_to_add(store, ALICE, "conv_1", [bare], native=True, shared=True)
        assert (told.value.status, told.value.param) == (404, "items")
        # Where nobody would complete it, it is as good as any.
        for native, shared in ((False, True), (True, False)):
            assert items_to_add(store, ALICE, "conv_1", [bare], native=native, shared=shared)[0].id == "rs_9"


BARE = (
    b'{"type":"reasoning","id":"x_far","summary":[]}',
    b'{"type":"image_generation_call","id":"x_far"}',
    b'{"type":"compaction","id":"x_far"}',
    b'{"type":"item_reference","id":"x_far"}',
)


@pytest.mark.parametrize("item", BARE)
@pytest.mark.parametrize("way", ["direct", "chain", "conversation", "reference"])
def test_an_id_that_a_client_said_in_its_own_words_was_not_given_by_a_provider(item: bytes, way: str) -> None:
    bodies = {
        "direct": b'{"input":[' + item + b"]}",
        "chain": b'{"previous_response_id":"resp_b","input":"x"}',
        "conversation": b'{"conversation":"conv_b","input":"x"}',
        "reference": b'{"input":[{"id":"x_far"}]}',
    }
    with opened() as store:
        store.responses.record_owner(ALICE, "resp_far", "second", ["x_far"])
        for owner, name in ((ALICE, "a"), (BOB, "b")):
            store.responses.add(owner, _kept(f"resp_{name}"), items_of([item]))
            store.conversations.create(owner, f"conv_{name}", b"{}", items_of([item]))
        with pytest.raises(ClientError) as told:
            recall(store, BOB, bodies[way], native=True, shared=True)
        assert (told.value.status, told.value.param) == (404, "input")
        # Where nobody completes anything, these are words like any other, and to whom it was given they are more.
        recall(store, BOB, bodies["chain"], shared=True)
        recall(store, ALICE, bodies[way].replace(b"_b", b"_a"), native=True, shared=True)


@pytest.mark.parametrize(
    ("said", "keeper"),
    [
        (b'{"input":"x"}', ""),
        (b'{"input":"x","previous_response_id":"resp_far"}', "second"),
        (b'{"input":"x","previous_response_id":"resp_here"}', ""),
        (b'{"input":"x","previous_response_id":"resp_of_nobody"}', ""),
        # Made elsewhere, perhaps before anybody was asked here; and one that was gone on with here.
        (b'{"input":"x","conversation":"conv_of_nobody"}', None),
        (b'{"input":"x","conversation":{"id":"conv_far"}}', "second"),
        (b'{"input":"x","conversation":"conv_here"}', ""),
        (b'{"input":[{"type":"item_reference","id":"msg_far"}]}', "second"),
        (b'{"input":[{"type":"item_reference","id":"msg_here"}]}', ""),
        (b'{"input":[{"type":"reasoning","id":"rs_far","summary":[]}]}', "second"),
        (b'{"input":[{"type":"reasoning","id":"rs_far","summary":[],"encrypted_content":"e"}]}', ""),
        # What is kept here is said in full, and the rest is looked up there.
        (b'{"input":[{"id":"msg_here"},{"id":"msg_far"}],"previous_response_id":"resp_here"}', "second"),
    ],
)
def test_who_keeps_what_a_request_refers_to_is_found(said: bytes, keeper: str | None) -> None:
    references = references_in(OBJECT.decode(said))
    assert references is not None
    with opened() as store:
        store.responses.record_owner(ALICE, "resp_far", "second", ["msg_far", "rs_far"])
        store.responses.record_owner(ALICE, "conv_far", "second")
        store.conversations.create(ALICE, "conv_here", b"{}", ())
        store.responses.add(ALICE, _kept("resp_here"), [Item("msg_here", b'{"id":"msg_here"}')])
        assert storing_provider_of(store, ALICE, references) == keeper
        assert storing_provider_of(store, BOB, references) == (None if references.conversation else "")


@pytest.mark.parametrize(
    ("said", "keeper"),
    [
        (b'{"input":"x"}', ""),
        (b'{"input":"x","previous_response_id":"resp_here"}', ""),
        (b'{"input":"x","previous_response_id":"resp_far"}', None),
        (b'{"input":[{"type":"item_reference","id":"msg_here"}]}', ""),
        (b'{"input":[{"type":"item_reference","id":"msg_far"}]}', None),
        (b'{"input":[{"type":"reasoning","id":"rs_far","summary":[]}]}', ""),
    ],
)
def test_where_nothing_is_noted_nobody_knows_who_keeps_what_is_not_here(said: bytes, keeper: str | None) -> None:
    references = references_in(OBJECT.decode(said))
    assert references is not None
    with opened() as store:
        store.responses.add(ALICE, _kept("resp_here"), [Item("msg_here", b'{"id":"msg_here"}')])
        assert storing_provider_of(store, ALICE, references, owners_recorded=False) == keeper
