"""One desk for all tests of a module; each test writes its own script."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.sdk.desk import Desk, open_desk


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """The SDKs, a gateway and a strict provider."""
    with open_desk() as opened:
        yield opened
