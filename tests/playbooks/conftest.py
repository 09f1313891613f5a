"""Every dialogue makes only the transitions that the page of the state machine names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.exchange.observed import not_on_page, observed_transitions


@pytest.fixture(autouse=True)
def _transitions_are_on_the_page() -> Iterator[None]:
    with observed_transitions() as made:
        yield
    assert not_on_page(made) == set()
