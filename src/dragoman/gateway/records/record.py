"""Record: what is known of one exchange, filled in as it goes; the log line and the counters are made from it."""

from __future__ import annotations

from dragoman.model.response import Usage
from dragoman.translate import LossLine


class Record:
    """One exchange. Times are of the loop's clock; nothing here was said by the user or by the model."""

    __slots__ = (
        "address",
        "asked",
        "attempts",
        "dialect",
        "ended",
        "failure",
        "first",
        "id",
        "key",
        "losses",
        "model",
        "path",
        "provider",
        "served",
        "started",
        "status",
        "stream",
        "upstream_id",
        "usage",
    )

    def __init__(self, *, request_id: str, dialect: str, path: str, started: float) -> None:
        self.id = request_id
        self.dialect = dialect
        self.path = path
        self.started = started
        # Where the client is, and under which gateway key.
        self.address = ""
        self.key = ""
        # The model's name as the client said it, and whom it led to.
        self.asked = ""
        self.provider = ""
        self.model = ""
        self.served = ""
        self.stream = False
        self.attempts = 0
        self.status = 0
        # The first content sent to the client, and the end.
        self.first = 0.0
        self.ended = 0.0
        self.usage: Usage | None = None
        self.losses: tuple[LossLine, ...] = ()
        # What went wrong: a kind of failure, "cancelled" by the client, our "shutdown", or "truncated" on another path;
        # "" if nothing did.
        self.failure = ""
        self.upstream_id = ""

    def anew(self, request_id: str, started: float) -> Record:
        """The record of another exchange that answers the same question."""
        other = Record(request_id=request_id, dialect=self.dialect, path=self.path, started=started)
        other.address, other.key, other.asked, other.stream = self.address, self.key, self.asked, self.stream
        other.provider, other.model, other.served = self.provider, self.model, self.served
        return other
