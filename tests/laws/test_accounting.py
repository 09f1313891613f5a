"""Law 6, accounting: whatever was said is in the translation, or its place is in the ledger, or nothing was sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from dragoman.errors import RefusedError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.response import Response
from dragoman.protocols.registry import codec_of
from dragoman.rules.updates import effective
from dragoman.translate import LossLine, translate_request, translate_response, translation_context
from dragoman.wire.json import decode_object
from tests.each_case import check_each
from tests.laws.journey import STEADY, asked, parsed
from tests.laws.marking import COMPARISONS, Mark, Unresolved, holds, marked, resolve
from tests.laws.shapes import Kind, Leaf, Where, leaves, put
from tests.laws.strategies import (
    ANSWERS,
    CHAT,
    FIELDS,
    MESSAGES,
    PAIRS,
    RESPONSES,
    Case,
    answers,
    requests,
    single_answers,
    single_requests,
)


class Outcome(Struct, frozen=True, kw_only=True):
    """A translation with the values its ledger speaks of."""

    body: JsonObject
    losses: tuple[LossLine, ...]
    models: tuple[Struct, ...]

    def at(self, place: str) -> list[object]:
        """What stands at a place of the ledger; the places of late tools are those of the request they amount to."""
        found: list[object] = []
        for model in self.models:
            try:
                found.append(resolve(model, place))
            except Unresolved as error:
                reason = error
        if not found:
            raise reason
        return found


def request_outcome(
    source: str, target: str, body: JsonObject, upstream: str | None = None, model: str | None = None
) -> Outcome | None:
    """A request translated, or None if it was refused."""
    try:
        translated = translate_request(body, source=source, target=target, vendor=upstream, model=model)
    except RefusedError:
        return None
    request = codec_of(source).decode_request(parsed(body))
    return Outcome(body=decode_object(translated.body), losses=translated.losses, models=(request, effective(request)))


def answer_outcome(source: str, target: str, body: JsonObject) -> Outcome:
    """An answer translated for a client that declared the tools it calls."""
    request = asked(target, source)
    translated = translate_response(body, source=source, target=target, request=request, mint=STEADY)
    response = codec_of(source).decode_response(parsed(body), translation_context(request, codec_of(source)), Ledger())
    assert isinstance(response, Response)
    return Outcome(body=decode_object(translated.body), losses=translated.losses, models=(response,))


def unaccounted(outcome: Outcome, marks: list[Mark]) -> list[str]:
    places = [value for loss in outcome.losses for value in outcome.at(loss["at"])]
    return [
        f"{mark.kind.value} at {mark.where}"
        for mark in marks
        if not holds(outcome.body, mark) and not any(holds(value, mark) for value in places)
    ]


def test_every_kind_of_leaf_has_its_comparison() -> None:
    assert COMPARISONS.keys() == set(Kind)


# Whom requests are written for: servers nobody knows, and the vendors' own.
PROVIDERS: dict[str, tuple[tuple[str | None, str | None], ...]] = {
    MESSAGES: ((None, None), (None, "claude-opus-5")),
    CHAT: ((None, None), ("openai", "gpt-4o")),
    RESPONSES: ((None, None),),
}
ROUTES = [(source, target, upstream, model) for source, target in PAIRS for upstream, model in PROVIDERS[target]]


def check_request(source: str, target: str, body: JsonObject, upstream: str | None, model: str | None) -> None:
    body, marks = marked(FIELDS[source], body)
    outcome = request_outcome(source, target, body, upstream, model)
    if outcome is not None:
        # A name that the caller replaces is none of the ledger's business.
        missing = unaccounted(outcome, [mark for mark in marks if model is None or mark.where != ("model",)])
        assert missing == []


@pytest.mark.parametrize(("source", "target", "upstream", "model"), ROUTES, ids=str)
def test_every_leaf_of_a_request_is_accounted_for(
    source: str, target: str, upstream: str | None, model: str | None
) -> None:
    check_each(lambda case: check_request(source, target, case.body, upstream, model), single_requests(source))


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(data=st.data())
def test_every_leaf_of_any_request_is_accounted_for(source: str, target: str, data: st.DataObject) -> None:
    upstream, model = data.draw(st.sampled_from(PROVIDERS[target]))
    check_request(source, target, data.draw(requests(source)), upstream, model)


# --- closed sets: another legal word must show somewhere -------------------------------------------------------------

# Members whose words mean the same to the target: nothing is lost between them.
SAME_MEANING: dict[tuple[str, str, str], str] = {
    (CHAT, MESSAGES, "messages.role"): "I3: developer and system are one thing towards Messages",
    (RESPONSES, MESSAGES, "input.role"): "I3",
    (RESPONSES, CHAT, "input.role"): "§1.1: elsewhere than at OpenAI instructions are `system`",
    (CHAT, MESSAGES, "stream_options.include_usage"): "S5: kept for the answer; the provider tells usage anyway",
    (CHAT, RESPONSES, "stream_options.include_usage"): "S5",
    (MESSAGES, RESPONSES, "cache_control.ttl"): "§15: the automatic mark has nothing to send, caching is implicit",
    (MESSAGES, CHAT, "cache_control.ttl"): "§15",
}


def other_words(case: Case) -> list[tuple[Where, JsonValue]]:
    found: list[tuple[Where, JsonValue]] = []
    for place in leaves(FIELDS[case.protocol], case.body):
        assert isinstance(place.shape, Leaf)
        if place.shape.kind in (Kind.WORD, Kind.FLAG):
            found += [(place.where, word) for word in place.shape.values if word != place.value]
    return found


def shows(first: Outcome, second: Outcome) -> bool:
    """Whether two outcomes differ, or a place in the ledger holds what was said in one and not in the other."""
    if first.body != second.body or first.losses != second.losses:
        return True
    return any(first.at(loss["at"]) != second.at(loss["at"]) for loss in first.losses)


def unshown(case: Case, target: str) -> list[str]:
    upstream, model = PROVIDERS[target][-1]
    first = request_outcome(case.protocol, target, case.body, upstream, model)
    if first is None:
        return []
    silent: list[str] = []
    for where, word in other_words(case):
        name = ".".join(step for step in where if isinstance(step, str))
        if (case.protocol, target, name) in SAME_MEANING:
            continue
        changed = put(case.body, where, word)
        assert isinstance(changed, dict)
        second = request_outcome(case.protocol, target, changed, upstream, model)
        if second is not None and not shows(first, second):
            silent.append(f"{where}: {word!r} is as good as any other")
    return silent


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_word_of_a_closed_set_shows(source: str, target: str) -> None:
    def check(case: Case) -> None:
        missing = unshown(case, target)
        assert missing == []

    check_each(check, single_requests(source))


# --- answers ---------------------------------------------------------------------------------------------------------

# Members of answers that no client of another protocol is owed; everything else is marked.
NOT_OWED: dict[str, dict[str, str]] = {
    MESSAGES: {"usage": "sums; the totals are compared below"},
    CHAT: {"usage": "sums; the totals are compared below", "created": "Messages has no such member (§16)"},
    RESPONSES: {
        "usage": "sums; the totals are compared below",
        "created_at": "Messages has no such member (§16)",
        "completed_at": "Messages and Chat have no such member (§16)",
        "temperature": "the echo of the question",
        "top_p": "the echo of the question",
        "metadata": "the echo of the question",
    },
}


def owed(protocol: str, marks: list[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark.where[0] not in NOT_OWED[protocol]]


def check_answer(source: str, target: str, answer: JsonObject) -> None:
    # The names of tools are those that were declared: the client knows no other.
    body, marks = marked(ANSWERS[source], answer, skip=frozenset({Kind.TOOL_NAME}))
    outcome = answer_outcome(source, target, body)
    missing = unaccounted(outcome, owed(source, marks))
    assert missing == []
    counted = totals(source, body)
    assert totals(target, outcome.body) == (counted or (0, 0))
    # U8: a provider that counts nothing is reported, never estimated.
    assert counted is not None or any(loss["feature"] == "usage" for loss in outcome.losses)


def totals(protocol: str, body: JsonObject) -> tuple[int, int] | None:
    """All input and all output tokens, as the protocol counts them (§18)."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return None
    counted = {name: value for name, value in usage.items() if isinstance(value, int)}
    if protocol == MESSAGES:
        cached = counted.get("cache_creation_input_tokens", 0) + counted.get("cache_read_input_tokens", 0)
        return counted["input_tokens"] + cached, counted["output_tokens"]
    if protocol == CHAT:
        return counted["prompt_tokens"], counted["completion_tokens"]
    return counted["input_tokens"], counted["output_tokens"]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_leaf_of_an_answer_is_accounted_for(source: str, target: str) -> None:
    check_each(lambda case: check_answer(source, target, case.body), single_answers(source))


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(data=st.data())
def test_every_leaf_of_any_answer_is_accounted_for(source: str, target: str, data: st.DataObject) -> None:
    check_answer(source, target, data.draw(answers(source)))
