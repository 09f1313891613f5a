"""`GET /`: state and next steps, as a page for browsers and as JSON, by which programs recognise a gateway. The page
has no script and loads nothing. If keys are required, it names no provider to a client without one."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

from dragoman import __version__
from dragoman.config.values import address_to_call
from dragoman.errors import Busy, ClientError
from dragoman.gateway.endpoints.status import require_local_client
from dragoman.gateway.forwarding.error_responses import JSON
from dragoman.gateway.runtime import Runtime
from dragoman.http.server import ServerRequest
from dragoman.http.upstream_call import HeaderList
from dragoman.identities.identity import Rights, reading_rights_of
from dragoman.identities.permissions import limits_models, permits_provider
from dragoman.model.jsonvalue import JsonObject
from dragoman.wire.json import encode

ENDPOINTS = ("/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/models")
_BOTH: HeaderList = [(b"vary", b"Accept"), (b"cache-control", b"no-store")]
# Clients do not send more ranges.
_MAX_RANGES = 64
_quality = re.compile(r"[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*", re.IGNORECASE).fullmatch
# A host that is safe in a shell command.
_is_plain_host = re.compile(rb"[A-Za-z0-9.-]+(?::[0-9]+)?|\[[0-9A-Fa-f:.]+\](?::[0-9]+)?").fullmatch
_ECHO = "echo"
_MAX_PROVIDERS = 50

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1rem;\
background:Canvas;color:CanvasText}
h1{font-size:1.5rem;margin:0}
h2{font-size:1rem;margin:2rem 0 .5rem}
small{font-weight:normal}
p,ul{margin:.5rem 0}
pre{font:14px/1.5 ui-monospace,monospace;padding:.75rem;white-space:pre-wrap;overflow-wrap:anywhere;\
border:1px solid GrayText;border-radius:4px}
code{font:14px ui-monospace,monospace}
"""
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE: HeaderList = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    *_BOTH,
]


def send_index_page(runtime: Runtime, request: ServerRequest, *, ready: bool) -> None:
    """Respond with the page or with JSON, whichever the client prefers."""
    if prefers_html(request.header(b"accept")):
        request.respond(200, _PAGE, page(runtime, request, ready=ready).encode())
        return
    body: JsonObject = {"name": "dragoman", "version": __version__, "endpoints": [*ENDPOINTS]}
    request.respond(200, [JSON, *_BOTH], encode(body))


def prefers_html(accept: bytes | None) -> bool:
    """Whether a client prefers HTML to JSON, which wins a tie (https://www.rfc-editor.org/rfc/rfc9110#name-accept)."""
    if accept is None:
        return False
    qualities: dict[str, float] = {}
    for media_range in accept.decode("latin-1").split(",", _MAX_RANGES)[:_MAX_RANGES]:
        name, *parameters = media_range.lower().split(";")
        quality = 1.0
        for parameter in parameters:
            if parameter.strip().startswith("q="):
                match = _quality(parameter)
                quality = float(match[1]) if match is not None else 0.0
        qualities[name.strip()] = max(quality, qualities.get(name.strip(), 0.0))
    return _quality_of(qualities, "text/html") > _quality_of(qualities, "application/json")


def _quality_of(qualities: dict[str, float], kind: str) -> float:
    """The quality of a media type. The most specific range counts."""
    for name in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        if name in qualities:
            return qualities[name]
    return 0.0


def page(runtime: Runtime, request: ServerRequest, *, ready: bool) -> str:
    is_open, rights = runtime.guard.open, _reading_rights(runtime, request)
    state = "It is ready." if ready else "It is stopping: nobody new should be sent here."
    if not is_open:
        state += " It asks for a gateway key, as <code>x-api-key</code> or <code>Authorization: Bearer</code>."
    providers = [name for name in runtime.settings.providers if permits_provider(rights, name)] if rights else []
    address = _address(runtime, request)
    body = [
        "<h1>Dragoman <small>" + _escaped(__version__) + "</small></h1>",
        "<p>A gateway between programs that speak Anthropic Messages, OpenAI Chat Completions or OpenAI Responses, and "
        "providers that speak another of them.</p>",
        f"<p>{state}</p>",
        *(_providers(providers) if rights else ()),
        "<h2>Try it</h2>",
        f"<pre>{_escaped(_curl_example(address, providers, keyed=not is_open))}</pre>",
        "<p>Run a client in front of it:</p>",
        f"<pre>{_escaped(f'dragoman launch claude --gateway {address}')}</pre>",
        "<h2>Look further</h2>",
        "<p><code>dragoman status</code> says how providers are doing, <code>dragoman models</code> which names there "
        "are, and <code>dragoman check --live</code> whether every provider answers.</p>",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Dragoman</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head><body><main>" + "\n".join(body) + "</main></body></html>\n"
    )


def _reading_rights(runtime: Runtime, request: ServerRequest) -> Rights | None:
    """The rights of a client that may read the names of providers: with a key without a list of models, or on this
    machine if no keys are required; None for others."""
    try:
        key = runtime.guard.identify(request, "")
        require_local_client(runtime, request)
    except (ClientError, Busy):
        return None
    rights = reading_rights_of(key)
    return None if limits_models(rights) else rights


def _escaped(text: str) -> str:
    # Imported here, because its table of names takes memory, and few gateways serve the page.
    from html import escape

    return escape(text)


def _providers(names: Sequence[str]) -> Sequence[str]:
    more = f"<li>… {len(names)} in all</li>" if len(names) > _MAX_PROVIDERS else ""
    listed = "".join(f"<li><code>{_escaped(name)}</code></li>" for name in names[:_MAX_PROVIDERS])
    return ("<h2>Providers</h2>", f"<ul>{listed}{more}</ul>")


def _curl_example(address: str, providers: Sequence[str], *, keyed: bool) -> str:
    """An example as a shell command, which also works without a configured provider."""
    key = " -H 'x-api-key: '\"$DRAGOMAN_KEY\"" if keyed else ""
    if _ECHO not in providers:
        return f"curl {address}/v1/models{key}"
    body = '{"model":"echo/text","max_tokens":100,"messages":[{"role":"user","content":"Hello"}]}'
    return f"curl {address}/v1/messages -H 'content-type: application/json'{key} -d '{body}'"


def _address(runtime: Runtime, request: ServerRequest) -> str:
    """The address at which the client found the page."""
    host = request.header(b"host") or b""
    if not _is_plain_host(host):
        server = runtime.settings.server
        return address_to_call(server.host, server.port)
    # A proxy in front may report that the client used https. Only this client sees the result.
    scheme = "https" if request.header(b"x-forwarded-proto") == b"https" else "http"
    return f"{scheme}://{host.decode()}"
