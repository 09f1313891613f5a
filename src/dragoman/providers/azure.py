"""Azure OpenAI transport: deployments under a resource, with a key in `api-key` or an Entra token as Bearer. Without
`api_version` the path is that of `{base}/openai/v1`, with the model in the body. With a dated version it is
`{base}/openai/deployments/{model}` (https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle). Claude
uses Messages below `{base}/anthropic`."""

from __future__ import annotations

import re
from urllib.parse import quote

from dragoman.http.upstream_call import UpstreamRequest
from dragoman.providers.http_transport import (
    MESSAGES,
    check_auth,
    check_common,
    checked,
    credential,
    filled,
    headers_of,
    joined,
    path_of,
    segment,
)
from dragoman.providers.provider import Provider
from dragoman.providers.transport_interface import Order, Transport

# In the classic style only these paths belong to a deployment; the others belong to the resource.
_OF_DEPLOYMENTS = frozenset(
    {
        *("/completions", "/chat/completions", "/embeddings", "/audio/transcriptions", "/audio/translations"),
        *("/audio/speech", "/images/generations", "/images/edits"),
    }
)
# The v1 style has versions too, but they are not dates.
_is_dated = re.compile(r"\d{4}-\d\d-\d\d(-preview)?", re.ASCII).fullmatch


async def call(order: Order) -> UpstreamRequest:
    scheme = order.provider.auth or ("x-api-key" if order.endpoint.protocol == MESSAGES else "api-key")
    headers = headers_of(order, credential(order.provider, scheme, order.key))
    return UpstreamRequest(method=order.method, url=_address(order), headers=headers, body=order.body)


def _address(order: Order) -> str:
    base = filled(order.endpoint.base_url, order.provider)
    path = checked(order.path) if order.path else path_of(order.endpoint.protocol)
    if order.endpoint.protocol == MESSAGES:
        return joined(base, path, order.query)
    # Users write the resource's address in any of these forms.
    base = base.removesuffix("/v1").removesuffix("/openai")
    version = order.provider.options.get("api_version", "")
    query = "&".join(
        part for part in (f"api-version={quote(version, safe='')}" if version else "", order.query) if part
    )
    if not _is_dated(version):
        return joined(base + "/openai/v1", path, query)
    if path in _OF_DEPLOYMENTS:
        path = f"/deployments/{segment(order.model)}{path}"
    return joined(base + "/openai", path, query)


def check(provider: Provider) -> None:
    check_common(provider)
    check_auth(provider, {"", "api-key", "x-api-key", "bearer", "none"})
    for endpoint in provider.endpoints:
        filled(endpoint.base_url, provider)


TRANSPORT = Transport(check=check, call=call)
