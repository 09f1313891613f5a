"""The writer: nothing waits for it, nothing fails by it, and it says what it cannot store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.contents.archive import Archive, open_archive
from dragoman.contents.capture import QUEUE_FULL, Capture, CaptureBudget
from dragoman.contents.exchange_contents import BodySide
from dragoman.contents.redaction import ContentsRedactor
from dragoman.contents.retention import RetentionLimits, begin_erasure
from dragoman.contents.writer import ContentsWriter
from dragoman.errors import ConfigError
from dragoman.store.errors import StoreFull
from dragoman.store.migrations.contents import NEWEST
from dragoman.store.sqlite import connect
from tests.waiting import wait_until

DEADLINE = 60.0


class Opener:
    """Opens the contents, or fails by what is set."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.error: Exception | None = None

    def __call__(self) -> Archive:
        if self.error is not None:
            raise self.error
        return open_archive(self.place, ContentsRedactor())


class Setting:
    """A writer with its surroundings."""

    def __init__(self, place: Path) -> None:
        self.opener = Opener(str(place / "state.db"))
        self.now = 0.0
        self.logged: list[tuple[str, str]] = []
        self.budget = CaptureBudget(1000)
        self.writer = ContentsWriter(
            self.opener.place,
            self.opener,
            RetentionLimits(),
            lambda level, words: self.logged.append((level, words)),
            budget=self.budget,
            monotonic=lambda: self.now,
            clock=lambda: 0.0,
        )

    def submit(self, name: str, data: bytes = b"text") -> Capture:
        capture = self.writer.begin(name, 0, "ann")
        capture.add(BodySide.CLIENT_REQUEST, data)
        self.writer.submit(capture)
        return capture

    def end(self) -> None:
        assert self.writer.close(DEADLINE)

    def stored(self) -> list[str]:
        with opened(self.opener.place) as archive:
            return archive.tables.oldest(100)


@contextmanager
def opened(place: str) -> Iterator[Archive]:
    archive = open_archive(place, ContentsRedactor())
    yield archive
    archive.close()


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    made = Setting(tmp_path)
    yield made
    made.end()


def test_captures_are_written_and_their_bytes_given_back(setting: Setting) -> None:
    for name in "abc":
        setting.submit(name)
    setting.end()
    assert setting.stored() == ["a", "b", "c"]
    assert (setting.writer.status.written, setting.writer.status.dropped) == (3, 0)
    setting.budget.settle()
    assert setting.budget.left == 1000
    late = setting.submit("d")
    setting.budget.settle()
    assert (late.size, setting.budget.left, setting.stored()) == (0, 1000, ["a", "b", "c"])


def test_credentials_of_the_exchange_are_redacted(setting: Setting) -> None:
    capture = setting.writer.begin("a", 0, "ann")
    capture.credentials = (b"", b"Bearer the-key-of-ann")
    capture.add(BodySide.CLIENT_REQUEST, b"say the-key-of-ann")
    setting.writer.submit(capture)
    setting.end()
    with opened(setting.opener.place) as archive:
        read = archive.read("a")
        assert read is not None and read.bodies[0].data == b"say [redacted:secret:14]"


def test_what_does_not_fit_is_dropped_marked_and_counted(setting: Setting) -> None:
    setting.submit("a", b"x" * 1001)
    setting.submit("b")
    setting.end()
    assert (setting.writer.status.written, setting.writer.status.dropped) == (1, 1)
    with opened(setting.opener.place) as archive:
        dropped = archive.read("a")
        assert dropped is not None and (dropped.reason, dropped.bodies) == (QUEUE_FULL, ())


@pytest.mark.parametrize(
    "error", [StoreFull("disk full"), OSError("no such device"), ConfigError(key="k", problem="p", remedy="r")]
)
def test_a_failure_stops_contents_until_one_succeeds(setting: Setting, error: Exception) -> None:
    setting.opener.error = error
    for name in "abc":
        setting.submit(name)
    wait_until(lambda: setting.writer.dropped == 3, "the writer")
    assert setting.writer.problem == str(error)
    assert [level for level, _ in setting.logged] == ["error"]
    setting.opener.error = None
    setting.submit("d")
    wait_until(lambda: setting.writer.dropped == 4, "the writer")
    setting.now += 5
    setting.submit("e")
    setting.end()
    assert (setting.stored(), setting.writer.problem) == (["e"], "")
    assert setting.logged[-1] == ("info", "contents are stored again")


def test_a_deleted_file_is_made_anew(setting: Setting, tmp_path: Path) -> None:
    setting.submit("a")
    wait_until(lambda: setting.writer.written == 1, "the writer")
    (tmp_path / "contents.db").unlink()
    setting.submit("b")
    setting.end()
    assert (setting.stored(), setting.writer.written, setting.logged) == (["b"], 2, [])


def test_a_damaged_file_is_moved_aside(setting: Setting, tmp_path: Path) -> None:
    setting.submit("a")
    wait_until(lambda: setting.writer.written == 1, "the writer")
    db = connect(str(tmp_path / "contents.db"), 5)
    assert db.wipe()
    db.close()
    path = tmp_path / "contents.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    # Its pages are in no cache: another connection has committed.
    db = connect(str(path), 5)
    db.change(f"PRAGMA user_version = {NEWEST}")
    db.close()
    setting.submit("b")
    setting.end()
    assert setting.stored() == ["b"]
    assert "damaged" in setting.logged[0][1]
    assert any(".damaged-" in each.name for each in tmp_path.iterdir())


def test_nothing_is_stored_of_what_began_before_an_erasure(setting: Setting) -> None:
    running = setting.writer.begin("running", 5, "ann")
    running.add(BodySide.CLIENT_REQUEST, b"begun")
    begin_erasure(setting.opener.place, "ann", 5, creates=True)
    running.add(BodySide.CLIENT_RESPONSE, b"ended")
    setting.writer.submit(running)
    setting.submit("waits")
    for name, time, key in (("later", 6, "ann"), ("other", 5, "ben")):
        setting.writer.submit(Capture(name, time, key, setting.budget))
    setting.end()
    assert sorted(setting.stored()) == ["later", "other"]
    assert (setting.writer.written, setting.writer.dropped, setting.writer.problem) == (2, 2, "")
    setting.budget.settle()
    assert setting.budget.left == 1000


def test_what_is_too_old_is_removed_by_the_thread(setting: Setting) -> None:
    with opened(setting.opener.place) as archive:
        capture = Capture("old", -31 * 86_400_000_000, "", setting.budget)
        archive.write(capture.contents())
    setting.writer.start()
    wait_until(lambda: setting.writer.removed > 0, "the writer")
    setting.end()
    assert setting.stored() == []
