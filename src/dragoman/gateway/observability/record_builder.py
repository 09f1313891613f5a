"""Account: the record of one exchange while it grows, and the one place where it is settled (decision 23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from msgspec import Struct
from msgspec.structs import replace

from dragoman.gateway.observability.record import Record, RecordChanges


class RecordBuilder(Struct, eq=False):
    """Holds the present record. Once it is settled nothing changes it any more, whatever happens to the connection."""

    record: Record
    _clock: Callable[[], float]
    # None once it is settled.
    _finish: Callable[[Record], None] | None
    # Told once it is settled and written down, and nothing of it was sent yet.
    on_finalized: Callable[[], None] | None = None

    @property
    def is_finalized(self) -> bool:
        """Whether all is known."""
        return self._finish is None

    def update(self, **changes: Unpack[RecordChanges]) -> None:
        """Know more of the exchange."""
        if self._finish is not None:
            self.record = replace(self.record, **changes)

    def adopt(self, record: Record) -> None:
        """Know what another account of the same exchange came to."""
        if self._finish is not None:
            self.record = record

    def finalize(self, **changes: Unpack[RecordChanges]) -> None:
        """Say that all is known, before the client knows its answer complete; only the first time counts."""
        finish = self._finish
        if finish is None:
            return
        self._finish = None
        if "status" not in changes:
            changes["status"] = self.record.status or 500  # Only an error of our own leaves none behind.
        self.record = replace(self.record, ended=self._clock(), **changes)
        finish(self.record)
        if self.on_finalized is not None:
            self.on_finalized()
