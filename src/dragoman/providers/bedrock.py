"""AWS Bedrock transport: Claude through InvokeModel, signed with Signature Version 4, streamed in AWS's framing. The
body is that of Messages, but the path contains the model and the choice of streaming, and the body the version and
betas: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html. Members are
spliced, so that every other byte stays. A key is `ACCESS:SECRET`, `ACCESS:SECRET:TOKEN`, or a Bedrock API key without
colons, sent as Bearer. Without a key, AWS_BEARER_TOKEN_BEDROCK is used, then botocore's credentials."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from dragoman.errors import ConfigError, Unreachable
from dragoman.http.upstream_call import HeaderList, UpstreamRequest
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.credential_cache import Lease
from dragoman.providers.eventstream import EventStreamMessage, EventStreamReader
from dragoman.providers.http_transport import (
    check_auth,
    check_common,
    check_messages_only,
    check_path,
    encode_key,
    filled,
    headers_of,
    joined,
    missing_extra,
    option,
    replaced,
    required_option,
    segment,
    version_in_body,
)
from dragoman.providers.provider import Provider
from dragoman.providers.transport_interface import Order, Transport
from dragoman.wire.json import encode
from dragoman.wire.json_spans import object_members, with_member, without
from dragoman.wire.sse import frame

_VERSION = "bedrock-2023-05-31"
_SERVICE = "bedrock"
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_TOKEN = "AWS_BEARER_TOKEN_BEDROCK"
# Bedrock has only conversations of Anthropic's API.
PATHS: frozenset[str] = frozenset()
# Interval of queries to botocore, which renews credentials early enough by itself.
_SECONDS = 60.0


class Keys(Struct, frozen=True):
    access: str
    secret: str
    token: str | None = None

    def __repr__(self) -> str:
        return "Keys(…)"


Chain = Callable[[Provider], Callable[[], tuple[Keys, float]]]


class Bedrock:
    """The transport. `chain` returns credentials if the provider has none of its own."""

    def __init__(self, chain: Chain | None = None) -> None:
        self._chain = chain or default_chain
        self._leases: dict[tuple[str, str], Lease[Keys]] = {}

    async def call(self, order: Order) -> UpstreamRequest:
        """Build and sign a call. It waits only for credentials that must be fetched."""
        provider = order.provider
        check_path(order, PATHS)
        headers = headers_of(order, [])
        verb = "invoke-with-response-stream" if order.stream else "invoke"
        url = joined(_base(order), f"/model/{segment(order.model)}/{verb}")
        body = invocation(order.body, version_in_body(order, _VERSION), betas_of(headers))
        # Both are in the body, and the framing of a stream is fixed.
        headers = [pair for pair in headers if pair[0] not in (b"anthropic-version", b"anthropic-beta")]
        headers = replaced(headers, [(b"accept", b"application/json")])
        token = bearer_of(provider, order.key)
        if token is not None:
            headers = replaced(headers, [(b"authorization", b"Bearer " + encode_key(provider, token))])
        elif provider.auth != "none":
            keys = parse_keys(provider, order.key) if order.key else await self._lease(provider).get()
            unsigned = UpstreamRequest(method=order.method, url=url, headers=headers, body=body)
            headers = replaced(headers, signature(provider, keys, unsigned))
        return UpstreamRequest(method=order.method, url=url, headers=headers, body=body)

    def _lease(self, provider: Provider) -> Lease[Keys]:
        name = (provider.name, provider.options.get("profile", ""))
        lease = self._leases.get(name)
        if lease is None:
            lease = self._leases[name] = Lease(self._chain(provider), margin=0.0)
        return lease


def _base(order: Order) -> str:
    region = option(order.provider, "region", *_REGIONS)
    if order.endpoint.base_url:
        return filled(order.endpoint.base_url, order.provider, {"region": region} if region else {})
    return f"https://bedrock-runtime.{_region(order.provider)}.amazonaws.com"


def _region(provider: Provider) -> str:
    return required_option(provider, "region", _REGIONS, "calls to Bedrock are signed for a region")


def invocation(body: bytes, version: str, betas: list[str]) -> bytes:
    """Convert a Messages body for InvokeModel. The client's version and betas stay."""
    members = object_members(body)
    names = {member.key for member in members}
    body = without(body, [member.whole for member in members if member.key in ("model", "stream")])
    if "anthropic_version" not in names:
        body = with_member(body, "anthropic_version", encode(version))
    if betas and "anthropic_beta" not in names:
        body = with_member(body, "anthropic_beta", encode([*betas]))
    return body


