"""Fuzz, the client's side: whatever is sent to any endpoint, the reply is the client's own, and no 5xx."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]  # the package carries no types
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject
from tests.gateway.fuzzed import SOME, FuzzedHouse, fuzzed
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES, Answer
from tests.gateway.mutations import CANARY, any_json, damaged, mutated, mutated_requests, spellings
from tests.gateway.says import NAMES, question
from tests.gateway.verdicts import EVENT_STREAM, check_error, check_head, check_reply
from tests.laws.strategies import requests
from tests.sdk.oracles import check_answer, check_stream

ECHOES = ("text", "tools", "parallel", "thinking", "agent", "json", "refusal")
# Models that lead to a provider of each protocol, over a socket and inside the process.
MODELS = {
    protocol: (
        f"{NAMES[protocol]}/served",
        f"{NAMES[protocol]}/claude-opus-5",
        f"{NAMES[protocol]}/gpt-5",
        *(f"echo/{name}@{protocol}" for name in ECHOES),
    )
    for protocol in PROTOCOLS
}
models = st.sampled_from(PROTOCOLS).flatmap(
    lambda protocol: st.tuples(st.just(protocol), st.sampled_from(MODELS[protocol]))
)
COUNTS = {MESSAGES: "/v1/messages/count_tokens", RESPONSES: "/v1/responses/input_tokens"}
# Every path that takes a body, and whose envelope it answers in.
ENDPOINTS = (
    *((path, protocol) for protocol, path in PATHS.items()),
    *((path, protocol) for protocol, path in COUNTS.items()),
    ("/v1/embeddings", CHAT),
)
KINDS = ("application/json", "text/plain", "multipart/form-data; boundary=x", "", "application/json; charset=utf-16")


@pytest.fixture(scope="module")
def fuzz() -> Iterator[FuzzedHouse]:
    with fuzzed() as house:
        yield house


# What is no error of ours: a model that refuses to sum up what is to be compacted.
UNSAID = b"the provider gave no summary of the conversation"


def check(fuzz: FuzzedHouse, protocol: str, answer: Answer, *, native: bool = False) -> None:
    """A reply in the client's own words, no error of ours, and nothing said about it elsewhere."""
    assert answer.status < 500, answer
    check_reply(protocol, answer, native=native)
    fuzz.check_silence()


@pytest.mark.parametrize("client", PROTOCOLS)
@SOME
@given(data=st.data(), model=models)
def test_a_mutated_request_is_answered_or_refused_in_the_clients_own_words(
    fuzz: FuzzedHouse, client: str, data: st.DataObject, model: tuple[str, str]
) -> None:
    provider, name = model
    body = data.draw(mutated_requests(client, name))
    answer = fuzz.house.post(PATHS[client], body, content_type="application/json")
    if "refusal" in name and UNSAID in answer.body:
        assert answer.status == 502
        check_reply(client, answer, native=False)
        return
    check(fuzz, client, answer, native=client == provider)


@pytest.mark.parametrize("client", PROTOCOLS)
@SOME
@given(data=st.data(), model=models, stream=st.booleans())
def test_a_legal_request_gets_what_the_clients_sdk_takes(
    fuzz: FuzzedHouse, client: str, data: st.DataObject, model: tuple[str, str], stream: bool
) -> None:
    provider, name = model
    asked = {**data.draw(requests(client)), "model": name, "stream": stream}
    if client == RESPONSES:
        # They come back in the answer as they were given, and the generated ones go beyond the SDK's types.
        asked = {name: value for name, value in asked.items() if name not in ("tools", "tool_choice")}
    answer = fuzz.house.post(PATHS[client], asked, content_type="application/json")
    check(fuzz, client, answer, native=client == provider)
    if answer.status != 200:
        return
    if answer.header("content-type") == EVENT_STREAM:
        told = check_stream(client, answer.body)
        assert told.error is None and told.final is not None, answer.body
    else:
        check_answer(client, answer.json())


@pytest.mark.parametrize(("path", "client"), ENDPOINTS)
@SOME
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_any_json_is_answered_or_refused_in_the_clients_own_words(
    fuzz: FuzzedHouse, path: str, client: str, data: st.DataObject, kind: str
) -> None:
    body = data.draw(st.binary(max_size=40) | any_json().flatmap(spellings))
    answer = fuzz.house.post(path, body, content_type=kind)
    assert 400 <= answer.status < 500, answer
    check(fuzz, client, answer)


@pytest.mark.parametrize("client", COUNTS)
@SOME
@given(data=st.data(), model=models)
def test_a_mutated_request_is_counted_or_refused(
    fuzz: FuzzedHouse, client: str, data: st.DataObject, model: tuple[str, str]
) -> None:
    body = data.draw(mutated_requests(client, model[1]))
    answer = fuzz.house.post(COUNTS[client], body, content_type="application/json")
    if answer.status == 200:
        counted = answer.json()
        assert isinstance(counted["input_tokens"], int) and counted["input_tokens"] >= 0, counted
        assert set(counted) - {"object"} == {"input_tokens"}, counted
        check_head(client, answer)
        fuzz.check_silence()
    else:
        check(fuzz, client, answer, native=client == model[0])


