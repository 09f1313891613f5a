"""The compliance suite through the gateway: Responses clients on providers of every protocol, and on `echo`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.open_responses.suite import CHECKS, OPTIONAL, Server, run
from tests.sdk.open_responses import WIRE, names
from tests.server.process import Process

KEY = "sk-of-the-compliance-suite-0123456789"
CONFIG = """
[keys.suite]
key = "$SUITE_KEY"

[providers.messages]
protocol = "anthropic-messages"
base_url = "{mock}"
api_key = "mock-key"
vendor = "anthropic"

[providers.chat]
protocol = "openai-chat"
base_url = "{mock}/v1"
api_key = "mock-key"
vendor = "openai"

[providers.responses]
protocol = "openai-responses"
base_url = "{mock}/v1"
api_key = "mock-key"
vendor = "openai"
"""
# All checks are put to one model: it calls a function that it is offered, and says something otherwise.
MODELS = (
    "messages/mock-tools",
    "chat/mock-tools",
    "responses/mock-tools",
    "echo/tools@anthropic-messages",
    "echo/tools@openai-chat",
    "echo/tools@openai-responses",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway in front of a provider that is as strict as the services."""
    directory: Path = tmp_path_factory.mktemp("suite")
    mock = Process(["--port", "0"], directory, command="mock")
    try:
        file = directory / "dragoman.toml"
        file.write_text(CONFIG.format(mock=f"http://127.0.0.1:{mock.listening()}"))
        gateway = Process(["--config", str(file), "--port", "0"], directory, {"SUITE_KEY": KEY})
        try:
            yield f"http://127.0.0.1:{gateway.listening()}/v1"
        finally:
            gateway.end()
    finally:
        mock.end()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", CHECKS)
def test_a_check_passes(url: str, model: str, name: str) -> None:
    run(name, Server(url=url, key=KEY, model=model))


@pytest.mark.parametrize("model", MODELS)
def test_all_checks_pass_at_once(url: str, model: str) -> None:
    server = Server(url=url, key=KEY, model=model)
    with ThreadPoolExecutor(len(CHECKS)) as threads:
        for result in [threads.submit(run, name, server) for name in CHECKS]:
            result.result()


def test_a_key_may_stand_in_another_header(url: str) -> None:
    run("basic-response", Server(url=url, key=KEY, model="chat/mock-tools", header="x-api-key", prefix=""))


def test_every_check_of_the_public_suite_is_here_or_optional() -> None:
    assert [*CHECKS, *OPTIONAL] == names(WIRE["open_responses"]["test_ids"])


def test_a_server_that_falls_short_is_told_why(url: str) -> None:
    with pytest.raises(AssertionError, match="404"):
        run("basic-response", Server(url=url, key=KEY, model="nobody/nothing"))
    with pytest.raises(AssertionError, match="no function was called"):
        run("tool-calling", Server(url=url, key=KEY, model="chat/mock-text"))
