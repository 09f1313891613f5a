"""Record builder: holds the record of one exchange while it runs, and finalizes it once (decision 23)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.gateway.observability.record import Record


class RecordBuilder(Struct, eq=False):
    """Holds the record. The entry that `finalize` makes is final: fields that are set later change nothing."""

    record: Record
    _clock: Callable[[], float]
    # Writes the entry down; None once that is done.
    _finish: Callable[[Record], None] | None
    # Called after the entry is written down, and before the client gets the end of its response.
    on_finalized: Callable[[], None] | None = None

    @property
    def is_finalized(self) -> bool:
        """Whether the record is final."""
        return self._finish is None

    def finalize(self, status: int | None = None, failure: str | None = None) -> None:
        """Make the entry and write it down, before the client can know its response complete; only once."""
        finish = self._finish
        if finish is None:
            return
        self._finish = None
        record = self.record
        if status is not None:
            record.status = status
        if failure is not None:
            record.failure = failure
        if not record.status:
            record.status = 500  # Only an error of our own leaves none behind.
        record.ended = self._clock()
        finish(record)
        if self.on_finalized is not None:
            self.on_finalized()
