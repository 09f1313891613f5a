"""What providers say who fail: replies, by the protocol that they are asked in."""

from __future__ import annotations

import json
from collections.abc import Callable

from msgspec import Struct

from tests.gateway.harness import CHAT, MESSAGES, RESPONSES, Reply, Step, whole
from tests.gateway.harness import stream as streamed
from tests.gateway.says import SAID, error_body, error_frame, frames, opening, streams, tells, turn
from tests.sdk.digging import Object
from tests.sdk.providers import answer
from tests.sdk.samples import as_stream

MESSAGE = "no, said the provider"
_TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
# Types of errors: that of Messages, and that of the others.
WRONG = ("invalid_request_error", "invalid_request_error")
SERVER = ("api_error", "server_error")
BUSY = ("overloaded_error", "service_unavailable_error")
OFTEN = ("rate_limit_error", "rate_limit_error")
UNKNOWN = ("authentication_error", "invalid_request_error")
FORBIDDEN = ("permission_error", "invalid_request_error")
MISSING = ("not_found_error", "invalid_request_error")
UNPAID = ("billing_error", "insufficient_quota")
# How many frames of a stream say that it is whole.
_ENDINGS = {MESSAGES: 2, CHAT: 3, RESPONSES: 2}


class Asked(Struct, frozen=True, kw_only=True):
    """A request to a provider: in which protocol, whether for a stream, and how many came before it."""

    protocol: str
    stream: bool
    count: int = 0


Says = Callable[[Asked], Reply]


# Replies.


def raw(*steps: Step) -> Says:
    """Bytes in the place of a reply, or none."""
    return lambda asked: Reply(raw=True, steps=steps)


def refuses(
    status: int, kinds: tuple[str, str], code: str | None = None, message: str = MESSAGE, **headers: str
) -> Says:
    """An error in the protocol's own form; Messages has no codes."""

    def says(asked: Asked) -> Reply:
        kind = kinds[0] if asked.protocol == MESSAGES else kinds[1]
        return whole(error_body(asked.protocol, kind, message, code), status, **headers)

    return says


def page(status: int) -> Says:
    """Something for people, as proxies say it."""
    text = b"<html><head><title>Sorry</title></head><body><h1>Sorry</h1></body></html>"
    return lambda asked: Reply(status=status, headers=(("content-type", "text/html"),), steps=(text,))


def speaks(*speeches: Callable[[str], bytes], between: Step = 0.0, then: tuple[Step, ...] = ()) -> Says:
    """A stream: what is said in the protocol's words, with a step between, then what is done."""

    def says(asked: Asked) -> Reply:
        steps: list[Step] = [step for speech in speeches for step in (between, speech(asked.protocol))]
        return streamed(*steps[1:], *then)

    return says


def answers(asked: Asked) -> Reply:
    """A right answer."""
    return well(asked, SAID)


def well(asked: Asked, text: str) -> Reply:
    """A right answer with a text."""
    return streams(asked.protocol, text) if asked.stream else tells(asked.protocol, text)


def sometimes(right: Callable[[int], bool]) -> Says:
    """A right answer to some requests, an error to the others."""
    return lambda asked: answers(asked) if right(asked.count) else refuses(500, SERVER)(asked)


# What is no error everywhere.


def overflow(asked: Asked) -> Reply:
    """The request is too long for the model."""
    code = None if asked.protocol == MESSAGES else "context_length_exceeded"
    return refuses(400, WRONG, code, _TOO_LONG)(asked)


def content_filter(asked: Asked) -> Reply:
    """Refused for its content; Messages has no code for that."""
    code = None if asked.protocol == MESSAGES else "content_filter"
    return refuses(400, WRONG, code, "Output blocked by content filtering policy")(asked)


def no_money(asked: Asked) -> Reply:
    """The account is empty, in the form that each service has for it."""
    if asked.protocol == MESSAGES:
        return refuses(400, WRONG, None, "Your credit balance is too low to access the Anthropic API.")(asked)
    return refuses(429, UNPAID, "insufficient_quota")(asked)


# Parts of streams.


def overloaded(protocol: str) -> bytes:
    """An error event that names overload."""
    return error_frame(protocol, BUSY[0] if protocol == MESSAGES else BUSY[1], MESSAGE, "server_is_overloaded")


def failed(protocol: str) -> bytes:
    """The event by which a stream says that there will be no answer."""
    if protocol != RESPONSES:
        return error_frame(protocol, SERVER[0] if protocol == MESSAGES else SERVER[1], MESSAGE)
    error: Object = {"code": "server_error", "message": MESSAGE}
    gone: Object = {"status": "failed", "output": [], "error": error, "usage": None, "completed_at": None}
    response: Object = {**answer(protocol, turn(protocol)), **gone}
    return as_stream(protocol, [{"type": "response.failed", "response": response, "sequence_number": 0}])


def ping(protocol: str) -> bytes:
    """Nothing, so that nobody hangs up."""
    return b'event: ping\ndata: {"type": "ping"}\n\n' if protocol == MESSAGES else b": ping\n\n"


def half_an_event(protocol: str) -> bytes:
    """An opening that is cut."""
    first = frames(protocol)[0]
    return first[: len(first) // 2]


def all_but_the_end(protocol: str) -> bytes:
    """Every word of an answer, without the frames that say that it is whole."""
    return b"".join(frames(protocol)[: -_ENDINGS[protocol]])


def opened_twice(protocol: str) -> bytes:
    """A right answer whose opening comes again."""
    return opening(protocol) + b"".join(frames(protocol))


def half_a_body(asked: Asked) -> Reply:
    """A whole answer that is no JSON, since it is cut."""
    data = json.dumps(answer(asked.protocol, turn(asked.protocol))).encode()
    return whole(data[: len(data) // 2])