def betas_of(headers: HeaderList) -> list[str]:
    values = [value.decode("latin-1") for name, value in headers if name == b"anthropic-beta"]
    betas = [beta.strip() for value in values for beta in value.split(",")]
    return list(dict.fromkeys(beta for beta in betas if beta))


def bearer_of(provider: Provider, key: str | None) -> str | None:
    """The Bedrock API key, or None if the call is signed or sent without credentials."""
    if provider.auth in ("aws", "none"):
        return None
    if key:
        return key if provider.auth == "bearer" or ":" not in key else None
    token = os.environ.get(_TOKEN) or None
    if token is None and provider.auth == "bearer":
        raise _no_credentials(provider, f"set api_key, or the environment variable {_TOKEN}")
    return token


def parse_keys(provider: Provider, key: str) -> Keys:
    access, _, rest = key.partition(":")
    secret, _, token = rest.partition(":")
    if not access or not secret:
        raise ConfigError(
            key=f"providers.{provider.name}.api_key",
            problem="no pair of AWS keys",
            remedy='write "ACCESS:SECRET" or "ACCESS:SECRET:TOKEN", or a Bedrock API key with auth = "bearer"',
        )
    return Keys(access, secret, token or None)


def signature(provider: Provider, keys: Keys, call: UpstreamRequest) -> HeaderList:
    """The headers that sign a call. Headers that a proxy may change are not signed."""
    require_botocore(provider)
    from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # botocore has no types
    from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # botocore has no types
    from botocore.credentials import Credentials  # type: ignore[import-untyped]  # botocore has no types

    signed = {
        name.decode(): value.decode("latin-1")
        for name, value in call.headers
        if name == b"content-type" or name.startswith(b"x-amz")
    }
    request = AWSRequest(method=call.method, url=call.url, headers=signed, data=call.body)
    SigV4Auth(Credentials(keys.access, keys.secret, keys.token), _SERVICE, _region(provider)).add_auth(request)
    return [
        (name.lower().encode(), value.encode("latin-1"))
        for name, value in request.headers.items()
        if name.lower() not in signed
    ]


class _Frozen(Protocol):
    access_key: str
    secret_key: str
    token: str | None


class _Credentials(Protocol):
    def get_frozen_credentials(self) -> _Frozen: ...


def default_chain(provider: Provider) -> Callable[[], tuple[Keys, float]]:
    """Credentials of botocore: environment, profile, container, instance. The function may block on the network."""
    require_botocore(provider)
    import botocore.exceptions  # type: ignore[import-untyped]  # botocore has no types
    import botocore.session  # type: ignore[import-untyped]  # botocore has no types
    from botocore.credentials import RefreshableCredentials

    # Refreshable credentials are cached. Others are read again, because their files change.
    refreshable: list[_Credentials] = []

    def load() -> _Credentials:
        session = botocore.session.Session(profile=provider.options.get("profile") or None)
        credentials: _Credentials | None = session.get_credentials()
        if credentials is None:
            raise _no_credentials(provider, "set api_key, AWS_ACCESS_KEY_ID or AWS_PROFILE, or give it a role")
        if isinstance(credentials, RefreshableCredentials):
            refreshable.append(credentials)
        return credentials

    def fetch() -> tuple[Keys, float]:
        try:
            frozen = (refreshable[0] if refreshable else load()).get_frozen_credentials()
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            # The second error is AWS's own rejection of a role that may not be assumed. Its message names the account.
            refreshable.clear()
            raise Unreachable("The provider's credentials are not available.") from error
        return Keys(frozen.access_key, frozen.secret_key, frozen.token), time.time() + _SECONDS

    return fetch


