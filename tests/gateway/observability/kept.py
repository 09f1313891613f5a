"""A gateway whose records are kept as they are settled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dragoman.config.settings import Settings
from dragoman.gateway.observability.record import Record
from tests.gateway.harness import House, Received, Reply, running, settings_for


@contextmanager
def recorded(
    script: Callable[[Received], Reply] | Sequence[Reply], settings: Callable[[int], Settings] = settings_for
) -> Iterator[tuple[House, list[Record]]]:
    """The house, and its records in the order in which they were settled."""
    records: list[Record] = []
    with running(script, settings) as house:
        finish = house.app.runtime.finish

        def kept(record: Record) -> None:
            records.append(record)
            finish(record)

        house.app.runtime.finish = kept  # type: ignore[method-assign]
        yield house, records
