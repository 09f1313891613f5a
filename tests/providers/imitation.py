"""Local imitations of the clouds: real sockets, as strict as the services about addresses, signatures and members."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import re
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from dragoman.http.upstream_call import UpstreamRequest


class Seen(NamedTuple):
    """A request as it arrived: the path is raw, the names of headers are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """What goes back."""

    status: int
    kind: str
    body: bytes
    headers: dict[str, str] = {}  # noqa: RUF012  # a NamedTuple's default is never written to


Service = Callable[[Seen], Answer]

MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "héllo"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
# The spacing and the order of members are on purpose unlike what a serializer would write.
EVENTS: tuple[tuple[str, bytes], ...] = (
    (
        "message_start",
        b'{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude",'
        b'"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}',
    ),
    (
        "content_block_start",
        b'{ "index":0, "type":"content_block_start","content_block":{"type":"text","text":""}}',
    ),
    ("ping", b'{"type": "ping"}'),
    (
        "content_block_delta",
        '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"h\\u00e9llo ☂"}}'.encode(),
    ),
    ("content_block_stop", b'{"type":"content_block_stop","index":0}'),
    (
        "message_delta",
        b'{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}',
    ),
    ("message_stop", b'{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":3}}'),
)
SSE = b"".join(b"event: %b\ndata: %b\n\n" % (name.encode(), data) for name, data in EVENTS)

# What a Messages body may hold on both clouds, beside `anthropic_version`.
MEMBERS = frozenset(
    {
        *("messages", "system", "max_tokens", "stop_sequences", "metadata", "thinking", "output_config"),
        *("temperature", "top_p", "top_k", "tools", "tool_choice", "cache_control", "context_management"),
    }
)


@contextmanager
def serving(service: Service) -> Iterator[tuple[str, list[Seen]]]:
    """Run a service on a free port; gives its base URL and what it saw."""
    seen: list[Seen] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Seen(self.command, self.path, headers, body)
            seen.append(request)
            answer = service(request)
            self.send_response(answer.status)
            self.send_header("content-type", answer.kind)
            self.send_header("content-length", str(len(answer.body)))
            self.send_header("connection", "close")
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(call: UpstreamRequest) -> Answer:
    """Carry out a call with nothing added but Host and Content-Length."""
    url = urlsplit(call.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
    try:
        target = url.path + (f"?{url.query}" if url.query else "")
        connection.putrequest(call.method, target, skip_accept_encoding=True)
        for name, value in call.headers:
            connection.putheader(name.decode(), value)
        connection.putheader("content-length", str(len(call.body)))
        connection.endheaders(call.body)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers["content-type"], answer.read(), dict(answer.headers.items()))
    finally:
        connection.close()


# --- AWS -------------------------------------------------------------------------------------------------------------


def bedrock(access: str, secret: str, *, token: str = "", region: str = "eu-west-1", bearer: str = "") -> Service:
    """InvokeModel for Claude, as strict as AWS."""

    def service(seen: Seen) -> Answer:
        denied = _bearer_denied(seen, bearer) if bearer else _signature_denied(seen, access, secret, token, region)
        if denied:
            return _aws_error(403, "AccessDeniedException", denied)
        found = re.fullmatch(r"/model/([^/?]+)/(invoke|invoke-with-response-stream)", seen.path)
        if found is None or seen.method != "POST":
            return _aws_error(404, "UnknownOperationException", "no such operation")
        if seen.headers.get("content-type") != "application/json":
            return _aws_error(400, "ValidationException", "content type")
        body = json.loads(seen.body)
        unknown = set(body) - MEMBERS - {"anthropic_version", "anthropic_beta"}
        if unknown:
            return _aws_error(400, "ValidationException", f"extraneous key {sorted(unknown)} is not permitted")
        # The second is what newer SDKs of Anthropic send.
        if body.get("anthropic_version") not in ("bedrock-2023-05-31", "2026-10-21"):
            return _aws_error(400, "ValidationException", "anthropic_version: invalid")
        betas = body.get("anthropic_beta", [])
        if not isinstance(betas, list) or not all(isinstance(beta, str) for beta in betas):
            return _aws_error(400, "ValidationException", "anthropic_beta: list of strings expected")
        if found[2] == "invoke":
            return Answer(200, "application/json", json.dumps(MESSAGE).encode())
        return Answer(200, "application/vnd.amazon.eventstream", b"".join(chunk(data) for _, data in EVENTS))

    return service


def _bearer_denied(seen: Seen, bearer: str) -> str:
    return "" if seen.headers.get("authorization") == f"Bearer {bearer}" else "invalid bearer token"


