"""Thinking that cannot be asked for, because the turn that goes on has lost its own."""

from __future__ import annotations

import pytest

from dragoman.model.losses import Ledger
from dragoman.protocols.anthropic_messages.missing_reasoning import repair_reasoning
from dragoman.rules.capabilities import Capabilities, capabilities_of

MANUAL = capabilities_of("anthropic-messages", "claude-sonnet-4-5", "anthropic")
BOTH = capabilities_of("anthropic-messages", "claude-sonnet-4-6", "anthropic")
ADAPTIVE = capabilities_of("anthropic-messages", "claude-opus-5-5", "anthropic")
OTHER = capabilities_of("anthropic-messages", "kimi-k2", "moonshot")

ENABLED = b'{"type" : "enabled","budget_tokens":2048}'
CALL = b'{"type":"tool_use","id":"t","name":"f","input":{"n":1.0}}'
THOUGHT = b'{"type":"thinking","thinking":"hm","signature":"EqQB"}'
RESULT = b'{"type":"tool_result","tool_use_id":"t","content":"4"}'


def text(said: bytes) -> bytes:
    return b'{"type":"text","text":"' + said + b'"}'


def said(role: bytes, *blocks: bytes) -> bytes:
    return b'{"role":"' + role + b'","content":[' + b" , ".join(blocks) + b"]}"


def body(*messages: bytes, thinking: bytes = ENABLED, more: bytes = b"") -> bytes:
    return b'{ "thinking": ' + thinking + more + b', "messages": [' + b", ".join(messages) + b'] , "x":1.0 }'


LOOP = (said(b"user", text(b"go")), said(b"assistant", CALL), said(b"user", RESULT))


def lines(ledger: Ledger) -> list[tuple[str, str, str]]:
    return [(loss.fate.value, loss.feature.value, loss.at) for loss in ledger.losses]


@pytest.mark.parametrize("abilities", [MANUAL, OTHER], ids=["manual", "no Claude"])
@pytest.mark.parametrize(
    "messages",
    [
        LOOP,
        (*LOOP[:2], said(b"user", RESULT, text(b"<system-reminder>"))),
        (*LOOP[:2], said(b"system", text(b"late")), LOOP[2]),
        (*LOOP, said(b"user", text(b"more"))),
        (said(b"user", RESULT), b'{"role":"assistant","content":"Once upon"}'),
        (*LOOP[:1], said(b"assistant", text(b"so")), said(b"assistant", THOUGHT, CALL), LOOP[2]),
    ],
    ids=["loop", "with a reminder", "instructions between", "two messages", "prefill", "two messages of a turn"],
)
def test_item_4_a_turn_without_its_thinking_is_not_asked_for_more(
    messages: tuple[bytes, ...], abilities: Capabilities
) -> None:
    ledger = Ledger()
    assert repair_reasoning(body(*messages), abilities, ledger) == body(*messages, thinking=b'{"type":"disabled"}')
    assert lines(ledger) == [("approximated", "thinking", "reasoning")]


@pytest.mark.parametrize(
    "written",
    [
        body(LOOP[0], said(b"assistant", THOUGHT, CALL), LOOP[2]),
        body(LOOP[0], said(b"assistant", b'{"type":"redacted_thinking","data":"x"}', CALL), LOOP[2]),
        body(LOOP[0]),
        body(LOOP[0], said(b"assistant", text(b"so")), LOOP[0]),
        body(*LOOP, thinking=b'{"type":"adaptive"}'),
        body(*LOOP, thinking=b'{"type":"disabled"}'),
        body(*LOOP, thinking=b"null"),
        b'{"messages":[]}',
        b'{"thinking":{"type":"enabled"},"messages":"none"}',
    ],
)
def test_what_is_allowed_keeps_every_byte(written: bytes) -> None:
    ledger = Ledger()
    assert repair_reasoning(written, MANUAL, ledger) is written
    assert not len(ledger)


EARLIER = (*LOOP, said(b"assistant", THOUGHT, CALL), LOOP[2])


@pytest.mark.parametrize("mode", [b',"thinking":{"type":"adaptive"}', ENABLED, b""])
def test_item_5_what_a_provider_missed_in_an_earlier_turn_it_is_not_asked_for(mode: bytes) -> None:
    written = (
        body(*EARLIER, thinking=mode) if mode == ENABLED else b'{"messages":[' + b",".join(EARLIER) + b"]" + mode + b"}"
    )
    settled = repair_reasoning(written, OTHER, Ledger(), demanded=True)
    assert b'"thinking":{"type":"disabled"}' in settled.replace(b" ", b"") and b"enabled" not in settled
    assert repair_reasoning(written, OTHER, Ledger()) is written
    assert repair_reasoning(settled, OTHER, Ledger(), demanded=True) is settled


