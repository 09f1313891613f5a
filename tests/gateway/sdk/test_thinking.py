"""Reasoning over two turns: clients echo what their SDK gave them, and the provider gets its own proofs back."""

from __future__ import annotations

import json
from collections.abc import Callable, Container

import pytest
from anthropic.types import MessageParam, ToolResultBlockParam
from openai.types import ReasoningEffort
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam

from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.sdk.desk import MODELS, OMITTED, Desk
from tests.sdk.digging import Object, dig_object, dig_objects
from tests.sdk.providers import Turn
from tests.sdk.test_conversations import CALLED, CALLS, ENDED, FINAL
from tests.sdk.users import QUESTION, ask_completion, ask_message, ask_response

FIRST, SECOND = "The user wants three things.", "Now I know all of them: 18 °C → mild."
AGAIN = "And tomorrow?"
MANUAL = "messages/claude-sonnet-4-5"

PAIRS = [(client, provider) for client in PROTOCOLS for provider in PROTOCOLS]
every_pair = pytest.mark.parametrize(("client", "provider"), PAIRS)
WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def turns(provider: str, *, first: str = FIRST, second: str = SECOND, text: str = "Let me look.") -> list[Turn]:
    """Reasoning before calls, reasoning before the answer, and a last answer without any."""
    return [
        Turn(stop=CALLED[provider], reasoning=first, text=text, calls=CALLS[provider][:2]),
        Turn(stop=ENDED[provider], reasoning=second, text=FINAL),
        Turn(stop=ENDED[provider], text=FINAL),
    ]


@WAYS
@every_pair
def test_proofs_return_to_their_provider_as_they_were(desk: Desk, client: str, provider: str, streamed: bool) -> None:
    with desk.scripted(*turns(provider)) as strict:
        heard = _TALKERS[client](desk, MODELS[provider], streamed)
    assert heard == [FIRST, SECOND]
    _CHECKS[provider](strict.said, strict.asked)


@WAYS
@every_pair
def test_proofs_return_without_any_text_beside_them(desk: Desk, client: str, provider: str, streamed: bool) -> None:
    with desk.scripted(*turns(provider, text="")) as strict:
        heard = _TALKERS[client](desk, MODELS[provider], streamed)
    assert heard == [FIRST, SECOND]
    _CHECKS[provider](strict.said, strict.asked)


@WAYS
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_signature_without_readable_thinking_returns_too(desk: Desk, client: str, streamed: bool) -> None:
    with desk.scripted(*turns(MESSAGES, first=OMITTED, second=OMITTED)) as strict:
        heard = _TALKERS[client](desk, MODELS[MESSAGES], streamed)
    assert heard == ["", ""]
    _check_messages(strict.said, strict.asked)


@WAYS
@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_models_with_a_thinking_budget_get_their_turns_back(desk: Desk, client: str, streamed: bool) -> None:
    with desk.scripted(*turns(MESSAGES)) as strict:
        heard = _TALKERS[client](desk, MANUAL, streamed)
    assert heard == [FIRST, SECOND]
    assert all(dig_object(body, "thinking")["type"] == "enabled" for body in strict.asked)
    _check_messages(strict.said, strict.asked)


@WAYS
@every_pair
def test_two_rounds_of_calls_keep_both_proofs(desk: Desk, client: str, provider: str, streamed: bool) -> None:
    script = [
        Turn(stop=CALLED[provider], reasoning=FIRST, calls=CALLS[provider][:1]),
        Turn(stop=CALLED[provider], reasoning=SECOND, text="One more.", calls=CALLS[provider][1:]),
        Turn(stop=ENDED[provider], text=FINAL),
    ]
    with desk.scripted(*script) as strict:
        heard = _TALKERS[client](desk, MODELS[provider], streamed)
    assert heard == [FIRST, SECOND]
    if provider != CHAT:
        _CHECKS[provider](strict.said, strict.asked)
    else:
        calling = [message for message in dig_objects(strict.asked[2], "messages") if message.get("tool_calls")]
        assert [message["reasoning_content"] for message in calling] == [FIRST, SECOND]


@WAYS
@pytest.mark.parametrize("model", [MANUAL, *MODELS.values()])
def test_a_chat_client_that_echoes_text_and_calls_alone_is_served_on(desk: Desk, model: str, streamed: bool) -> None:
    """Many programs keep nothing else: the proof is gone, and the provider must not be told otherwise (V5)."""
    provider = next((name for name, known in MODELS.items() if known == model), MESSAGES)
    with desk.scripted(*turns(provider)):
        _talk_chat(desk, model, streamed, keep={"role", "content", "tool_calls"})


CAPS = (16, 1024, 1025, 2048, 5000, 40_000)


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh"])
@pytest.mark.parametrize("model", [MANUAL, MODELS[MESSAGES]])
def test_every_effort_fits_into_every_cap(desk: Desk, model: str, effort: ReasoningEffort) -> None:
    """A budget below the cap, or none at all: the provider refuses any other."""
    with desk.scripted(*[Turn(stop="end_turn", text="Yes.")] * len(CAPS) * 2):
        for cap in CAPS:
            desk.openai.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": QUESTION}],
                max_completion_tokens=cap,
                reasoning_effort=effort,
                temperature=0.3,
            )
            desk.openai.responses.create(
                model=model, input=QUESTION, max_output_tokens=cap, reasoning={"effort": effort}, temperature=0.3
            )


