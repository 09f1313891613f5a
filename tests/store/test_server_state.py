"""What a worker knows of the server of its database."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.store.server_state import SETTLING, ServerAnswer, ServerState

FIRST = ServerAnswer(clock=5000.0, epoch="1-00000001", database="db1")


class Clocks:
    """The clocks of a machine, whose wall clock is wrong."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def steady(self) -> float:
        return self.seconds

    def wall(self) -> float:
        return self.seconds + 77.0


def _made() -> tuple[ServerState, Clocks, list[tuple[str, str]]]:
    clocks, reports = Clocks(), list[tuple[str, str]]()
    return (
        ServerState(lambda message, reason: reports.append((message, reason)), clocks.steady, clocks.wall),
        clocks,
        reports,
    )


def _settled(state: ServerState, clocks: Clocks) -> None:
    state.answered(replace(FIRST, clock=5000.0 - SETTLING))
    clocks.seconds += SETTLING
    state.answered(FIRST)


def test_before_any_server_answered_the_time_is_that_of_the_machine() -> None:
    state, clocks, reports = _made()
    assert (state.now(), state.is_away, state.epoch, state.database, reports) == (clocks.wall(), False, "", "", [])


def test_the_time_is_that_of_the_server_and_goes_on_between_heartbeats() -> None:
    state, clocks, _ = _made()
    state.answered(FIRST)
    assert (state.now(), state.epoch, state.database) == (5000.0, "1-00000001", "db1")
    clocks.seconds += 2
    assert state.now() == 5002.0
    state.answered(replace(FIRST, clock=5002.5))
    assert state.now() == 5002.5


def test_it_is_reported_once_that_the_server_is_away_and_once_that_it_is_back() -> None:
    state, _, reports = _made()
    state.answered(FIRST)
    for _ in range(3):
        state.lost("it does not answer")
    assert state.is_away and state.problem == "it does not answer"
    for _ in range(3):
        state.answered(FIRST)
    assert not state.is_away
    assert reports == [("the database is away", "it does not answer"), ("the database answers again", "")]


def test_no_lease_ends_while_its_holder_could_not_renew_it() -> None:
    state, clocks, _ = _made()
    _settled(state, clocks)
    assert state.lease_time() == 5000.0
    clocks.seconds += 1
    state.lost("it does not answer")
    clocks.seconds += 90
    state.answered(replace(FIRST, clock=5091.0))
    assert (state.now(), state.lease_time()) == (5091.0, 5000.0)
    # An outage while leases are renewed gives no less time.
    clocks.seconds += 5
    state.lost("it does not answer")
    clocks.seconds += 1
    state.answered(replace(FIRST, clock=5097.0))
    assert state.lease_time() == 5000.0
    clocks.seconds += SETTLING
    state.answered(replace(FIRST, clock=5122.0))
    assert state.lease_time() == 5122.0


def test_after_a_failover_leases_hold_even_if_no_heartbeat_failed() -> None:
    state, clocks, reports = _made()
    _settled(state, clocks)
    clocks.seconds += 1
    state.answered(ServerAnswer(clock=5001.0, epoch="1-00000002", database="db1"))
    assert (state.now(), state.lease_time()) == (5001.0, 5000.0)
    assert reports == [("another server of the database answers", "failover or restart")]


def test_a_worker_that_starts_takes_no_lease_that_ended_a_moment_ago() -> None:
    state, clocks, _ = _made()
    state.answered(FIRST)
    assert state.lease_time() == 5000.0 - SETTLING
    clocks.seconds += SETTLING
    assert state.lease_time() == state.now() == 5000.0 + SETTLING