@pytest.mark.parametrize("abilities", [BOTH, ADAPTIVE], ids=["both", "adaptive only"])
def test_item_4_adaptive_models_think_without_what_went_before(abilities: Capabilities) -> None:
    ledger = Ledger()
    thinking = ENABLED[:-1] + b',"display":"omitted"}'
    expected = body(*LOOP, thinking=b'{"type":"adaptive","display":"omitted"}')
    expected = expected[:-2] + b',"output_config":{"effort":"low"}' + expected[-2:]
    assert repair_reasoning(body(*LOOP, thinking=thinking), abilities, ledger) == expected
    assert lines(ledger) == [("approximated", "thinking", "reasoning")]


@pytest.mark.parametrize(
    ("config", "expected"),
    [(b'{"effort":"max"}', b'{"effort":"max"}'), (b'{"format":1 }', b'{"format":1,"effort":"low" }')],
)
def test_an_effort_that_was_said_stays(config: bytes, expected: bytes) -> None:
    written = repair_reasoning(body(*LOOP, more=b',"output_config":' + config), BOTH, Ledger())
    assert written == body(*LOOP, thinking=b'{"type":"adaptive"}', more=b',"output_config":' + expected)


CLEARING = b'{"type":"clear_thinking_20251015","keep":"all"}'
OTHER_EDIT = b'{"type":"clear_tool_uses_20250919"}'
MANAGEMENT = b',"context_management":{"edits":[%b]}'


@pytest.mark.parametrize(
    ("management", "left"),
    [
        (MANAGEMENT % CLEARING, b""),
        (MANAGEMENT % (CLEARING + b"," + OTHER_EDIT), MANAGEMENT % OTHER_EDIT),
        (MANAGEMENT % OTHER_EDIT, MANAGEMENT % OTHER_EDIT),
    ],
    ids=["alone", "with another", "only another"],
)
def test_item_4_thinking_that_is_off_is_not_cleared(management: bytes, left: bytes) -> None:
    ledger = Ledger()
    written = repair_reasoning(body(*LOOP, more=management), MANUAL, ledger)
    assert written.replace(b" ", b"") == body(*LOOP, thinking=b'{"type":"disabled"}', more=left).replace(b" ", b"")
    cut = [("dropped", "context_management", "context_management")] if left != management else []
    assert lines(ledger) == [("approximated", "thinking", "reasoning"), *cut]
    # Adaptive thinking may be cleared.
    assert management in repair_reasoning(body(*LOOP, more=management), BOTH, Ledger())


# A step that was answered by a server without reasoning, and one of Claude's own.
BARE, THOUGHTFUL = said(b"assistant", CALL), said(b"assistant", THOUGHT, CALL)
RESULTS = LOOP[2]


@pytest.mark.parametrize(
    "messages",
    [
        LOOP,
        (*LOOP, BARE, RESULTS),
        (*LOOP, said(b"user", text(b"more"))),
        (LOOP[0], THOUGHTFUL, RESULTS, said(b"assistant", text(b"done")), *LOOP),
    ],
    ids=["one step", "two steps", "a question behind", "an earlier turn with thinking"],
)
def test_a_tool_loop_of_a_server_without_reasoning_is_settled_before_the_call(messages: tuple[bytes, ...]) -> None:
    ledger = Ledger()
    settled = repair_reasoning(body(*messages), MANUAL, ledger, intact=True)
    assert settled == body(*messages, thinking=b'{"type":"disabled"}')
    assert lines(ledger) == [("approximated", "thinking", "reasoning")]
    assert b'"type":"adaptive"' in repair_reasoning(body(*messages), BOTH, Ledger(), intact=True)


@pytest.mark.parametrize(
    ("messages", "abilities"),
    [
        ((LOOP[0], THOUGHTFUL, RESULTS, BARE, RESULTS), MANUAL),
        ((*LOOP, THOUGHTFUL, RESULTS), MANUAL),
        ((*LOOP, said(b"assistant", text(b"done")), LOOP[0]), MANUAL),
        ((LOOP[0], said(b"assistant", text(b"Once upon"))), MANUAL),
        ((*LOOP, said(b"assistant", text(b"Once upon"))), MANUAL),
        (LOOP, OTHER),
    ],
    ids=[
        "Claude's own second step",
        "a later step with thinking",
        "a new question",
        "prefill",
        "in a loop",
        "no Claude",
    ],
)
def test_what_a_provider_may_accept_keeps_every_byte(messages: tuple[bytes, ...], abilities: Capabilities) -> None:
    ledger = Ledger()
    written = body(*messages)
    assert repair_reasoning(written, abilities, ledger, intact=True) is written
    assert not len(ledger)


def test_a_loop_with_thinking_in_an_earlier_step_is_not_asked_for_none() -> None:
    written = body(LOOP[0], THOUGHTFUL, RESULTS, BARE, RESULTS)
    assert repair_reasoning(written, MANUAL, Ledger()) is written
