"""Law 1, identity: what a protocol says goes on unchanged in it, read or not, and nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.response import Response
from dragoman.protocols.registry import codec_of, recognise
from dragoman.translate import translate_request
from dragoman.wire.json import decode_object, encode
from tests.each_case import each_of
from tests.laws.journey import STEADY, at_home, parsed
from tests.laws.shapes import canonical
from tests.laws.strategies import ANSWERS, PROTOCOLS, Case, answers, requests, single_answers, single_requests


def request_comes_back(protocol: str, body: JsonObject) -> None:
    said = encode(body)
    for source in (protocol, None) if recognise(body) is codec_of(protocol) else (protocol,):
        went = translate_request(said, source=source, target=protocol, strict=True)
        assert went.body == said
        assert went.losses == ()
    renamed = translate_request(said, source=protocol, target=protocol, model="another")
    assert decode_object(renamed.body) == {**parsed(body), "model": "another"}
    assert renamed.losses == ()
    # Whoever translates it reads all of it: what is lost abroad is the matter of law 6.
    assert codec_of(protocol).decode_request(parsed(body)).model == body["model"]


def answer_comes_back(protocol: str, body: JsonObject) -> None:
    codec = codec_of(protocol)
    wire = parsed(body)
    ledger = Ledger()
    # Only who declared `functions` gets a `function_call` (mapping.md §7).
    asking = at_home(codec, legacy=b'"function_call":' in encode(body))
    response = codec.decode_response(wire, asking, ledger)
    assert isinstance(response, Response)
    written = decode_object(encode(codec.encode_response(response, asking, STEADY, ledger)))
    assert ledger.losses == ()
    assert canonical(ANSWERS[protocol], written) == canonical(ANSWERS[protocol], wire)


@each_of([case for protocol in PROTOCOLS for case in single_requests(protocol)])
def test_every_member_of_a_request_comes_back(case: Case) -> None:
    request_comes_back(case.protocol, case.body)


@each_of([case for protocol in PROTOCOLS for case in single_answers(protocol)])
def test_every_member_of_an_answer_comes_back(case: Case) -> None:
    answer_comes_back(case.protocol, case.body)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_any_request_comes_back(protocol: str, data: st.DataObject) -> None:
    request_comes_back(protocol, data.draw(requests(protocol)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_any_answer_comes_back(protocol: str, data: st.DataObject) -> None:
    answer_comes_back(protocol, data.draw(answers(protocol)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data(), name=st.sampled_from(["new_member", "x-unknown", "zz"]))
def test_unknown_members_come_back_too(protocol: str, data: st.DataObject, name: str) -> None:
    body: JsonObject = {**data.draw(requests(protocol)), name: {"deep": [1, None, {"b": "c"}]}}
    request_comes_back(protocol, body)
