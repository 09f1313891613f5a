"""Clients in Python on providers of every protocol: the official SDKs, and what is built on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.clients.cells import PROTOCOLS, Claim, Client
from tests.clients.desk import Desk
from tests.clients.evidence import proofs
from tests.clients.node_programs import PICTURE, Outcome
from tests.clients.python_programs import (
    CITY,
    OWN,
    PROVES,
    THOUGHTS,
    Programs,
    Row,
    requests,
    statuses,
)
from tests.sdk.names import CHAT, MESSAGES, RESPONSES

BY_TOOL = ("structured output by tool",)
NO_REASONING = "the client neither shows reasoning of Chat Completions nor sends it back"

OPENAI_CHAT = Client(name="OpenAI SDK for Python, Chat", package="dev.txt:openai")
OPENAI_RESPONSES = Client(name="OpenAI SDK for Python, Responses", package="dev.txt:openai", more=("stored",))
ANTHROPIC = Client(name="Anthropic SDK for Python", package="dev.txt:anthropic")
TOOL_RUNNER = Client(
    name="Anthropic SDK for Python, tool runner",
    package="dev.txt:anthropic",
    gaps={
        "structured output": "the tool runner does not change this feature of the SDK (row above)",
        "image": "the tool runner does not change this feature of the SDK (row above)",
    },
)
LLM_CHAT = Client(name="llm, Chat", package="llm", gaps={"thinking": NO_REASONING})
LLM_RESPONSES = Client(name="llm, Responses", package="llm")
LLM_ANTHROPIC = Client(name="llm, Messages", package="llm-anthropic")
PYDANTIC_CHAT = Client(name="pydantic-ai, Chat", package="pydantic-ai-slim", more=BY_TOOL)
PYDANTIC_RESPONSES = Client(name="pydantic-ai, Responses", package="pydantic-ai-slim", more=BY_TOOL)
PYDANTIC_ANTHROPIC = Client(name="pydantic-ai, Messages", package="pydantic-ai-slim", more=BY_TOOL)
LANGCHAIN_CHAT = Client(
    name="LangChain, Chat", package="langchain-openai", more=BY_TOOL, gaps={"thinking": NO_REASONING}
)
LANGCHAIN_RESPONSES = Client(name="LangChain, Responses", package="langchain-openai", more=BY_TOOL)
LANGCHAIN_ANTHROPIC = Client(name="LangChain, Messages", package="langchain-anthropic", more=BY_TOOL)
AGENTS_CHAT = Client(name="OpenAI Agents SDK, Chat", package="openai-agents", more=("session",))
AGENTS_RESPONSES = Client(
    name="OpenAI Agents SDK, Responses", package="openai-agents", more=("session", "stored", "conversation")
)
_SHOWS_NO_THOUGHTS = {"thinking": "the result is a value without the reasoning"}
INSTRUCTOR_CHAT = Client(name="Instructor, Chat", package="instructor", gaps=_SHOWS_NO_THOUGHTS)
INSTRUCTOR_RESPONSES = Client(
    name="Instructor, Responses",
    package="instructor",
    gaps={
        **_SHOWS_NO_THOUGHTS,
        "parallel tools": "the client has no mode for parallel tools of Responses",
        "structured output": "for Responses, the client supports only tools",
        "several steps": "the client repeats the request as text, without the previous turn",
    },
)
INSTRUCTOR_ANTHROPIC = Client(name="Instructor, Messages", package="instructor", gaps=_SHOWS_NO_THOUGHTS)
AIDER = Client(
    name="aider",
    package="aider-chat",
    more=("edit a file",),
    gaps={
        "tool": "the client has no tools and reads edits from the text of the response",
        "parallel tools": "the client has no tools",
        "structured output": "the client requests no structured output",
    },
)
AIDER_ANTHROPIC = Client(
    name="aider, Messages",
    package="aider-chat",
    more=("edit a file",),
    gaps={
        **AIDER.gaps,
        "thinking": "the client sends its reasoning options only to Anthropic models with names in its own list",
        "several steps": "the same reason as in the row above",
        "image": "the same reason as in the row above",
        "429 first": "the same reason as in the row above",
        "empty response": "the same reason as in the row above",
    },
)

_CALL = f"call City {CITY}"
_INSTRUCTOR = {
    "tool": _CALL,
    # A value that is wrong, and what is said after it was told so.
    "several steps": f'call City {{"name": "Paris", "population": -1}}\n---\n{_CALL}',
    "parallel tools": 'call Weather {"city": "Paris"}\ncall Time {"city": "Oslo"}',
    "image": _CALL,
    "429 first": f"fail 429\n{_CALL}",
    "empty response": "empty",
}
_EDIT = "say <<END\nnote.txt\n```\nnew words\n```\nEND"


def _replaced(words: str) -> str:
    return f"say <<END\nnote.txt\n```\n<<<<<<< SEARCH\n{words}\n=======\nnew words\n>>>>>>> REPLACE\n```\nEND"


_AIDER = {
    "edit a file": _EDIT,
    "thinking": f"think {THOUGHTS[0]}\n{_EDIT}",
    # A search that finds nothing, and another; aider puts turns of its own between them.
    "several steps": "\n---\n".join([_replaced("no such words"), *[_replaced("old words")] * 3]),
    "image": _EDIT,
    "429 first": f"fail 429\n{_EDIT}",
    "empty response": "empty",
}
ROWS: Mapping[str, Row] = {
    row.client.name: row
    for row in (
        Row(client=OPENAI_CHAT, program="openai_sdk", name="chat", python=OWN),
        Row(client=OPENAI_RESPONSES, program="openai_sdk", name="responses", python=OWN),
        Row(client=ANTHROPIC, program="anthropic_sdk", name="messages", python=OWN),
        Row(client=TOOL_RUNNER, program="anthropic_sdk", name="tool runner", python=OWN),
        Row(client=LLM_CHAT, program="llm_client", name="chat"),
        Row(client=LLM_RESPONSES, program="llm_client", name="responses"),
        Row(client=LLM_ANTHROPIC, program="llm_client", name="anthropic"),
        Row(client=PYDANTIC_CHAT, program="pydantic_ai_client", name="chat", carries=(CHAT,)),
        Row(client=PYDANTIC_RESPONSES, program="pydantic_ai_client", name="responses"),
        Row(client=PYDANTIC_ANTHROPIC, program="pydantic_ai_client", name="anthropic"),
        Row(client=LANGCHAIN_CHAT, program="langchain_client", name="chat"),
        Row(client=LANGCHAIN_RESPONSES, program="langchain_client", name="responses"),
        Row(client=LANGCHAIN_ANTHROPIC, program="langchain_client", name="anthropic"),
        Row(client=AGENTS_CHAT, program="agents_client", name="chat", carries=(MESSAGES, RESPONSES)),
        Row(client=AGENTS_RESPONSES, program="agents_client", name="responses"),
        Row(client=INSTRUCTOR_CHAT, program="instructor_client", name="chat", python="instructor", scripts=_INSTRUCTOR),
        Row(
            client=INSTRUCTOR_RESPONSES,
            program="instructor_client",
            name="responses",
            python="instructor",
            scripts=_INSTRUCTOR,
        ),
        Row(
            client=INSTRUCTOR_ANTHROPIC,
            program="instructor_client",
            name="anthropic",
            python="instructor",
            scripts=_INSTRUCTOR,
        ),
        Row(client=AIDER, program="aider_client", name="openai", python="aider", scripts=_AIDER),
        Row(client=AIDER_ANTHROPIC, program="aider_client", name="anthropic", python="aider", scripts=_AIDER),
    )
}


# What is true of some rows only


def _two_runs(desk: Desk, row: Row, outcome: Outcome) -> None:
    """A second run goes on from the first, whoever keeps the conversation."""
    assert (outcome.seen["text"], outcome.more("again")) == ("Paris is sunny.", "Still sunny.")
    first, second, third = requests(desk, row, outcome)
    if second.body.get("previous_response_id") is None:
        assert proofs(second.body) == (proofs(first.answer) if first.protocol in row.carries else [])
        assert "sunny in Paris" in str(third.body)


def _listed(desk: Desk, row: Row, outcome: Outcome) -> None:
    """The same, and what is kept can be read in order."""
    _two_runs(desk, row, outcome)
    kinds = ["message", "reasoning", "function_call", "function_call_output", "reasoning", *["message"] * 3]
    items = outcome.more("items")
    assert isinstance(items, list)
    assert ["message" if kind == "user" else kind for kind in items] == kinds


def _kept(desk: Desk, row: Row, outcome: Outcome) -> None:
    """A response is continued by its id, read, and deleted."""
    assert (outcome.seen["text"], outcome.seen["thinking"]) == ("Paris is sunny.", "".join(THOUGHTS))
    assert (outcome.more("kept"), outcome.more("input"), outcome.more("deleted")) == ("Paris is sunny.", 4, True)
    first, second = requests(desk, row, outcome)
    if second.body.get("previous_response_id") is None:
        assert proofs(second.body) == proofs(first.answer)


def _asked_again(desk: Desk, row: Row, outcome: Outcome) -> None:
    """pydantic-ai takes nothing for an answer, and asks once more."""
    assert outcome.seen["text"] == "Something after all."
    assert statuses(requests(desk, row, outcome)) == [200, 200]


def _value(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["value"] == {"name": "Paris", "population": 2100000}
    assert "population" in str(requests(desk, row, outcome)[-1].body)


def _value_of_picture(desk: Desk, row: Row, outcome: Outcome) -> None:
    _value(desk, row, outcome)
    assert PICTURE in str(requests(desk, row, outcome)[0].body)


def _value_after_limit(desk: Desk, row: Row, outcome: Outcome) -> None:
    _value(desk, row, outcome)
    assert statuses(requests(desk, row, outcome)) == [429, 200]


def _value_after_error(desk: Desk, row: Row, outcome: Outcome) -> None:
    _value(desk, row, outcome)
    first, second = requests(desk, row, outcome)
    assert "greater than or equal to 0" in str(second.body)
    assert "greater than or equal to 0" not in str(first.body)


def _values(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["value"] == [["Weather", "Paris"], ["Time", "Oslo"]]


def _no_value(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.more("attempts") == 1
    assert statuses(requests(desk, row, outcome)) == [200]


def _edited(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["value"] == "new words\n"
    assert statuses(requests(desk, row, outcome)) == [200]


def _edited_after_thought(desk: Desk, row: Row, outcome: Outcome) -> None:
    _edited(desk, row, outcome)
    assert THOUGHTS[0] in str(outcome.seen["text"])


def _edited_by_picture(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["value"] == "new words\n"
    assert PICTURE in str(requests(desk, row, outcome)[0].body)


def _edited_after_error(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["value"] == "new words\n"
    assert "failed to match" in str(requests(desk, row, outcome)[1].body)


def _edited_after_limit(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["value"] == "new words\n"
    assert statuses(requests(desk, row, outcome)) == [429, 200]


def _nothing_edited(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["value"] == "old words\n"
    assert "Empty response received from LLM" in str(outcome.seen["text"])


Check = Callable[[Desk, Row, Outcome], None]
OF_PROGRAMS: Mapping[str, Mapping[str, Check]] = {
    "openai_sdk": {"stored": _kept},
    "agents_client": {"session": _listed, "stored": _two_runs, "conversation": _listed},
    "pydantic_ai_client": {"empty response": _asked_again},
    "instructor_client": {
        "tool": _value,
        "several steps": _value_after_error,
        "parallel tools": _values,
        "structured output": _value,
        "image": _value_of_picture,
        "429 first": _value_after_limit,
        "empty response": _no_value,
    },
    "aider_client": {
        "edit a file": _edited,
        "thinking": _edited_after_thought,
        "several steps": _edited_after_error,
        "image": _edited_by_picture,
        "429 first": _edited_after_limit,
        "empty response": _nothing_edited,
    },
}


def _cases() -> Iterator[tuple[str, str, str]]:
    """Every cell; those of one process stand together."""
    programs = dict.fromkeys(row.program for row in ROWS.values())
    for program in programs:
        for protocol in PROTOCOLS:
            for name, row in ROWS.items():
                if row.program == program:
                    for scenario in row.client.scenarios:
                        yield name, protocol, scenario


@pytest.fixture(scope="session")
def programs(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The programs of this process."""
    return Programs(desk, tmp_path_factory.mktemp("python_clients"), ROWS)


