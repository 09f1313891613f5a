"""The dialogues about what is kept: stored responses, conversations, a busy store, and what runs in the background."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.config.settings import Timeouts
from tests.gateway.harness import CHAT, PROTOCOLS, RESPONSES
from tests.playbooks.bodies import FULL, brief, error, frames, parts, reminding, seal_refused, whole
from tests.playbooks.kinds import Kind, Pair, Setup, Steps, asked, briefly, opened, streamed, told
from tests.playbooks.steps import (
    CLIENT_KEY,
    EVENTS,
    OTHER_KEY,
    Step,
    answers,
    asks,
    cuts,
    drains,
    ends,
    frees_store,
    hangs_up,
    holds_store,
    passes,
    says,
    stops,
)

# Responses clients, whose answers are kept.
STORING_FULL: tuple[Pair, ...] = tuple((RESPONSES, name) for name in PROTOCOLS)
KEPT = Setup(kept=True)
# Keep-alives come sooner than a busy store is given up.
LIVELY = Setup(kept=True, timeouts=Timeouts(heartbeat=4.0))
# Providers may not be silent for long.
IMPATIENT = Setup(kept=True, timeouts=Timeouts(idle=5.0))
# Providers keep what they answered, and the gateway notes whose it is.
NOTING = Setup(kept=True, stores_responses=True, keyed=True)
OPEN = "/v1/responses"


def _chained(client: str, provider: str) -> Steps:
    return [
        asked(client, provider),
        *told(whole(provider, FULL[provider])),
        asks(OPEN, {**brief(client, provider), "previous_response_id": "$resp", "input": [_result()]}),
        *told(whole(provider)),
        asks("/v1/responses/$resp"),
        asks("/v1/responses/$resp/input_items"),
        asks("/v1/responses/$resp", method="DELETE"),
        briefly(client, provider, previous_response_id="$resp"),
    ]


def _result() -> dict[str, object]:
    return {"type": "function_call_output", "call_id": "call_0123456789", "output": "sunny"}


def _in_conversation(client: str, provider: str) -> Steps:
    return [
        asks("/v1/conversations", {"metadata": {"topic": "weather"}}),
        briefly(client, provider, stream=True, conversation="$conv"),
        briefly(client, provider, conversation="$conv", client_name="other client"),
        *streamed(provider),
        briefly(client, provider, conversation={"id": "$conv"}),
        *told(whole(provider)),
        asks("/v1/conversations/$conv/items"),
    ]


def _held(*then: Step, stream: bool, ended: bool = True) -> Callable[[str, str], Steps]:
    """An answer that is to be kept while the store is busy; `ended` if the provider is done with it."""

    def steps(client: str, provider: str) -> Steps:
        if stream:
            last = [says(parts(provider)[2]), *([ends()] if ended else [])]
            return [*opened(client, provider), holds_store, *last, *then]
        return [briefly(client, provider), holds_store, *told(whole(provider)), *then]

    return steps


def _failing(client: str, provider: str) -> Steps:
    """A store that did not take an answer is tried before the next one is asked for."""
    return [
        *_held(passes(11), stream=False)(client, provider),
        briefly(client, provider),
        passes(2),
        frees_store,
        briefly(client, provider),
        *told(whole(provider)),
    ]


def _noted(client: str, provider: str) -> Steps:
    """Whose a response is that its provider keeps is known, though its client went away."""
    mine, others = {"authorization": f"Bearer {CLIENT_KEY}"}, {"authorization": f"Bearer {OTHER_KEY}"}
    opening, words, _ = parts(provider)
    return [
        asks(OPEN, brief(client, provider, stream=True), **mine),
        answers(200, EVENTS),
        says(opening),
        says(words),
        hangs_up(),
        asks(OPEN, brief(client, provider, previous_response_id="$resp"), **others),
        asks(OPEN, brief(client, provider, previous_response_id="$resp"), **mine),
        *told(whole(provider)),
    ]


def _noted_again(client: str, provider: str) -> Steps:
    """Of a response that was refused for its reasoning nobody has heard; the one after it is noted."""
    mine = {"authorization": f"Bearer {CLIENT_KEY}"}
    again = [part.replace(b"resp_0123456789", b"resp_9876543210") for part in parts(provider)]
    return [
        asks(OPEN, brief(client, provider, stream=True) | reminding(client), **mine),
        answers(200, EVENTS),
        says(parts(provider)[0] + seal_refused(provider, inside=True)),
        answers(200, EVENTS),
        *map(says, again),
        ends(),
    ]


def _background_held(client: str, provider: str) -> Steps:
    rest = says(parts(provider)[2])
    then = (holds_store, rest, ends(), passes(3), asks_state, frees_store, passes(1), asks_state)
    return _background(*then)(client, provider)


def _background(*then: Step, stream: bool = False) -> Callable[[str, str], Steps]:
    """A response that runs by itself, as far as its first words."""

    def steps(client: str, provider: str) -> Steps:
        opening, words, rest = parts(provider)
        begun = [briefly(client, provider, background=True, stream=stream), *([] if stream else [asks_state])]
        said = [answers(200, EVENTS), says(opening + words), passes(1)]
        return [*begun, *said, *(then or (says(rest), ends(), passes(1), asks_state))]

    return steps


asks_state = asks("/v1/responses/$resp", client="other client")
asks_cancel = asks("/v1/responses/$resp/cancel", method="POST", client="third client")
listens = asks("/v1/responses/$resp?stream=true", client="other client")


KINDS: dict[str, Kind] = {
    "stored": Kind(steps=_chained, pairs=STORING_FULL, setup=KEPT),
    "stored_stream": Kind(
        steps=lambda c, p: [*opened(c, p), says(parts(p)[2]), ends()], pairs=STORING_FULL, setup=KEPT
    ),
    "stored_elsewhere": Kind(
        steps=lambda c, p: [
            briefly(c, p),
            *told(whole(p)),
            briefly(c, p, previous_response_id="$resp"),
            *told(whole(p)),
        ],
        pairs=STORING_FULL[2:],
    ),
    # The stream ends without usage and without its terminator: its tokens are counted before it is stored.
    "stored_uncounted": Kind(
        steps=lambda c, p: [*opened(c, p), says(frames(p)[-3]), ends()], pairs=((RESPONSES, CHAT),), setup=KEPT
    ),
    "conversation": Kind(steps=_in_conversation, pairs=STORING_FULL[1:], setup=KEPT),
    "conversation_held": Kind(
        steps=lambda c, p: [*_in_conversation(c, p)[:2], passes(100), *streamed(p)], pairs=STORING_FULL[1:2], setup=KEPT
    ),
    "stored_reasoning_refused": Kind(
        steps=lambda c, p: [
            asks(OPEN, brief(c, p, stream=True) | reminding(c)),
            *told(seal_refused(p, inside=True), 200, EVENTS)[:-1],
            *streamed(p),
        ],
        pairs=STORING_FULL[2:],
        setup=KEPT,
    ),
    "settling": Kind(steps=_held(passes(9), frees_store, passes(1), stream=True), pairs=STORING_FULL[1:], setup=LIVELY),
    "settling_whole": Kind(
        steps=_held(passes(2), frees_store, passes(1), stream=False), pairs=STORING_FULL[1:], setup=KEPT
    ),
    "unsettled": Kind(steps=_held(passes(11), stream=True), pairs=STORING_FULL[1:], setup=LIVELY),
    "unsettled_whole": Kind(steps=_held(passes(11), stream=False), pairs=STORING_FULL[1:], setup=KEPT),
    "settling_cancelled": Kind(
        steps=_held(passes(1), hangs_up(), passes(1), frees_store, passes(1), stream=True),
        pairs=STORING_FULL[1:],
        setup=KEPT,
    ),
    "settling_freed_and_cancelled": Kind(
        steps=_held(passes(1), frees_store, hangs_up(), stream=True), pairs=STORING_FULL[1:], setup=KEPT
    ),
    "settling_stopped": Kind(steps=_held(passes(1), drains, stops, stream=True), pairs=STORING_FULL[1:], setup=KEPT),
    "settling_more": Kind(
        steps=_held(says(b": tick\n\n"), passes(1), frees_store, passes(1), stream=True, ended=False),
        pairs=STORING_FULL[1:],
        setup=KEPT,
    ),
    # The provider does not end, and is not waited for.
    "stored_lingering": Kind(
        steps=lambda c, p: [*opened(c, p), says(parts(p)[2]), passes(0.5), says(b": tick\n\n"), passes(2)],
        pairs=STORING_FULL[1:],
        setup=KEPT,
    ),
    # What failed is told, as soon as the store has been tried once or for as long as an answer is.
    "breaking_held": Kind(
        steps=lambda c, p: [*opened(c, p), holds_store, passes(6), frees_store], pairs=STORING_FULL[1:], setup=IMPATIENT
    ),
    "cut_held": Kind(
        steps=lambda c, p: [*opened(c, p), holds_store, cuts(), passes(11), frees_store],
        pairs=STORING_FULL[1:],
        setup=KEPT,
    ),
    "settling_whole_cancelled": Kind(
        steps=_held(passes(1), hangs_up(), stream=False), pairs=STORING_FULL[1:], setup=KEPT
    ),
    "settling_whole_stopped": Kind(
        steps=_held(passes(1), drains, stops, stream=False), pairs=STORING_FULL[1:], setup=KEPT
    ),
    "unsettled_twice": Kind(steps=_failing, pairs=STORING_FULL[1:], setup=KEPT),
    "stored_mislabelled": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), *told(b"".join(frames(p)))], pairs=STORING_FULL[1:], setup=KEPT
    ),
    "stored_told_whole": Kind(
        steps=lambda c, p: [briefly(c, p, stream=True), *told(whole(p))], pairs=STORING_FULL[1:], setup=KEPT
    ),
    "stored_collected": Kind(steps=lambda c, p: [briefly(c, p), *streamed(p)], pairs=STORING_FULL[1:], setup=KEPT),
    "stored_cut": Kind(steps=lambda c, p: [*opened(c, p), cuts()], pairs=STORING_FULL[1:], setup=KEPT),
    "stored_cancelled": Kind(steps=lambda c, p: [*opened(c, p), hangs_up()], pairs=STORING_FULL[1:], setup=KEPT),
    "unstored": Kind(
        steps=lambda c, p: [briefly(c, p, store=False), *told(whole(p)), asks("/v1/responses/$resp")],
        pairs=STORING_FULL[:2],
        setup=KEPT,
    ),
    "noted_late": Kind(
        steps=lambda c, p: [holds_store, *_noted(c, p)[:5], passes(1), frees_store, passes(1)],
        pairs=STORING_FULL[2:],
        setup=NOTING,
    ),
    "noted_again": Kind(steps=_noted_again, pairs=STORING_FULL[2:], setup=NOTING),
    "noted": Kind(steps=_noted, pairs=STORING_FULL[2:], setup=NOTING),
    "background": Kind(steps=_background(), pairs=STORING_FULL[:2], setup=KEPT),
    "background_nowhere": Kind(steps=lambda c, p: [briefly(c, p, background=True)], pairs=STORING_FULL[2:], setup=KEPT),
    "background_elsewhere": Kind(
        steps=lambda c, p: [briefly(c, p, background=True), *told(whole(p)), asks_state, *told(whole(p))],
        pairs=STORING_FULL[2:],
    ),
    "background_stream": Kind(steps=_background(stream=True), pairs=STORING_FULL[1:2], setup=KEPT),
    "background_listened": Kind(
        steps=_background(hangs_up(), listens, passes(20), asks_cancel, passes(1), stream=True),
        pairs=STORING_FULL[1:2],
        setup=KEPT,
    ),
    "background_settling": Kind(steps=_background_held, pairs=STORING_FULL[1:2], setup=KEPT),
    "background_cut": Kind(steps=_background(cuts(), passes(1), asks_state), pairs=STORING_FULL[1:2], setup=KEPT),
    "background_cancelled": Kind(
        steps=_background(asks_cancel, passes(3), asks_state), pairs=STORING_FULL[1:2], setup=KEPT
    ),
    # In which order several connections are closed is open.
    "background_stopped": Kind(
        steps=_background(hangs_up("other client"), drains, stops), pairs=STORING_FULL[1:2], setup=KEPT
    ),
    "compact_cancelled_draining": Kind(
        steps=lambda c, p: [asks("/v1/responses/compact", brief(c, p)), drains, hangs_up(), stops],
        pairs=STORING_FULL[1:],
        setup=KEPT,
    ),
    "compact_refused": Kind(
        steps=lambda c, p: [asks("/v1/responses/compact", brief(c, p)), *told(error(p, "api_error", "oh"), 500)],
        pairs=STORING_FULL[1:],
        setup=KEPT,
    ),
    "compacted": Kind(
        steps=lambda c, p: [asks("/v1/responses/compact", brief(c, p)), *told(whole(p))],
        pairs=STORING_FULL[1:],
        setup=KEPT,
    ),
}
