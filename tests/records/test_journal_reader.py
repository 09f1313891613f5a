"""Lines of journals, whole and not."""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

import pytest
from msgspec.structs import replace

from dragoman.records.journal import Journal
from dragoman.records.journal_entry import OPEN, CallEntry, JournalEntry
from dragoman.records.journal_reader import JournalSegment, read_before, read_contents, read_segment, read_update
from dragoman.sessions.facts import ExchangeFacts, Shape
from tests.records.invented import entry


def written(tmp_path: Path, count: int = 3) -> Path:
    journal = Journal(tmp_path)
    for number in range(count):
        journal.finalize(entry(number))
    assert journal.path is not None
    path = journal.path
    journal.close()
    return path


def read(
    path: Path, start: int = 0, *, until: int | None = None, is_over: bool = False
) -> JournalSegment[JournalEntry]:
    with path.open("rb") as file:
        return read_segment(file.fileno(), start, until=until, is_over=is_over)


def numbers(piece: JournalSegment[JournalEntry]) -> list[int]:
    return [int(found.id[4:]) for found in piece.entries]


def line(body: bytes) -> bytes:
    return b"%08x %b\n" % (crc32(body), body)


def test_what_was_written_is_read_and_then_nothing(tmp_path: Path) -> None:
    path = written(tmp_path)
    piece = read(path)
    assert piece.entries == [entry(number) for number in range(3)]
    assert (piece.start, piece.end, piece.damaged) == (0, path.stat().st_size, 0)
    rest = read(path, piece.end)
    assert (rest.start, rest.end, rest.entries) == (piece.end, piece.end, [])


def test_a_torn_tail_ends_the_reading_wherever_it_is_torn(tmp_path: Path) -> None:
    whole = written(tmp_path).read_bytes()
    third = whole.rindex(b"\n", 0, len(whole) - 1) + 1
    torn = tmp_path / "torn.log"
    torn.write_bytes(whole)
    for size in range(len(whole) - 1, third - 1, -1):
        os.truncate(torn, size)
        for is_over in (False, True):
            piece = read(torn, is_over=is_over)
            assert (numbers(piece), piece.end, piece.damaged) == ([0, 1], third, 0)


def test_a_wrong_line_is_passed_over_once_a_right_one_follows(tmp_path: Path) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"alice", b"mallo")
    path.write_bytes(b"".join(lines))
    piece = read(path)
    assert (numbers(piece), piece.end, piece.damaged) == ([0, 2], path.stat().st_size, 1)


def test_wrong_lines_at_the_end_are_waited_for_while_somebody_writes(tmp_path: Path) -> None:
    path = written(tmp_path)
    good = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"nothing of ours\n" + b"00000000 []\n" + b"and no end")
    assert (read(path).end, read(path).damaged) == (good, 0)
    piece = read(path, is_over=True)
    assert (piece.end, piece.damaged) == (path.stat().st_size - len("and no end"), 2)


def test_pieces_follow_one_another_also_behind_more_damage_than_one_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, 20)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], b"?" * 5000, b"\n", *lines[5:]]))
    monkeypatch.setattr("dragoman.records.journal_reader._SEGMENT_BYTES", 1500)
    found: list[int] = []
    at = damaged = 0
    while (piece := read(path, at)).end > at:
        found += numbers(piece)
        damaged += piece.damaged
        assert piece.start == at
        at = piece.end
    assert (found, damaged, at) == (list(range(20)), 1, path.stat().st_size)


def test_nothing_beyond_a_place_is_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    size = path.stat().st_size
    assert numbers(read(path, until=size - 1)) == [0, 1]
    assert read(path, until=0).end == 0


def test_lines_of_another_release_are_told_and_do_not_end_it(tmp_path: Path) -> None:
    path = written(tmp_path, 1)
    with path.open("ab") as file:
        file.write(line(b'["exchange",{"id":7}]') + line(b'["later",[]]') + line(b'["open",7]') + line(b'["begun",7]'))
    piece = read(path)
    assert (numbers(piece), piece.damaged, piece.end) == ([0], 1, path.stat().st_size)
    with path.open("rb") as file:
        assert read_contents(file.fileno()).open_entries == []


