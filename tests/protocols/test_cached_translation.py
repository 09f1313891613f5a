"""Cached translation: what is found again, and what is not, when a request of the same client follows another one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dragoman.errors import DragomanError, StrictError
from dragoman.gateway.prefix_cache import PrefixCache
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.protocols.cached_translation import MIN_BODY
from dragoman.rules.capabilities import capabilities_of
from dragoman.translate import TranslatedRequest, translate_request
from dragoman.wire.json import encode
from tests.step_counting import StepCounter
from tests.translation_cache import CacheOfTests

SOURCE, TARGET = "anthropic-messages", "openai-chat"
LONG = "A sentence of the task. " * 500
TOOL: JsonObject = {"name": "read", "description": "Reads a file. " * 400, "input_schema": {"type": "object"}}


def step(number: int, *, marked: bool = False) -> JsonList:
    """One step of an agent: a call, and its result with or without a cache breakpoint."""
    call: JsonObject = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"n": number}}
    result: JsonObject = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"line {number}"}
    if marked:
        result["cache_control"] = {"type": "ephemeral"}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def history(steps: int, *, task: str = LONG, marked: bool = False) -> JsonList:
    """A task and steps; `marked` puts a breakpoint on the last one."""
    messages: JsonList = [{"role": "user", "content": task}]
    for number in range(steps):
        messages += step(number, marked=marked and number == steps - 1)
    return messages


def body(messages: JsonList, **changes: JsonObject | JsonList | str) -> bytes:
    return encode({"model": "alias", "max_tokens": 100, "tools": [TOOL], "messages": messages, **changes})


class Agent:
    """Requests of one key; each translation is compared with the one from scratch."""

    def __init__(self, prefixes: PrefixCache | None = None, key: str = "alice") -> None:
        self.prefixes = prefixes or PrefixCache()
        self.key = key

    def ask(self, request: bytes, model: str = "gpt-5.4") -> str:
        """Translate; what the cache had of the history."""
        cache = CacheOfTests(self.prefixes, SOURCE, self.key)
        cached = translate_request(request, source=SOURCE, target=TARGET, model=model, vendor="openai", cache=cache)
        check_same(cached, translate_request(request, source=SOURCE, target=TARGET, model=model, vendor="openai"))
        return "+".join(cache.results.elements())


def check_same(cached: TranslatedRequest, plain: TranslatedRequest) -> None:
    assert cached.body == plain.body
    assert cached.ledger.entries == plain.ledger.entries
    assert cached.context is not None and plain.context is not None
    assert cached.context.request == plain.context.request


def test_the_next_call_continues_where_the_last_one_ended() -> None:
    agent = Agent()
    assert agent.ask(body(history(3))) == "miss"
    assert agent.ask(body(history(4))) == "hit"
    assert agent.ask(body(history(6))) == "hit"


def test_a_request_that_is_sent_again_continues_before_its_end() -> None:
    agent = Agent()
    agent.ask(body(history(3)))
    assert agent.ask(body(history(3))) == "hit"


def test_a_breakpoint_that_moves_costs_the_messages_from_there_on() -> None:
    agent = Agent()
    agent.ask(body(history(5, marked=True)))
    assert agent.ask(body(history(6, marked=True))) == "hit"


def test_a_system_prompt_may_change() -> None:
    agent = Agent()
    agent.ask(body(history(3), system="Be brief."))
    assert agent.ask(body(history(4), system="x-anthropic-billing-header: cch=2;")) == "hit"


def test_an_edited_message_is_translated_again() -> None:
    agent = Agent()
    agent.ask(body(history(6)))
    edited = history(7)
    edited[3:5] = step(77)
    assert agent.ask(body(edited)) == "hit"
    edited[0] = {"role": "user", "content": LONG + "Something else."}
    assert agent.ask(body(edited)) == "miss"


def test_conversations_with_a_common_beginning_both_continue() -> None:
    agent = Agent()
    common = history(8)
    agent.ask(body(common))
    one = [*common, *step(20)]
    other = [*common[:7], *step(30), *step(31)]
    for number in range(3):
        one, other = [*one, *step(40 + number)], [*other, *step(50 + number)]
        assert agent.ask(body(one)) == "hit"
        assert agent.ask(body(other)) == "hit"


def test_another_target_in_mid_conversation_starts_from_scratch_once() -> None:
    agent = Agent()
    agent.ask(body(history(3)))
    assert agent.ask(body(history(4)), "gpt-4o") == "miss"
    assert agent.ask(body(history(5)), "gpt-4o") == "hit"
    assert agent.ask(body(history(6))) == "hit"


def test_other_tools_discard_the_history() -> None:
    agent = Agent()
    agent.ask(body(history(3)))
    assert agent.ask(body(history(4), tools=[{**TOOL, "name": "read this"}])) == "discarded+miss"
    assert agent.ask(body(history(5), tools=[{**TOOL, "name": "read this"}])) == "hit"


@pytest.mark.parametrize("later", [[TOOL, {**TOOL, "name": "write"}], [TOOL]], ids=["changed", "fewer"])
def test_tools_that_changed_while_another_target_was_called_are_translated_again(later: JsonList) -> None:
    agent = Agent()
    agent.ask(body(history(1), tools=[TOOL, {**TOOL, "name": "edit"}]))
    agent.ask(body(history(1), tools=later), "gpt-4o")
    agent.ask(body(history(1), tools=later))


def test_other_capabilities_discard_tools_and_history() -> None:
    prefixes = PrefixCache()
    capabilities = capabilities_of(TARGET, "m", "openai")
    for one, expected in (
        (capabilities, ["miss"]),
        (capabilities, ["hit"]),
        (replace(capabilities, user_after_tool=False), ["discarded", "discarded", "miss"]),
    ):
        cache = CacheOfTests(prefixes, SOURCE)
        request = body(history(3))
        cached = translate_request(request, source=SOURCE, target=TARGET, model="m", capabilities=one, cache=cache)
        check_same(cached, translate_request(request, source=SOURCE, target=TARGET, model="m", capabilities=one))
        assert sorted(cache.results.elements()) == expected


def test_no_key_finds_what_another_one_left() -> None:
    prefixes = PrefixCache()
    assert Agent(prefixes, "alice").ask(body(history(3))) == "miss"
    assert Agent(prefixes, "bob").ask(body(history(4))) == "miss"
    assert Agent(prefixes, "alice").ask(body(history(4))) == "hit"


def test_what_is_evicted_is_translated_again() -> None:
    # Room for one conversation.
    prefixes = PrefixCache(max_bytes=800_000)
    agent = Agent(prefixes)
    agent.ask(body(history(3)))
    for number in range(40):
        assert agent.ask(body(history(3, task=f"{number} {LONG}"))) == "miss"
        assert prefixes.size <= 800_000
    assert agent.ask(body(history(4))) == "miss"


def test_a_cleared_cache_has_nothing() -> None:
    agent = Agent()
    agent.ask(body(history(3)))
    agent.prefixes.clear()
    assert agent.prefixes.size == 0
    assert agent.ask(body(history(4))) == "miss"


def test_a_history_is_not_stored_though_its_custom_call_is_written_with_escapes() -> None:
    # What follows must know that the call was one of free text.
    call: JsonObject = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "now"}}
    results: JsonObject = {"role": "tool", "tool_call_id": "c1", "content": "done"}
    asked: JsonList = [{"role": "user", "content": LONG}, {"role": "assistant", "tool_calls": [call]}]
    prefixes = PrefixCache()
    for messages in (asked, [*asked, results], [*asked, results, results]):
        request = encode({"model": "alias", "messages": messages}).replace(b"custom", rb"c\u0075stom")
        cache = CacheOfTests(prefixes, "openai-chat")
        cached = translate_request(request, source="openai-chat", target=SOURCE, model="claude", cache=cache)
        check_same(cached, translate_request(request, source="openai-chat", target=SOURCE, model="claude"))
        assert cache.results == {"miss": 1}


def refused(request: bytes, cache: CacheOfTests | None) -> str:
    with pytest.raises(DragomanError) as caught:
        translate_request(request, source=SOURCE, target=TARGET, model="gpt-5.4", cache=cache)
    return str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda: body([*history(4), {"role": "nobody", "content": "?"}]), id="role"),
        pytest.param(lambda: body([*history(4), {"role": "user"}]), id="content"),
        pytest.param(lambda: body(history(4))[:-20], id="truncated"),
        pytest.param(lambda: body([*history(4), 7]), id="number"),
        pytest.param(lambda: body(history(4), container="container_1"), id="demand"),
    ],
)
def test_errors_have_the_words_and_places_of_a_translation_from_scratch(broken: Callable[[], bytes]) -> None:
    agent = Agent()
    agent.ask(body(history(3)))
    request = broken()
    assert refused(request, CacheOfTests(agent.prefixes, SOURCE)) == refused(request, None)
    assert agent.ask(body(history(4))) == "hit"


def test_strict_mode_refuses_the_losses_of_messages_that_were_translated_before() -> None:
    agent = Agent()
    thinking: JsonObject = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    messages = history(1)
    messages.append({"role": "assistant", "content": [thinking, {"type": "text", "text": "Ja."}]})
    messages.append({"role": "user", "content": "Go on."})
    agent.ask(body(messages))
    cache = CacheOfTests(agent.prefixes, SOURCE)
    with pytest.raises(StrictError):
        translate_request(
            body([*messages, *step(9)]), source=SOURCE, target=TARGET, model="m", strict="all", cache=cache
        )


def test_small_bodies_are_not_looked_up() -> None:
    cache = CacheOfTests(PrefixCache(), SOURCE)
    request = body([{"role": "user", "content": "Hello."}], tools=[])
    assert len(request) < MIN_BODY
    translate_request(request, source=SOURCE, target=TARGET, model="m", cache=cache)
    assert not cache.results


def test_the_next_call_takes_no_steps_for_the_messages_before() -> None:
    def steps(length: int) -> int:
        prefixes = PrefixCache()
        Agent(prefixes).ask(body(history(length)))
        request = body(history(length + 1))
        cache = CacheOfTests(prefixes, SOURCE)
        with StepCounter() as counter:
            translate_request(request, source=SOURCE, target=TARGET, model="gpt-5.4", vendor="openai", cache=cache)
        assert cache.results == {"hit": 1}
        return counter.steps

    # What is left are lists of losses, calls and ends of elements: a step or two for each.
    assert steps(220) - steps(20) < 200 * 12