@SOME
@given(data=st.data(), model=models, named=st.sampled_from(("", "chat", "all", "echo", "messages", "nobody")))
def test_a_mutated_question_for_vectors_is_passed_on_or_refused(
    fuzz: FuzzedHouse, data: st.DataObject, model: tuple[str, str], named: str
) -> None:
    asked: JsonObject = {"model": model[1], "input": [f"words {CANARY}", "more"], "encoding_format": "float"}
    body = data.draw(mutated(asked).flatmap(spellings))
    answer = fuzz.house.post("/v1/embeddings", body, content_type="application/json", x_dragoman_provider=named)
    if answer.status == 200:
        assert answer.json()["object"] == "list", answer
        check_head(CHAT, answer)
        fuzz.check_silence()
    else:
        check(fuzz, CHAT, answer, native=True)


# Octets of a path as they may stand in a request line; anything else is refused before there is a path.
_octets = st.binary(min_size=1, max_size=30).map(lambda octets: "".join(f"%{octet:02x}" for octet in octets))


@SOME
@given(
    name=st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#?"), max_size=30)
    | _octets
    | st.sampled_from(
        ("chat/served", "echo/text", "echo/text@openai-chat", "claude-x", "%", "%zz", "a" * 5000, "../x")
    ),
    client=st.sampled_from((MESSAGES, CHAT)),
)
def test_any_models_name_is_shown_or_not_known(fuzz: FuzzedHouse, name: str, client: str) -> None:
    headers = {"anthropic_version": "2023-06-01"} if client == MESSAGES else {}
    answer = fuzz.house.get(f"/v1/models/{name}", **headers)
    check_head(client, answer)
    fuzz.check_silence()
    if answer.status == 200:
        assert answer.header("content-type") == "application/json"
        assert isinstance(answer.json().get("id", answer.json().get("data")), str | list)
    else:
        assert 400 <= answer.status < 500, answer
        check_error(client, answer)


# Every octet that can stand in a header's value, and a few that cannot.
_values = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=40)
_HEADERS = (
    "x-dragoman-strict",
    "x-dragoman-report",
    "x-dragoman-provider",
    "x-dragoman-whatever",
    "content-encoding",
    "content-type",
    "accept",
    "accept-encoding",
    "authorization",
    "x-api-key",
    "anthropic-version",
    "anthropic-beta",
    "openai-organization",
    "x-claude-code-session",
    "idempotency-key",
    "x-request-id",
    "user-agent",
    "cookie",
    "origin",
    "host",
    "expect",
    "transfer-encoding",
    "te",
    "upgrade",
    "sec-fetch-site",
)
_CODINGS = ("gzip", "deflate", "br", "zstd", "gzip, br", "identity", "x-gzip", "compress", ",", "gzip" * 30)
_WORDS = ("1", "true", "full", "FULL", "echo", "chat", "100-continue", "websocket", "none", "null", *_CODINGS)


@pytest.mark.parametrize("client", PROTOCOLS)
@SOME
@given(
    headers=st.dictionaries(st.sampled_from(_HEADERS), _values | st.sampled_from(_WORDS), min_size=1, max_size=4),
    model=models,
    stream=st.booleans(),
)
def test_any_headers_are_taken_or_refused_in_the_clients_own_words(
    fuzz: FuzzedHouse, client: str, headers: dict[str, str], model: tuple[str, str], stream: bool
) -> None:
    body = {**question(client, client, stream=stream, text_of_a_prompt=CANARY), "model": model[1]}
    answer = fuzz.house.ask("POST", PATHS[client], json.dumps(body).encode(), **headers)
    check(fuzz, client, answer, native=True)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
@SOME
@given(data=st.data(), client=st.sampled_from(PROTOCOLS))
def test_a_damaged_coding_is_refused(fuzz: FuzzedHouse, coding: str, data: st.DataObject, client: str) -> None:
    plain = json.dumps({**question(client, client), "text_of_a_prompt": CANARY}).encode()
    body = data.draw(damaged(_ENCODE[coding](plain)) | st.binary(max_size=60))
    answer = fuzz.house.ask("POST", PATHS[client], body, content_encoding=coding)
    check(fuzz, client, answer, native=True)


_ENCODE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


@SOME
@given(
    model=st.text(max_size=40)
    | st.sampled_from(("echo/", "/", "echo/@", "echo/text@", "chat/\r\nx: y", "claude-\x00")),
    client=st.sampled_from(PROTOCOLS),
    stream=st.booleans(),
)
def test_any_text_as_a_models_name_is_routed_or_refused(
    fuzz: FuzzedHouse, model: str, client: str, stream: bool
) -> None:
    for name in (model, f"messages/{model}", f"chat/{model}", f"responses/{model}"):
        answer = fuzz.house.post(PATHS[client], {**question(client, client, stream=stream), "model": name})
        check(fuzz, client, answer, native=True)
