"""Claude on Vertex: addressed as Google demands, with tokens fetched by google-auth and shared until they run out."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs

import anthropic
import httpx2
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from google.auth import _helpers as google_helpers

from dragoman.errors import ClientError, ConfigError, Unreachable
from dragoman.http.upstream_call import HeaderList, UpstreamRequest, header
from dragoman.providers.provider import Provider
from dragoman.providers.transport_interface import Order
from dragoman.providers.vertex import TRANSPORT, Grant, Vertex, google_grants, prediction
from tests.providers.imitation import MESSAGE, SSE, Answer, Seen, Service, send, serving, vertex
from tests.providers.orders import FAR_FUTURE, order_to, provider_of

MODEL = "claude-sonnet-4-5@20250929"
BODY = b'{"model":"m","max_tokens":16, "messages":[{"role":"user","content":"h\\u00e9"}]}'
STREAMED = BODY[:-1] + b',"stream":true}'


@pytest.fixture(autouse=True)
def _no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION", "ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def google(base_url: str = "", *, auth: str = "", keys: tuple[str, ...] = (), **options: str) -> Provider:
    return provider_of(
        base_url,
        protocol="anthropic-messages",
        transport="vertex",
        auth=auth,
        keys=keys,
        options={"region": "europe-west1", "project": "my-project"} | options,
    )


def called(order: Order, transport: Vertex | None = None) -> UpstreamRequest:
    return asyncio.run((transport or Vertex()).call(order))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("region", ["europe-west1", "global", "us", "eu"])
def test_the_official_sdk_uses_the_same_address_and_body(region: str, stream: bool) -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(400, json={})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        sdk = anthropic.AnthropicVertex(
            region=region, project_id="my-project", access_token="token", http_client=client, max_retries=0
        )
        with pytest.raises(anthropic.BadRequestError):
            sdk.messages.create(
                model=MODEL,
                max_tokens=16,
                messages=[{"role": "user", "content": "hé"}],
                stream=stream,
                extra_headers={"anthropic-beta": "one"},
            )
        with pytest.raises(anthropic.BadRequestError):
            sdk.messages.count_tokens(model=MODEL, messages=[])
    headers: HeaderList = [(b"anthropic-version", b"2023-06-01"), (b"anthropic-beta", b"one")]
    body = STREAMED if stream else BODY[:-1] + b',"stream":false}'
    call = called(order_to(google(region=region), model=MODEL, stream=stream, body=body, headers=headers, key="token"))
    counting = called(
        order_to(google(region=region), body=b'{"model":"x"}', path="/v1/messages/count_tokens", key="token")
    )
    theirs, ours = json.loads(seen[0].content), json.loads(call.body)
    # The SDK sends the version of the API itself where the service's own is documented.
    assert (theirs.pop("anthropic_version"), ours.pop("anthropic_version")) == ("2026-10-21", "vertex-2023-10-16")
    assert (call.url, ours) == (str(seen[0].url), theirs)
    assert counting.url == str(seen[1].url)
    for name in ("authorization", "anthropic-beta", "anthropic-version"):
        found = header(call.headers, name.encode())
        assert (found.decode() if found is not None else None) == seen[0].headers.get(name)


@pytest.mark.parametrize("base_url", ["https://x.test", "https://x.test/v1", "https://x.test/v1/"])
def test_a_base_url_may_end_in_the_version_or_not(base_url: str) -> None:
    url = called(order_to(google(base_url), model=MODEL, key="t")).url
    place = "projects/my-project/locations/europe-west1/publishers/anthropic/models"
    assert url == f"https://x.test/v1/{place}/{MODEL}:rawPredict"


def test_region_and_project_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_ML_REGION", "global")
    monkeypatch.setenv("ANTHROPIC_VERTEX_PROJECT_ID", "other")
    provider = provider_of("", protocol="anthropic-messages", transport="vertex", keys=("t",))
    TRANSPORT.check(provider)
    url = called(order_to(provider, key="t")).url
    assert url.startswith("https://aiplatform.googleapis.com/v1/projects/other/locations/global/publishers/")


@pytest.mark.parametrize(
    ("body", "keep_model", "expected"),
    [
        (b'{ "model":"a","stream":true, "model":"b"}', False, b'{ "stream":true,"anthropic_version":"v"}'),
        (b'{"model":"a","t":1.0}', True, b'{"model":"a","t":1.0,"anthropic_version":"v"}'),
        (b'{"model":"a","anthropic_version":"mine"}', False, b'{"anthropic_version":"mine"}'),
    ],
)
def test_members_come_and_go_and_nothing_else_changes(body: bytes, keep_model: bool, expected: bytes) -> None:
    assert prediction(body, "v", keep_model=keep_model) == expected


def test_the_service_accepts_whole_streamed_and_counting_calls() -> None:
    with serving(vertex("token")) as (url, _):
        whole = send(called(order_to(google(url), model=MODEL, body=BODY, key="token")))
        streamed = send(called(order_to(google(url), model=MODEL, body=STREAMED, stream=True, key="token")))
        path = "/v1/messages/count_tokens"
        counted = send(called(order_to(google(url), model=MODEL, body=BODY, path=path, key="token")))
        refused = send(called(order_to(google(url), model=MODEL, body=BODY, key="other")))
    assert (whole.status, json.loads(whole.body)) == (200, MESSAGE)
    assert (streamed.status, streamed.body) == (200, SSE)
    assert (counted.status, counted.body) == (200, b'{"input_tokens":7}')
    assert refused.status == 401


def test_the_imitation_takes_what_the_official_sdk_sends() -> None:
    with serving(vertex("token")) as (url, _), httpx2.Client() as client:
        sdk = anthropic.AnthropicVertex(
            region="europe-west1",
            project_id="my-project",
            access_token="token",
            base_url=url + "/v1",
            http_client=client,
        )
        with sdk.messages.stream(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "x"}]) as stream:
            assert stream.get_final_text() == "héllo ☂"


class Bank:
    """A token server that checks the signature of each assertion and counts what it gave."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.given = 0
        self.status = 200

    def __call__(self, seen: Seen) -> Answer:
        if self.status != 200:
            return Answer(self.status, "application/json", b'{"error":"invalid_grant"}')
        form = parse_qs(seen.body.decode())
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        said, _, signature = form["assertion"][0].rpartition(".")
        signed = base64.urlsafe_b64decode(signature + "==")
        self.key.public_key().verify(signed, said.encode(), padding.PKCS1v15(), hashes.SHA256())
        claims = json.loads(base64.urlsafe_b64decode(said.split(".")[1] + "=="))
        assert claims["iss"] == "me@example.org"
        assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
        self.given += 1
        token = {"access_token": f"token-{self.given}", "expires_in": 3600, "token_type": "Bearer"}
        return Answer(200, "application/json", json.dumps(token).encode())

    def account(self, file: Path, url: str) -> str:
        """Write the file of a service account whose tokens come from here."""
        private = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {
            "type": "service_account",
            "project_id": "project-of-the-account",
            "private_key_id": "1",
            "private_key": private.decode(),
            "client_email": "me@example.org",
            "token_uri": url + "/token",
        }
        file.write_text(json.dumps(account))
        return str(file)