def _no_credentials(provider: Provider, remedy: str) -> ConfigError:
    return ConfigError(key=f"providers.{provider.name}", problem="no AWS credentials found", remedy=remedy)


def require_botocore(provider: Provider) -> None:
    """Fail without the library that signs."""
    try:
        import botocore.auth  # noqa: F401  # asked only whether it is there
    except ImportError:
        problem = "signing calls to Bedrock needs botocore, which is not installed"
        raise missing_extra(provider, problem, "bedrock") from None


# Exceptions within a stream as error types of Messages, in lower case because AWS spells the names both ways.
_ERRORS = {
    "validationexception": "invalid_request_error",
    "accessdeniedexception": "permission_error",
    "resourcenotfoundexception": "not_found_error",
    "throttlingexception": "rate_limit_error",
    "servicequotaexceededexception": "rate_limit_error",
    "modelnotreadyexception": "overloaded_error",
    "serviceunavailableexception": "overloaded_error",
    "modeltimeoutexception": "timeout_error",
    "modelstreamerrorexception": "api_error",
    "modelerrorexception": "api_error",
    "internalserverexception": "api_error",
}


class _Chunk(Struct):
    """The payload of an event. Its padding only hides the length of tokens."""

    data: bytes = msgspec.field(default=b"", name="bytes")


class _Exception(Struct):
    message: str = ""


class _Event(Struct):
    type: str = ""


_chunk = msgspec.json.Decoder(_Chunk).decode
_exception = msgspec.json.Decoder(_Exception).decode
_event = msgspec.json.Decoder(_Event).decode


class BedrockUnframer:
    """Converts AWS's framing to the server-sent events of Messages. The JSON of each event stays unchanged."""

    __slots__ = ("_reader",)

    def __init__(self) -> None:
        self._reader = EventStreamReader()

    def feed(self, chunk: bytes) -> bytes:
        return b"".join([_to_sse(message) for message in self._reader.feed(chunk)])

    def close(self) -> bytes:
        """Return nothing if the stream ended between two messages, otherwise fail."""
        self._reader.close()
        return b""


def _to_sse(message: EventStreamMessage) -> bytes:
    headers = message.headers
    kind = headers.get(":message-type")
    if kind == "event":
        return _event_frame(message.payload) if headers.get(":event-type") == "chunk" else b""
    if kind == "exception":
        return _error_frame(headers.get(":exception-type", ""), _exception_message(message.payload))
    if kind == "error":
        return _error_frame(headers.get(":error-code", ""), headers.get(":error-message", ""))
    return _error_frame("", "The provider's stream has a message of no known type.")


def _event_frame(payload: bytes) -> bytes:
    try:
        data = _chunk(payload).data
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _error_frame("", "The provider's stream has an event that cannot be read.")
    if not data:
        return b""
    try:
        name = _event(data).type
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # The event decoder reports invalid events.
        name = ""
    return frame(data, name)


def _exception_message(payload: bytes) -> str:
    try:
        return _exception(payload).message
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""


def _error_frame(name: str, message: str) -> bytes:
    error: JsonObject = {
        "type": _ERRORS.get(name.lower(), "api_error"),
        "message": message or name or "The stream failed.",
    }
    return frame(encode({"type": "error", "error": error}), "error")


def check(provider: Provider) -> None:
    check_common(provider)
    check_auth(provider, {"", "aws", "bearer", "none"})
    check_messages_only(provider)
    for endpoint in provider.endpoints:
        if not endpoint.base_url or "{region}" in endpoint.base_url:
            _region(provider)
    for key in provider.keys or (None,):
        if provider.auth != "none" and bearer_of(provider, key) is None:
            _region(provider)
            require_botocore(provider)
            if key:
                parse_keys(provider, key)


TRANSPORT = Transport(check=check, call=Bedrock().call, paths=PATHS, unframe=BedrockUnframer)
