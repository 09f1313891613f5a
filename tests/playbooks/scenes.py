"""The dialogues: kinds of course that an exchange can take, each played by some pairs of client and provider.

A kind is what happens, as steps; a pair is who speaks which protocol. Everything else is in the transcripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from dragoman.config.settings import Limits, Timeouts
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES
from tests.gateway.says import NAMES, PAIRS, error_frame
from tests.playbooks import failover_scenes, kept_scenes
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
    stopping,
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
    will_stop,
)

LIMITED = {**JSON, "retry-after": "7", "x-request-id": "req_of_the_provider"}
# Words of a provider that must not reach anybody.
SECRET = f"not with {Setup().provider_keys[0]}"


class Scene(Struct, frozen=True, kw_only=True):
    """One dialogue; its transcript is at `recorded/<name>.txt`."""

    name: str
    steps: Steps
    setup: Setup


def _told_counts(provider: str) -> Steps:
    """All of a stream but its last frame, which tells nothing more than that."""
    return [*map(says, frames(provider)[:-1])]


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


def _pausing(*then: Step, stream: bool, told_as_stream: bool) -> Callable[[str, str], Steps]:
    kind = EVENTS if told_as_stream else JSON

    def steps(client: str, provider: str) -> Steps:
        tools: dict[str, object] = {"web_search_options": {}} if client == CHAT else {"tools": [{"type": "web_search"}]}
        if client == MESSAGES:
            tools = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}
        body = {**brief(client, provider, stream=stream), "model": "messages/claude-opus-5", **tools}
        first, second = (told(paused(stop, streamed=told_as_stream), 200, kind) for stop in ("pause_turn", "end_turn"))
        # A pause that is relayed is the client's own business.
        return [asks(PATHS[client], body), *first, *(then or (() if client == provider else second))]

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


def _again_inside(client: str, provider: str) -> Steps:
    return [
        asks(PATHS[client], brief(client, provider, stream=True) | reminding(client)),
        # That call is hung up on.
        *told(seal_refused(provider, inside=True), 200, EVENTS)[:-1],
        *streamed(provider),
    ]


def _again_with_200(client: str, provider: str) -> Steps:
    return [
        asks(PATHS[client], brief(client, provider) | reminding(client)),
        *told(seal_refused(provider)),
        *told(whole(provider)),
    ]


def _overflowing(client: str, provider: str) -> Steps:
    """A client that compacts its conversation only if it hears of that in the stream."""
    body = brief(client, provider, stream=True)
    words = error(
        provider, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", "context_length_exceeded"
    )
    return [asks(PATHS[client], body, originator="codex_cli_rs"), *told(words, 400)]


def _mislabelled(client: str, provider: str) -> Steps:
    """A stream that its content type does not call one."""
    said = b"".join(frames(provider))
    return [briefly(client, provider), *told(said), briefly(client, provider, stream=True), *told(said)]


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
    "hung_up_unended": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), *streamed(p)[:-1], hangs_up(), passes(2)],
        pairs=SOME,
    ),
    "after_the_end": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), *streamed(p)[:-1], says(b": bye\n\n"), passes(2)],
        pairs=(*SOME, (MESSAGES, MESSAGES)),
    ),
    "mislabelled": Kind(steps=_mislabelled, pairs=SOME),
    "always_streamed": Kind(
        steps=lambda c, p: [briefly(c, p), *streamed(p)], pairs=SOME, setup=Setup(streaming="always")
    ),
    "never_streamed": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), *told(whole(p))], pairs=SOME, setup=Setup(streaming="never")
    ),
    "usage_withheld": Kind(
        steps=lambda c, p: [
            briefly(c, p, stream=True),
            *streamed(p),
            briefly(c, p, stream=True, stream_options={"include_usage": True}),
            *streamed(p),
        ],
        pairs=((CHAT, CHAT),),
        setup=Setup(include_usage=True),
    ),
    "stop_watched": Kind(
        steps=lambda c, p: [
            asks(PATHS[c], stopping(c, p)),
            *told(whole(p)),
            asks(PATHS[c], stopping(c, p, stream=True)),
            *streamed(p)[:-1],
            asks(PATHS[c], stopping(c, p)),
            *streamed(p)[:-1],
        ],
        pairs=((MESSAGES, RESPONSES), (CHAT, RESPONSES)),
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
    "paused_then_streamed": Kind(
        steps=_pausing(*told(paused("end_turn", streamed=True), 200, EVENTS), stream=False, told_as_stream=False),
        pairs=((CHAT, MESSAGES), (RESPONSES, MESSAGES)),
    ),
    "pause_refused": Kind(
        steps=_pausing(*told(error(MESSAGES, "overloaded_error", "no"), 529), stream=True, told_as_stream=True),
        pairs=((CHAT, MESSAGES), (RESPONSES, MESSAGES)),
    ),
    "pause_cancelled": Kind(
        steps=_pausing(hangs_up(), stream=True, told_as_stream=True), pairs=((CHAT, MESSAGES), (RESPONSES, MESSAGES))
    ),
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
            briefly(c, p),
            *told(whole(p)),
            passes(8),
            briefly(c, p),
            *told(whole(p)),
        ],
        pairs=SOME,
        setup=Setup(provider_keys=("sk-first-0123456789abcdef", "sk-second-0123456789abcdef")),
    ),
    "key_refused_inside": Kind(
        steps=lambda c, p: [
            briefly(c, p, stream=True),
            # That call is hung up on.
            *told(error_frame(p, "rate_limit_error", "slower", "rate_limit_exceeded"), 200, EVENTS)[:-1],
            *streamed(p),
            briefly(c, p),
            *told(error(p, "rate_limit_error", "slower", "rate_limit_exceeded")),
            *told(whole(p)),
        ],
        pairs=(*SOME, (RESPONSES, RESPONSES)),
        setup=Setup(provider_keys=("sk-first-0123456789abcdef", "sk-second-0123456789abcdef")),
    ),
    "reasoning_refused": Kind(steps=_again, pairs=HOME),
    "reasoning_refused_with_200": Kind(steps=_again_with_200, pairs=HOME),
    "key_unknown": Kind(
        steps=lambda c, p: [briefly(c, p), *told(error(p, "authentication_error", "who?"), 401)], pairs=SOME
    ),
    "overflow": Kind(steps=_overflowing, pairs=((RESPONSES, CHAT), (RESPONSES, RESPONSES))),
    "unreadable": Kind(
        steps=lambda c, p: [
            briefly(c, p),
            *told(b"<html>"),
            briefly(c, p),
            *told(b"data: {]\n\n", 200, EVENTS)[:-1],
            briefly(c, p, stream=True),
            *told(b"data: {]\n\n", 200, EVENTS)[:-1],
        ],
        pairs=SOME,
    ),
    "reasoning_refused_inside": Kind(steps=_again_inside, pairs=HOME),
    "refused_with_200": Kind(
        steps=lambda c, p: [briefly(c, p), *told(error(p, "overloaded_error", "too many ask"))], pairs=SOME
    ),
    "secret": Kind(
        steps=lambda c, p: [
            briefly(c, p),
            *told(error(p, "api_error", SECRET), 500),
            briefly(c, p, stream=True),
            *told(overloaded(p, SECRET), 200, EVENTS),
            *opened(c, p),
            says(overloaded(p, SECRET)),
            ends(),
        ],
        pairs=SOME,
    ),
    "redirected": Kind(steps=lambda c, p: [briefly(c, p), *told(b"", 302, {"location": "/"})], pairs=SOME[:1]),
    "too_large": Kind(
        steps=lambda c, p: [briefly(c, p), *told(whole(p)), *opened(c, p), says(parts(p)[2]), ends()],
        pairs=SOME,
        setup=Setup(limits=Limits(response_body=200)),
    ),
    "unreachable": Kind(steps=lambda c, p: [is_unreachable, briefly(c, p)], pairs=SOME),
    "error_first": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), answers(200, EVENTS), says(overloaded(p)), ends()]
    ),
    "error_collected": Kind(
        steps=lambda c, p: [briefly(c, p), *streamed(p)[:-2], says(overloaded(p))],
        pairs=SOME,
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
    "door": Kind(steps=_refused_at_the_door, pairs=HOME, setup=Setup(keyed=True, limits=Limits(request_body=1024))),
    # Providers that break off or say nothing.
    "cut": Kind(steps=lambda c, p: [*opened(c, p), cuts()]),
    "cut_before_content": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), answers(200, EVENTS), says(parts(p)[0]), cuts()], pairs=SOME
    ),
    "cut_whole": Kind(
        steps=lambda c, p: [briefly(c, p), answers(), says(whole(p)[:60]), cuts()],
        pairs=SOME,
    ),
    "cut_collected": Kind(steps=lambda c, p: [briefly(c, p), *streamed(p)[:-2], cuts()], pairs=SOME),
    "cut_before_head": Kind(steps=lambda c, p: [briefly(c, p), cuts(head=False)], pairs=SOME),
    "silent": Kind(steps=_silent),
    "pinging": Kind(
        # Signs of life, and an end of patience with them.
        steps=lambda c, p: [
            briefly(c, p, stream=True),
            answers(200, EVENTS),
            says(parts(p)[0]),
            passes(12),
            *[step for _ in range(3) for step in (says(b": tick\n\n"), passes(5))],
        ],
        pairs=SOME,
        setup=Setup(timeouts=Timeouts(first_byte=25.0, idle=8.0, heartbeat=10.0)),
    ),
    "empty_after_a_heartbeat": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), answers(200, EVENTS), passes(16), ends()],
        pairs=PAIRS,
    ),
    "silent_whole": Kind(steps=lambda c, p: [briefly(c, p), answers(), says(whole(p)[:60]), passes(121)], pairs=SOME),
    "silent_from_the_start": Kind(steps=lambda c, p: [briefly(c, p, stream=True), passes(301)], pairs=SOME),
    "too_long": Kind(
        steps=lambda c, p: [*opened(c, p), passes(8), says(b": tick\n\n"), passes(8)],
        pairs=SOME,
        setup=Setup(timeouts=Timeouts(total=15.0, heartbeat=6.0)),
    ),
    # Clients that go away or read slowly, and a gateway that stops.
    "cancelled_before_head": Kind(steps=lambda c, p: [briefly(c, p), hangs_up()], pairs=SOME),
    "cancelled": Kind(steps=lambda c, p: [*opened(c, p), hangs_up()]),
    "cancelled_behind_counts": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), answers(200, EVENTS), *_told_counts(p), hangs_up()],
        pairs=tuple((client, provider) for client in PROTOCOLS for provider in (MESSAGES, CHAT)),
    ),
    "cancelled_behind_counts_collected": Kind(
        steps=lambda c, p: [briefly(c, p), answers(200, EVENTS), *_told_counts(p), hangs_up()],
        pairs=((MESSAGES, CHAT), (RESPONSES, MESSAGES)),
    ),
    "cancelled_whole": Kind(steps=lambda c, p: [briefly(c, p), answers(), says(whole(p)[:60]), hangs_up()], pairs=SOME),
    "dead_reader": Kind(steps=lambda c, p: [*_slow_reader(c, p)[:4], passes(130)], pairs=SOME),
    "slow_reader": Kind(steps=_slow_reader, pairs=SOME),
    "drained": Kind(steps=lambda c, p: [*opened(c, p), drains, says(parts(p)[2]), ends()], pairs=SOME),
    "cancelled_draining_before_head": Kind(
        steps=lambda c, p: [briefly(c, p), drains, hangs_up(), passes(30), stops], pairs=SOME
    ),
    "cancelled_draining": Kind(steps=lambda c, p: [*opened(c, p), drains, hangs_up(), passes(30), stops], pairs=SOME),
    "stopped_waiting": Kind(steps=lambda c, p: [briefly(c, p, stream=True), drains, stops], pairs=SOME),
    "stopped": Kind(steps=lambda c, p: [*opened(c, p), drains, passes(30), stops]),
    "stopped_behind_counts": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), answers(200, EVENTS), *_told_counts(p), drains, stops],
        pairs=((MESSAGES, CHAT), (CHAT, MESSAGES)),
    ),
    "stopped_whole": Kind(
        steps=lambda c, p: [briefly(c, p), answers(), says(whole(p)[:60]), drains, stops], pairs=SOME
    ),
    "stops_soon": Kind(
        steps=lambda c, p: [
            briefly(c, p, stream=True),
            will_stop,
            *streamed(p),
            briefly(c, p),
            *told(whole(p)),
        ],
        pairs=SOME[:1],
    ),
    # What is asked beside conversations.
    "counted": Kind(
        steps=lambda c, p: [
            asks("/v1/messages/count_tokens" if c == MESSAGES else "/v1/responses/input_tokens", brief(c, p)),
            *told(b'{"input_tokens": 14}'),
        ],
        pairs=((MESSAGES, MESSAGES), (MESSAGES, RESPONSES), (RESPONSES, MESSAGES)),
        setup=Setup(counts=True),
    ),
    "counted_by_nobody": Kind(
        steps=lambda c, p: [
            asks("/v1/messages/count_tokens", brief(c, p)),
            *told(error(p, "not_found_error", "nothing there"), 404),
        ],
        pairs=((MESSAGES, MESSAGES), (MESSAGES, RESPONSES)),
        setup=Setup(counts=True),
    ),
    "estimated": Kind(steps=lambda c, p: [asks("/v1/messages/count_tokens", brief(c, p))], pairs=((MESSAGES, CHAT),)),
    "embedded": Kind(steps=_other(*told(EMBEDDED)), pairs=((CHAT, CHAT),)),
    "embedded_cut": Kind(steps=_other(answers(), says(EMBEDDED[:30]), cuts()), pairs=((CHAT, CHAT),)),
    "embedded_cancelled": Kind(steps=_other(answers(), says(EMBEDDED[:30]), hangs_up()), pairs=((CHAT, CHAT),)),
}


def scenes() -> Iterator[Scene]:
    """All of them."""
    for name, kind in {**KINDS, **kept_scenes.KINDS, **failover_scenes.KINDS}.items():
        for client, provider in kind.pairs:
            place = f"{NAMES[client]}_to_{NAMES[provider]}"
            yield Scene(name=f"{place}/{name}", steps=kind.steps(client, provider), setup=kind.setup)
