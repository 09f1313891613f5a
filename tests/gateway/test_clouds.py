"""The clouds end to end: a client of each protocol, the gateway, and a cloud as strict as the real one, on sockets."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anthropic
import botocore.exceptions  # type: ignore[import-untyped]  # botocore has no types
import botocore.session  # type: ignore[import-untyped]  # botocore has no types
import openai
import pytest
from msgspec.structs import replace

from dragoman.cli import main
from dragoman.config.settings import RouteConfig, Server, Settings, Timeouts
from dragoman.gateway.provider_probe import check_live
from tests.cli.machine import signals_restored
from tests.gateway.clouds import (
    ACCESS,
    ACCOUNT,
    AZURE_KEY,
    CLAUDES,
    CLOUDS,
    DATED,
    GOOGLE_REGION,
    GOOGLE_TOKEN,
    HIDDEN,
    MODELS,
    PROJECT,
    REGION,
    RESOURCE,
    SECRET,
    TOKEN,
    Script,
    framed,
    frames_of,
    model_in,
    provider_of,
    seen_in,
    served,
    settings_of,
    told,
)
from tests.gateway.gate import Gate
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PATIENCE,
    PROTOCOLS,
    RESPONSES,
    Answer,
    House,
    Received,
    Reply,
    ScriptedProvider,
    Step,
    running,
    stream,
    take_turns,
    whole,
)
from tests.gateway.pairwise import pairwise
from tests.gateway.says import (
    error_frame,
    is_finished,
    log_lines,
    question,
    stream_failure,
    streamed_text,
    text_of,
)
from tests.gateway.verdicts import check_error
from tests.providers import imitation
from tests.providers.imitation import aws_exception, chunk
from tests.sdk.digging import dig_object, dig_objects, dig_text
from tests.sdk.providers import SIGNATURE, Call, Turn
from tests.sdk.providers import stream as stream_of
from tests.sdk.users import Heard, chat_loop, messages_loop, responses_loop

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
CLIENTS = pytest.mark.parametrize("client", PROTOCOLS)
EVERY_TWO = pytest.mark.parametrize(("cloud", "client", "streamed"), pairwise(CLOUDS, PROTOCOLS, (False, True)))
STOPS = {MESSAGES: "end_turn", CHAT: "stop", RESPONSES: "completed"}
CALLING = {MESSAGES: "tool_use", CHAT: "tool_calls", RESPONSES: "completed"}
SAID = "Guten Tag, said the cloud."
PROFILE = f"arn:aws:bedrock:{REGION}:{ACCOUNT}:application-inference-profile/abc123"
HELLO = Turn(stop="end_turn", text=SAID)


@pytest.fixture(autouse=True)
def _no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    for name in ("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_PROJECT", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def asked(
    house: House, cloud: str, client: str, *, streamed: bool = False, model: str = "", gate: Gate | None = None
) -> Answer:
    """The least that a client asks of a cloud. The gate opens when the first words have arrived."""
    named = {"model": model or f"{cloud}/{MODELS[cloud]}"}
    body = {**question(client, MESSAGES, stream=streamed), **named}
    return house.post(PATHS[client], body) if gate is None else gate.post(house, PATHS[client], body, SAID[:5].encode())


def check_nothing_shows(house: House, *answers: Answer, but: tuple[str, ...] = ()) -> None:
    """Neither client nor log sees a credential, a host, a region, a project or an account."""
    # The client of these tests has the same address as its provider.
    log = house.log.getvalue().replace('"address":"127.0.0.1"', "")
    shown = [answer.body.decode() + str(answer.headers) for answer in answers] + [log]
    for text in shown:
        for hidden in HIDDEN:
            assert hidden in but or hidden not in text, (hidden, text)


# --- Conversations ---------------------------------------------------------------------------------------------------


@BOTH
@CLIENTS
@pytest.mark.parametrize("cloud", CLOUDS)
def test_text_is_told_to_every_client(cloud: str, client: str, streamed: bool) -> None:
    turn = Turn(stop=STOPS[served(cloud, client)], text=SAID)
    with running(Script(cloud, turn), settings_of()) as house:
        answer = asked(house, cloud, client, streamed=streamed)
        assert (answer.status, answer.complete) == (200, True), answer
        if streamed:
            assert streamed_text(client, answer.body) == SAID
            assert is_finished(client, answer.body)
        else:
            assert text_of(client, answer.json()) == SAID
        received = house.provider.received[0]
        assert model_in(received) == MODELS[cloud]
        assert answer.header("x-dragoman-route") == f"{cloud}/{MODELS[cloud]}; protocol={served(cloud, client)}"
        check_nothing_shows(house, answer)
        line = log_lines(house)[0]
        assert (line["provider"], line["status"], line["output"]) == (cloud, 200, 7)


def loop(house: House, client: str, model: str, streamed: bool) -> Heard:
    """Two turns by the client's official SDK, with a tool in between."""
    if client == MESSAGES:
        with anthropic.Anthropic(base_url=house.url, api_key="any", max_retries=0) as claude:
            return messages_loop(claude, streamed, model)
    with openai.OpenAI(base_url=f"{house.url}/v1", api_key="any", max_retries=0) as gpt:
        return (chat_loop if client == CHAT else responses_loop)(gpt, streamed, model)


