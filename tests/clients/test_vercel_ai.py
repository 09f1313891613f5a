"""The Vercel AI SDK through the gateway, with each of its providers that can be pointed at one."""

from __future__ import annotations

import pytest

from tests.clients.cells import Claim, Client
from tests.clients.desk import Desk
from tests.clients.evidence import proofs
from tests.clients.node_programs import CITY, PROVES, SCRIPTS, Outcome, Programs, conversation, prove_thinking
from tests.sdk.names import CHAT, MESSAGES, RESPONSES

CLIENT = Client(name="Vercel AI SDK", package="ai", more=("streaming",))
ANTHROPIC, STATELESS, STORED = "@ai-sdk/anthropic", "@ai-sdk/openai", "@ai-sdk/openai, stored"
CHAT_MODE, COMPATIBLE = "@ai-sdk/openai, chat", "@ai-sdk/openai-compatible"
ROWS = (ANTHROPIC, STATELESS, STORED, CHAT_MODE, COMPATIBLE)
OWN = {name: SCRIPTS[name] for name in PROVES} | {"thinking": SCRIPTS["thinking"]}
# It asks models that it does not know as Claude to call a tool with the value.
BY_TOOL = OWN | {"structured output": 'call json {"name": "mock", "population": 1}'}


@pytest.fixture(scope="session")
def programs(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The programs of this process."""
    return Programs(desk, tmp_path_factory.mktemp("vercel_ai"))


def came_of(programs: Programs, row: str, protocol: str, scenario: str) -> Outcome:
    rows = {name: BY_TOOL if name == ANTHROPIC and protocol != MESSAGES else OWN for name in ROWS}
    return programs.outcomes("vercel_ai", protocol, rows)[row, scenario]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("scenario", PROVES)
def test_the_ai_sdk_does_it(programs: Programs, protocol: str, cell: Claim, row: str, scenario: str) -> None:
    cell(CLIENT, scenario)
    PROVES[scenario](programs.desk, came_of(programs, row, protocol, scenario))


@pytest.mark.parametrize("row", ROWS)
def test_generate_object_still_works(programs: Programs, protocol: str, row: str) -> None:
    assert came_of(programs, row, protocol, "structured output").more("older") == CITY


@pytest.mark.parametrize("row", [ANTHROPIC, STATELESS])
def test_the_ai_sdk_thinks_and_its_proofs_come_back(programs: Programs, protocol: str, cell: Claim, row: str) -> None:
    cell(CLIENT, "thinking")
    prove_thinking(programs.desk, came_of(programs, row, protocol, "thinking"))


def test_what_the_ai_sdk_refers_to_by_ids_is_found_again(programs: Programs, protocol: str, cell: Claim) -> None:
    cell(CLIENT, "thinking")
    outcome = came_of(programs, STORED, protocol, "thinking")
    if protocol != RESPONSES:
        prove_thinking(programs.desk, outcome)
        return
    # The provider keeps the items itself, and is told their ids.
    assert outcome.seen["thinking"] == "I look first.And again."
    first, second, _ = conversation(programs.desk, outcome.marker)
    assert isinstance(first.answer, dict)
    assert isinstance(first.answer["output"], list)
    reasoning = first.answer["output"][0]
    assert isinstance(reasoning, dict)
    inputs = second.body["input"]
    assert isinstance(inputs, list)
    assert {"type": "item_reference", "id": reasoning["id"]} in inputs


def test_the_chat_wire_shows_reasoning_but_carries_no_proof(programs: Programs, protocol: str, cell: Claim) -> None:
    cell(CLIENT, "thinking")
    # It sends back the text of reasoning alone, which is all there is of it only on Chat.
    prove_thinking(programs.desk, came_of(programs, COMPATIBLE, protocol, "thinking"), carried=protocol == CHAT)


def test_the_chat_mode_of_openai_knows_no_reasoning_and_its_proofs_come_back(programs: Programs, protocol: str) -> None:
    outcome = came_of(programs, CHAT_MODE, protocol, "thinking")
    assert (outcome.seen["text"], outcome.seen["thinking"]) == ("It is sunny. It stays so.", "")
    requests = conversation(programs.desk, outcome.marker)
    # They were kept for it; on the relay the client's own bytes go on.
    kept = protocol != CHAT
    assert [bool(proofs(request.body)) for request in requests] == [False, kept, kept]
