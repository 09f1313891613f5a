"""Law 1, identity: what a protocol says is read and written back by its own room unchanged, and nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.response import Response
from dragoman.protocols.registry import codec_of
from dragoman.wire.json import decode_object, encode
from tests.laws.journey import STEADY, at_home, home, parsed
from tests.laws.shapes import canonical
from tests.laws.strategies import ANSWERS, FIELDS, PROTOCOLS, Case, answers, requests, single_answers, single_requests


def request_comes_back(protocol: str, body: JsonObject) -> None:
    codec = codec_of(protocol)
    wire = parsed(body)
    ledger = Ledger()
    request = codec.decode_request(wire)
    encoded = codec.encode_request(request, home(codec, request.model), ledger)
    written = decode_object(encode(encoded.body))
    assert ledger.losses == ()
    assert canonical(FIELDS[protocol], written) == canonical(FIELDS[protocol], wire)
    again = codec.encode_request(codec.decode_request(written), home(codec, request.model), ledger)
    assert decode_object(encode(again.body)) == written


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


@pytest.mark.parametrize("case", [case for protocol in PROTOCOLS for case in single_requests(protocol)], ids=str)
def test_every_member_of_a_request_comes_back(case: Case) -> None:
    request_comes_back(case.protocol, case.body)


@pytest.mark.parametrize("case", [case for protocol in PROTOCOLS for case in single_answers(protocol)], ids=str)
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
