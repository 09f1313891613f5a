"""The dialogues on lines with several targets: what follows when the first one fails, by what the client has heard."""

from __future__ import annotations

import json

from dragoman.config.settings import RouteConfig, RouteRule, Routing, Timeouts
from dragoman.routing.route import RuleCondition
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES
from tests.gateway.says import NAMES
from tests.playbooks.bodies import brief, error, lossy, overloaded, parts, whole
from tests.playbooks.kinds import SOME, Kind, Pair, Setup, Steps, streamed, told
from tests.playbooks.steps import (
    CLIENT_KEY,
    EVENTS,
    JSON,
    OTHER_KEY,
    Step,
    answers,
    asks,
    cuts,
    drains,
    ends,
    hangs_up,
    passes,
    says,
    stops,
)

# Behind each provider another one, of another protocol.
SECOND = {MESSAGES: CHAT, CHAT: RESPONSES, RESPONSES: MESSAGES}
_TARGETS = {name: (f"{NAMES[name]}/served", f"{NAMES[SECOND[name]]}/served") for name in PROTOCOLS}
LINES = (
    *(RouteConfig(pattern=f"{NAMES[name]}-first", targets=_TARGETS[name]) for name in PROTOCOLS),
    *(RouteConfig(pattern=f"{NAMES[name]}-again", targets=_TARGETS[name][:1], retries=2) for name in PROTOCOLS),
    *(RouteConfig(pattern=f"{NAMES[name]}-chosen", targets=_TARGETS[name], policy="least-loss") for name in PROTOCOLS),
    *(RouteConfig(pattern=f"{NAMES[name]}-both", targets=_TARGETS[name], retries=1) for name in PROTOCOLS),
)
STORING_FULL: tuple[Pair, ...] = tuple((RESPONSES, name) for name in PROTOCOLS)
KEPT = Setup(lines=LINES, own_keys=True, kept=True)
KEPT_HERE = Setup(lines=LINES, own_keys=True, kept=True, stores_responses=True)
TWO = Setup(lines=LINES, own_keys=True)
# Whoever says little goes to the first, and whoever says more in all to the second.
RULED = Setup(
    lines=tuple(
        RouteConfig(
            pattern=f"{NAMES[name]}-ruled",
            targets=_TARGETS[name],
            sticky=False,
            rules=(RouteRule(when=RuleCondition(input_tokens_over=60), targets=_TARGETS[name][1:], weights=()),),
        )
        for name in PROTOCOLS
    ),
    own_keys=True,
    kept=True,
)
PAIRS: tuple[Pair, ...] = (*SOME, (MESSAGES, MESSAGES), (RESPONSES, RESPONSES))
LIMITED = {**JSON, "retry-after": "7", "x-request-id": "req_of_the_first"}


def _asked(client: str, provider: str, *, stream: bool = False, line: str = "first", **more: object) -> Step:
    body = {**brief(client, provider, stream=stream, **more), "model": f"{NAMES[provider]}-{line}"}
    return asks(PATHS[client], body)


def _overloaded(provider: str) -> Steps:
    return told(error(provider, "overloaded_error", "too many ask", "server_is_overloaded"), 529)


def _after_a_heartbeat(client: str, provider: str) -> Steps:
    """A stream that opened, of which nothing was told but that there is one."""
    return [_asked(client, provider, stream=True), answers(200, EVENTS), says(parts(provider)[0]), passes(16)]


def _strictly(client: str, provider: str, *then: Step) -> Steps:
    body = {**lossy(client, provider), "model": f"{NAMES[provider]}-first"}
    return [asks(PATHS[client], body, x_dragoman_strict="1"), *then]


def _kept_elsewhere(client: str, provider: str) -> Steps:
    """A conversation that began with a provider that keeps it goes on there, by another name, until that fails."""
    mine, others = {"authorization": f"Bearer {CLIENT_KEY}"}, {"authorization": f"Bearer {OTHER_KEY}"}

    def goes_on(previous: str = "$resp", key: dict[str, str] = mine, *, stream: bool = False) -> Step:
        body = brief(client, provider, stream=stream, previous_response_id=previous)
        return asks(PATHS[client], {**body, "model": f"{NAMES[provider]}-first"}, **key)

    return [
        asks(PATHS[client], brief(client, RESPONSES), **mine),
        *told(whole(RESPONSES)),
        goes_on(),
        *told(whole(RESPONSES).replace(b"resp_0123456789", b"resp_9876543210")),
        goes_on(stream=True),
        *streamed(RESPONSES),
        goes_on(),
        *_overloaded(RESPONSES),
        # Nobody has heard of these.
        goes_on(key=others),
        goes_on("resp_of_nobody"),
    ]


def _failed_answer() -> bytes:
    failed = {"status": "failed", "error": {"code": "server_is_overloaded", "message": "at capacity"}, "output": []}
    return json.dumps({**json.loads(whole(RESPONSES)), **failed}).encode()


def _secret(provider: str) -> str:
    return f"not with {TWO.keys_of(NAMES[provider])[0]}"