def test_a_service_accounts_token_is_fetched_once_and_shared(tmp_path: Path) -> None:
    bank = Bank()
    service: Service = vertex("token-1", project="project-of-the-account")
    with serving(bank) as (bank_url, _), serving(service) as (url, _):
        provider = google(url, project="", credentials=bank.account(tmp_path / "account.json", bank_url))
        TRANSPORT.check(provider)
        transport = Vertex()

        async def run() -> list[UpstreamRequest]:
            first = await asyncio.gather(*(transport.call(order_to(provider, body=BODY)) for _ in range(10)))
            return [*first, await transport.call(order_to(provider, body=BODY))]

        calls = asyncio.run(run())
        assert [send(call).status for call in (calls[0], calls[-1])] == [200, 200]
    assert {header(call.headers, b"authorization") for call in calls} == {b"Bearer token-1"}
    assert bank.given == 1


def test_the_default_of_google_auth_is_found_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bank = Bank()
    with serving(bank) as (url, _):
        file = bank.account(tmp_path / "account.json", url)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
        monkeypatch.setattr(google_helpers, "utcnow", lambda: datetime(2030, 1, 1))
        grant, until = google_grants(google())()
    assert grant == Grant("token-1", "project-of-the-account")
    assert until == datetime(2030, 1, 1, 1, tzinfo=UTC).timestamp()
    assert "token" not in repr(grant)


