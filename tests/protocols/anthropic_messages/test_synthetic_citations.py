"""Citations that we made do not go back to the vendor, on translation and on the relay; the text does."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Citation, Text
from dragoman.model.request import Message, Request, Role
from dragoman.protocols.anthropic_messages import CODEC, NAME, relay
from dragoman.protocols.anthropic_messages.synthetic_citations import is_synthetic
from dragoman.protocols.codec import TargetModel
from dragoman.rules.capabilities import capabilities_of
from dragoman.wire.json import decode_object, encode
from tests.protocols.glancing import foreseen

repair_request = foreseen(NAME, relay.repair_request)

PLACE: JsonObject = {
    "type": "web_search_result_location",
    "url": "https://example.org/",
    "title": "Notes",
    "cited_text": "It is so.",
}
OURS: JsonObject = {**PLACE, "encrypted_index": ""}
THEIRS: JsonObject = {**PLACE, "encrypted_index": "Eo8BCioIAhgB"}


def request(*citations: JsonObject) -> bytes:
    text: JsonObject = {"type": "text", "text": "It is so.", "citations": [*citations]}
    said: JsonObject = {"role": "assistant", "content": [{"type": "text", "text": "Look:"}, text]}
    return encode({"model": "m", "messages": [{"role": "user", "content": "Is it?"}, said], "max_tokens": 9})


def test_item_20_made_up_citations_are_cut_on_the_relay() -> None:
    ledger = Ledger()
    body = request(OURS, THEIRS, OURS)
    assert repair_request(body, ledger) == request(THEIRS)
    assert [(loss.feature.value, str(loss.at)) for loss in ledger.losses] == [
        ("citations", "messages[1].parts[1].citations")
    ]


def test_item_20_text_without_other_citations_stays_plain() -> None:
    body = repair_request(request(OURS), Ledger())
    assert body == request().replace(b',"citations":[]', b"")


def test_item_20_the_vendors_own_citations_pass_byte_for_byte() -> None:
    ledger = Ledger()
    body = request(THEIRS)
    assert repair_request(body, ledger) is body
    assert len(ledger) == 0


def test_item_20_words_of_the_user_are_no_citations() -> None:
    ledger = Ledger()
    body = encode({"model": "m", "messages": [{"role": "user", "content": '"encrypted_index":""'}], "max_tokens": 9})
    assert repair_request(body, ledger) == body
    assert len(ledger) == 0


def test_item_20_made_up_citations_are_cut_on_translation() -> None:
    citations = tuple(Citation(origin=NAME, native=one, url="https://example.org/") for one in (OURS, THEIRS))
    said = Message(role=Role.ASSISTANT, parts=(Text(text="It is so.", citations=citations),))
    user = Message(role=Role.USER, parts=(Text(text="Is it?"),))
    asking = Request(origin="openai-chat", model="m", messages=(user, said, user))
    target = TargetModel(model="m", vendor="anthropic", capabilities=capabilities_of(NAME, "m", "anthropic"))
    ledger = Ledger()
    body = decode_object(encode(CODEC.encode_request(asking, target, ledger).body))
    assert b'"encrypted_index":""' not in encode(body)
    assert b'"encrypted_index":"Eo8BCioIAhgB"' in encode(body)
    assert "citations" in [loss.feature.value for loss in ledger.losses]


def test_only_pages_without_proof_are_ours() -> None:
    assert is_synthetic(OURS)
    assert not is_synthetic(THEIRS)
    assert not is_synthetic({"type": "char_location", "encrypted_index": ""})
    assert not is_synthetic("x")
