"""Whether requests are taken, in words for people and a status for balancers."""

from __future__ import annotations

import io

from dragoman.config.settings import Storage
from dragoman.gateway.endpoints.readiness import readiness
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.usage_recorder import RecordingStatus, UsageRecorder


class Said(UsageRecorder):
    """Accounts that say what they are told to."""

    said = ("", "")

    @property
    def problem(self) -> str:
        return self.said[0]

    @property
    def delay(self) -> str:
        return self.said[1]

    def recorded(self) -> RecordingStatus | None:
        return RecordingStatus(backlog=7, unpriced=2)


def accounts(on_write_failure: str = "serve", problem: str = "", delay: str = "") -> Said:
    made = Said(Storage(on_write_failure=on_write_failure), Log(io.StringIO()))
    made.said = (problem, delay)
    return made


def test_all_is_well_in_one_word() -> None:
    assert readiness(accounts(), verbose=False) == (200, b"ready\n")


def test_whoever_asks_for_more_is_told_figures() -> None:
    status, words = readiness(accounts(), verbose=True)
    assert status == 200
    assert b"\nrecords backlog: 7 bytes\n" in words
    assert b"\nrecords unpriced: 2\n" in words


def test_what_is_wrong_with_the_accounts_is_told_and_stops_nobody_unless_configured() -> None:
    status, words = readiness(accounts(problem="no space", delay="database is locked"), verbose=False)
    assert (status, words.decode().splitlines()) == (
        200,
        [
            "ready",
            "cannot record requests: no space",
            "cannot ingest journals: database is locked",
            "records backlog: 7 bytes",
        ],
    )
    status, words = readiness(accounts("reject", problem="no space"), verbose=False)
    assert (status, words.split(b"\n")[0]) == (503, b"refusing")
    assert readiness(accounts("reject", delay="database is locked"), verbose=False)[0] == 200
