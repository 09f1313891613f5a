"""Clouds behind a gateway: strict about address, signature and members first, then saying what a script gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias
from urllib.parse import parse_qs, unquote

from dragoman.config.settings import RouteConfig, Settings
from dragoman.providers.catalogue import catalogue
from dragoman.providers.provider import Endpoint, Provider
from tests.gateway.harness import CHAT, MESSAGES, RESPONSES, Received, Reply, Step, stream, whole
from tests.providers import imitation
from tests.providers.imitation import Seen, Service, chunk
from tests.sdk.digging import Object
from tests.sdk.providers import Turn
from tests.sdk.providers import answer as answer_of
from tests.sdk.providers import stream as stream_of

ACCESS, SECRET, TOKEN = "AKIACLOUDEXAMPLE1234", "wJalrXUtnFEMI/K7MDENG+bPxRfiCY", "IQoJb3JpZ2luX2VjEXAMPLEtoken"
REGION, PROJECT, ACCOUNT = "eu-west-1", "acme-prod-4711", "210987654321"
GOOGLE_REGION, GOOGLE_TOKEN = "europe-west1", "ya29.a0AfB_EXAMPLEtoken0123456789"
AZURE_KEY, RESOURCE, DATED = "0123456789abcdef0123456789abcdef", "acme-resource-77", "2025-04-01-preview"
# What neither a client nor a log may ever see of them.
HIDDEN = (
    ACCESS,
    SECRET,
    TOKEN,
    REGION,
    PROJECT,
    ACCOUNT,
    GOOGLE_REGION,
    GOOGLE_TOKEN,
    AZURE_KEY,
    RESOURCE,
    "127.0.0.1",
)
EVENT_STREAM = "application/vnd.amazon.eventstream"
MODELS = {
    "bedrock": "eu.anthropic.claude-opus-5-20260101-v1:0",
    "vertex": "claude-opus-5@20260101",
    "azure": "gpt-5",
    "azure-dated": "gpt-5",
    "azure-claude": "claude-opus-5",
}
CLOUDS = tuple(MODELS)
# Those that are asked in Messages whatever the client speaks.
CLAUDES = ("bedrock", "vertex", "azure-claude")
Said: TypeAlias = Turn | Reply


def served(cloud: str, client: str) -> str:
    """The protocol in which a cloud is asked for a client."""
    if cloud in CLAUDES:
        return MESSAGES
    return client if client != MESSAGES else RESPONSES


def settings_of(*, keys: Sequence[str] = (), routes: Sequence[RouteConfig] = ()) -> Callable[[int], Settings]:
    """All clouds at one port; `keys` replace those of each."""

    def settings(port: int) -> Settings:
        providers = {name: provider_of(name, port, keys) for name in CLOUDS}
        return Settings(providers=providers, routes=tuple(routes))

    return settings


def provider_of(cloud: str, port: int, keys: Sequence[str] = ()) -> Provider:
    """A cloud as the catalogue knows it, at an address of this machine."""
    base = f"http://127.0.0.1:{port}"
    known = catalogue()[cloud.removesuffix("-dated") if cloud != "azure-claude" else "azure-anthropic"]
    own, options, protocols = {
        "bedrock": (f"{ACCESS}:{SECRET}:{TOKEN}", {"region": REGION}, (MESSAGES,)),
        "vertex": (GOOGLE_TOKEN, {"region": GOOGLE_REGION, "project": PROJECT}, (MESSAGES,)),
        "azure": (AZURE_KEY, {"resource": RESOURCE}, (RESPONSES, CHAT)),
        "azure-dated": (AZURE_KEY, {"resource": RESOURCE, "api_version": DATED}, (RESPONSES, CHAT)),
        "azure-claude": (AZURE_KEY, {"resource": RESOURCE}, (MESSAGES,)),
    }[cloud]
    bases = {"azure": f"{base}/openai/v1", "azure-dated": f"{base}/openai/v1", "azure-claude": f"{base}/anthropic"}
    return Provider(
        name=cloud,
        endpoints=tuple(Endpoint(protocol=name, base_url=bases.get(cloud, base)) for name in protocols),
        keys=tuple(keys) or (own,),
        transport="azure" if cloud.startswith("azure") else cloud,
        vendor=known.name,
        capabilities=known.capabilities,
        counts_tokens=known.counts_tokens,
        options=options,
    )


GATES: dict[str, Service] = {
    "bedrock": imitation.bedrock(ACCESS, SECRET, token=TOKEN, region=REGION),
    "vertex": imitation.vertex(GOOGLE_TOKEN, project=PROJECT, region=GOOGLE_REGION),
    "azure": imitation.azure(AZURE_KEY),
    "azure-dated": imitation.azure(AZURE_KEY, version=DATED),
    "azure-claude": imitation.azure(AZURE_KEY),
}


def seen_in(received: Received) -> Seen:
    """A request as the imitations take it."""
    return Seen(received.method, received.target, dict(received.headers), received.body)


class Script:
    """A cloud that refuses what the real one would, and else says the next thing of a script."""

    def __init__(self, cloud: str, *says: Said, gate: Service | None = None) -> None:
        self.cloud = cloud
        self._says = iter(says)
        self._gate = gate or GATES[cloud]

    def __call__(self, received: Received) -> Reply:
        """The reply to one request."""
        verdict = self._gate(seen_in(received))
        if verdict.status != 200:
            return whole(verdict.body, verdict.status, **dict(verdict.headers))
        said = next(self._says)
        return said if isinstance(said, Reply) else told(self.cloud, said, received)


def told(cloud: str, turn: Turn, received: Received) -> Reply:
    """One turn as a cloud says it, streamed if that was asked for."""
    protocol = protocol_of(received)
    if not streams(received):
        return whole(answer_of(protocol, turn))
    if cloud == "bedrock":
        return framed(*frames_of(turn))
    return stream(stream_of(protocol, turn))


def streams(received: Received) -> bool:
    """Whether a stream was asked for."""
    return received.target.endswith(("invoke-with-response-stream", "streamRawPredict")) or (
        json.loads(received.body).get("stream") is True
    )


def protocol_of(received: Received) -> str:
    """The protocol of a request, by its path."""
    path = received.target.partition("?")[0]
    return CHAT if path.endswith("/chat/completions") else RESPONSES if path.endswith("/responses") else MESSAGES


def model_in(received: Received) -> str:
    """The model that a request names, wherever it does."""
    found = re.search(r"/(?:model|models|deployments)/([^/]+?)(?::(?:stream)?[rR]awPredict)?(?:/|$)", received.target)
    return unquote(found[1]) if found else str(json.loads(received.body)["model"])


def frames_of(turn: Turn) -> list[bytes]:
    """One turn in AWS's framing, event by event."""
    events = stream_of(MESSAGES, turn).split(b"\n\n")[:-1]
    return [chunk(event.partition(b"data: ")[2]) for event in events]


def framed(*frames: Step) -> Reply:
    """A stream of AWS: each frame in a chunk of its own."""
    return Reply(headers=(("content-type", EVENT_STREAM), ("x-amzn-requestid", "of-aws")), steps=frames, chunked=True)


def versions_in(received: Received) -> list[str]:
    """The `api-version` of a request to Azure."""
    return parse_qs(received.target.partition("?")[2]).get("api-version", [])


def object_of(data: bytes) -> Object:
    """A body as an object."""
    value = json.loads(data)
    assert isinstance(value, dict)
    return value
