"""The dialogues: kinds of course that an exchange can take, each played by some pairs of client and provider.

A kind is what happens, as steps; a pair is who speaks which protocol. Everything else is in the transcripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from dragoman.config.settings import Limits, Timeouts
from tests.gateway.harness import CHAT, MESSAGES, PATHS, RESPONSES
from tests.gateway.says import NAMES
from tests.playbooks import kept_scenes
from tests.playbooks.bodies import (
    FULL,
    brief,
    error,
    frames,
    lossy,
    overloaded,
    parts,
    paused,
    reminding,
    seal_refused,
    whole,
)
from tests.playbooks.kinds import AWAY, HOME, SOME, Kind, Setup, Steps, asked, briefly, opened, streamed, told
from tests.playbooks.steps import (
    CLIENT_KEY,
    EVENTS,
    JSON,
    Step,
    answers,
    asks,
    cuts,
    drains,
    ends,
    hangs_up,
    is_unreachable,
    passes,
    reads_on,
    says,
    stops,
    stops_reading,
)

LIMITED = {**JSON, "retry-after": "7", "x-request-id": "req_of_the_provider"}


class Scene(Struct, frozen=True, kw_only=True):
    """One dialogue; its transcript is at `recorded/<name>.txt`."""

    name: str
    steps: Steps
    setup: Setup


def _slow_reader(client: str, provider: str) -> Steps:
    opening, words, rest = parts(provider)
    return [
        briefly(client, provider, stream=True),
        answers(200, EVENTS),
        stops_reading(),
        says(opening + words),
        says(rest),
        ends(),
        passes(5),
        reads_on(),
    ]


def _silent(client: str, provider: str) -> Steps:
    """Heartbeats before the first word and in the flow, and at last a limit."""
    opening, words, _ = parts(provider)
    return [
        briefly(client, provider, stream=True),
        passes(20),
        answers(200, EVENTS),
        says(opening),
        passes(20),
        says(words),
        passes(40),
        passes(100),
    ]


def _pausing(*, stream: bool, told_as_stream: bool) -> Callable[[str, str], Steps]:
    kind = EVENTS if told_as_stream else JSON

    def steps(client: str, provider: str) -> Steps:
        tools: dict[str, object] = {"web_search_options": {}} if client == CHAT else {"tools": [{"type": "web_search"}]}
        if client == MESSAGES:
            tools = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}
        turns = ("pause_turn",) if client == provider else ("pause_turn", "end_turn")
        answered = [told(paused(stop, streamed=told_as_stream), 200, kind) for stop in turns]
        body = {**brief(client, provider, stream=stream), "model": "messages/claude-opus-5", **tools}
        return [asks(PATHS[client], body), *(step for turn in answered for step in turn)]

    return steps


def _refused_at_the_door(client: str, provider: str) -> Steps:
    body = brief(client, provider)
    key = {"authorization": f"Bearer {CLIENT_KEY}"}
    return [
        asks(PATHS[client], body),
        asks(PATHS[client], body, authorization="Bearer sk-wrong"),
        asks("/nothing", body, **key),
        asks("/v1/nothing", body, **key),
        asks(PATHS[client], method="GET", **key),
        asks(PATHS[client], {**body, "model": "nobody/served"}, **key),
        asks(PATHS[client], b"[1, 2", **key),
        asks(PATHS[client], {**body, "metadata": {"user_id": "x" * 1100}}, **key),
        passes(3),
    ]


def _again(client: str, provider: str) -> Steps:
    return [
        asks(PATHS[client], brief(client, provider) | reminding(client)),
        *told(seal_refused(provider), 400),
        *told(whole(provider)),
    ]


def _other(*then: Step) -> Callable[[str, str], Steps]:
    body = {"model": "chat/served", "input": "Ulm"}
    return lambda *_: [asks("/v1/embeddings", body), *then]


EMBEDDED = b'{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]}'

KINDS: dict[str, Kind] = {
    # Answers as they should be.
    "whole": Kind(steps=lambda c, p: [asked(c, p), passes(0.5), *told(whole(p, FULL[p]))]),
    "stream": Kind(
        steps=lambda c, p: [
            asked(c, p, stream=True),
            passes(0.5),
            answers(200, EVENTS),
            *map(says, frames(p, FULL[p])),
            ends(),
        ]
    ),
    "collected": Kind(steps=lambda c, p: [briefly(c, p), *streamed(p)]),
    "stream_told_whole": Kind(steps=lambda c, p: [briefly(c, p, stream=True), *told(whole(p))]),
    "reported": Kind(
        steps=lambda c, p: [
            asks(PATHS[c], lossy(c, p), x_dragoman_report="full"),
            *told(whole(p)),
            asks(PATHS[c], {**lossy(c, p), "stream": True}, x_dragoman_report="full"),
            *streamed(p),
        ],
        pairs=AWAY,
    ),
    "unended": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), *streamed(p)[:-1], passes(2)],
        pairs=SOME,
    ),
    # Pauses.
    **{
        f"paused_{name}": Kind(
            steps=_pausing(stream=stream, told_as_stream=told_as_stream),
            pairs=((CHAT, MESSAGES), (RESPONSES, MESSAGES), (MESSAGES, MESSAGES)),
        )
        for name, stream, told_as_stream in (
            ("whole", False, False),
            ("stream", True, True),
            ("collected", False, True),
        )
    },
    # Refusals.
    "refused": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), *told(error(p, "rate_limit_error", "slower"), 429, LIMITED)]
    ),
    "failed": Kind(steps=lambda c, p: [briefly(c, p), *told(error(p, "api_error", "oh"), 500)], pairs=SOME),
    "key_refused": Kind(
        steps=lambda c, p: [
            briefly(c, p),
            *told(error(p, "rate_limit_error", "slower"), 429, LIMITED),
            *told(whole(p)),
        ],
        pairs=SOME,
        setup=Setup(provider_keys=("sk-first-0123456789abcdef", "sk-second-0123456789abcdef")),
    ),
    "reasoning_refused": Kind(steps=_again, pairs=HOME),
    "unreachable": Kind(steps=lambda c, p: [is_unreachable, briefly(c, p)], pairs=SOME),
    "error_first": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), answers(200, EVENTS), says(overloaded(p)), ends()]
    ),
    "error_inside": Kind(steps=lambda c, p: [*opened(c, p), says(overloaded(p)), ends()], pairs=SOME),
    "empty": Kind(
        steps=lambda c, p: [briefly(c, p), *told(b""), briefly(c, p, stream=True), answers(200, EVENTS), ends()],
        pairs=SOME,
    ),
    "strict": Kind(
        steps=lambda c, p: [asks(PATHS[c], lossy(c, p), x_dragoman_strict="1")],
        pairs=AWAY,
    ),
    "door": Kind(steps=_refused_at_the_door, pairs=HOME, setup=Setup(keyed=True, limits=Limits(body=1024))),
    # Providers that break off or say nothing.
    "cut": Kind(steps=lambda c, p: [*opened(c, p), cuts()]),
    "cut_before_content": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), answers(200, EVENTS), says(parts(p)[0]), cuts()], pairs=SOME
    ),
    "cut_whole": Kind(
        steps=lambda c, p: [briefly(c, p), answers(), says(whole(p)[:60]), cuts()],
        pairs=SOME,
    ),
    "cut_before_head": Kind(steps=lambda c, p: [briefly(c, p), cuts(head=False)], pairs=SOME),
    "silent": Kind(steps=_silent),
    "silent_from_the_start": Kind(steps=lambda c, p: [briefly(c, p, stream=True), passes(301)], pairs=SOME),
    "too_long": Kind(
        steps=lambda c, p: [*opened(c, p), passes(8), says(b": tick\n\n"), passes(8)],
        pairs=SOME,
        setup=Setup(timeouts=Timeouts(total=15.0, keep_alive=6.0)),
    ),
    # Clients that go away or read slowly, and a gateway that stops.
    "cancelled_before_head": Kind(steps=lambda c, p: [briefly(c, p), hangs_up()], pairs=SOME),
    "cancelled": Kind(steps=lambda c, p: [*opened(c, p), hangs_up()], pairs=SOME),
    "slow_reader": Kind(steps=_slow_reader, pairs=SOME),
    "drained": Kind(steps=lambda c, p: [*opened(c, p), drains, says(parts(p)[2]), ends()], pairs=SOME),
    "stopped_waiting": Kind(steps=lambda c, p: [briefly(c, p, stream=True), drains, stops], pairs=SOME),
    "stopped": Kind(steps=lambda c, p: [*opened(c, p), drains, passes(30), stops], pairs=SOME),
    # What is asked beside conversations.
    "counted": Kind(
        steps=lambda c, p: [
            asks("/v1/messages/count_tokens" if c == MESSAGES else "/v1/responses/input_tokens", brief(c, p)),
            *told(b'{"input_tokens": 14}'),
        ],
        pairs=((MESSAGES, MESSAGES), (MESSAGES, RESPONSES), (RESPONSES, MESSAGES)),
        setup=Setup(counts=True),
    ),
    "estimated": Kind(steps=lambda c, p: [asks("/v1/messages/count_tokens", brief(c, p))], pairs=((MESSAGES, CHAT),)),
    "embedded": Kind(steps=_other(*told(EMBEDDED)), pairs=((CHAT, CHAT),)),
    "embedded_cut": Kind(steps=_other(answers(), says(EMBEDDED[:30]), cuts()), pairs=((CHAT, CHAT),)),
    "embedded_cancelled": Kind(steps=_other(answers(), says(EMBEDDED[:30]), hangs_up()), pairs=((CHAT, CHAT),)),
}


def scenes() -> Iterator[Scene]:
    """All of them."""
    for name, kind in {**KINDS, **kept_scenes.KINDS}.items():
        for client, provider in kind.pairs:
            place = f"{NAMES[client]}_to_{NAMES[provider]}"
            yield Scene(name=f"{place}/{name}", steps=kind.steps(client, provider), setup=kind.setup)
