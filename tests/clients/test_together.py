"""Tests that share a process of a client belong together; others are spread."""

from __future__ import annotations

from tests.clients.together import group_of

PYTHON = "tests/clients/test_python_clients.py::test_the_client_does_it"
RUNNER = "tests/clients/test_python_clients.py::test_the_tool_runner_keeps_its_thread_or_falls_back"
AGENTS = "tests/clients/test_python_clients.py::test_on_a_responses_provider_ids_of_responses_are_its_own"


def test_ways_to_use_a_client_share_its_process_on_a_provider() -> None:
    first = group_of(f"{PYTHON}[llm, Chat-openai-chat-tool]")
    assert first == group_of(f"{PYTHON}[llm, Responses-openai-chat-429 first]")
    assert first != group_of(f"{PYTHON}[llm, Chat-openai-responses-tool]")
    assert first != group_of(f"{PYTHON}[aider-openai-chat-tool]")


def test_a_test_about_one_client_goes_with_it() -> None:
    own = group_of(f"{PYTHON}[Anthropic SDK for Python-anthropic-messages-tool]")
    assert own == group_of(f"{RUNNER}[anthropic-messages-tool]")
    own = group_of(f"{PYTHON}[OpenAI Agents SDK, Chat-openai-responses-tool]")
    assert own == group_of(AGENTS)


def test_programs_of_node_run_once_for_a_provider() -> None:
    path = "tests/clients/test_vercel_ai.py::test_x"
    assert group_of(f"{path}[openai-chat-a]") == group_of(f"{path}[b-openai-chat]") != group_of(f"{path}[a]")


def test_other_tests_are_spread() -> None:
    assert len({group_of(f"tests/laws/test_laws.py::test_x[{number}]") for number in range(100)}) > 8
