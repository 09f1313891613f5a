"""Google Vertex transport: Claude through rawPredict, with a Google OAuth token, streamed as server-sent events. The
body is that of Messages, but the path contains the model, and the body the version:
https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai. Members are spliced. A key is an access
token. Without one, `credentials` names a service account's file; otherwise google-auth's default credentials are
used."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from urllib.parse import quote

from msgspec import Struct

from dragoman.errors import ConfigError, Unreachable
from dragoman.http.upstream_call import UpstreamRequest
from dragoman.providers.credential_cache import Lease
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
    required_option,
    segment,
    version_in_body,
)
from dragoman.providers.provider import Provider
from dragoman.providers.transport_interface import Order, Transport
from dragoman.wire.json import encode
from dragoman.wire.json_spans import object_members, with_member, without

_VERSION = "vertex-2023-10-16"
_COUNT = "/v1/messages/count_tokens"
# Paths of Anthropic's API, other than conversations, that Vertex has.
PATHS = frozenset({_COUNT})
_REGIONS = ("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION")
_PROJECTS = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
# Seconds before its end at which a token is renewed.
_MARGIN = 300.0
_HOSTS = {
    "global": "aiplatform.googleapis.com",
    "us": "aiplatform.us.rep.googleapis.com",
    "eu": "aiplatform.eu.rep.googleapis.com",
}


class Grant(Struct, frozen=True):
    """A token, and its owner's project, if known."""

    token: str
    project: str = ""

    def __repr__(self) -> str:
        return "Grant(…)"


Granting = Callable[[Provider], Callable[[], tuple[Grant, float]]]


class Vertex:
    """The transport. `granting` returns tokens if the provider has no key."""

    def __init__(self, granting: Granting | None = None) -> None:
        self._granting = granting or google_grants
        self._leases: dict[tuple[str, str], Lease[Grant]] = {}

    async def call(self, order: Order) -> UpstreamRequest:
        """Build a call with a token. It waits only for a token that must be fetched."""
        provider = order.provider
        check_path(order, PATHS)
        grant = Grant(order.key) if order.key else Grant("")
        if not order.key and provider.auth != "none":
            grant = await self._granted(provider).get()
        headers = headers_of(
            order, [(b"authorization", b"Bearer " + encode_key(provider, grant.token))] if grant.token else []
        )
        body = prediction(order.body, version_in_body(order, _VERSION), keep_model=order.path == _COUNT)
        # The version is in the body; the betas stay in the header.
        headers = [pair for pair in headers if pair[0] != b"anthropic-version"]
        return UpstreamRequest(method=order.method, url=_address(order, grant), headers=headers, body=body)

    def _granted(self, provider: Provider) -> Lease[Grant]:
        name = (provider.name, provider.options.get("credentials", ""))
        lease = self._leases.get(name)
        if lease is None:
            lease = self._leases[name] = Lease(self._granting(provider), margin=_MARGIN)
        return lease


def _address(order: Order, grant: Grant) -> str:
    provider = order.provider
    region = _region(provider)
    if order.endpoint.base_url:
        base = filled(order.endpoint.base_url, provider, {"region": region})
    else:
        base = "https://" + (_HOSTS.get(region) or f"{region}-aiplatform.googleapis.com")
    project = grant.project if not option(provider, "project", *_PROJECTS) else ""
    project = project or required_option(provider, "project", _PROJECTS, "calls to Vertex belong to one")
    if order.path == _COUNT:
        verb = "count-tokens:rawPredict"
    else:
        # The verb follows the last colon, so the model's name must not contain one.
        verb = segment(order.model).replace(":", "%3A") + (":streamRawPredict" if order.stream else ":rawPredict")
    place = f"/v1/projects/{quote(project, safe=':')}/locations/{quote(region, safe='')}"
    return joined(base, f"{place}/publishers/anthropic/models/{verb}")


def _region(provider: Provider) -> str:
    return required_option(provider, "region", _REGIONS, "calls to Vertex go to one, or to global")


def prediction(body: bytes, version: str, *, keep_model: bool) -> bytes:
    """Convert a Messages body for rawPredict. Only token counting names the model in the body."""
    members = object_members(body)
    if not keep_model:
        body = without(body, [member.whole for member in members if member.key == "model"])
    if all(member.key != "anthropic_version" for member in members):
        body = with_member(body, "anthropic_version", encode(version))
    return body


def google_grants(provider: Provider) -> Callable[[], tuple[Grant, float]]:
    """Tokens of google-auth, from a service account's file or its default. The function blocks on the network."""
    require_google(provider)
    import google.auth
    from google.auth.credentials import Credentials
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
    from google.auth.transport.requests import Request
    from google.oauth2.service_account import Credentials as ServiceAccount

    file = provider.options.get("credentials", "")

    def load() -> tuple[Credentials, str]:
        if file:
            account: ServiceAccount = ServiceAccount.from_service_account_file(  # type: ignore[no-untyped-call]  # no types
                file, scopes=[_SCOPE]
            )
            return account, account.project_id or ""
        credentials, project = google.auth.default(scopes=[_SCOPE])
        return credentials, project or ""

    def fetch() -> tuple[Grant, float]:
        # Loaded each time, about once an hour, because key files are replaced while the gateway runs.
        try:
            credentials, project = load()
        except (DefaultCredentialsError, OSError, ValueError) as error:
            raise _no_credentials(provider) from error
        try:
            credentials.refresh(Request())  # type: ignore[no-untyped-call]  # google-auth has no types here
        except GoogleAuthError as error:
            raise Unreachable("The provider's credentials are not available.") from error
        if not credentials.token or credentials.expiry is None:
            raise Unreachable("The provider's credentials gave no token.")
        return Grant(credentials.token, project), float(calendar.timegm(credentials.expiry.timetuple()))

    return fetch


def _no_credentials(provider: Provider) -> ConfigError:
    named = "credentials" in provider.options
    return ConfigError(
        key=f"providers.{provider.name}.credentials",
        problem="no service account in this file" if named else "no Google credentials found",
        remedy="name the key file of a service account, or log in with gcloud auth application-default login",
    )


def require_google(provider: Provider) -> None:
    """Fail without the library that fetches tokens."""
    try:
        import google.auth.transport.requests  # noqa: F401  # asked only whether it is there
    except ImportError:
        problem = "tokens for Vertex need google-auth and requests, which are not installed"
        raise missing_extra(provider, problem, "vertex") from None


def check(provider: Provider) -> None:
    """Reject a provider that cannot be addressed or has no way to get a token."""
    check_common(provider)
    check_auth(provider, {"", "google", "bearer", "none"})
    check_messages_only(provider)
    region = _region(provider)
    for endpoint in provider.endpoints:
        filled(endpoint.base_url, provider, {"region": region})
    if not provider.keys and provider.auth != "none":
        require_google(provider)
    else:
        required_option(provider, "project", _PROJECTS, "a ready token does not tell it")


TRANSPORT = Transport(check=check, call=Vertex().call, paths=PATHS)
