"""What tests of clients share: the desk, the provider's protocol, and the cell of the matrix that a test proves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients.cells import PROPERTY, PROTOCOLS, Claim, Client
from tests.clients.desk import Desk, opened_desk
from tests.isolation import held_by_session


@pytest.fixture(scope="session")
def desk() -> Iterator[Desk]:
    """One provider and one gateway for all tests of a process."""
    with ExitStack() as ends:
        with held_by_session():
            desk = ends.enter_context(opened_desk())
        yield desk


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    """What the provider speaks."""
    name: str = request.param
    return name


@pytest.fixture
def cell(request: pytest.FixtureRequest, protocol: str) -> Claim:
    """Say which cell of the matrix a test proves."""

    def claim(client: Client, scenario: str) -> None:
        assert scenario in client.scenarios, f"{client.name} declares no scenario {scenario!r}"
        request.node.user_properties.append((PROPERTY, [client.name, scenario, protocol]))

    return claim


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home for one run of a client."""
    place = tmp_path / "home"
    place.mkdir()
    return place