@WAYS
@every_pair
def test_proofs_of_another_provider_stay_at_home(desk: Desk, client: str, provider: str, streamed: bool) -> None:
    """A conversation moves to another provider in its middle: what only the first can open is not sent to it."""
    elsewhere = PROTOCOLS[(PROTOCOLS.index(provider) + 1) % 3]
    if (client, provider) == (CHAT, MESSAGES):
        # Details with a native signature are what routers of the Chat protocol issue too: the relay leaves them alone.
        elsewhere = RESPONSES
    script = [*turns(provider)[:2], Turn(stop=ENDED[elsewhere], text=FINAL)]
    with desk.scripted(*script) as strict:
        _TALKERS[client](desk, MODELS[provider], streamed, MODELS[elsewhere])
    last = json.dumps(strict.asked[-1], ensure_ascii=False)
    assert CALLS[provider][0].id in last
    for proof in _proofs(strict.said[:2]):
        assert str(proof) not in last
    assert FIRST not in last and SECOND not in last


def _talk_messages(desk: Desk, model: str, streamed: bool, later: str | None = None) -> list[str]:
    history: list[MessageParam] = [{"role": "user", "content": QUESTION}]
    heard: list[str] = []
    for turn, name in enumerate((model, model, later or model)):
        message = ask_message(desk.anthropic, history, streamed, name)
        if turn == 2:
            break
        heard.append("".join(block.thinking for block in message.content if block.type == "thinking"))
        history.append({"role": "assistant", "content": message.content})
        results: list[ToolResultBlockParam] = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "18 degrees"}
            for block in message.content
            if block.type == "tool_use"
        ]
        history.append({"role": "user", "content": results or AGAIN})
    return heard


def _talk_chat(
    desk: Desk, model: str, streamed: bool, later: str | None = None, keep: Container[str] | None = None
) -> list[str]:
    history: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
    heard: list[str] = []
    for turn, name in enumerate((model, model, later or model)):
        message = ask_completion(desk.openai, history, streamed, name)
        if turn == 2:
            break
        heard.append(str((message.model_extra or {}).get("reasoning_content") or ""))
        said = message.model_dump(exclude_none=True)
        kept = {name: value for name, value in said.items() if keep is None or name in keep}
        history.append(kept)  # type: ignore[arg-type]  # as its users do
        for call in message.tool_calls or []:
            history.append({"role": "tool", "tool_call_id": call.id, "content": "18 degrees"})
        if not message.tool_calls:
            history.append({"role": "user", "content": AGAIN})
    return heard


def _talk_responses(desk: Desk, model: str, streamed: bool, later: str | None = None) -> list[str]:
    history: list[ResponseInputItemParam] = [{"role": "user", "content": QUESTION}]
    heard: list[str] = []
    for turn, name in enumerate((model, model, later or model)):
        response = ask_response(desk.openai, history, streamed, name)
        if turn == 2:
            break
        heard.append(
            "".join(part.text for item in response.output if item.type == "reasoning" for part in item.summary)
        )
        history += response.output  # type: ignore[arg-type]  # as its users do
        calls = [item for item in response.output if item.type == "function_call"]
        for call in calls:
            history.append({"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"})
        if not calls:
            history.append({"role": "user", "content": AGAIN})
    return heard


def _check_messages(said: list[Object], asked: list[Object]) -> None:
    """The provider itself compares turns that hold a signature, block for block; here, that they do hold it."""
    for count, body in enumerate(asked):
        turns = [message for message in dig_objects(body, "messages") if message["role"] == "assistant"]
        proofs = [
            block["signature"] for turn in turns for block in dig_objects(turn, "content") if "signature" in block
        ]
        assert proofs == _proofs(said[:count])


def _check_chat(said: list[Object], asked: list[Object]) -> None:
    """Reasoning goes back beside its calls, where servers demand it (V7)."""
    for body in asked[1:]:
        calling = [message for message in dig_objects(body, "messages") if message.get("tool_calls")]
        assert [message["reasoning_content"] for message in calling] == [FIRST]


def _check_responses(said: list[Object], asked: list[Object]) -> None:
    for count, body in enumerate(asked):
        items = [item for item in dig_objects(body, "input") if item.get("type") == "reasoning"]
        assert [item["encrypted_content"] for item in items] == _proofs(said[:count])
        assert [item["id"] for item in items] == [dig_object(answer, "output", 0)["id"] for answer in said[:count]]


def _proofs(said: list[Object]) -> list[object]:
    """The proofs in what a provider said, in order."""
    places = ("content", "output")
    blocks = [block for answer in said for place in places if place in answer for block in dig_objects(answer, place)]
    return [block[name] for block in blocks for name in ("signature", "encrypted_content") if name in block]


_TALKERS: dict[str, Callable[..., list[str]]] = {
    MESSAGES: _talk_messages,
    CHAT: _talk_chat,
    RESPONSES: _talk_responses,
}
_CHECKS = {MESSAGES: _check_messages, CHAT: _check_chat, RESPONSES: _check_responses}