@pytest.mark.parametrize(("name", "protocol", "scenario"), list(_cases()))
def test_the_client_does_it(programs: Programs, name: str, protocol: str, scenario: str, cell: Claim) -> None:
    row = ROWS[name]
    cell(row.client, scenario)
    check = OF_PROGRAMS.get(row.program, {}).get(scenario) or PROVES[scenario]
    check(programs.desk, row, programs.outcome(row, protocol, scenario))


@pytest.mark.parametrize("scenario", ["tool", "thinking", "several steps"])
def test_the_tool_runner_keeps_its_thread_or_falls_back(programs: Programs, protocol: str, scenario: str) -> None:
    row = ROWS[TOOL_RUNNER.name]
    outcome = programs.outcome(row, protocol, scenario)
    found = requests(programs.desk, row, outcome)
    threads = [request.body.get("thread") for request in found]
    if protocol != MESSAGES:
        # The gateway refused the first call by the words from which the SDK falls back: nobody else heard of it.
        assert set(map(str, threads)) == {"None"}
        assert all(outcome.marker in str(request.body) for request in found)
        return
    names = [request.answer["id"] for request in found if isinstance(request.answer, dict)]
    assert threads == [{"type": "create"}, *({"type": "continue", "previous_message_id": name} for name in names[:-1])]
    assert all(outcome.marker not in str(request.body) for request in found[1:])


def test_on_a_responses_provider_ids_of_responses_are_its_own(programs: Programs) -> None:
    row = ROWS[AGENTS_RESPONSES.name]
    first, second, third = requests(programs.desk, row, programs.outcome(row, RESPONSES, "stored"))
    assert isinstance(first.answer, dict)
    assert isinstance(second.answer, dict)
    assert second.body["previous_response_id"] == first.answer["id"]
    assert third.body["previous_response_id"] == second.answer["id"]