def test_a_token_server_that_refuses_is_unreachable_and_the_words_tell_nothing(tmp_path: Path) -> None:
    bank = Bank()
    bank.status = 400
    with serving(bank) as (url, _):
        provider = google(credentials=bank.account(tmp_path / "account.json", url))
        with pytest.raises(Unreachable) as failed:
            called(order_to(provider))
    assert str(failed.value) == "The provider's credentials are not available."


def test_credentials_that_are_not_there_are_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{}")
    for provider in (
        google(),
        google(credentials=str(tmp_path / "nothing.json")),
        google(credentials=str(tmp_path / "broken.json")),
    ):
        with pytest.raises(ConfigError, match="gcloud auth application-default login"):
            called(order_to(provider))


def test_a_token_that_ran_out_is_fetched_again_and_a_good_one_is_kept() -> None:
    ends = iter((0.0, FAR_FUTURE))
    given: list[float] = []

    def granting(provider: Provider) -> Callable[[], tuple[Grant, float]]:
        def fetch() -> tuple[Grant, float]:
            given.append(next(ends))
            return Grant(f"t{len(given)}", "p"), given[-1]

        return fetch

    transport = Vertex(granting)

    async def run() -> list[bytes | None]:
        calls = [await transport.call(order_to(google())) for _ in range(3)]
        return [header(call.headers, b"authorization") for call in calls]

    assert asyncio.run(run()) == [b"Bearer t1", b"Bearer t2", b"Bearer t2"]


def test_without_auth_no_token_is_fetched() -> None:
    assert header(called(order_to(google(auth="none"))).headers, b"authorization") is None


@pytest.mark.parametrize("path", ["/v1/models", "/v1/messages/batches", "/projects"])
def test_no_other_path_ever_gets_the_token(path: str) -> None:
    with pytest.raises(ClientError) as refused:
        called(order_to(google("https://x.test/v1"), path=path, method="GET", body=b"", key="t"))
    assert refused.value.status == 404


@pytest.mark.parametrize("model", ["", "..", "a\nb"])
def test_a_model_that_would_change_the_address_is_unknown(model: str) -> None:
    with pytest.raises(ClientError) as refused:
        called(order_to(google(), model=model, key="t"))
    assert refused.value.status == 404


def test_a_model_cannot_bring_its_own_verb() -> None:
    url = called(order_to(google("https://x.test"), model="a/b:predict", key="t")).url
    assert url.endswith("/models/a%2Fb%3Apredict:rawPredict")


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        pytest.param(google(region=""), r"providers\.cloud\.region: missing", id="no region"),
        pytest.param(
            google(project="", keys=("t",)), r"providers\.cloud\.project: missing", id="a token but no project"
        ),
        pytest.param(google(auth="aws"), r"providers\.cloud\.auth", id="another cloud's auth"),
        pytest.param(
            provider_of("", protocol="openai-chat", transport="vertex"), 'transport = "http"', id="another protocol"
        ),
    ],
)
def test_what_can_never_be_called_is_an_error_of_the_config(provider: Provider, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TRANSPORT.check(provider)


def test_a_project_that_nobody_names_is_an_error_of_the_config() -> None:
    def granting(provider: Provider) -> Callable[[], tuple[Grant, float]]:
        return lambda: (Grant("t"), FAR_FUTURE)

    with pytest.raises(ConfigError, match=r"providers\.cloud\.project: missing"):
        called(order_to(google(project="")), Vertex(granting))
