"""V4: a Chat client that sends back content and calls alone loses no reasoning, and nobody else gets it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.stored_responses import turn_lookup as module
from dragoman.gateway.stored_responses.exchange_storage import ExchangeStorage
from dragoman.gateway.thread_offload import INLINE
from dragoman.http.request import ServerRequest
from dragoman.model.parts import Text
from dragoman.store import StoreBusy, StoreError, Tables
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    RESPONSES,
    Answer,
    House,
    Received,
    Reply,
    running,
    settings_for,
    stream,
    whole,
)
from tests.gateway.keeping_house import ALICE, BOB, in_store, store_of
from tests.gateway.routed import target_of
from tests.gateway.says import log_lines, model_of, streams, tells
from tests.gateway.test_kept_first import held
from tests.sdk.digging import Object, dig, dig_object, dig_objects
from tests.sdk.providers import ENCRYPTED, SIGNATURE, Call, Turn
from tests.sdk.providers import answer as answer_of
from tests.sdk.providers import stream as stream_of
from tests.sdk.streams import check_stream

PROOFS = {MESSAGES: SIGNATURE, RESPONSES: ENCRYPTED}
STOPS = {MESSAGES: "tool_use", RESPONSES: "completed", CHAT: "tool_calls"}
CALL = Call("call_1", "look", '{"at":"the sky"}')
# How the client asks and is asked: whether it wants a stream, and what its provider can do.
MODES: dict[str, tuple[bool, str]] = {
    "streamed": (True, "on-request"),
    "collected": (False, "always"),
    "whole": (False, "on-request"),
    "whole as a stream": (True, "never"),
}
Change = Callable[[Settings], Settings]


def _turn(protocol: str, **changes: object) -> Turn:
    said = Turn(stop=STOPS[protocol], reasoning="I must look.", text="Let me look.", calls=(CALL,))
    return replace(said, **changes)


def _script(received: Received) -> Reply:
    """A provider that thinks and calls a tool, and says a word when it has the result."""
    protocol = next(name for name, path in PATHS.items() if received.target.startswith(path))
    body = received.json()
    if b"blue" in received.body:
        return streams(protocol) if body.get("stream") else tells(protocol)
    turn = _turn(protocol)
    return stream(stream_of(protocol, turn)) if body.get("stream") else whole(answer_of(protocol, turn))


@contextmanager
def _house(
    *,
    streaming: str = "on-request",
    keys: tuple[str, ...] = (),
    storage: Storage | None = None,
    script: Callable[[Received], Reply] = _script,
    change: Change | None = None,
) -> Iterator[House]:
    def settings(port: int) -> Settings:
        made = settings_for(port, keys=keys)
        providers = {name: replace(one, streaming=streaming) for name, one in made.providers.items() if name != "echo"}
        made = replace(made, providers=providers, storage=storage or Storage())
        return made if change is None else change(made)

    with running(script, settings) as house:
        yield house


class Session:
    """A Chat client: what it asks, and what it sends back of what it was told."""

    def __init__(self, house: House, provider: str, *, streaming: bool = False, key: str = "", **more: object) -> None:
        self._house = house
        self._provider = provider
        self._streaming = streaming
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._more = more
        self.message: Object = {}
        self.sent = b""

    def ask(self, *history: Object, **more: object) -> Answer:
        """A request with the turns so far."""
        schema = {"type": "object", "properties": {"at": {"type": "string"}}}
        body = {
            "model": model_of(self._provider),
            "messages": [{"role": "user", "content": "What colour is it?"}, *history],
            "tools": [{"type": "function", "function": {"name": "look", "parameters": schema}}],
            "reasoning_effort": "high",
            **({"stream": True} if self._streaming else {}),
            **self._more,
            **more,
        }
        self.sent = json.dumps(body).encode()
        answer = self._house.post(PATHS[CHAT], self.sent, **self._headers)
        assert answer.status == 200, answer.body
        return answer

    def begin(self) -> Session:
        """The first turn, which ends in a call."""
        answer = self.ask()
        told = check_stream(CHAT, answer.body).body if self._streaming else answer.json()
        message = dig_object(told, "choices", 0, "message")
        self.message = {name: value for name, value in message.items() if value is not None and name != "parsed"}
        for call in dig_objects(self.message, "tool_calls"):
            call.pop("index", None)
            dig_object(call, "function").pop("parsed_arguments", None)
        return self

    @property
    def bare(self) -> Object:
        """The turn as many clients send it back."""
        return {name: self.message[name] for name in ("role", "content", "tool_calls")}

    def go_on(self, message: Object, **more: object) -> bytes:
        """The second turn; what the provider was asked then."""
        result = {"role": "tool", "tool_call_id": dig(message, "tool_calls", 0, "id"), "content": "blue"}
        self.ask(message, result, **more)
        return self._house.provider.received[-1].body


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("provider", PROOFS)
def test_pitfall_103_105_108_a_provider_gets_its_turn_as_if_the_client_had_said_all(provider: str, mode: str) -> None:
    streaming, can = MODES[mode]
    with _house(streaming=can) as house:
        session = Session(house, provider, streaming=streaming).begin()
        assert PROOFS[provider] not in json.dumps(session.bare)
        asked = session.go_on(session.bare)
        assert PROOFS[provider].encode() in asked and b"I must look." in asked
        assert asked == session.go_on(session.message)


@pytest.mark.parametrize("provider", PROOFS)
def test_nothing_is_lost_in_strict_mode_that_was_not_without_it(provider: str) -> None:
    with _house(change=lambda made: replace(made, server=replace(made.server, strict=True))) as house:
        session = Session(house, provider, reasoning_effort=None, max_completion_tokens=9000).begin()
        asked = session.go_on(session.bare)
        assert PROOFS[provider].encode() in asked and asked == session.go_on(session.message)
        # A turn that nothing was kept of is no loss either.
        assert PROOFS[provider].encode() not in session.go_on({**session.bare, "content": "Another text."})


def _unkept(provider: str, *, streaming: bool = False) -> bytes:
    """What a provider is asked of which nothing is kept."""
    with _house(storage=Storage(store_responses=False)) as house:
        session = Session(house, provider, streaming=streaming).begin()
        asked = session.go_on(session.bare)
    assert PROOFS[provider].encode() not in asked
    return asked


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", PROOFS)
def test_another_key_gets_nothing_of_it(provider: str, streaming: bool) -> None:
    with _house(keys=(ALICE, BOB)) as house:
        alice = Session(house, provider, streaming=streaming, key=ALICE).begin()
        bob = Session(house, provider, streaming=streaming, key=BOB)
        assert bob.go_on(alice.bare) == _unkept(provider, streaming=streaming)
        assert PROOFS[provider].encode() in alice.go_on(alice.bare)


@pytest.mark.parametrize("provider", PROOFS)
@pytest.mark.parametrize("when", ["first", "second", "both"])
def test_who_wants_nothing_stored_gets_nothing(provider: str, when: str) -> None:
    with _house() as house:
        session = Session(house, provider, store=when == "second").begin()
        asked = session.go_on(session.bare, store=when == "first")
        assert PROOFS[provider].encode() not in asked
        kept = in_store(house, lambda tables: tables.turns.find(b"", ["call_1"]))
        assert bool(kept) == (when == "second")


@pytest.mark.parametrize("provider", PROOFS)
def test_another_text_is_another_turn(provider: str) -> None:
    with _house() as house:
        session = Session(house, provider).begin()
        asked = session.go_on({**session.bare, "content": "Let me see."})
    with _house(storage=Storage(store_responses=False)) as house:
        other = Session(house, provider).begin()
        assert other.go_on({**other.bare, "content": "Let me see."}) == asked


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_the_relay_stays_as_it_is(streaming: bool) -> None:
    with _house() as house:
        session = Session(house, CHAT, streaming=streaming).begin()
        asked = session.go_on(session.bare)
        assert json.loads(asked)["messages"][1] == session.bare
        assert in_store(house, lambda tables: tables.turns.find(b"", ["call_1"])) == {}
    with _house(storage=Storage(store_responses=False)) as house:
        other = Session(house, CHAT, streaming=streaming).begin()
        assert other.go_on(other.bare) == asked


@pytest.mark.parametrize("provider", PROOFS)
def test_a_turn_that_ends_in_an_error_is_not_kept(provider: str) -> None:
    def broken(received: Received) -> Reply:
        # All of the call is there, and the end is not.
        said = stream_of(provider, _turn(provider)).split(b"\n\n")[:-1]
        return stream(b"".join(frame + b"\n\n" for frame in said[:-2]), None)

    with _house(script=broken) as house:
        Session(house, provider, streaming=True).ask()
        assert in_store(house, lambda tables: tables.turns.find(b"", ["call_1"])) == {}


@pytest.mark.parametrize("turn", [{"reasoning": ""}, {"calls": ()}], ids=["no reasoning", "no call"])
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_an_ordinary_answer_leaves_nothing_to_the_store(
    turn: dict[str, object], streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ordinary(received: Received) -> Reply:
        said = _turn(MESSAGES, **turn)
        return stream(stream_of(MESSAGES, said)) if streaming else whole(answer_of(MESSAGES, said))

    with _house(script=ordinary) as house:
        posted: list[object] = []
        monkeypatch.setattr(store_of(house), "post", lambda work, size=0: posted.append(work))
        Session(house, MESSAGES, streaming=streaming).ask()
        assert posted == []


def test_a_request_without_calls_asks_the_store_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with _house() as house:
        asked: list[object] = []
        monkeypatch.setattr(store_of(house), "read", lambda work, patience=None: asked.append(work))
        session = Session(house, MESSAGES).begin()
        # Nor does one that says all of it itself.
        session.go_on(session.message)
        assert asked == []


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", PROOFS)
def test_a_busy_store_keeps_nobody_waiting(tmp_path: Path, provider: str, streaming: bool) -> None:
    with _house(storage=Storage(path=str(tmp_path / "state.db"))) as house:
        with held(tmp_path) as holder:
            session = Session(house, provider, streaming=streaming).begin()
            assert session.go_on(session.bare) == _unkept(provider, streaming=streaming)
            holder.let_go()
        # What was left to it is there as soon as it can be, and before what was asked for later.
        assert in_store(house, lambda tables: tables.turns.find(b"", ["call_1"]))
        assert PROOFS[provider].encode() in session.go_on(session.bare)
        assert "cannot" not in house.log.getvalue()


def test_a_store_that_cannot_say_it_soon_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def busy(tables: Tables, **asked: object) -> dict[str, bytes]:
        tried.append(asked)
        raise StoreBusy("another process has it")

    with _house() as house:
        session = Session(house, MESSAGES).begin()
        monkeypatch.setattr(module, "_find", busy)
        assert session.go_on(session.bare) == _unkept(MESSAGES)
        assert tried and "cannot" not in house.log.getvalue()


def test_a_store_that_fails_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(tables: Tables, **asked: object) -> dict[str, bytes]:
        raise StoreError("the disk is gone")

    with _house() as house:
        session = Session(house, MESSAGES).begin()
        monkeypatch.setattr(module, "_find", fails)
        assert session.go_on(session.bare) == _unkept(MESSAGES)
        lines = log_lines(house, "cannot look up cached turns")
        assert [line["reason"] for line in lines] == ["the disk is gone"]


@pytest.mark.parametrize("limit", ["bytes", "values"])
def test_what_would_be_too_large_goes_on_as_it_is(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with _house() as house:
        session = Session(house, MESSAGES).begin()
        assert session.go_on(session.bare) != (unkept := _unkept(MESSAGES))
        most = len(session.sent)
        if limit == "values":
            monkeypatch.setattr(module, "MAX_REQUEST_VALUES", 10)
    with _house(
        change=lambda made: replace(made, limits=replace(made.limits, request_body=most)) if limit == "bytes" else made
    ) as house:
        session = Session(house, MESSAGES).begin()
        assert session.go_on(session.bare) == unkept


def test_a_large_request_is_looked_at_beside_the_loop() -> None:
    with _house() as house:
        session = Session(house, MESSAGES, user="x" * INLINE).begin()
        assert SIGNATURE.encode() in session.go_on(session.bare)


def test_what_waits_is_measured_by_what_it_says() -> None:
    assert module._length(Text(text="blue")) == 4


def test_another_target_of_the_clients_own_protocol_gets_what_the_client_said() -> None:
    with _house() as house:
        session = Session(house, MESSAGES).begin()
        session.go_on(session.bare)
        body, service = session.sent, house.app.runtime
        turns = module.TurnLookup(service, api_path_of(PATHS[CHAT]))
        house.run(turns.look_up(b"", body, "k"))
        messages, chat = (target_of(service.routes, model_of(provider), CHAT) for provider in (MESSAGES, CHAT))
        assert turns.may_lack(b"", body, messages) and not turns.may_lack(b"", body, chat)
        assert not turns.may_lack(b"somebody else", body, messages)
        assert SIGNATURE.encode() in turns.restored(body, messages)
        assert turns.restored(body, chat) is body
        assert turns.size > 0


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_a_turn_is_left_to_the_store_before_its_client_can_send_it_back(
    streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def watch(owner: type, name: str) -> None:
        real: Callable[..., object] = getattr(owner, name)

        def watched(*given: object, **named: object) -> object:
            steps.append(name)
            return real(*given, **named)

        monkeypatch.setattr(owner, name, watched)

    watch(ExchangeStorage, "cache_turn")
    watch(RecordBuilder, "finalize")
    watch(ServerRequest, "write")
    watch(ServerRequest, "respond")
    with _house() as house:
        Session(house, MESSAGES, streaming=streaming).begin()
    at = steps.index("cache_turn")
    assert steps.count("cache_turn") == 1
    assert steps[at : at + 3] == ["cache_turn", "finalize", "write" if streaming else "respond"]
