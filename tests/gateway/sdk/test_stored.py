"""Stored responses as the SDK's users know them: only what is new is said, and the provider is told everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import openai
import pytest
from msgspec.structs import replace
from openai.types.responses import FunctionToolParam, Response, ResponseInputItemParam

from dragoman.config.settings import Settings
from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES, House, running, settings_for
from tests.gateway.says import tells
from tests.gateway.sdk.desk import MODELS, Desk, StrictProvider
from tests.gateway.sdk.test_thinking import _CHECKS, AGAIN, turns
from tests.sdk.digging import dig_objects
from tests.sdk.providers import Turn
from tests.sdk.test_conversations import ENDED, FINAL
from tests.sdk.users import QUESTION, TOOLS

ABROAD = (MESSAGES, CHAT)
ALICE, BOB = "sk-alice-0123456789abcdef", "sk-bob-0123456789abcdef"
FUNCTIONS: list[FunctionToolParam] = [
    {"type": "function", "name": name, "description": f"Runs {name}.", "parameters": schema, "strict": False}
    for name, schema in TOOLS.items()
]
WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def _ask(
    client: openai.OpenAI, model: str, said: list[ResponseInputItemParam], previous: str | None, streamed: bool
) -> Response:
    if streamed:
        with client.responses.stream(
            model=model,
            input=said,
            previous_response_id=previous,
            tools=FUNCTIONS,
            reasoning={"effort": "medium", "summary": "auto"},
        ) as stream:
            return stream.get_final_response()
    return client.responses.create(
        model=model,
        input=said,
        previous_response_id=previous,
        tools=FUNCTIONS,
        reasoning={"effort": "medium", "summary": "auto"},
    )


def _talk(client: openai.OpenAI, models: list[str], streamed: bool) -> list[Response]:
    """Three turns: a question, what its tools gave, and another question; nothing is said twice."""
    said: list[ResponseInputItemParam] = [{"role": "user", "content": QUESTION}]
    told: list[Response] = []
    for model in models:
        response = _ask(client, model, said, told[-1].id if told else None, streamed)
        told.append(response)
        said = [
            {"type": "function_call_output", "call_id": item.call_id, "output": "18 degrees"}
            for item in response.output
            if item.type == "function_call"
        ] or [{"role": "user", "content": AGAIN}]
    return told


@WAYS
@pytest.mark.parametrize("provider", ABROAD)
def test_proofs_return_to_their_provider_though_the_client_never_sends_them(
    desk: Desk, provider: str, streamed: bool
) -> None:
    with desk.scripted(*turns(provider)) as strict:
        told = _talk(desk.openai, [MODELS[provider]] * 3, streamed)
    _CHECKS[provider](strict.said, strict.asked)
    assert [response.previous_response_id for response in told] == [None, told[0].id, told[1].id]
    for response in told:
        kept = desk.openai.responses.retrieve(response.id)
        assert (kept.status, kept.output_text, kept.usage) == ("completed", response.output_text, response.usage)
        assert [item.id for item in kept.output] == [item.id for item in response.output]
    kinds = [item.type for item in desk.openai.responses.input_items.list(told[2].id, order="asc", limit=100)]
    assert kinds.count("function_call") == kinds.count("function_call_output") == 2
    assert kinds[0] == kinds[-1] == "message"


@WAYS
def test_a_providers_own_ids_are_relayed_as_they_are(desk: Desk, streamed: bool) -> None:
    with desk.scripted(*[Turn(stop=ENDED[RESPONSES], text=FINAL)] * 2) as strict:
        first = _ask(desk.openai, MODELS[RESPONSES], [{"role": "user", "content": QUESTION}], None, streamed)
        _ask(desk.openai, MODELS[RESPONSES], [{"role": "user", "content": AGAIN}], first.id, streamed)
    assert strict.said[0]["id"] == first.id
    assert strict.asked[1]["previous_response_id"] == first.id
    assert strict.asked[1]["input"] == [{"role": "user", "content": AGAIN}]


def test_a_relayed_request_keeps_its_bytes_while_nothing_in_it_is_ours() -> None:
    raw = b'{ "model": "responses/gpt-5",  "previous_response_id": "resp_theirs", "input": [ {"id": "rs_x"} , {"role":'
    raw += b'"user","content":"\\u00e9 \xf0\x9f\x98\x80"} ], "store": true, "temperature": 1.0 }'
    with running([tells(RESPONSES)]) as house:
        assert house.post("/v1/responses", raw, content_type="application/json").status == 200
        assert house.provider.received[0].body == raw.replace(b"responses/gpt-5", b"gpt-5")


@WAYS
def test_a_conversation_may_change_its_provider_at_every_turn(desk: Desk, streamed: bool) -> None:
    script = [
        turns(CHAT)[0],
        turns(MESSAGES)[1],
        Turn(stop=ENDED[RESPONSES], text=FINAL),
    ]
    with desk.scripted(*script) as strict:
        _talk(desk.openai, [MODELS[CHAT], MODELS[MESSAGES], MODELS[RESPONSES]], streamed)
    second, third = (json.dumps(body, ensure_ascii=False) for body in strict.asked[1:])
    for words in (QUESTION, "Let me look.", "18 degrees", "Zürich 🌧"):
        assert words in second and words in third
    assert json.dumps(FINAL)[1:-1] in third and AGAIN in third
    assert "previous_response_id" not in strict.asked[2]
    assert "rsv1" not in third
    items = [item.get("type", "message") for item in dig_objects(strict.asked[2], "input")]
    assert items.count("function_call") == items.count("function_call_output") == 2


@pytest.mark.parametrize("provider", ABROAD)
def test_what_was_not_stored_cannot_be_referred_to(desk: Desk, provider: str) -> None:
    with desk.scripted(Turn(stop=ENDED[provider], text=FINAL)):
        told = desk.openai.responses.create(model=MODELS[provider], input=QUESTION, store=False)
        with pytest.raises(openai.BadRequestError) as refused:
            desk.openai.responses.create(model=MODELS[provider], input=AGAIN, previous_response_id=told.id)
        assert (refused.value.param, refused.value.code) == ("previous_response_id", "previous_response_not_found")
        with pytest.raises(openai.NotFoundError) as missing:
            desk.openai.responses.input_items.list(told.id)
        assert missing.value.param == "response_id"


def test_tools_and_instructions_are_not_inherited(desk: Desk) -> None:
    with desk.scripted(*[Turn(stop=ENDED[CHAT], text=FINAL)] * 2) as strict:
        first = desk.openai.responses.create(model=MODELS[CHAT], input=QUESTION, instructions="Rhyme.", tools=FUNCTIONS)
        desk.openai.responses.create(model=MODELS[CHAT], input=AGAIN, previous_response_id=first.id)
    assert "Rhyme." in json.dumps(strict.asked[0]) and "Rhyme." not in json.dumps(strict.asked[1])
    assert "tools" in strict.asked[0] and "tools" not in strict.asked[1]


@pytest.mark.parametrize("provider", ABROAD)
def test_a_response_may_run_in_the_background_and_be_asked_for(desk: Desk, provider: str) -> None:
    with desk.scripted(*[Turn(stop=ENDED[provider], text=FINAL)] * 2):
        made = desk.openai.responses.create(model=MODELS[provider], input=QUESTION, background=True)
        assert made.status == "queued" and made.background
        for _ in range(1000):
            made = desk.openai.responses.retrieve(made.id)
            if made.status not in ("queued", "in_progress"):
                break
        assert (made.status, made.output_text) == ("completed", FINAL)
        events = list(desk.openai.responses.create(model=MODELS[provider], input=AGAIN, background=True, stream=True))
        assert events[-1].type == "response.completed"
        again = list(desk.openai.responses.retrieve(events[-1].response.id, stream=True, starting_after=2))
        assert [event.to_dict() for event in again] == [event.to_dict() for event in events[3:]]


def test_an_item_may_be_referred_to_alone(desk: Desk) -> None:
    with desk.scripted(*turns(MESSAGES)[:1], Turn(stop=ENDED[MESSAGES], text=FINAL)) as strict:
        first = _ask(desk.openai, MODELS[MESSAGES], [{"role": "user", "content": QUESTION}], None, False)
        said: list[ResponseInputItemParam] = [{"role": "user", "content": QUESTION}]
        said += [{"type": "item_reference", "id": item.id or ""} for item in first.output]
        said += [
            {"type": "function_call_output", "call_id": item.call_id, "output": "18 degrees"}
            for item in first.output
            if item.type == "function_call"
        ]
        _ask(desk.openai, MODELS[MESSAGES], said, None, False)
    _CHECKS[MESSAGES](strict.said, strict.asked)


@contextmanager
def _two_keys() -> Iterator[tuple[House, StrictProvider, openai.OpenAI, openai.OpenAI]]:
    strict = StrictProvider()

    def settings(port: int) -> Settings:
        made = settings_for(port, keys=(ALICE, BOB))
        kept = {name: found for name, found in made.providers.items() if name != "all"}
        return replace(made, providers=kept)

    with running(strict, settings) as house:
        base = f"{house.url}/v1"
        with (
            openai.OpenAI(api_key=ALICE, base_url=base, max_retries=0) as alice,
            openai.OpenAI(api_key=BOB, base_url=base, max_retries=0) as bob,
        ):
            yield house, strict, alice, bob


@WAYS
@pytest.mark.parametrize("provider", PROTOCOLS)
def test_nothing_of_one_key_is_visible_to_another(provider: str, streamed: bool) -> None:
    model = MODELS[provider]
    with _two_keys() as (house, strict, alice, bob):
        strict.begin([Turn(stop=ENDED[provider], text=FINAL)] * 2)
        first = _ask(alice, model, [{"role": "user", "content": QUESTION}], None, streamed)
        conversation = alice.conversations.create(items=[{"role": "user", "content": QUESTION}])
        asked = len(house.provider.received)
        item = first.output[0].id or ""
        reference: list[ResponseInputItemParam] = [{"type": "item_reference", "id": item}]
        tries: list[Callable[[], object]] = [
            lambda: bob.responses.retrieve(first.id),
            lambda: bob.responses.retrieve(first.id, stream=True),
            lambda: bob.responses.delete(first.id),
            lambda: bob.responses.cancel(first.id),
            lambda: bob.responses.input_items.list(first.id),
            lambda: bob.responses.create(model=model, input=AGAIN, previous_response_id=first.id),
            lambda: bob.responses.create(model=model, input=AGAIN, conversation=conversation.id),
            lambda: bob.responses.create(model=model, input=reference),
            lambda: bob.responses.compact(model=model, input=AGAIN, previous_response_id=first.id),
            lambda: bob.responses.input_tokens.count(model=model, input=AGAIN, previous_response_id=first.id),
            lambda: bob.conversations.retrieve(conversation.id),
            lambda: bob.conversations.items.list(conversation.id),
            lambda: bob.conversations.delete(conversation.id),
        ]
        for attempt in tries:
            with pytest.raises(openai.APIStatusError) as refused:
                attempt()
            assert refused.value.status_code in (400, 404)
            assert "not found" in refused.value.message
        assert len(house.provider.received) == asked
        _ask(alice, model, [{"role": "user", "content": AGAIN}], first.id, streamed)
        assert not strict.refused and not strict.left
        assert len(alice.conversations.items.list(conversation.id).data) == 1
