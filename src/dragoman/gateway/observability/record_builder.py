"""Record builder: changes the record of one exchange while it runs, and finalizes it once (decision 23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from msgspec import Struct

from dragoman.gateway.observability.record import Record, RecordChanges


class RecordBuilder(Struct, eq=False):
    """Holds the record. Once it is finalized nothing changes it any more, whatever happens to the connection."""

    record: Record
    _clock: Callable[[], float]
    # None once it is finalized.
    _finish: Callable[[Record], None] | None
    # Told once it is finalized and written down, and nothing of it was sent yet.
    on_finalized: Callable[[], None] | None = None

    @property
    def is_finalized(self) -> bool:
        """Whether all is known."""
        return self._finish is None

    def update(self, **changes: Unpack[RecordChanges]) -> None:
        """Know more of the exchange."""
        if self._finish is not None:
            record = self.record
            for name, value in changes.items():
                setattr(record, name, value)

    def finalize(self, **changes: Unpack[RecordChanges]) -> None:
        """Say that all is known, before the client knows its answer complete; only the first time counts."""
        finish = self._finish
        if finish is None:
            return
        self._finish = None
        record = self.record
        for name, value in changes.items():
            setattr(record, name, value)
        if not record.status:
            record.status = 500  # Only an error of our own leaves none behind.
        record.ended = self._clock()
        finish(record)
        if self.on_finalized is not None:
            self.on_finalized()
