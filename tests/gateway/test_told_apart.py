"""With several keys at one provider that keeps items, nobody gets at another's through it, by whatever way it is asked.

A provider that keeps items completes by its id what says nothing else: it is asked only by ids it gave to this owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.config.settings import Storage
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Seal
from dragoman.rules.seals import to_envelope
from tests.gateway.harness import RESPONSES, Answer, House, Received, Reply
from tests.gateway.keeping_house import ALICE, BOB, ECHO, keeping
from tests.gateway.says import tells
from tests.sdk.digging import Object, dig_text

AS_ALICE, AS_BOB = ({"authorization": f"Bearer {key}"} for key in (ALICE, BOB))
KEEPER = "responses/served"
PICTURE: JsonObject = {"type": "image_generation_call", "id": "ig_alices"}
THOUGHT: JsonObject = {"type": "reasoning", "id": "rs_alices", "summary": []}
WORDS: Object = {"role": "user", "content": "x"}


def _script(received: Received) -> Reply:
    return tells(RESPONSES)


@pytest.fixture
def house() -> Iterator[House]:
    with keeping(_script, keys=(ALICE, BOB)) as house:
        yield house


def _asked(house: House, **body: object) -> Answer:
    return house.post("/v1/responses", {"model": KEEPER, "input": "x", **body}, **AS_BOB)


def _refused(house: House, answer: Answer) -> bool:
    """Whether an answer is a refusal of which no provider heard."""
    return answer.status in (400, 404) and not house.provider.received


@pytest.mark.parametrize("item", [PICTURE, THOUGHT], ids=lambda item: str(item["type"]))
def test_no_provider_completes_for_one_key_what_it_keeps_for_another(house: House, item: Object) -> None:
    assert _refused(house, _asked(house, input=[item, WORDS]))
    # Nor in a conversation,
    made = house.post("/v1/conversations", {"items": [item]}, **AS_BOB)
    assert _refused(house, made)
    # nor in a chain that was begun where nothing is completed,
    said = {"model": ECHO, "input": [WORDS, item]}
    first = house.post("/v1/responses", said, **AS_BOB)
    assert first.status == 200
    assert _refused(house, _asked(house, previous_response_id=first.json()["id"]))
    # nor in a conversation that was,
    conversation = house.post("/v1/conversations", {}, **AS_BOB).json()["id"]
    assert house.post("/v1/responses", {**said, "conversation": conversation}, **AS_BOB).status == 200
    assert _refused(house, _asked(house, conversation=conversation))
    # nor because the words are known by now.
    for body in ({"input": [item, WORDS]}, {"input": [{"type": "item_reference", "id": item["id"]}]}):
        assert _refused(house, _asked(house, **body))
        assert _refused(house, house.post("/v1/chat/completions", {"model": KEEPER, **body}, **AS_BOB))
        for path in ("/v1/responses/compact", "/v1/responses/input_tokens"):
            assert _refused(house, house.post(path, {"model": KEEPER, **body}, **AS_BOB))


def test_what_was_kept_of_a_request_is_read_as_closely_as_one_that_goes_on_at_once(house: House) -> None:
    hidden = b'{"type":"reasoning","id":"rs_alices","summary":[],"type":"message","role":"user","content":"x"}'
    first = house.post("/v1/responses", b'{"model":"%b","input":[%b]}' % (ECHO.encode(), hidden), **AS_BOB)
    assert first.status == 200
    assert _refused(house, _asked(house, previous_response_id=first.json()["id"]))


def test_what_a_provider_gave_to_a_key_is_completed_for_it(house: House) -> None:
    made: Object = {**_asked(house).json()}
    given = dig_text(made, "output", 0, "id")
    for item in ({"type": "item_reference", "id": given}, {"type": "reasoning", "id": given, "summary": []}):
        assert _asked(house, input=[item, WORDS]).status == 200
        conversation = house.post("/v1/conversations", {"items": [item]}, **AS_BOB).json()["id"]
        assert _asked(house, conversation=conversation).status == 200
        heard = len(house.provider.received)
        assert house.post("/v1/responses", {"model": KEEPER, "input": [item]}, **AS_ALICE).status == 404
        assert len(house.provider.received) == heard


def test_what_is_sent_in_full_is_anybodys_to_send(house: House) -> None:
    sealed = {**THOUGHT, "encrypted_content": "sealed"}
    for item in ({**PICTURE, "result": "aGk="}, sealed):
        assert _asked(house, input=[item, WORDS]).status == 200
    first = house.post("/v1/responses", {"model": ECHO, "input": [WORDS, sealed]}, **AS_BOB).json()
    assert _asked(house, previous_response_id=first["id"]).status == 200


@pytest.mark.parametrize("item", [PICTURE, THOUGHT, {"id": "msg_alices"}], ids=str)
def test_no_reference_travels_in_a_turn_that_a_chat_client_says_it_was_given(house: House, item: JsonObject) -> None:
    said: JsonObject = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    turn = Seal(origin=RESPONSES, kind="turn", body={"blocks": [item, said]}, model="served")
    details = [{"type": "reasoning.encrypted", "data": to_envelope(turn)}]
    messages = [WORDS, {"role": "assistant", "content": "hi", "reasoning_details": details}, WORDS]
    answer = house.post("/v1/chat/completions", {"model": KEEPER, "messages": messages}, **AS_BOB)
    assert answer.status == 200
    assert b"alices" not in house.provider.received[0].body


@pytest.mark.parametrize("item", [PICTURE, {"id": "msg_alices"}])
def test_where_nothing_is_kept_nothing_is_known_to_be_ones_own(item: Object) -> None:
    with keeping(_script, keys=(ALICE, BOB), storage=Storage(store_responses=False)) as house:
        assert _refused(house, _asked(house, input=[item, WORDS]))


def test_the_key_that_is_left_after_a_restart_gets_at_nothing_of_one_that_is_gone(tmp_path: Path) -> None:
    storage = Storage(path=str(tmp_path / "state.db"))
    with keeping(_script, keys=(ALICE, BOB), storage=storage) as house:
        made: Object = {**house.post("/v1/responses", {"model": KEEPER, "input": "x"}, **AS_ALICE).json()}
        conversation = house.post("/v1/conversations", {}, **AS_ALICE).json()["id"]
    item = dig_text(made, "output", 0, "id")
    with keeping(_script, keys=(BOB,), storage=storage) as house:
        for said in (
            {"previous_response_id": made["id"]},
            {"conversation": conversation},
            {"input": [{"type": "item_reference", "id": item}]},
            {"input": [{"type": "reasoning", "id": item, "summary": []}]},
        ):
            assert _refused(house, _asked(house, **said))
            chat = {"model": KEEPER, "input": "x", **said}
            assert _refused(house, house.post("/v1/chat/completions", chat, **AS_BOB))
            for path in ("/v1/responses/compact", "/v1/responses/input_tokens"):
                assert _refused(house, house.post(path, {"model": KEEPER, "input": "x", **said}, **AS_BOB))
        # Its words in what is kept here do not help, and what nobody is known to have made is its provider's to know.
        own = {"model": ECHO, "input": [WORDS, {"type": "reasoning", "id": item, "summary": []}]}
        first = house.post("/v1/responses", own, **AS_BOB).json()["id"]
        assert _refused(house, _asked(house, previous_response_id=first))
        assert _asked(house, previous_response_id="resp_unknown", input=[{"id": "msg_unknown"}]).status == 200


def test_no_batch_hides_references_in_its_file() -> None:
    batch = {"input_file_id": "file-1", "endpoint": "/v1/responses", "completion_window": "24h"}
    for keys, status in (((ALICE, BOB), 403), ((BOB,), 200)):
        with keeping(_script, keys=keys) as house:
            answer = house.post("/v1/batches", batch, x_dragoman_provider="responses", **AS_BOB)
            assert (answer.status, len(house.provider.received)) == (status, int(status == 200))
