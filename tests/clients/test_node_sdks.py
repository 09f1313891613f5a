"""The official SDKs for Node through the gateway: OpenAI's on both of its wires, Anthropic's with its tool runner."""

from __future__ import annotations

import pytest

from tests.clients.cells import Claim, Client
from tests.clients.desk import Desk
from tests.clients.node_programs import PROVES, SCRIPTS, Outcome, Programs, conversation, prove_thinking
from tests.sdk.names import MESSAGES, RESPONSES

OPENAI = Client(name="OpenAI SDK for Node", package="openai", more=("streaming", "stored state"))
ANTHROPIC = Client(
    name="Anthropic SDK for Node", package="@anthropic-ai/sdk", more=("streaming", "threads", "token count")
)
OWN = {name: SCRIPTS[name] for name in (*PROVES, "thinking")}
# Each way to use an SDK: the client, its program, and what else it is asked.
ROWS = {
    "chat": (OPENAI, "openai_sdk", OWN),
    "responses": (OPENAI, "openai_sdk", OWN | {"stored state": SCRIPTS["stored state"]}),
    "messages": (ANTHROPIC, "anthropic_sdk", OWN | {"token count": SCRIPTS["token count"]}),
}


@pytest.fixture(scope="session")
def programs(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The programs of this process."""
    return Programs(desk, tmp_path_factory.mktemp("node_sdks"))


def came_of(programs: Programs, row: str, protocol: str, scenario: str) -> Outcome:
    program = ROWS[row][1]
    rows = {name: scripts for name, (_, its, scripts) in ROWS.items() if its == program}
    return programs.outcomes(program, protocol, rows)[row, scenario]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("scenario", PROVES)
def test_the_sdk_does_it(programs: Programs, protocol: str, cell: Claim, row: str, scenario: str) -> None:
    cell(ROWS[row][0], scenario)
    PROVES[scenario](programs.desk, came_of(programs, row, protocol, scenario))


@pytest.mark.parametrize("row", ROWS)
def test_the_sdk_thinks_and_its_proofs_come_back(programs: Programs, protocol: str, cell: Claim, row: str) -> None:
    cell(ROWS[row][0], "thinking")
    prove_thinking(programs.desk, came_of(programs, row, protocol, "thinking"))


def test_a_stored_response_is_continued_found_and_deleted(programs: Programs, protocol: str, cell: Claim) -> None:
    cell(OPENAI, "stored state")
    outcome = came_of(programs, "responses", protocol, "stored state")
    assert (outcome.seen["text"], outcome.more("same"), outcome.more("gone")) == ("One. Two.", True, 404)
    first, second = conversation(programs.desk, outcome.marker)
    if protocol == RESPONSES:
        assert isinstance(first.answer, dict)
        assert second.body["previous_response_id"] == first.answer["id"]
    else:
        assert outcome.marker in str(second.body)


@pytest.mark.parametrize("scenario", ["tool", "streaming", "several steps"])
def test_the_tool_runner_keeps_its_thread_or_falls_back(
    programs: Programs, protocol: str, cell: Claim, scenario: str
) -> None:
    cell(ANTHROPIC, "threads")
    outcome = came_of(programs, "messages", protocol, scenario)
    requests = conversation(programs.desk, outcome.marker)
    threads = [request.body.get("thread") for request in requests]
    if protocol != MESSAGES:
        # The gateway refused the first call by the words from which the SDK falls back: nobody else heard of it.
        assert set(map(str, threads)) == {"None"}
        assert all(outcome.marker in str(request.body) for request in requests)
        return
    names = [request.answer["id"] for request in requests if isinstance(request.answer, dict)]
    assert threads == [{"type": "create"}, *({"type": "continue", "previous_message_id": name} for name in names[:-1])]


def test_tokens_are_counted(programs: Programs, protocol: str, cell: Claim) -> None:
    cell(ANTHROPIC, "token count")
    counted = came_of(programs, "messages", protocol, "token count").seen["value"]
    assert isinstance(counted, int)
    assert 5 < counted < 100
