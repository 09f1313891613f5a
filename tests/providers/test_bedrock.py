"""Claude on Bedrock: addressed and signed as AWS demands, framed back into the events of Messages.

The official SDK of Anthropic and botocore are the second opinion on addresses, bodies, signatures and streams.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import anthropic
import botocore.exceptions  # type: ignore[import-untyped]  # botocore has no types
import botocore.session  # type: ignore[import-untyped]  # botocore has no types
import httpx2
import pytest
from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder
from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # botocore has no types
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # botocore has no types
from botocore.credentials import Credentials  # type: ignore[import-untyped]  # botocore has no types

from dragoman.errors import BadResponse, ClientError, ConfigError, Truncated, Unreachable
from dragoman.http.upstream_call import HeaderList, UpstreamRequest, header
from dragoman.providers import bedrock as bedrock_module
from dragoman.providers.bedrock import (
    TRANSPORT,
    Bedrock,
    BedrockUnframer,
    Keys,
    betas_of,
    default_chain,
    invocation,
)
from dragoman.providers.provider import Provider
from dragoman.providers.transport_interface import Order
from dragoman.wire.sse import SseReader
from tests.providers.imitation import (
    EVENTS,
    MESSAGE,
    SSE,
    aws_exception,
    aws_message,
    bedrock,
    chunk,
    send,
    serving,
)
from tests.providers.orders import FAR_FUTURE, order_to, provider_of

MODEL = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
PROFILE = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc"
BODY = b'{ "model" : "m", "max_tokens":16,"stream": true,\n"messages":[{"role":"user","content":"h\\u00e9"}] }'


@pytest.fixture(autouse=True)
def _no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def amazon(base_url: str = "", *, auth: str = "", keys: tuple[str, ...] = (), **options: str) -> Provider:
    return provider_of(
        base_url,
        protocol="anthropic-messages",
        transport="bedrock",
        auth=auth,
        keys=keys,
        options={"region": "eu-west-1"} | options,
    )


def called(order: Order, transport: Bedrock | None = None) -> UpstreamRequest:
    return asyncio.run((transport or Bedrock()).call(order))


def test_the_host_is_that_of_the_region() -> None:
    url = called(order_to(amazon(), model=MODEL, key="A:S")).url
    assert url == f"https://bedrock-runtime.eu-west-1.amazonaws.com/model/{MODEL}/invoke"


def test_the_region_may_stand_in_the_base_url_or_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    provider = provider_of("https://vpce.{region}.test", protocol="anthropic-messages", transport="bedrock")
    TRANSPORT.check(provider)
    call = called(order_to(provider, key="A:S"))
    assert call.url == "https://vpce.us-east-2.test/model/m/invoke"
    assert b"/us-east-2/bedrock/aws4_request" in (header(call.headers, b"authorization") or b"")


@pytest.mark.parametrize("stream", [False, True])
def test_the_official_sdk_uses_the_same_address_and_body(stream: bool) -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(400, json={"message": "no"})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        sdk = anthropic.AnthropicBedrock(api_key="token", aws_region="eu-west-1", http_client=client)
        with pytest.raises(anthropic.BadRequestError):
            sdk.messages.create(
                model=PROFILE,
                max_tokens=16,
                messages=[{"role": "user", "content": "hé"}],
                stream=stream,
                extra_headers={"anthropic-beta": "one,two"},
            )
    headers: HeaderList = [(b"anthropic-version", b"2023-06-01"), (b"anthropic-beta", b"one, two")]
    call = called(order_to(amazon(), model=PROFILE, stream=stream, body=BODY, headers=headers, key="token"))
    theirs = json.loads(seen[0].content)
    # The SDK sends the version of the API itself where the service's own is documented.
    assert theirs.pop("anthropic_version") == "2026-10-21"
    ours = json.loads(call.body)
    assert ours.pop("anthropic_version") == "bedrock-2023-05-31"
    assert (call.url.replace("%2f", "%2F"), ours) == (str(seen[0].url), theirs)
    assert header(call.headers, b"authorization") == seen[0].headers["authorization"].encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            BODY,
            b'{ "max_tokens":16,"messages":[{"role":"user","content":"h\\u00e9"}],"anthropic_version":"v" }',
            id="every other byte stays",
        ),
        pytest.param(
            b'{"messages":[{"model":1,"stream":1.0}],"model":"a","stream":false,"model":"b"}',
            b'{"messages":[{"model":1,"stream":1.0}],"anthropic_version":"v"}',
            id="duplicates go, members of members stay",
        ),
        pytest.param(b'{"m\\u006fdel":"a"}', b'{"anthropic_version":"v"}', id="a name with escapes is the same name"),
        pytest.param(
            b'{"anthropic_version":"mine","model":"a","max_tokens":1e0}',
            b'{"anthropic_version":"mine","max_tokens":1e0}',
            id="a version that the client gave stays",
        ),
    ],
)
def test_members_come_and_go_and_nothing_else_changes(body: bytes, expected: bytes) -> None:
    assert invocation(body, "v", []) == expected


def test_betas_move_from_the_headers_into_the_body() -> None:
    provider = provider_of(
        "https://x.test",
        protocol="anthropic-messages",
        options={"region": "r"},
        headers={"X-Amzn-Bedrock-Trace": "ENABLED"},
    )
    headers: HeaderList = [
        (b"anthropic-beta", b"a, b,"),
        (b"anthropic-version", b"2023-06-01"),
        (b"anthropic-beta", b"b,c"),
    ]
    call = called(order_to(provider, headers=headers, body=b'{"model":"m"}', key="A:S"))
    assert call.body == b'{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["a","b","c"]}'
    names = [name for name, _ in call.headers]
    assert b"anthropic-beta" not in names and b"anthropic-version" not in names
    assert b"x-amzn-bedrock-trace" in (header(call.headers, b"authorization") or b"")
    assert betas_of([(b"anthropic-beta", b" , ")]) == []


def test_betas_that_the_body_names_already_stay() -> None:
    assert invocation(b'{"anthropic_beta":["x"]}', "v", ["y"]) == b'{"anthropic_beta":["x"],"anthropic_version":"v"}'


def test_the_version_may_be_an_option() -> None:
    call = called(order_to(amazon(anthropic_version="2026-10-21"), body=b"{}", key="A:S"))
    assert call.body == b'{"anthropic_version":"2026-10-21"}'


@pytest.mark.parametrize("key", ["AKIA:se/cr+et", "ASIA:se/cr+et:to/ken=="])
@pytest.mark.parametrize("model", [MODEL, PROFILE, "modèle ü"])
def test_botocore_finds_the_same_signature(key: str, model: str) -> None:
    call = called(order_to(amazon(), model=model, body=BODY, key=key))
    headers = {name.decode(): value.decode() for name, value in call.headers}
    claimed = headers.pop("authorization")
    signed = claimed.split("SignedHeaders=")[1].split(",")[0].split(";")
    request = AWSRequest("POST", call.url, {name: headers[name] for name in signed if name != "host"}, call.body)
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials(*key.split(":")), "bedrock", "eu-west-1")
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert claimed.endswith("Signature=" + signer.signature(text, request))
    assert headers.get("x-amz-security-token", "") == ":".join(key.split(":")[2:])


@pytest.mark.parametrize("token", ["", "to/ken=="])
@pytest.mark.parametrize("model", [MODEL, PROFILE, "modèle ü"])
def test_the_service_accepts_the_signature_and_the_body(model: str, token: str) -> None:
    with serving(bedrock("AKIA", "se/cr+et", token=token)) as (url, _):
        key = f"AKIA:se/cr+et:{token}" if token else "AKIA:se/cr+et"
        whole = send(called(order_to(amazon(url), model=model, body=BODY, key=key)))
        streamed = send(called(order_to(amazon(url), model=model, body=BODY, key=key, stream=True)))
    assert (whole.status, json.loads(whole.body)) == (200, MESSAGE)
    assert streamed.status == 200
    unframer = BedrockUnframer()
    assert unframer.feed(streamed.body) + unframer.close() == SSE


def test_the_service_refuses_a_wrong_secret_and_says_so_in_a_way_that_the_codec_reads() -> None:
    from dragoman.model.failure import FailureKind
    from dragoman.protocols.registry import codec_of

    with serving(bedrock("AKIA", "other")) as (url, _):
        answer = send(called(order_to(amazon(url), body=BODY, key="AKIA:secret")))
    failure = codec_of("anthropic-messages").decode_failure(answer.status, answer.body)
    assert (failure.kind, failure.message) == (FailureKind.FORBIDDEN, "the signature does not match")


def test_an_api_key_goes_as_bearer() -> None:
    with serving(bedrock("", "", bearer="ABSKxyz=")) as (url, seen):
        assert send(called(order_to(amazon(url), body=BODY, key="ABSKxyz="))).status == 200
        assert send(called(order_to(amazon(url, auth="bearer"), body=BODY, key="ABSKxyz="))).status == 200
    assert all("x-amz-date" not in request.headers for request in seen)


def test_the_imitation_takes_what_the_official_sdk_sends_and_the_sdk_reads_its_stream() -> None:
    with serving(bedrock("", "", bearer="token")) as (url, _), httpx2.Client() as client:
        sdk = anthropic.AnthropicBedrock(api_key="token", aws_region="r", base_url=url, http_client=client)
        with sdk.messages.stream(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "x"}]) as stream:
            assert stream.get_final_text() == "héllo ☂"


def test_the_environments_api_key_counts_if_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "from-environment")
    for auth in ("", "bearer"):
        call = called(order_to(amazon(auth=auth)))
        assert header(call.headers, b"authorization") == b"Bearer from-environment"
    signed = called(order_to(amazon(), key="A:S"))
    assert (header(signed.headers, b"authorization") or b"").startswith(b"AWS4-HMAC-SHA256 Credential=A/")


def test_without_auth_nothing_is_signed() -> None:
    names = {name for name, _ in called(order_to(amazon(auth="none"))).headers}
    assert not names & {b"authorization", b"x-amz-date"}


def test_credentials_are_found_where_botocore_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = FILE\naws_secret_access_key = secret\n")
    assert default_chain(amazon(profile="work"))()[0] == Keys("FILE", "secret", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    with monkeypatch.context() as patch:
        patch.setattr(bedrock_module, "time", SimpleNamespace(time=lambda: 1000.0))
        keys, until = default_chain(amazon())()
    assert keys == Keys("ENVIRONMENT", "secret", "token")
    assert until == 1000.0 + bedrock_module._SECONDS
    assert "secret" not in repr(keys)
    with serving(bedrock("ENVIRONMENT", "secret", token="token")) as (url, _):
        assert send(called(order_to(amazon(url), body=BODY))).status == 200


def test_a_rewritten_file_is_read_again(tmp_path: Path) -> None:
    fetch = default_chain(amazon(profile="work"))
    for access in ("ONE", "TWO"):
        (tmp_path / "credentials").write_text(f"[work]\naws_access_key_id = {access}\naws_secret_access_key = s\n")
        assert fetch()[0].access == access


def test_no_credentials_anywhere_is_an_error_with_a_remedy() -> None:
    with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID"):
        called(order_to(amazon()))
    with pytest.raises(ConfigError, match="AWS_BEARER_TOKEN_BEDROCK"):
        called(order_to(amazon(auth="bearer")))


def test_a_profile_that_does_not_exist_is_unreachable_and_the_words_tell_nothing() -> None:
    with pytest.raises(Unreachable) as failed:
        called(order_to(amazon(profile="nobody")))
    assert "nobody" not in str(failed.value)


def test_found_credentials_are_shared_by_calls() -> None:
    fetched: list[str] = []

    def chain(provider: Provider) -> Callable[[], tuple[Keys, float]]:
        def fetch() -> tuple[Keys, float]:
            fetched.append(provider.name)
            return Keys("A", "S"), FAR_FUTURE

        return fetch

    transport = Bedrock(chain)

    async def run() -> list[UpstreamRequest]:
        return await asyncio.gather(*(transport.call(order_to(amazon())) for _ in range(20)))

    assert all(header(call.headers, b"authorization") for call in asyncio.run(run()))
    assert fetched == ["cloud"]


@pytest.mark.parametrize("model", ["", ".", "..", "..;x", "%2e%2E", "a\nb"])
def test_a_model_that_would_change_the_address_is_unknown(model: str) -> None:
    with pytest.raises(ClientError) as refused:
        called(order_to(amazon(), model=model, key="A:S"))
    assert refused.value.status == 404


@pytest.mark.parametrize("path", ["/v1/models", "/v1/messages/batches", f"/model/{MODEL}/converse"])
def test_no_other_path_is_ever_signed(path: str) -> None:
    with pytest.raises(ClientError) as refused:
        called(order_to(amazon(), path=path, key="A:S"))
    assert refused.value.status == 404


def test_a_role_that_aws_refuses_is_unreachable_and_the_words_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(session: object) -> None:
        raise botocore.exceptions.ClientError({"Error": {"Code": "AccessDenied", "Message": PROFILE}}, "AssumeRole")

    monkeypatch.setattr(botocore.session.Session, "get_credentials", refuse)
    with pytest.raises(Unreachable) as refused:
        called(order_to(amazon()))
    assert "arn" not in str(refused.value)


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        pytest.param(amazon(region=""), r"providers\.cloud\.region: missing", id="no region"),
        pytest.param(amazon(auth="google"), r"providers\.cloud\.auth", id="another cloud's auth"),
        pytest.param(amazon(auth="aws", keys=("ABSK",)), "ACCESS:SECRET", id="an API key where a pair is wanted"),
        pytest.param(amazon(keys=("A:",)), "ACCESS:SECRET", id="half a pair"),
        pytest.param(amazon(keys=("A:\n",)), r"providers\.cloud\.api_key", id="a line end in a key"),
        pytest.param(
            provider_of("", protocol="openai-chat", transport="bedrock"), 'transport = "http"', id="another protocol"
        ),
    ],
)
def test_what_can_never_be_called_is_an_error_of_the_config(provider: Provider, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TRANSPORT.check(provider)


def test_what_can_be_called_passes_the_check() -> None:
    for keys in ((), ("A:S",), ("A:S:T", "ABSK")):
        TRANSPORT.check(amazon(keys=keys))


STREAM = b"".join(chunk(data, "p" * number) for number, (_, data) in enumerate(EVENTS))


def test_any_cut_of_the_stream_gives_the_same_events() -> None:
    for cut in range(len(STREAM) + 1):
        unframer = BedrockUnframer()
        assert unframer.feed(STREAM[:cut]) + unframer.feed(STREAM[cut:]) + unframer.close() == SSE
    unframer = BedrockUnframer()
    assert b"".join(unframer.feed(STREAM[at : at + 1]) for at in range(len(STREAM))) + unframer.close() == SSE


def test_the_official_sdk_reads_the_same_events() -> None:
    unframer = BedrockUnframer()
    ours = SseReader().feed(unframer.feed(STREAM))
    theirs = list(AWSEventStreamDecoder().iter_bytes(iter([STREAM])))
    assert [(frame.event, frame.data) for frame in ours] == [(sse.event, sse.data.encode()) for sse in theirs]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("throttlingException", "rate_limit_error"),
        ("ThrottlingException", "rate_limit_error"),
        ("modelStreamErrorException", "api_error"),
        ("validationException", "invalid_request_error"),
        ("internalServerException", "api_error"),
        ("serviceUnavailableException", "overloaded_error"),
        ("modelTimeoutException", "timeout_error"),
        ("somethingNewException", "api_error"),
    ],
)
def test_an_exception_becomes_an_error_event(name: str, kind: str) -> None:
    unframer = BedrockUnframer()
    told = unframer.feed(chunk(b'{"type":"ping"}') + aws_exception(name, 'wait a "while"'))
    assert unframer.close() == b""
    error = {"type": "error", "error": {"type": kind, "message": 'wait a "while"'}}
    ping, failed = SseReader().feed(told)
    assert (ping.event, failed.event, json.loads(failed.data)) == ("ping", "error", error)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        pytest.param(
            aws_message([(":message-type", "error"), (":error-code", "X"), (":error-message", "bad luck")], b""),
            "bad luck",
            id="an error outside of the model",
        ),
        pytest.param(
            aws_message([(":message-type", "exception"), (":exception-type", "validationException")], b"<html>"),
            "validationException",
            id="an exception without words",
        ),
        pytest.param(aws_message([], b"{}"), "no known type", id="a message without a type"),
        pytest.param(
            aws_message([(":message-type", "event"), (":event-type", "chunk")], b'{"bytes":"not base64"}'),
            "cannot be read",
            id="an event that is not base64",
        ),
        pytest.param(
            aws_message([(":message-type", "event"), (":event-type", "chunk")], b"\xff"),
            "cannot be read",
            id="an event that is not JSON",
        ),
    ],
)
def test_whatever_else_goes_wrong_is_an_error_event_too(message: bytes, words: str) -> None:
    (frame,) = SseReader().feed(BedrockUnframer().feed(message))
    assert frame.event == "error"
    assert words in json.loads(frame.data)["error"]["message"]


def test_events_of_other_kinds_and_empty_ones_say_nothing() -> None:
    other = aws_message([(":message-type", "event"), (":event-type", "initial-response")], b"{}")
    assert BedrockUnframer().feed(other + chunk(b"")) == b""


def test_an_event_without_a_readable_type_is_handed_on_without_a_name() -> None:
    told = BedrockUnframer().feed(chunk(b'{"a":1}') + chunk(b"[1,\n2]") + chunk(b"oops"))
    assert told == b'data: {"a":1}\n\ndata: [1,\ndata: 2]\n\ndata: oops\n\n'


def test_half_a_message_at_the_end_is_truncated_and_a_wrong_checksum_is_no_answer() -> None:
    unframer = BedrockUnframer()
    unframer.feed(STREAM[:-1])
    with pytest.raises(Truncated):
        unframer.close()
    with pytest.raises(BadResponse):
        BedrockUnframer().feed(STREAM[:40] + bytes([STREAM[40] ^ 1]) + STREAM[41:])
