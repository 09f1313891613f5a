"""A gateway between the official SDKs and a provider as strict as the real services, all on real sockets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import anthropic
import openai

from dragoman.config.settings import Settings
from dragoman.mock.strict.checks import record_response
from dragoman.mock.strict.common import Issued
from dragoman.wire.json import decode_object
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    RESPONSES,
    House,
    Received,
    Reply,
    running,
    settings_for,
    stream,
    whole,
)
from tests.gateway.strictness import Turned, protocol_at, refusal_of
from tests.sdk.digging import Object
from tests.sdk.providers import ENCRYPTED, SIGNATURE, Turn, answer
from tests.sdk.providers import stream as stream_of
from tests.sdk.samples import as_stream, events_of
from tests.waiting import LIMIT

CLIENT_KEY = "sk-client-fedcba9876543210"
COOKIE = "session=do-not-pass-on"
# How a model of each kind of provider is asked for here.
MODELS = {MESSAGES: "messages/claude-opus-5", CHAT: "chat/llama-4", RESPONSES: "responses/gpt-5"}
# Reads of this many bytes cut frames, lines and characters anywhere.
READ = 251
# Reasoning of a model that shows none of it: the proof is there, the text is empty.
OMITTED = "\u2063"
# What each answer of a service is told apart by: its own id, and the proofs in it.
_SAME_ID, _SAME_ITEM = "0123456789abcdefABCDEF", "_up_"


class StrictProvider:
    """Answers with the next thing it was told to say, unless the request is one that its service would refuse."""

    def __init__(self) -> None:
        self._issued: dict[str, Issued] = {}
        self._script: list[Turn | Reply] = []
        self._count = 0
        self.refused: list[Turned] = []
        self.asked: list[Object] = []
        # What was said, whole, in the order it was asked for.
        self.said: list[Object] = []

    @property
    def left(self) -> int:
        """How many things are still to be said."""
        return len(self._script)

    def begin(self, script: Iterable[Turn | Reply]) -> None:
        """Forget the last conversation, and know what to say in the next one."""
        self._issued, self._script = {}, list(script)
        self.refused, self.asked, self.said = [], [], []

    def __call__(self, received: Received) -> Reply:
        """Answer a request."""
        protocol = protocol_at(received.target)
        issued = self._issued.setdefault(protocol, Issued())
        body: Object = {**received.json()}
        self.asked.append(body)
        turned = refusal_of(received, issued, (CLIENT_KEY, COOKIE))
        if turned is None and not self._script:
            turned = Turned(500, ("nothing is left to say",))
        if turned is not None:
            self.refused.append(turned)
            return whole(_error(protocol, "\n".join(turned.reasons)), turned.status)
        said = self._script.pop(0)
        return said if isinstance(said, Reply) else self._tell(protocol, said, body, issued)

    def _tell(self, protocol: str, turn: Turn, body: Object, issued: Issued) -> Reply:
        self._count += 1
        told: Object = json.loads(self._own(json.dumps(answer(protocol, turn))))
        self.said.append(told)
        record_response(protocol, decode_object(json.dumps(told)), issued)
        if not body.get("stream"):
            return whole(told)
        frames = self._own(stream_of(protocol, turn).decode()).encode()
        options = body.get("stream_options")
        if protocol == CHAT and not (isinstance(options, dict) and options.get("include_usage")):
            frames = _without_usage(frames)
        return stream(*(frames[start : start + READ] for start in range(0, len(frames), READ)))

    def _own(self, text: str) -> str:
        """The same answer under ids and proofs that no other answer has."""
        text = text.replace(_SAME_ID, f"{self._count:022d}").replace(_SAME_ITEM, f"_up{self._count}_")
        text = text.replace(SIGNATURE, f"{SIGNATURE[:-2]}{self._count}/+==")
        text = text.replace(ENCRYPTED, f"{ENCRYPTED[:-2]}{self._count}-_==")
        return text.replace(json.dumps(OMITTED)[1:-1], "")


def _without_usage(frames: bytes) -> bytes:
    """A Chat stream as it is told to whoever did not ask for usage."""
    events = [event for event in events_of(frames) if event["choices"]]
    return as_stream(CHAT, [{name: value for name, value in event.items() if name != "usage"} for event in events])


def _error(protocol: str, message: str) -> Object:
    kind = "invalid_request_error"
    if protocol == MESSAGES:
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_strict"}
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


class Desk:
    """The house, and both SDKs in front of it."""

    def __init__(self, house: House, provider: StrictProvider) -> None:
        self.house = house
        self.provider = provider
        headers = {"cookie": COOKIE, "x-forwarded-for": "192.0.2.7"}
        self.anthropic = anthropic.Anthropic(
            api_key=CLIENT_KEY, base_url=house.url, max_retries=0, default_headers=headers, timeout=LIMIT
        )
        self.openai = openai.OpenAI(
            api_key=CLIENT_KEY, base_url=f"{house.url}/v1", max_retries=0, default_headers=headers, timeout=LIMIT
        )

    @contextmanager
    def scripted(self, *script: Turn | Reply) -> Iterator[StrictProvider]:
        """A conversation: the provider says these things, and has nothing to complain about."""
        self.provider.begin(script)
        try:
            yield self.provider
            assert not self.provider.left, "the provider was not asked for everything it had to say"
        finally:
            # What the provider refused is the reason of whatever else went wrong.
            reasons = [reason for turned in self.provider.refused for reason in turned.reasons]
            assert not reasons, "the provider refused a request:\n" + "\n".join(reasons)


@contextmanager
def open_desk() -> Iterator[Desk]:
    """A desk, and nothing of it left afterwards."""
    provider = StrictProvider()

    def settings(port: int) -> Settings:
        return settings_for(port, keys=(CLIENT_KEY,))

    with running(provider, settings) as house:
        desk = Desk(house, provider)
        try:
            yield desk
        finally:
            desk.anthropic.close()
            desk.openai.close()