KINDS: dict[str, Kind] = {
    "failover_none": Kind(steps=lambda c, p: [_asked(c, p), *told(whole(p))], pairs=SOME, setup=TWO),
    # Whoever speaks the client's own protocol loses nothing.
    "failover_chosen": Kind(
        steps=lambda c, p: [_asked(c, p, line="chosen"), *told(whole(c))],
        pairs=((CHAT, CHAT), (CHAT, MESSAGES)),
        setup=TWO,
    ),
    "failover_whole": Kind(
        steps=lambda c, p: [_asked(c, p), *_overloaded(p), *told(whole(SECOND[p]))], pairs=PAIRS, setup=TWO
    ),
    # An answer of its own that says that it failed.
    "failover_failed_answer": Kind(
        steps=lambda c, p: [
            _asked(c, p),
            *told(_failed_answer()),
            *told(whole(SECOND[p])),
            passes(11),
            _asked(c, p, prompt_cache_key="another"),
            *told(_failed_answer()),
            *_overloaded(SECOND[p]),
        ],
        pairs=((RESPONSES, RESPONSES), (CHAT, RESPONSES)),
        setup=TWO,
    ),
    "failover_stream": Kind(
        steps=lambda c, p: [
            _asked(c, p, stream=True),
            answers(200, EVENTS),
            says(parts(p)[0] + overloaded(p)),
            *streamed(SECOND[p]),
        ],
        pairs=PAIRS,
        setup=TWO,
    ),
    "failover_after_a_heartbeat": Kind(
        steps=lambda c, p: [*_after_a_heartbeat(c, p), says(overloaded(p)), *streamed(SECOND[p])],
        pairs=PAIRS,
        setup=TWO,
    ),
    "failover_cut": Kind(
        steps=lambda c, p: [
            _asked(c, p, stream=True),
            answers(200, EVENTS),
            says(parts(p)[0]),
            cuts(),
            *streamed(SECOND[p]),
        ],
        pairs=SOME,
        setup=TWO,
    ),
    "failover_silent": Kind(
        steps=lambda c, p: [_asked(c, p, stream=True), passes(9), *streamed(SECOND[p])],
        pairs=SOME,
        setup=Setup(lines=LINES, own_keys=True, timeouts=Timeouts(first_byte=8.0)),
    ),
    # Once there was content, it is told.
    "failover_too_late": Kind(
        steps=lambda c, p: [
            _asked(c, p, stream=True),
            answers(200, EVENTS),
            says(parts(p)[0]),
            says(parts(p)[1]),
            says(overloaded(p)),
            ends(),
        ],
        pairs=SOME,
        setup=TWO,
    ),
    "failover_wrong_request": Kind(
        steps=lambda c, p: [_asked(c, p), *told(error(p, "invalid_request_error", "not so"), 400)],
        pairs=SOME,
        setup=TWO,
    ),
    "failover_all_fail": Kind(
        steps=lambda c, p: [
            _asked(c, p),
            *told(error(p, "rate_limit_error", _secret(p)), 429, LIMITED),
            *told(error(SECOND[p], "api_error", _secret(SECOND[p])), 500),
            # Until then the key rests.
            passes(11),
            _asked(c, p),
            *told(error(p, "authentication_error", "who?"), 401),
            cuts(head=False),
        ],
        pairs=PAIRS,
        setup=TWO,
    ),
    "failover_all_fail_after_a_heartbeat": Kind(
        steps=lambda c, p: [
            *_after_a_heartbeat(c, p),
            says(overloaded(p, _secret(p))),
            answers(200, EVENTS),
            says(parts(SECOND[p])[0]),
            cuts(),
        ],
        pairs=PAIRS,
        setup=TWO,
    ),
    "failover_left_out": Kind(
        steps=lambda c, p: _strictly(c, p, *told(whole(c))),
        pairs=((CHAT, MESSAGES), (MESSAGES, RESPONSES), (RESPONSES, CHAT)),
        setup=TWO,
    ),
    "failover_all_left_out": Kind(
        steps=_strictly,
        pairs=((CHAT, RESPONSES), (MESSAGES, CHAT), (RESPONSES, MESSAGES)),
        setup=TWO,
    ),
    "failover_cancelled": Kind(
        steps=lambda c, p: [_asked(c, p, stream=True), *_overloaded(p), hangs_up()], pairs=SOME, setup=TWO
    ),
    # While targets are tried the client hears that it is not forgotten.
    "failover_held": Kind(
        steps=lambda c, p: [_asked(c, p, stream=True), passes(27), *_overloaded(p), *streamed(SECOND[p])],
        pairs=PAIRS,
        setup=TWO,
    ),
    "failover_held_and_told_whole": Kind(
        steps=lambda c, p: [_asked(c, p, stream=True), passes(11), *_overloaded(p), *told(whole(SECOND[p]))],
        pairs=SOME,
        setup=TWO,
    ),
    "failover_held_and_all_fail": Kind(
        steps=lambda c, p: [_asked(c, p, stream=True), passes(11), *_overloaded(p), *_overloaded(SECOND[p])],
        pairs=PAIRS,
        setup=TWO,
    ),
    "failover_held_in_a_pause": Kind(
        steps=lambda c, p: [
            _asked(c, p, stream=True, line="both"),
            *told(error(p, "overloaded_error", "too many ask"), 529, {**JSON, "retry-after": "9"}),
            passes(7),
            passes(3),
            *_overloaded(p),
            *streamed(SECOND[p]),
        ],
        pairs=SOME,
        setup=Setup(lines=LINES, routing=Routing(heartbeat_after=3.0), timeouts=Timeouts(heartbeat=2.0)),
    ),
    # What is kept is kept of whoever answers, in its conversation, under one id.
    "failover_kept": Kind(
        steps=lambda c, p: [
            asks("/v1/conversations", {}),
            _asked(c, p, stream=True, conversation="$conv"),
            answers(200, EVENTS),
            says(parts(p)[0] + overloaded(p)),
            *streamed(SECOND[p]),
            # It stays with whoever answered.
            _asked(c, p, previous_response_id="$resp"),
            *told(whole(SECOND[p])),
            asks("/v1/responses/$resp"),
            asks("/v1/conversations/$conv/items"),
        ],
        pairs=STORING_FULL,
        setup=KEPT,
    ),
    "failover_in_the_background": Kind(
        steps=lambda c, p: [
            _asked(c, p, background=True),
            *_overloaded(p),
            *told(whole(SECOND[p])),
            passes(1),
            asks("/v1/responses/$resp"),
            # By now the first one is suspect.
            _asked(c, p, background=True),
            *_overloaded(SECOND[p]),
            *_overloaded(p),
            passes(1),
            asks("/v1/responses/$resp"),
        ],
        pairs=((RESPONSES, MESSAGES),),
        setup=KEPT,
    ),
    # Providers could keep what they answer, and are asked not to: any other can go on.
    "failover_kept_here": Kind(
        steps=lambda c, p: [
            _asked(c, p),
            *told(whole(p)),
            _asked(c, p, stream=True, previous_response_id="$resp", include=["message.output_text.logprobs"]),
            *_overloaded(p),
            *streamed(SECOND[p]),
            passes(11),
            _asked(c, p, store=False),
            *told(whole(p)),
        ],
        pairs=STORING_FULL,
        setup=KEPT_HERE,
    ),
    # What is kept here is weighed with what is said, and goes on with any.
    "failover_kept_and_weighed": Kind(
        steps=lambda c, p: [
            # The second loses less.
            _asked(c, p, line="chosen"),
            *told(whole(SECOND[p])),
            _asked(c, p, line="chosen", previous_response_id="$resp"),
            *_overloaded(SECOND[p]),
            *told(whole(p)),
        ],
        pairs=((RESPONSES, MESSAGES),),
        setup=KEPT,
    ),
    # So it is by rules, for which it is looked up once.
    "failover_kept_and_ruled": Kind(
        steps=lambda c, p: [
            _asked(c, p, line="ruled"),
            *told(whole(p)),
            _asked(c, p, line="ruled", previous_response_id="$resp"),
            *told(whole(SECOND[p])),
        ],
        pairs=((RESPONSES, MESSAGES),),
        setup=RULED,
    ),
    # What a provider keeps it alone can go on from, wherever it stands on the line.
    "failover_kept_elsewhere": Kind(
        steps=_kept_elsewhere,
        pairs=((RESPONSES, CHAT), (RESPONSES, RESPONSES)),
        setup=Setup(lines=LINES, own_keys=True, kept=True, stores_responses=True, keyed=True),
    ),
    "failover_run_here": Kind(
        steps=lambda c, p: [
            _asked(c, p, background=True),
            *_overloaded(p),
            *told(whole(SECOND[p])),
            passes(1),
            asks("/v1/responses/$resp"),
        ],
        pairs=STORING_FULL[1:],
        setup=KEPT_HERE,
    ),
    # The same target again.
    "again": Kind(
        steps=lambda c, p: [
            _asked(c, p, line="again"),
            *_overloaded(p),
            passes(0.6),
            *_overloaded(p),
            passes(1.1),
            *told(whole(p)),
        ],
        pairs=SOME,
        setup=TWO,
    ),
    "again_after_a_heartbeat": Kind(
        steps=lambda c, p: [
            _asked(c, p, stream=True, line="again"),
            answers(200, EVENTS),
            says(parts(p)[0]),
            passes(3),
            says(overloaded(p)),
            passes(0.6),
            *streamed(p),
        ],
        pairs=PAIRS,
        setup=Setup(lines=LINES, timeouts=Timeouts(heartbeat=2.0)),
    ),
    "again_cancelled": Kind(
        steps=lambda c, p: [_asked(c, p, line="again"), *_overloaded(p), passes(0.2), hangs_up(), passes(5)],
        pairs=SOME,
        setup=TWO,
    ),
    "again_stopped": Kind(
        steps=lambda c, p: [_asked(c, p, line="again"), *_overloaded(p), drains, stops], pairs=SOME, setup=TWO
    ),
}