def test_the_story_of_a_journal_is_what_was_opened_and_not_settled(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(4):
        journal.open(entry(number, outcome=OPEN))
    journal.finalize(entry(1))
    first = journal.path
    journal.rotate()
    journal.finalize(entry(3))
    assert first is not None
    assert journal.path is not None
    with first.open("rb") as file:
        assert [int(found.id[4:]) for found in read_contents(file.fileno()).open_entries] == [0, 2, 3]
        assert read_before(file.fileno()) == ""
    with journal.path.open("rb") as file:
        story = read_contents(file.fileno())
        assert story.before == first.name
        assert [int(found.id[4:]) for found in story.open_entries] == [0, 2]


def test_names_of_earlier_versions_are_read_as_todays_wherever_they_stand(tmp_path: Path) -> None:
    def stored(number: int, outcome: str) -> JournalEntry:
        return replace(entry(number, outcome=OPEN), calls=(CallEntry("a", "m", "openai-chat", outcome),))

    journal = Journal(tmp_path)
    journal.open(stored(1, "silent"))
    journal.rotate()
    journal.open(stored(2, "no_answer"))
    journal.finalize(stored(3, "left"))
    path = journal.path
    assert path is not None
    carried, opened = stored(1, "first_byte_timeout"), stored(2, "connection_lost")
    finalized = [stored(3, "client_disconnected")]
    assert read(path).entries == finalized
    # The same where a line is damaged.
    with path.open("ab") as damaged:
        damaged.write(b"nothing of ours\n")
    journal.finalize(entry(4))
    assert read(path).entries == [*finalized, entry(4)]
    with path.open("rb") as file:
        assert read_contents(file.fileno()).open_entries == [carried, opened]
        assert read_update(file.fileno(), 0).opened == {carried.id: carried, opened.id: opened}


def test_a_line_with_a_wrong_checksum_is_not_in_the_story(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.open(entry(1, outcome=OPEN))
    journal.open(entry(2, outcome=OPEN))
    assert journal.path is not None
    data, name = journal.path.read_bytes(), entry(1).id.encode()
    assert data.count(name) == 1
    # Another id: still JSON, and no longer the line that the checksum is of.
    journal.path.write_bytes(data.replace(name, name[:-1] + b"x"))
    with journal.path.open("rb") as file:
        assert [found.id for found in read_contents(file.fileno()).open_entries] == [entry(2).id]
    journal.close()


@pytest.mark.parametrize(
    "text", [b"", b"0000", line(b'["open",7]'), line(b'["begun",7]')], ids=["empty", "torn", "another", "unknown"]
)
def test_without_its_first_line_nobody_knows_what_it_follows(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(text)
    with path.open("rb") as file:
        assert read_before(file.fileno()) is None


def test_news_are_what_was_opened_and_not_settled_since(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.path is not None
    for number in (1, 2, 3):
        journal.open(replace(entry(number), outcome=OPEN))
    journal.finalize(entry(2))
    with journal.path.open("rb") as file:
        news = read_update(file.fileno(), 0)
        assert (list(news.opened), news.finalized) == ([entry(1).id, entry(3).id], [])
        assert news.opened[entry(1).id].outcome == OPEN
        assert read_update(file.fileno(), news.end) == (news.end, {}, [])
        journal.finalize(entry(1))
        assert read_update(file.fileno(), news.end).finalized == [entry(1).id]
    journal.close()


@pytest.mark.parametrize("name", ["x,[", '",["req_9",[', "],[", '"'])
def test_names_of_sessions_are_not_taken_for_ids(tmp_path: Path, name: str) -> None:
    journal = Journal(tmp_path)
    assert journal.path is not None
    told = replace(entry(1), facts=ExchangeFacts(session=name, shape=Shape(messages=1)))
    journal.open(replace(told, outcome=OPEN))
    with journal.path.open("rb") as file:
        news = read_update(file.fileno(), 0)
        assert list(news.opened) == [told.id]
        journal.finalize(told)
        assert read_update(file.fileno(), news.end).finalized == [told.id]
    journal.close()


def test_news_begin_with_what_was_carried_over_and_end_before_a_torn_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.open(replace(entry(1), outcome=OPEN))
    journal.open(replace(entry(2), outcome=OPEN))
    journal.rotate()
    assert journal.path is not None
    journal.finalize(entry(1))
    whole = journal.path.read_bytes()
    journal.close()
    for torn in (whole, whole + b"0123", whole + line(b'["open",{}]'), whole + line(b"[]")):
        (tmp_path / "torn").write_bytes(torn)
        with (tmp_path / "torn").open("rb") as file:
            news = read_update(file.fileno(), 0)
            assert (list(news.opened), news.finalized) == ([entry(2).id], [entry(1).id])


def test_news_are_read_however_long_a_line_is(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(line(b'["open",["' + b"x" * 600_000 + b'",1]]') + line(b'["exchange",["req_2",1]]'))
    with path.open("rb") as file:
        news = read_update(file.fileno(), 0)
    assert (len(news.opened), news.finalized, news.end) == (1, ["req_2"], path.stat().st_size)