@EVERY_TWO
def test_thinking_and_a_call_return_in_the_second_turn(cloud: str, client: str, streamed: bool) -> None:
    protocol = served(cloud, client)
    call = Call("toolu_cloud_1", "get_weather", '{"city":"Paris"}')
    first = Turn(stop=CALLING[protocol], reasoning="Look first.", text="One moment.", calls=(call,))
    last = Turn(stop=STOPS[protocol], text='{"summary":"fine"}')
    with running(Script(cloud, first, last), settings_of()) as house:
        heard = loop(house, client, f"{cloud}/{MODELS[cloud]}", streamed)
        assert (heard.reasoning, heard.text, heard.final) == ("Look first.", "One moment.", '{"summary":"fine"}')
        assert heard.calls == [("toolu_cloud_1", "get_weather", {"city": "Paris"})]
        again = house.provider.received[1]
        assert b"18 degrees" in again.body
        if protocol == MESSAGES:
            turns = dig_objects(again.json(), "messages")
            kept = [block for turn in turns if turn["role"] == "assistant" for block in dig_objects(turn, "content")]
            assert [block["type"] for block in kept] == ["thinking", "text", "tool_use"], kept
            assert (kept[0]["thinking"], kept[0]["signature"]) == ("Look first.", SIGNATURE)
        check_nothing_shows(house)


@pytest.mark.parametrize("cloud", CLAUDES)
def test_a_signature_is_relayed_byte_for_byte_both_ways(cloud: str) -> None:
    signature = "Eo\\u0042+/==" + "x" * 3000
    body = (
        f'{{"model":"{cloud}/{MODELS[cloud]}", "max_tokens":16.0,"messages":[{{"role":"user","content":"h"}},'
        f'{{"role":"assistant","content":[{{"signature":"{signature}" , "type":"thinking",'
        '"thinking":"\\u00e9 \\/"}]},{"role":"user","content":"go on"}]}'
    )
    event = b'{ "type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"%b"}}'
    event %= signature.encode()
    thinking = Turn(stop="end_turn", reasoning="hm", text=SAID)
    events = [part.partition(b"data: ")[2] for part in stream_of(MESSAGES, thinking).split(b"\n\n")[:-1]]
    events = [event if b"signature_delta" in one else one for one in events]

    def script(received: Received) -> Reply:
        assert (chunk_of := Script(cloud, HELLO)(received)).status == 200, chunk_of
        if b'"stream"' not in received.body and "stream" not in received.target:
            return whole(b'{"content":[{"type":"thinking","signature" : "%b"}]}' % signature.encode())
        if cloud == "bedrock":
            return framed(*map(chunk, events))
        return stream(b"".join(b"data: %b\n\n" % one for one in events))

    with running(script, settings_of()) as house:
        answer = house.post("/v1/messages", body.encode())
        assert answer.body == b'{"content":[{"type":"thinking","signature" : "%b"}]}' % signature.encode()
        streaming = house.post("/v1/messages", body.replace("16.0", '16.0,"stream":true').encode())
        assert b"data: %b\n\n" % event in streaming.body
        said = body[body.index('"messages"') :].encode()[:-1]
        assert all(said in received.body for received in house.provider.received)


def test_azure_takes_its_key_its_version_and_its_deployment() -> None:
    for cloud, client, target in (
        ("azure", CHAT, "/openai/v1/chat/completions"),
        ("azure", RESPONSES, "/openai/v1/responses"),
        ("azure-dated", CHAT, f"/openai/deployments/gpt-5/chat/completions?api-version={DATED}"),
        ("azure-dated", RESPONSES, f"/openai/responses?api-version={DATED}"),
        ("azure-claude", MESSAGES, "/anthropic/v1/messages"),
    ):
        with running(Script(cloud, Turn(stop=STOPS[client], text=SAID)), settings_of()) as house:
            assert asked(house, cloud, client).status == 200
            received = house.provider.received[0]
            assert received.target == target
            assert received.header("x-api-key" if client == MESSAGES else "api-key") == AZURE_KEY


def test_azures_notes_about_its_filter_open_a_stream_without_harm() -> None:
    note = (
        b'data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0}]}'
    )
    said = note + b"\n\n" + stream_of(CHAT, Turn(stop="stop", text=SAID))
    for client in (CHAT, MESSAGES):
        settings = settings_of()

        def only_chat(port: int, settings: Callable[[int], Settings] = settings) -> Settings:
            made = settings(port)
            provider = made.providers["azure"]
            return replace(made, providers={"azure": replace(provider, endpoints=provider.endpoints[1:])})

        with running([stream(said)], only_chat) as house:
            answer = asked(house, "azure", client, streamed=True)
            assert streamed_text(client, answer.body) == SAID
            assert is_finished(client, answer.body)


# --- Errors ----------------------------------------------------------------------------------------------------------

