"""What the clients send: requests as bytes, with a place for the mark by which a client knows its own answer again."""

from __future__ import annotations

from functools import cache
from itertools import count

from msgspec import Struct, json

from bench.gateway.cases import HELD, LONG, PACED, SHORT, WHOLE, Case
from bench.workloads import CHAT, MESSAGES, MODELS, RESPONSES, conversation, request
from dragoman.model.jsonvalue import JsonObject

PATHS = {MESSAGES: b"/v1/messages", CHAT: b"/v1/chat/completions", RESPONSES: b"/v1/responses"}
# A mark is this, one letter that tells the provider how to answer, and a number that no other request has.
SIGN = b"markbench"
MARK_LENGTH = len(SIGN) + 1 + 12
# How the gateway is opened; the provider does not look at it.
GATEWAY_KEY = "sk-bench-0f4c1b7a2d9e"
_LETTERS = {WHOLE: b"w", PACED: b"p", SHORT: b"s", HELD: b"h"}
_NUMBERS = count()
_KEY_HEADERS = {
    MESSAGES: b"x-api-key: %b\r\nanthropic-version: 2023-06-01\r\n",
    CHAT: b"authorization: Bearer %b\r\n",
    RESPONSES: b"authorization: Bearer %b\r\n",
}


class Question(Struct, frozen=True, kw_only=True):
    """A request cut in two where its mark belongs; `head` begins with the request line."""

    client: str
    mode: str
    head: bytes
    tail: bytes

    def marked(self, mark: bytes) -> bytes:
        """The request with this mark in it."""
        return self.head + mark + self.tail


def new_mark(mode: str) -> bytes:
    """A mark that no other request of this run has."""
    if mode.startswith(LONG):
        return b"%bl%06x%06x" % (SIGN, int(mode.removeprefix(LONG)), next(_NUMBERS))
    return b"%b%b%012x" % (SIGN, _LETTERS.get(mode, b"b"), next(_NUMBERS))


def chunks_of(mark: bytes) -> int:
    """The number of chunks that the mark of a long stream asks for."""
    return int(mark[len(SIGN) + 1 : len(SIGN) + 7], 16)


def find_mark(body: bytes) -> bytes | None:
    """The mark in a request, if it has one."""
    start = body.find(SIGN)
    return body[start : start + MARK_LENGTH] if start >= 0 else None


@cache
def question(case: Case, port: int, base: bytes = b"", prefix: str = "") -> Question:
    """The request of a case, to the gateway on that port; `base` comes before its path, `prefix` before its model."""
    return cut(case, port, body(case, prefix), base)


def cut(case: Case, port: int, content: bytes, base: bytes = b"") -> Question:
    """The request with this body, which has the sign where the mark belongs."""
    head, _, tail = content.partition(SIGN)
    length = len(head) + MARK_LENGTH + len(tail)
    lines = (
        b"POST %b%b HTTP/1.1\r\n" % (base, PATHS[case.client]),
        b"host: 127.0.0.1:%d\r\n" % port,
        b"accept: application/json\r\ncontent-type: application/json\r\nuser-agent: bench\r\n",
        _KEY_HEADERS[case.client] % GATEWAY_KEY.encode(),
        b"content-length: %d\r\n\r\n" % length,
    )
    return Question(client=case.client, mode=case.mode, head=b"".join(lines) + head, tail=tail)


def body(case: Case, prefix: str = "") -> bytes:
    """The body of a case's request, with the sign where the mark belongs: in the user's first words, or in one more
    message at the end if requests repeat their history."""
    said: JsonObject = json.decode(request(case.workload, case.client))
    said["model"] = prefix + model(case)
    if case.mode == WHOLE:
        said.pop("stream")
        said.pop("stream_options", None)
    if case.repeats:
        history = said["input" if case.client == RESPONSES else "messages"]
        assert isinstance(history, list)
        history.append({"role": "user", "content": f"{SIGN.decode()} Go on."})
        return json.encode(said)
    text = json.encode(conversation(case.workload).turns[0].prompts[-1])[1:-1]
    return json.encode(said).replace(text, SIGN + b" " + text, 1)


def model(case: Case) -> str:
    """The model that is asked for: clients name it as the provider does, so that a relay changes nothing."""
    return MODELS[case.provider] + ("-tls" if case.tls else "") + (f"-{case.line}" if case.line else "")
