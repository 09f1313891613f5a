"""Whether requests are taken, in words for people and a status for balancers."""

from __future__ import annotations

import io

from dragoman.config.settings import Storage
from dragoman.gateway.access.identity_table import IdentityTable
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


def read(recorder: UsageRecorder, *, verbose: bool, identities: IdentityTable | None = None) -> tuple[int, bytes]:
    return readiness(recorder, identities or IdentityTable(), verbose=verbose)


def test_all_is_well_in_one_word() -> None:
    assert read(accounts(), verbose=False) == (200, b"ready\n")


def test_whoever_asks_for_more_is_told_figures() -> None:
    status, words = read(accounts(), verbose=True)
    assert status == 200
    assert b"\nrecords backlog: 7 bytes\n" in words
    assert b"\nrecords unpriced: 2\n" in words


def test_what_is_wrong_with_the_accounts_is_told_and_stops_nobody_unless_configured() -> None:
    status, words = read(accounts(problem="no space", delay="database is locked"), verbose=False)
    assert (status, words.decode().splitlines()) == (
        200,
        [
            "ready",
            "cannot record requests: no space",
            "cannot ingest journals: database is locked",
            "records backlog: 7 bytes",
        ],
    )
    status, words = read(accounts("reject", problem="no space"), verbose=False)
    assert (status, words.split(b"\n")[0]) == (503, b"refusing")
    assert read(accounts("reject", delay="database is locked"), verbose=False)[0] == 200


def test_keys_of_the_database_that_cannot_be_read_or_are_refused_are_named() -> None:
    identities = IdentityTable()
    identities.problem, identities.hidden = "database is locked", frozenset({"bob", "ann"})
    status, text = read(accounts(), verbose=False, identities=identities)
    assert (status, text.decode().splitlines()[1:3]) == (
        200,
        [
            "cannot read gateway keys of the database: database is locked",
            "gateway keys of the database are refused, as the configuration has the same: ann, bob",
        ],
    )