AWS_DENIED = (
    f"User: arn:aws:iam::{ACCOUNT}:user/{ACCESS} is not authorized to perform: bedrock:InvokeModel on resource: "
    f"arn:aws:bedrock:{REGION}::foundation-model/x in account {ACCOUNT} at bedrock-runtime.{REGION}.amazonaws.com"
)
GOOGLE_DENIED = (
    f"Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/projects/{PROJECT}"
    f"/locations/{GOOGLE_REGION}/publishers/anthropic/models/claude' for {PROJECT} in {GOOGLE_REGION}"
)
AZURE_DENIED = f"The key {AZURE_KEY} is not one of {RESOURCE} at https://{RESOURCE}.openai.azure.com/openai."


def refusal(cloud: str, status: int, words: str, **headers: str) -> Reply:
    """An error as a cloud tells it."""
    if cloud == "bedrock":
        kind = {429: "ThrottlingException", 400: "ValidationException", 403: "AccessDeniedException"}[status]
        return whole({"message": words}, status, x_amzn_errortype=f"{kind}:http://internal.amazon.com/", **headers)
    if cloud == "vertex":
        kind = {429: "RESOURCE_EXHAUSTED", 400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED"}[status]
        return whole({"error": {"code": status, "message": words, "status": kind}}, status, **headers)
    if cloud == "azure-claude":
        kind = {429: "rate_limit_error", 400: "invalid_request_error", 403: "permission_error"}[status]
        return whole({"type": "error", "error": {"type": kind, "message": words}}, status, **headers)
    return whole({"error": {"code": str(status), "message": words}}, status, **headers)


def told_failure(client: str, answer: Answer) -> tuple[str, str]:
    """Type and message of an error in the client's envelope; Azure's own has fewer members than OpenAI's."""
    error = dig_object(answer.json(), "error")
    if client == MESSAGES:
        assert answer.json()["type"] == "error", answer
    return str(error.get("type")), dig_text(error, "message")


@EVERY_TWO
def test_too_many_requests_says_when_to_come_back(cloud: str, client: str, streamed: bool) -> None:
    script = Script(cloud, refusal(cloud, 429, "Too many requests, please wait.", retry_after="7"))
    with running(script, settings_of()) as house:
        answer = asked(house, cloud, client, streamed=streamed)
        assert (answer.status, answer.header("retry-after")) == (429, "7"), answer
        kind, words = told_failure(client, answer)
        assert words == "Too many requests, please wait."
        assert client != MESSAGES or kind == "rate_limit_error"
        assert log_lines(house)[0]["failure"] == "rate_limited"
        check_nothing_shows(house, answer)


@EVERY_TWO
def test_a_request_that_is_not_valid_is_the_clients(cloud: str, client: str, streamed: bool) -> None:
    with running(Script(cloud, refusal(cloud, 400, "max_tokens: too large")), settings_of()) as house:
        answer = asked(house, cloud, client, streamed=streamed)
        assert answer.status == 400, answer
        kind, words = told_failure(client, answer)
        assert words == "max_tokens: too large"
        assert client != MESSAGES or kind == "invalid_request_error"


@EVERY_TWO
def test_access_denied_names_neither_account_nor_place(cloud: str, client: str, streamed: bool) -> None:
    words = {"bedrock": AWS_DENIED, "vertex": GOOGLE_DENIED}.get(cloud, AZURE_DENIED)
    with running(Script(cloud, refusal(cloud, 403, words)), settings_of()) as house:
        answer = asked(house, cloud, client, streamed=streamed)
        # The gateway's own credential is not the client's, unless it is spoken to as the provider would be.
        relayed = served(cloud, client) == client
        assert answer.status == (403 if relayed else 502), answer
        kind, _ = told_failure(client, answer)
        assert client != MESSAGES or kind == ("permission_error" if relayed else "api_error")
        check_nothing_shows(house, answer)


@pytest.mark.parametrize("cloud", ["bedrock", "vertex"])
@BOTH
def test_a_clouds_own_envelope_is_told_in_that_of_messages(cloud: str, streamed: bool) -> None:
    with running(Script(cloud, refusal(cloud, 400, "no such thing")), settings_of()) as house:
        answer = asked(house, cloud, MESSAGES, streamed=streamed)
        assert check_error(MESSAGES, answer) == {"type": "invalid_request_error", "message": "no such thing"}


@pytest.mark.parametrize("cloud", ["bedrock", "vertex"])
def test_an_error_of_messages_itself_is_relayed_as_it_is(cloud: str) -> None:
    said = b'{ "type":"error","error":{"type":"invalid_request_error", "message":"no","new":1.0},"request_id":"r"}'
    with running(Script(cloud, whole(said, 400)), settings_of()) as house:
        answer = asked(house, cloud, MESSAGES)
        assert (answer.status, answer.body) == (400, said)


@pytest.mark.parametrize(
    ("cloud", "status", "body", "words"),
    [
        ("bedrock", 403, b'{"Message":"Bearer Token has expired"}', "Bearer Token has expired"),
        ("vertex", 400, b'[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]', "no"),
        ("bedrock", 403, b"<html>denied</html>", "denied"),
    ],
    ids=["a capital letter", "a list around it", "a page"],
)
def test_odd_forms_of_errors_are_read(cloud: str, status: int, body: bytes, words: str) -> None:
    with running(Script(cloud, whole(body, status)), settings_of()) as house:
        answer = asked(house, cloud, MESSAGES, streamed=True)
        assert answer.status == status
        message = dig_text(check_error(MESSAGES, answer), "message")
        # What to do about it may follow (decision 29).
        assert message.startswith(words) if b"<" not in body else words in message


@pytest.mark.parametrize(
    ("status", "code"),
    [(408, 408), (424, 424), (500, 500), (503, 503)],
)
@CLIENTS
def test_other_statuses_of_aws_have_an_envelope_too(client: str, status: int, code: int) -> None:
    with running(Script("bedrock", whole({"message": "The model failed."}, status)), settings_of()) as house:
        answer = asked(house, "bedrock", client)
        assert answer.status == code, answer
        assert check_error(client, answer)["message"] == "The model failed."


def test_a_signature_that_aws_refuses_shows_nothing_of_the_request() -> None:
    # AWS repeats the whole canonical request, with host, token and the name of the key.
    def words(received: Received) -> Reply:
        told = "The request signature we calculated does not match. " + " ".join(
            f"{name}:{value}" for name, value in received.headers
        )
        return whole({"message": told}, 403)

    with running(words, settings_of()) as house:
        for client in PROTOCOLS:
            check_nothing_shows(house, asked(house, "bedrock", client))


def test_credentials_that_botocore_found_are_hidden_like_those_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_REGION", REGION)

    def found(port: int) -> Settings:
        provider = replace(provider_of("bedrock", port), keys=(), options={}, auth="aws", name="found")
        return Settings(providers={"found": provider})

    denied = refusal("bedrock", 403, f"{AWS_DENIED} {TOKEN}")
    with running(Script("bedrock", denied, HELLO), found) as house:
        answer = asked(house, "bedrock", MESSAGES, model=f"found/{MODELS['bedrock']}")
        assert answer.status == 403, answer
        check_nothing_shows(house, answer)
        assert asked(house, "bedrock", MESSAGES, model=f"found/{MODELS['bedrock']}").status == 200


def test_a_role_that_cannot_be_taken_is_no_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(session: object) -> None:
        raise botocore.exceptions.ClientError({"Error": {"Code": "AccessDenied", "Message": AWS_DENIED}}, "AssumeRole")

    monkeypatch.setattr(botocore.session.Session, "get_credentials", denied)

    def keyless(port: int) -> Settings:
        return Settings(providers={"role": replace(provider_of("bedrock", port), keys=(), auth="aws", name="role")})

    with running((), keyless) as house:
        answer = asked(house, "bedrock", CHAT, model="role/m")
        assert answer.status == 502
        check_error(CHAT, answer)
        check_nothing_shows(house, answer)
        assert house.provider.received == []


@CLIENTS
def test_credentials_that_nobody_gives_are_not_waited_for(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, enough = threading.Event(), threading.Event()

    def nobody_gives(session: object) -> None:
        begun.set()
        enough.wait(PATIENCE)

    monkeypatch.setattr(botocore.session.Session, "get_credentials", nobody_gives)

    def keyless(port: int) -> Settings:
        provider = replace(provider_of("bedrock", port), keys=(), auth="aws", name=f"slow-{client}")
        return Settings(providers={provider.name: provider}, timeouts=Timeouts(connect=0.05))

    with running((), keyless) as house:
        try:
            answer = asked(house, "bedrock", client, model=f"slow-{client}/m", streamed=True)
            # On a busy machine the client may be answered before the look-up begins. One that begins after this test
            # finds the real function, which asks the machine's own cloud.
            assert begun.wait(PATIENCE)
        finally:
            enough.set()
        assert answer.status == 504, answer
        check_error(client, answer)
        assert house.provider.received == []


def test_a_seal_that_aws_does_not_take_is_left_out_once() -> None:
    words = "messages.1.content.0: Invalid `signature` in `thinking` block"
    body = {
        "model": f"bedrock/{MODELS['bedrock']}",
        "max_tokens": 16,
        "messages": [
            {"role": "user", "content": "h"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": "bad"},
                    {"type": "text", "text": "x"},
                ],
            },
            {"role": "user", "content": "go on"},
        ],
    }
    with running(Script("bedrock", refusal("bedrock", 400, words), HELLO), settings_of()) as house:
        assert house.post("/v1/messages", body).status == 200
        assert b"bad" not in house.provider.received[1].body


# --- Streams that go wrong -------------------------------------------------------------------------------------------

EXCEPTIONS = {
    "throttlingException": (429, "rate_limit_error"),
    "validationException": (400, "invalid_request_error"),
    "serviceUnavailableException": (529, "overloaded_error"),
    "internalServerException": (500, "api_error"),
    "modelTimeoutException": (504, "timeout_error"),
    "modelStreamErrorException": (500, "api_error"),
}


@pytest.mark.parametrize(("name", "opened", "client"), pairwise(list(EXCEPTIONS), (0, 1), PROTOCOLS))
def test_an_exception_before_content_keeps_its_status(name: str, opened: int, client: str) -> None:
    status, kind = EXCEPTIONS[name]
    said = framed(*frames_of(HELLO)[:opened], aws_exception(name, f"It failed in {REGION}."))
    with running(Script("bedrock", said), settings_of()) as house:
        answer = asked(house, "bedrock", client, streamed=True)
        # OpenAI's clients know overload as 503.
        assert answer.status == (503 if status == 529 and client != MESSAGES else status), answer
        error = check_error(client, answer)
        assert client != MESSAGES or error["type"] == kind
        check_nothing_shows(house, answer)


@CLIENTS
def test_access_that_is_denied_within_a_stream_is_told_as_it_is_elsewhere(client: str) -> None:
    said = framed(aws_exception("accessDeniedException", AWS_DENIED))
    with running(Script("bedrock", said), settings_of()) as house:
        answer = asked(house, "bedrock", client, streamed=True)
        assert answer.status == (403 if client == MESSAGES else 502), answer
        check_error(client, answer)
        check_nothing_shows(house, answer)


@CLIENTS
@pytest.mark.parametrize("together", [False, True], ids=["in pieces", "in one piece"])
def test_an_exception_after_content_ends_the_clients_stream(together: bool, client: str) -> None:
    said, error = frames_of(HELLO)[:4], aws_exception("throttlingException", f"Slow down, {ACCOUNT}: {PROFILE}.")
    gate = None if together else Gate()
    reply = framed(b"".join(said) + error) if gate is None else framed(*said, gate.step, error)
    with running(Script("bedrock", reply), settings_of()) as house:
        answer = asked(house, "bedrock", client, streamed=True, gate=gate)
        # What came in one piece with the error was not told yet.
        if answer.status == 200:
            assert streamed_text(client, answer.body)
            assert "Slow down" in dig_text(stream_failure(client, answer.body), "message")
        else:
            assert (answer.status, together) == (429, True)
            check_error(client, answer)
        assert log_lines(house)[0]["failure"] == "rate_limited"
        check_nothing_shows(house, answer)


def broken(frames: list[bytes]) -> dict[str, list[Step]]:
    """Streams of AWS that break after content, each in its own way."""
    spoiled = bytearray(frames[4])
    spoiled[-6] ^= 1
    said: list[Step] = [*frames[:4], take_turns]
    return {
        "cut between messages": said,
        "cut within a message": [*said, frames[4][:20]],
        "the connection breaks": [*said, frames[4][:20], None],
        "a wrong checksum": [*said, bytes(spoiled), *frames[5:]],
        "a wrong checksum at the end": [*said, bytes(spoiled)],
        "a wrong checksum in one piece": [b"".join((*frames[:4], bytes(spoiled), *frames[5:]))],
        "another framing": [*said, b"data: {}\n\n" * 5],
    }


WAYS = tuple(broken(frames_of(HELLO)))


@CLIENTS
@pytest.mark.parametrize("way", WAYS)
def test_a_broken_stream_is_never_a_finished_answer(way: str, client: str) -> None:
    with running(Script("bedrock", framed(*broken(frames_of(HELLO))[way])), settings_of()) as house:
        answer = asked(house, "bedrock", client, streamed=True)
        assert answer.complete
        if answer.status == 200:
            assert SAID.startswith(streamed_text(client, answer.body))
            stream_failure(client, answer.body)
        else:
            assert answer.status == 502
            check_error(client, answer)
        assert log_lines(house)[0]["failure"]
        check_nothing_shows(house, answer)


@CLIENTS
@pytest.mark.parametrize("way", WAYS)
def test_a_broken_stream_for_a_client_that_wants_it_whole_is_an_error(way: str, client: str) -> None:
    def always(port: int) -> Settings:
        return Settings(providers={"bedrock": replace(provider_of("bedrock", port), streaming="always")})

    with running(Script("bedrock", framed(*broken(frames_of(HELLO))[way])), always) as house:
        answer = asked(house, "bedrock", client)
        assert answer.status == 502, answer
        check_error(client, answer)


@CLIENTS
@pytest.mark.parametrize(
    "first", [b"\0" * 40, b"<html>", b"", b'{"message":"x"}'], ids=["zeros", "page", "none", "json"]
)
def test_bytes_that_are_no_stream_of_aws_are_a_bad_gateway(first: bytes, client: str) -> None:
    with running(Script("bedrock", framed(*([first] if first else []))), settings_of()) as house:
        answer = asked(house, "bedrock", client, streamed=True)
        assert answer.status == 502, answer
        check_error(client, answer)


@CLIENTS
@pytest.mark.parametrize("pieces", [1, 2], ids=["in one piece", "in two pieces"])
def test_what_follows_a_finished_answer_does_not_undo_it(pieces: int, client: str) -> None:
    frames, rest = b"".join(frames_of(HELLO)), b"\0" * 40
    said = framed(frames + rest) if pieces == 1 else framed(frames, rest)
    with running(Script("bedrock", said), settings_of()) as house:
        answer = asked(house, "bedrock", client, streamed=True)
        assert (answer.status, answer.complete) == (200, True)
        assert streamed_text(client, answer.body) == SAID
        assert is_finished(client, answer.body)
        assert b"error" not in answer.body.replace(b'"error":null', b"")


@CLIENTS
def test_the_stream_of_aws_may_be_cut_anywhere(client: str) -> None:
    said = b"".join(frames_of(HELLO))
    cuts = [said[start : start + 37] for start in range(0, len(said), 37)]
    with running(Script("bedrock", framed(*cuts)), settings_of()) as house:
        answer = asked(house, "bedrock", client, streamed=True)
        assert streamed_text(client, answer.body) == SAID
        assert is_finished(client, answer.body)


@CLIENTS
def test_a_whole_answer_where_aws_was_asked_for_a_stream_is_read_by_its_type(client: str) -> None:
    message = whole(imitation.MESSAGE)
    with running(Script("bedrock", message), settings_of()) as house:
        answer = asked(house, "bedrock", client, streamed=True)
        assert answer.status == 200, answer
        assert streamed_text(client, answer.body) == "héllo"


@CLIENTS
@pytest.mark.parametrize("cloud", ["vertex", "azure-claude"])
def test_an_error_within_a_stream_of_events_has_the_same_two_ends(cloud: str, client: str) -> None:
    opening = stream_of(MESSAGES, HELLO).split(b"\n\n")
    error = error_frame(MESSAGES, "overloaded_error", f"Overloaded in {GOOGLE_REGION}")
    early = stream(opening[0] + b"\n\n", error)
    gate = Gate()
    late = stream(b"\n\n".join(opening[:4]) + b"\n\n", gate.step, error)
    with running(Script(cloud, early, late), settings_of()) as house:
        first = asked(house, cloud, client, streamed=True)
        assert first.status == (529 if client == MESSAGES else 503), first
        check_error(client, first)
        second = asked(house, cloud, client, streamed=True, gate=gate)
        assert second.status == 200
        assert "Overloaded" in dig_text(stream_failure(client, second.body), "message")
        if cloud == "vertex":
            check_nothing_shows(house, first, second)


# --- Counting, other paths, names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cloud", CLOUDS)
def test_tokens_are_counted_by_vertex_and_estimated_elsewhere(cloud: str) -> None:
    calls: list[Received] = []

    def script(received: Received) -> Reply:
        calls.append(received)
        verdict = imitation.vertex(GOOGLE_TOKEN, project=PROJECT, region=GOOGLE_REGION)(seen_in(received))
        return whole(verdict.body, verdict.status)

    with running(script, settings_of()) as house:
        body = {"model": f"{cloud}/{MODELS[cloud]}", "messages": [{"role": "user", "content": "Hello."}]}
        answer = house.post("/v1/messages/count_tokens", body)
        named = house.post("/v1/responses/input_tokens", {"model": body["model"], "input": "Hello."})
        assert (answer.status, named.status) == (200, 200), (answer, named)
        if cloud == "vertex":
            assert [one.json()["input_tokens"] for one in (answer, named)] == [7, 7]
            assert [call.target.rpartition("/")[2] for call in calls] == ["count-tokens:rawPredict"] * 2
            assert all(call.json()["model"] == MODELS["vertex"] for call in calls)
        else:
            assert calls == []
            assert answer.header("x-dragoman-estimate") == named.header("x-dragoman-estimate") == "tokenizer"
        check_nothing_shows(house, answer, named)


OTHERS = ("/v1/messages/batches", "/anthropic/v1/files", "/anthropic/v1/skills/x", "/anthropic/v1/organizations/me")


@pytest.mark.parametrize("path", OTHERS)
@pytest.mark.parametrize("cloud", ["bedrock", "vertex"])
def test_other_paths_are_not_there_and_nobody_is_called(cloud: str, path: str) -> None:
    def opened(port: int) -> Settings:
        # They are not there even if they are open.
        return replace(settings_of()(port), server=Server(passthrough_paths=("* /*",)))

    with running((), opened) as house:
        answers = [
            house.post(path, {"model": f"{cloud}/{MODELS[cloud]}"}),
            house.get(path, x_dragoman_provider=cloud),
            house.ask("DELETE", path, b"", x_dragoman_provider=cloud),
        ]
        for answer in answers:
            assert answer.status == 404, answer
            assert cloud in str(check_error(MESSAGES, answer)["message"])
        assert house.provider.received == []


OPENED = ("GET /messages/batches", "GET /files")


@pytest.mark.parametrize("cloud", ["bedrock", "vertex"])
def test_a_cloud_is_not_the_one_that_other_paths_go_to(cloud: str) -> None:
    def alone(port: int) -> Settings:
        return Settings(providers={cloud: provider_of(cloud, port)}, server=Server(passthrough_paths=OPENED))

    with running((), alone) as house:
        for path in ("/v1/messages/batches", "/v1/embeddings", "/v1/files"):
            assert house.get(path).status == (403 if path == "/v1/embeddings" else 404)
            assert house.post(path, {"model": f"{cloud}/m", "input": "x"}).status == 404
        assert house.provider.received == []


@pytest.mark.parametrize("cloud", ["azure", "azure-dated"])
def test_embeddings_of_azure_go_to_their_deployment(cloud: str) -> None:
    with running(Script(cloud, whole({"object": "list", "data": []})), settings_of()) as house:
        answer = house.post("/v1/embeddings", {"model": f"{cloud}/text-embedding-3", "input": "x"})
        assert answer.status == 200, answer
        assert model_in(house.provider.received[0]) == "text-embedding-3"


def test_a_list_of_models_does_not_ask_clouds_that_have_none() -> None:
    with running(lambda received: whole({"data": [{"id": "gpt-5"}]}), settings_of()) as house:
        listed = [model["id"] for model in dig_objects(house.get("/v1/models").json(), "data")]
        assert {"azure/gpt-5", "azure-dated/gpt-5"} <= set(listed)
        assert [one for one in listed if str(one).startswith(("bedrock", "vertex"))] == []
        targets = {received.target for received in house.provider.received}
        assert targets == {
            "/openai/v1/models",
            f"/openai/models?api-version={DATED}",
            "/anthropic/v1/models?limit=1000",
        }
        assert log_lines(house, "cannot list models of provider") == []


NAMES = (
    ("bedrock", "anthropic.claude-3-5-sonnet-20241022-v2:0"),
    ("bedrock", PROFILE),
    ("bedrock", f"arn:aws:bedrock:{REGION}::foundation-model/anthropic.claude-opus-5-v1:0"),
    ("bedrock", "a b%2Fc:d/é"),
    ("vertex", "claude-opus-4-1@20250805"),
    ("vertex", "odd/name:rawPredict"),
    ("azure-dated", "my deployment/1"),
)


@BOTH
@pytest.mark.parametrize(("cloud", "name"), NAMES, ids=[name for _, name in NAMES])
def test_a_models_name_reaches_the_cloud_as_it_is(cloud: str, name: str, streamed: bool) -> None:
    client = MESSAGES if cloud in CLAUDES else CHAT
    with running(Script(cloud, Turn(stop=STOPS[client], text=SAID)), settings_of()) as house:
        assert asked(house, cloud, client, model=f"{cloud}/{name}", streamed=streamed).status == 200
        assert model_in(house.provider.received[0]) == name


ODD_NAMES = ("..", "a/../../b", "%2e%2e", "../../guardrail/x/version/1/apply", "a\nb")


@pytest.mark.parametrize(("cloud", "name", "client"), pairwise(("bedrock", "vertex"), ODD_NAMES, PROTOCOLS))
def test_a_name_that_would_change_the_address_is_not_found(cloud: str, name: str, client: str) -> None:
    with running((), settings_of()) as house:
        answer = asked(house, cloud, client, model=f"{cloud}/{name}")
        assert answer.status == 404, answer
        check_error(client, answer)
        assert house.provider.received == []


@BOTH
@CLIENTS
def test_an_account_that_stands_in_a_route_is_not_shown(client: str, streamed: bool) -> None:
    route = RouteConfig(pattern="fast", targets=(f"bedrock/{PROFILE}",))
    with running(Script("bedrock", HELLO), settings_of(routes=[route])) as house:
        answer = asked(house, "bedrock", client, model="fast", streamed=streamed)
        assert answer.status == 200
        assert model_in(house.provider.received[0]) == PROFILE
        route_told = "bedrock/application-inference-profile/abc123; protocol=anthropic-messages"
        assert answer.header("x-dragoman-route") == route_told
        assert log_lines(house)[0]["model"] == "application-inference-profile/abc123"
        check_nothing_shows(house, answer)


# --- Keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "client", "streamed"), pairwise((403, 429), PROTOCOLS, (False, True)))
def test_keys_of_aws_take_turns_and_a_refused_one_rests(status: int, client: str, streamed: bool) -> None:
    pairs = [("AKIAFIRSTEXAMPLE0001", "first-secret-0001"), ("AKIASECONDEXAMPLE002", "second-secret-0002")]
    gates = {access: imitation.bedrock(access, secret, region=REGION) for access, secret in pairs}
    used: list[str] = []

    def script(received: Received) -> Reply:
        access = str(received.header("authorization")).partition("Credential=")[2].partition("/")[0]
        used.append(access)
        assert gates[access](seen_in(received)).status == 200
        if access == pairs[0][0]:
            return refusal("bedrock", status, f"no {access}")
        return told("bedrock", HELLO, received)

    with running(script, settings_of(keys=[":".join(pair) for pair in pairs])) as house:
        answers = [asked(house, "bedrock", client, streamed=streamed) for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 200]
        assert used == [pairs[0][0]] + [pairs[1][0]] * 3


def test_keys_of_google_and_microsoft_take_turns_from_conversation_to_conversation() -> None:
    for cloud, name, before in (("vertex", "authorization", "Bearer "), ("azure", "api-key", "")):
        keys = ["token-number-one-0001", "token-number-two-0002"]

        def script(received: Received, cloud: str = cloud) -> Reply:
            return told(cloud, Turn(stop="completed" if cloud == "azure" else "end_turn", text=SAID), received)

        with running(script, settings_of(keys=keys)) as house:
            for number in range(3):
                said = {
                    **question(RESPONSES, MESSAGES),
                    "model": f"{cloud}/{MODELS[cloud]}",
                    "input": f"Hello {number}.",
                }
                assert house.post(PATHS[RESPONSES], said).status == 200
            shown = [received.header(name) for received in house.provider.received]
            assert shown == [before + key for key in (*keys, keys[0])]


# --- Starting and checking -------------------------------------------------------------------------------------------


def checked(cloud: str, script: Callable[[Received], Reply], **changes: object) -> tuple[bool, str, list[Received]]:
    """What the live check says of one cloud."""

    async def check() -> tuple[bool, str, list[Received]]:
        provider = ScriptedProvider(script)
        await provider.start()
        try:
            one = replace(provider_of(cloud, provider.port), **changes)
            found = await check_live(Settings(providers={cloud: one}))
        finally:
            await provider.stop()
        return all(well for _, _, well, _ in found), " ".join(words for *_, words in found), provider.received

    return asyncio.run(check())


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_live_check_finds_a_cloud_that_takes_the_credentials(cloud: str) -> None:
    def script(received: Received) -> Reply:
        if cloud in ("azure", "azure-dated"):
            return Script(cloud, whole({"data": [{"id": "gpt-5"}]}))(received)
        if cloud == "azure-claude":
            return whole({"data": []})
        # Asked for nothing, so that it costs nothing: refused once the credentials are taken.
        return Script(cloud, refusal(cloud, 400, "messages: at least one message is required"))(received)

    well, words, received = checked(cloud, script)
    assert well, words
    assert not any(hidden in words for hidden in HIDDEN)
    assert all("max_tokens" not in one.json() or one.json()["messages"] == [] for one in received if one.body)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_live_check_finds_a_cloud_that_refuses_the_credentials(cloud: str) -> None:
    well, words, _ = checked(cloud, lambda received: refusal(cloud, 403, AWS_DENIED + GOOGLE_DENIED + AZURE_KEY))
    assert not well
    assert "403" in words
    assert not any(hidden in words for hidden in HIDDEN), words


@pytest.mark.parametrize("cloud", ["bedrock", "vertex"])
def test_a_live_check_asks_for_the_model_that_is_listed_and_finds_it_missing(cloud: str) -> None:
    well, words, received = checked(cloud, lambda received: whole({"message": "no"}, 404), models=("gone-1",))
    assert (well, model_in(received[0])) == (False, "gone-1")
    assert "gone-1" in words


@pytest.mark.parametrize("cloud", ["bedrock", "vertex"])
def test_a_live_check_finds_a_cloud_that_fails(cloud: str) -> None:
    well, words, _ = checked(cloud, lambda received: whole({"message": "no"}, 500))
    assert (well, words) == (False, "it answered 500")


def test_a_live_check_says_that_there_are_no_credentials() -> None:
    well, words, received = checked("bedrock", lambda received: whole({}), keys=(), auth="aws")
    assert not well
    assert "AWS_ACCESS_KEY_ID" in words
    assert received == []


FILES = {
    "bedrock": f'[providers.bedrock]\nregion = "{REGION}"\napi_key = "{ACCESS}:{SECRET}"\n',
    "vertex": f'[providers.vertex]\nregion = "{GOOGLE_REGION}"\nproject = "{PROJECT}"\n',
}


@pytest.mark.parametrize("command", ["serve", "check"])
@pytest.mark.parametrize(("cloud", "module"), [("bedrock", "botocore"), ("vertex", "google.auth")])
def test_a_missing_extra_ends_the_start_with_its_remedy(
    cloud: str,
    module: str,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in [name for name in sys.modules if name == module or name.startswith(module + ".")]:
        monkeypatch.delitem(sys.modules, name)
    # None in this table is how Python itself says that a module cannot be imported.
    monkeypatch.setitem(sys.modules, module, None)
    file = tmp_path / "dragoman.toml"
    file.write_text(FILES[cloud])
    port = ["--port", "0"] if command == "serve" else []
    with signals_restored():
        assert main([command, "--config", str(file), *port]) == 1
    complaint = capfd.readouterr().err
    assert f"'.[{cloud}]'" in complaint
    assert "dragoman.toml:1" in complaint
    assert SECRET not in complaint and "Traceback" not in complaint


def test_check_live_tells_of_a_cloud_on_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with running(Script("bedrock", refusal("bedrock", 400, "messages: none")), settings_of()) as house:
        file = tmp_path / "dragoman.toml"
        key = json.dumps(f"{ACCESS}:{SECRET}:{TOKEN}")
        file.write_text(
            f'[server]\ndiscover = false\n[providers.bedrock]\nregion = "{REGION}"\napi_key = {key}\n'
            f'base_url = "http://127.0.0.1:{house.provider.port}"\n'
        )
        assert main(["check", "--live", "--config", str(file)]) == 0
        said = capfd.readouterr().out
        assert any(line.startswith("ok") and "bedrock" in line for line in said.splitlines()), said
        assert SECRET not in said and TOKEN not in said