def _signature_denied(seen: Seen, access: str, secret: str, token: str, region: str) -> str:
    """Why a signature does not hold, by the letter of Signature Version 4 and without botocore."""
    form = r"AWS4-HMAC-SHA256 Credential=(\S+), SignedHeaders=(\S+), Signature=([0-9a-f]{64})"
    found = re.fullmatch(form, seen.headers.get("authorization", ""))
    if found is None:
        return "no signature"
    names = found[2].split(";")
    must = {"host"} | {name for name in seen.headers if name.startswith("x-amz-")}
    if names != sorted(names) or not must <= set(names):
        return "headers that must be signed are not"
    if seen.headers.get("x-amz-security-token", "") != token:
        return "the security token is wrong"
    stamp = seen.headers["x-amz-date"]
    scope = f"{stamp[:8]}/{region}/bedrock/aws4_request"
    if found[1] != f"{access}/{scope}":
        return "the credential scope is wrong"
    path, _, query = seen.path.partition("?")
    canonical = "\n".join(
        (
            seen.method,
            quote(path, safe="/~"),
            "&".join(sorted(query.split("&"))) if query else "",
            *(f"{name}:{' '.join(seen.headers[name].split())}" for name in names),
            "",
            found[2],
            hashlib.sha256(seen.body).hexdigest(),
        )
    )
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = ("AWS4" + secret).encode()
    for part in (stamp[:8], region, "bedrock", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    expected = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return "" if hmac.compare_digest(expected, found[3]) else "the signature does not match"


def _aws_error(status: int, kind: str, words: str) -> Answer:
    body = json.dumps({"message": words}).encode()
    return Answer(status, "application/json", body, {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/"})


def aws_message(headers: Sequence[tuple[str, str]], payload: bytes) -> bytes:
    """One message in AWS's framing."""
    raw = b"".join(
        aws_header(name, 7, struct.pack(">H", len(value.encode())) + value.encode()) for name, value in headers
    )
    return aws_frame(raw, payload)


def aws_header(name: str, kind: int, value: bytes) -> bytes:
    """One header in AWS's framing."""
    return bytes([len(name)]) + name.encode() + bytes([kind]) + value


def aws_frame(headers: bytes, payload: bytes) -> bytes:
    """Headers that are already bytes, and a payload, with lengths and checksums around them."""
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    frame = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return frame + struct.pack(">I", zlib.crc32(frame))


def chunk(data: bytes, padding: str = "abcdefgh") -> bytes:
    """One event of a model's stream, padded as Bedrock pads."""
    payload = b'{"bytes":"%b","p":"%b"}' % (base64.b64encode(data), padding.encode())
    kinds = ((":event-type", "chunk"), (":content-type", "application/json"), (":message-type", "event"))
    return aws_message(kinds, payload)


def aws_exception(name: str, words: str) -> bytes:
    """An exception within a stream."""
    kinds = ((":exception-type", name), (":content-type", "application/json"), (":message-type", "exception"))
    return aws_message(kinds, json.dumps({"message": words}).encode())


# --- Google ----------------------------------------------------------------------------------------------------------


def vertex(token: str, *, project: str = "my-project", region: str = "europe-west1") -> Service:
    """rawPredict for Claude, as strict as Google."""
    place = f"/v1/projects/{project}/locations/{region}/publishers/anthropic/models/"

    def service(seen: Seen) -> Answer:
        if seen.headers.get("authorization") != f"Bearer {token}":
            return _google_error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
        model, colon, verb = seen.path.removeprefix(place).rpartition(":")
        if not seen.path.startswith(place) or not colon or verb not in ("rawPredict", "streamRawPredict"):
            return _google_error(404, "NOT_FOUND", "no such method")
        body = json.loads(seen.body)
        counting = model == "count-tokens"
        unknown = set(body) - MEMBERS - {"anthropic_version", "model" if counting else "stream"}
        if unknown or ("model" in body) != counting:
            return _google_error(400, "INVALID_ARGUMENT", f"{sorted(unknown)}: Extra inputs are not permitted")
        if body.get("anthropic_version") not in ("vertex-2023-10-16", "2026-10-21"):
            return _google_error(400, "INVALID_ARGUMENT", "anthropic_version: invalid")
        if bool(body.get("stream")) != (verb == "streamRawPredict"):
            return _google_error(400, "INVALID_ARGUMENT", "stream does not fit the method")
        if counting:
            return Answer(200, "application/json", b'{"input_tokens":7}')
        if verb == "streamRawPredict":
            return Answer(200, "text/event-stream", SSE)
        return Answer(200, "application/json", json.dumps(MESSAGE).encode())

    return service


def _google_error(status: int, kind: str, words: str) -> Answer:
    error = {"error": {"code": status, "message": words, "status": kind}}
    return Answer(status, "application/json", json.dumps(error).encode())


# --- Microsoft -------------------------------------------------------------------------------------------------------

_DEPLOYED = re.compile(r"/openai/deployments/([^/?]+)/(chat/completions|embeddings)")


def azure(key: str, *, version: str = "") -> Service:
    """Azure OpenAI in its v1 style, or with a dated version in the classic one; and Claude beside it."""

    def service(seen: Seen) -> Answer:
        path, _, query = seen.path.partition("?")
        claude = path == "/anthropic/v1/messages"
        if seen.headers.get("x-api-key" if claude else "api-key") != key or "authorization" in seen.headers:
            words = "Access denied due to invalid subscription key or wrong API endpoint."
            return _azure_error(401, "401", words)
        if version and not claude:
            known = _DEPLOYED.fullmatch(path) is not None or path in ("/openai/responses", "/openai/models")
            if not known or query != f"api-version={version}":
                return _azure_error(404, "404", "Resource not found")
        elif not claude and (query or path not in _V1):
            return _azure_error(404, "404", "Resource not found")
        if seen.method == "GET":
            return Answer(200, "application/json", b'{"object":"list","data":[{"id":"gpt-5","object":"model"}]}')
        body = json.loads(seen.body)
        if "model" not in body:
            return _azure_error(400, "BadRequest", "you must provide a model parameter")
        return Answer(200, "application/json", b"{}")

    return service


_V1 = frozenset({"/openai/v1/chat/completions", "/openai/v1/responses", "/openai/v1/embeddings", "/openai/v1/models"})


def _azure_error(status: int, code: str, words: str) -> Answer:
    return Answer(status, "application/json", json.dumps({"error": {"code": code, "message": words}}).encode())
