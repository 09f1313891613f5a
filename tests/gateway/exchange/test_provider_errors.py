"""Errors of providers, read once: what they say, what passes as it is, and what that takes."""

from __future__ import annotations

import asyncio
import json

import pytest

from dragoman.gateway.exchange import provider_errors
from dragoman.gateway.exchange.provider_errors import ErrorReader, cleaned
from dragoman.gateway.forwarding.provider_request import ProviderRequest
from dragoman.gateway.forwarding.redaction import Redactor
from dragoman.gateway.thread_offload import INLINE
from dragoman.model.failure import FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.target import Target
from dragoman.rules import failures
from dragoman.translate import translate_request
from dragoman.wire.json import decode_lenient, decode_object
from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.says import error_body

KEY = "sk-provider-0123456789abcdef"


def reader(client: str, protocol: str, keys: int = 1) -> ErrorReader:
    provider = Provider(
        name="x",
        endpoints=(Endpoint(protocol=protocol, base_url="https://api.example.com/v1"),),
        keys=tuple(KEY + "x" * number for number in range(keys)),
    )
    target = Target(provider=provider, endpoint=provider.endpoints[0], model="m", strict=False)
    said: JsonObject = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "x"}]}
    if client == RESPONSES:
        said = {"model": "m", "input": "x"}
    translated = translate_request(said, source=client, target=protocol)
    prepared = ProviderRequest(target, client, client, False, False, translated, [], relay=client == protocol)
    return ErrorReader(prepared, 429, [], Redactor(provider))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_item_22_a3_an_error_is_decoded_once(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def counted(body: bytes) -> JsonObject:
        read.append(body)
        return decode_object(body)

    def counted_lenient(body: bytes) -> JsonValue:
        read.append(body)
        return decode_lenient(body)

    monkeypatch.setattr(provider_errors, "decode_object", counted)
    monkeypatch.setattr(failures, "decode_lenient", counted_lenient)
    body = json.dumps(error_body(protocol, "rate_limit_error", f"wait, {KEY}")).encode()
    answer = reader(protocol, protocol).read(body)
    assert read == [body]
    assert answer.failure.kind is FailureKind.RATE_LIMITED
    assert answer.readable and answer.body is not None and KEY.encode() not in answer.body


@pytest.mark.parametrize("raw", [b"", b"<html>", b'{"error":{"message":"half', b"[]", b'"no"'])
def test_what_is_no_json_object_to_its_end_is_not_passed_on_as_one(raw: bytes) -> None:
    answer = reader(CHAT, CHAT).read(raw)
    assert not answer.readable and answer.body is None
    assert reader(CHAT, CHAT).read(b' {"error":{"message":"\\u00e9"}} ').readable


def test_an_error_in_the_words_of_another_protocol_does_not_pass_as_it_is() -> None:
    body = json.dumps(error_body(CHAT, "rate_limit_error", "wait")).encode()
    answer = reader(MESSAGES, CHAT).read(body)
    assert answer.readable and answer.body is None


def test_item_22_a3_a_long_message_is_cut() -> None:
    body = json.dumps(error_body(CHAT, "rate_limit_error", "x" * 200_000)).encode()
    assert len(reader(MESSAGES, CHAT).read(body).failure.message) == 16 * 1024


def test_item_22_a3_the_search_for_secrets_counts_for_each_of_them() -> None:
    assert reader(CHAT, CHAT).work(1_000) < INLINE < reader(CHAT, CHAT).work(100_000)
    assert reader(CHAT, CHAT, keys=8).work(10_000) > 4 * reader(CHAT, CHAT).work(10_000)


def test_what_is_cleaned_has_no_secrets() -> None:
    assert asyncio.run(cleaned(reader(CHAT, CHAT).redactor, f"key {KEY}".encode(), "desk")) == b"key [redacted]"
