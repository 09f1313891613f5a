"""`dragoman usage` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from dragoman.cli import main
from dragoman.cli.usage import cost
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of
from dragoman.records.journal_entry import (
    CANCELLED,
    COUNT,
    FAILED,
    CallEntry,
    CostBreakdown,
    JournalEntry,
    LossEntry,
    TokenCounts,
)
from dragoman.records.thread_assignment import AssignedThread
from dragoman.store import StoreBusy
from dragoman.store.migrations.sqlite import STEPS
from dragoman.store.record_tables import open_record_tables
from tests.cli.machine import clean, put_trusted
from tests.cli.screens import on_screen, piped
from tests.records.filled import fill, some_entries, speak
from tests.records.invented import entry
from tests.store.other_users import as_nobody

# All times of the entries, which lie in January 2027.
THEN = ["--since", "2027-01-15", "--until", "2027-01-31", "--zone", "UTC"]
MEMBERS = {
    "requests",
    "errors",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "thinking_tokens",
    "estimated_requests",
    "cost_nano_usd",
    "unpriced_requests",
}


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)


def state(tmp_path: Path) -> Path:
    """Where the file is if nobody says so."""
    return tmp_path / ".local/state/dragoman/state.db"


def put(path: Path, *entries: JournalEntry) -> None:
    with closing(open_record_tables(str(path))) as tables:
        fill(tables, [(each, AssignedThread()) for each in entries])


def some(path: Path) -> None:
    """A few exchanges whose figures are known."""
    dear = CostBreakdown(input=1_900_000_000, output=20_000_000)
    written = TokenCounts(input=120_000, cache_read=60_000, cache_write=12_000, output=2_000, thinking=500)
    lost = (LossEntry("sampling", "dropped"), LossEntry("seed", "dropped"))
    put(
        path,
        replace(entry(1), tokens=written, cost=dear, losses=lost, duration=2_500_000, first_content=1_100_000),
        entry(2, outcome=FAILED, tokens=None, money=None, status=529),
        entry(3, outcome=CANCELLED),
        entry(4, kind=COUNT, tokens=None, money=None),
        entry(5, key="bob", model="free", money=CostBreakdown()),
        entry(6, key="carol", model="strange", money=None),
    )


def told(*words: str, capfd: pytest.CaptureFixture[str], status: int = 0) -> str:
    assert main(["usage", *words]) == status
    return capfd.readouterr().out


def test_programs_are_told_one_object(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    some(state(tmp_path))
    found = json.loads(told("--by", "key", "--json", *THEN, capfd=capfd))
    assert (found["since"], found["until"]) == ("2027-01-15T00:00:00+00:00", "2027-02-01T00:00:00+00:00")
    assert set(found["total"]) >= MEMBERS
    assert all(set(row) == {"key", *found["total"]} for row in found["rows"])
    rows = {row["key"]: row for row in found["rows"]}
    assert list(rows) == ["alice", "bob", "carol"]
    alice = rows["alice"]
    assert (alice["requests"], alice["errors"], alice["cancelled_requests"], alice["other_requests"]) == (2, 1, 1, 1)
    assert (alice["input_tokens"], alice["uncached_input_tokens"], alice["cache_read_tokens"]) == (
        120_100,
        48_040,
        60_060,
    )
    assert (alice["cost_nano_usd"], alice["unpriced_requests"]) == (1_920_001_500, 0)
    assert (rows["carol"]["cost_nano_usd"], rows["carol"]["unpriced_requests"]) == (0, 1)
    total = found["total"]
    assert total == {name: sum(row[name] for row in found["rows"]) for name in total}


def test_pitfall_557_what_has_no_price_is_no_zero(tmp_path: Path) -> None:
    some(state(tmp_path))
    seen = on_screen(["usage", "--by", "key", *THEN], tmp_path, columns=80)
    assert seen.status == 0
    assert seen.plain.splitlines() == [
        "From 2027-01-15 00:00 to 2027-02-01 00:00, UTC",
        "",
        "KEY    REQUESTS  ERRORS  INPUT   READ  OUTPUT                 COST",
        "alice         2       1   120k  60.1k    2020                $1.92",
        "      12.0k written to caches; 505 thought; 2 losses; 1.3 s each, first content",
        "      after 0.6 s; 1 cancelled; 1 other path",
        "bob           1       0    100     60      20                $0.00",
        "      5 thought; 0.0 s each, first content after 0.0 s",
        "carol         1       0    100     60      20        –, 1 unpriced",
        "      5 thought; 0.0 s each, first content after 0.0 s",
        "total         4       1   120k  60.2k    2060  ≥ $1.92, 1 unpriced",
        "      12.0k written to caches; 515 thought; 2 losses; 0.6 s each, first content",
        "      after 0.3 s; 1 cancelled; 1 other path",
        "",
        "INPUT includes tokens read from caches (READ) and written to them, OUTPUT",
        "includes reasoning; – is unknown, and ≥ marks a minimum.",
    ]


def test_on_a_wide_terminal_everything_has_its_column(tmp_path: Path) -> None:
    some(state(tmp_path))
    words = ["usage", "--by", "provider,model", *THEN]
    seen = on_screen(words, tmp_path, columns=140)
    assert seen.coloured
    assert max(map(len, seen.plain.splitlines())) <= 140
    head, first = seen.plain.splitlines()[2:4]
    headings = "PROVIDER MODEL REQUESTS ERRORS INPUT READ WRITE OUTPUT THINKING LOSSES TTFT DURATION COST MORE"
    assert " ".join(head.split()) == headings
    figures = "anthropic large 2 1 120k 60.1k 12.0k 2020 505 2 0.6 1.3 $1.92"
    assert " ".join(first.split()).startswith(f"{figures} 1 cancelled; 1 other")
    assert "\ntotal " in seen.plain
    plain = on_screen(words, tmp_path, columns=140, environ={"NO_COLOR": "1"})
    assert (plain.coloured, plain.plain) == (False, seen.plain)


def many(path: Path, count: int) -> None:
    """As many models as there are nano-dollars, each of them asked once."""
    put(
        path,
        *(entry(number, model=f"model-{number}", money=CostBreakdown(input=number)) for number in range(1, count + 1)),
    )


@pytest.mark.parametrize("columns", [80, 140])
def test_on_a_terminal_the_dearest_are_shown_and_the_others_as_one(tmp_path: Path, columns: int) -> None:
    many(state(tmp_path), 103)
    seen = on_screen(["usage", *THEN], tmp_path, columns=columns)
    lines = [line for line in seen.plain.splitlines() if line.startswith(("model-", "3 others", "total"))]
    assert [line.split()[0] for line in lines] == [f"model-{number}" for number in range(103, 3, -1)] + ["3", "total"]
    assert lines[-2].split()[:4] == ["3", "others", "3", "0"]
    assert lines[-1].split()[1] == "103"
    words = "The 100 most expensive groups are shown, and 3 others as one; --all shows each."
    assert " ".join(seen.plain.split()).endswith(words)
    assert max(map(len, seen.plain.splitlines())) <= columns
    plain = on_screen(["usage", *THEN], tmp_path, columns=columns, environ={"NO_COLOR": "1"})
    assert (plain.coloured, plain.plain) == (False, seen.plain)
    every = on_screen(["usage", "--all", *THEN], tmp_path, columns=columns).plain
    assert sum(line.startswith("model-") for line in every.splitlines()) == 103
    assert "others" not in every


def test_programs_are_told_every_group_unless_they_want_fewer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    many(state(tmp_path), 103)
    whole = json.loads(told("--json", *THEN, capfd=capfd))
    assert len(whole["rows"]) == 103
    assert "rest" not in whole
    assert told(*THEN, capfd=capfd).count("model-") == told("--csv", *THEN, capfd=capfd).count("model-") == 103
    some_of_it = json.loads(told("--json", "-n", "2", *THEN, capfd=capfd))
    assert some_of_it["rows"] == whole["rows"][:2]
    rest = some_of_it["rest"]
    assert (rest.pop("groups"), rest["cost_nano_usd"]) == (101, sum(range(102)))
    assert some_of_it["total"] == whole["total"]
    assert whole["total"] == {name: sum(row[name] for row in [*some_of_it["rows"], rest]) for name in whole["total"]}
    assert main(["usage", "--csv", "-n", "2", *THEN]) == 0
    said = capfd.readouterr()
    assert len(said.out.splitlines()) == 3
    assert said.err.endswith("101 more groups not shown: -n is 2\n")


@pytest.mark.parametrize("count", ["0", "-3"])
def test_no_number_of_groups_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str], count: str) -> None:
    some(state(tmp_path))
    assert main(["usage", "-n", count]) == 2
    assert f"-n: {count} is not a number of groups" in capfd.readouterr().err


def test_any_number_of_groups_may_be_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    some(state(tmp_path))
    for by in ("key", "thread"):
        found = json.loads(told("--by", by, "--json", "-n", "9" * 30, *THEN, capfd=capfd))
        assert "rest" not in found


def test_long_names_of_sessions_and_threads_fit(tmp_path: Path) -> None:
    with closing(open_record_tables(str(state(tmp_path)))) as tables:
        speak(tables, [(1, "alice", "0b6b5a6e-8a1c-4f7c-9f38-2f1b8e2c9a77")], [(1, 1)])
        fill(tables, [(entry(1), AssignedThread(1, 1)), (entry(2), AssignedThread(2, 2)), (entry(3), AssignedThread())])
    for by, columns in (("session", 80), ("thread", 80), ("thread,day", 140)):
        seen = on_screen(["usage", "--by", by, *THEN], tmp_path, columns=columns)
        lines = seen.plain.splitlines()
        assert max(map(len, lines)) <= columns
        assert any(line.startswith("forgotten") for line in lines)
        assert any(line.startswith("–") for line in lines)
        assert "key alice; client claude-cli" in seen.plain.replace("\n      ", " ")


def test_where_signs_cannot_be_shown_they_are_spelled(tmp_path: Path) -> None:
    some(state(tmp_path))
    seen = on_screen(["usage", "--by", "key", *THEN], tmp_path, environ={"LC_ALL": "C"})
    assert ">= $1.92, 1 unpriced" in seen.plain
    assert "-, 1 unpriced" in seen.plain
    assert seen.plain.isascii()


def test_elsewhere_a_line_has_whole_values(tmp_path: Path) -> None:
    some(state(tmp_path))
    status, out, err = piped(["usage", "--by", "key", *THEN], tmp_path)
    assert (status, err) == (0, "")
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0][:3] == ["KEY", "REQUESTS", "ERRORS"]
    assert lines[1][:8] == ["alice", "2", "1", "120100", "60060", "12000", "2020", "505"]
    assert lines[1][-2:] == ["$1.9200015", "1 cancelled; 1 other path"]
    assert lines[-1][0] == "total"


@pytest.mark.parametrize(
    ("nano", "unpriced", "words"),
    [
        (0, 0, "$0.00"),
        (0, 3, "–, 3 unpriced"),
        (1_920_000_000, 3, "≥ $1.92, 3 unpriced"),
        (1_920_000_000, 0, "$1.92"),
        (1, 0, "<$0.0001"),
    ],
)
def test_pitfall_557_costs_are_told_as_far_as_they_are_known(nano: int, unpriced: int, words: str) -> None:
    assert cost(nano, unpriced) == words


def test_for_spreadsheets_nothing_is_a_formula(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(state(tmp_path), entry(1, model="=1+1"), entry(2, model="plain"))
    rows = list(csv.DictReader(io.StringIO(told("--by", "model", "--csv", *THEN, capfd=capfd))))
    assert sorted(row["model"] for row in rows) == ["'=1+1", "plain"]
    assert all(row["requests"] == "1" and row["cost_nano_usd"] == "1500" for row in rows)


def test_pitfall_562_calls_are_listed_by_the_ids_of_their_provider(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = (
        CallEntry("anthropic", "large", "anthropic-messages", status=529, provider_request_id="up_1"),
        CallEntry("anthropic", "large", "anthropic-messages", status=200, provider_request_id="=up_2"),
    )
    put(state(tmp_path), replace(entry(1), calls=made), entry(2))
    words = ["--by", "provider", "--ids", *THEN]
    found = json.loads(told(*words, "--json", capfd=capfd))
    assert found["rows"][0]["requests"] == 2
    assert [(call["provider"], call["id"], call["status"]) for call in found["ids"]] == [
        ("anthropic", "up_1", 529),
        ("anthropic", "=up_2", 200),
        ("anthropic", "", 200),
    ]
    assert found["ids"][0]["exchange"] == entry(1).id
    rows = list(csv.DictReader(io.StringIO(told(*words, "--csv", capfd=capfd))))
    assert [row["id"] for row in rows] == ["up_1", "'=up_2", ""]
    seen = on_screen(["usage", *words], tmp_path, columns=80)
    assert "anthropic  up_1" in seen.plain
    assert max(map(len, seen.plain.splitlines())) <= 80
    # Without their rows it is said that there were more.
    with closing(sqlite3.connect(state(tmp_path))) as db, db:
        db.execute("DELETE FROM records WHERE number = 1")
    assert main(["usage", *words, "--json"]) == 0
    captured = capfd.readouterr()
    assert len(json.loads(captured.out)["ids"]) == 1
    assert captured.err == "dragoman: no full record of 1 request in that period: their IDs are not listed\n"


def test_ids_without_providers_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "--ids"]) == 2
    assert capfd.readouterr().err == "dragoman: --ids lists the calls of providers: use it with --by provider\n"


def test_what_stands_in_journals_is_seen_whether_a_worker_runs_or_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with closing(Journal(directory_of(str(state(tmp_path))))) as journal:
        journal.finalize(entry(1))
        assert json.loads(told("--json", *THEN, capfd=capfd))["total"]["requests"] == 1
        journal.finalize(entry(2))
        assert json.loads(told("--json", *THEN, capfd=capfd))["total"]["requests"] == 2
        assert journal.path is not None
        with journal.path.open("ab") as file:
            file.write(b"00000000 damaged\n")
        journal.finalize(entry(3))
        assert main(["usage", "--json", *THEN]) == 0
        captured = capfd.readouterr()
        assert json.loads(captured.out)["total"]["requests"] == 3
        assert captured.err == ("dragoman: cannot read 1 line of journals; their requests are missing\n")
    # The worker is gone.
    assert json.loads(told("--json", *THEN, capfd=capfd))["total"]["requests"] == 3


def test_what_cannot_be_moved_is_told_and_the_rest_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    some(state(tmp_path))

    def locked(path: str, *, now: int) -> None:
        raise StoreBusy("database is locked")

    monkeypatch.setattr("dragoman.records.journal_ingest.ingest_all", locked)
    assert main(["usage", "--json", *THEN]) == 1
    captured = capfd.readouterr()
    assert json.loads(captured.out)["total"]["requests"] == 4
    assert captured.err == (
        f"dragoman: the newest requests are missing: cannot write to {state(tmp_path)}: database is locked\n"
    )


@pytest.mark.parametrize("command", ["usage", "logs"])
def test_what_waits_in_journals_was_recorded(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    put(state(tmp_path))

    def full(path: str, *, now: int) -> None:
        raise StoreBusy("database or disk is full")

    monkeypatch.setattr("dragoman.records.journal_ingest.ingest_all", full)
    assert main([command, "--json"]) == 1
    assert "no requests recorded" not in capfd.readouterr().err


def test_where_nothing_was_ever_written_it_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "--json"]) == 0
    captured = capfd.readouterr()
    found = json.loads(captured.out)
    assert found["rows"] == []
    assert set(found["total"]) >= MEMBERS
    assert set(found["total"].values()) == {0}
    assert captured.err == f"dragoman: no requests recorded yet: {state(tmp_path)} does not exist\n"
    assert not state(tmp_path).exists()
    put(state(tmp_path))
    for form in ([], ["--csv"], ["--json"]):
        assert main(["usage", *form]) == 0
        assert capfd.readouterr().err == f"dragoman: no requests recorded yet in {state(tmp_path)}\n"


def test_a_month_and_all_of_it_can_be_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with closing(open_record_tables(str(state(tmp_path)))) as tables:
        fill(tables, some_entries(1, 50))
    everything = json.loads(told("--since", "all", "--until", "2027-12-31", "--json", capfd=capfd))
    assert sum(row["requests"] for row in everything["rows"]) == everything["total"]["requests"] > 0
    days = [
        json.loads(told("--by", "day", "--zone", "+05:45", "--json", "--since", day, "--until", day, capfd=capfd))
        for day in ("2027-01-20", "2027-01-21", "2027-01-22")
    ]
    range_of_days = ["--since", "2027-01-20", "--until", "2027-01-22"]
    together = json.loads(told("--by", "day", "--zone", "+05:45", "--json", *range_of_days, capfd=capfd))
    assert together["rows"] == [row for day in days for row in day["rows"]]


def test_pitfall_560_the_zone_that_is_named_is_shown(tmp_path: Path) -> None:
    some(state(tmp_path))
    words = ["usage", "--since", "2027-01-15T10:05", "--until", "2027-01-16", "--zone", "Asia/Kathmandu"]
    seen = on_screen(words, tmp_path, columns=80)
    assert seen.plain.splitlines()[:2] == [
        "From 2027-01-15 10:00 to 2027-01-17 00:00, Asia/Kathmandu, extended to full",
        "15-minute buckets",
    ]
    local = on_screen(words[:-2], tmp_path, columns=140, environ={"TZ": "Asia/Kathmandu"})
    assert local.plain.splitlines()[0].startswith("From 2027-01-15 10:00 to 2027-01-17 00:00, local time (+0545), ")


def test_pitfall_560_one_setting_is_the_zone_of_days(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    some(state(tmp_path))
    put_trusted(tmp_path, '[storage]\ntime_zone = "Asia/Kathmandu"\n')
    days = ["--by", "day", "--since", "2027-01-15", "--until", "2027-01-16", "--json"]
    found = json.loads(told(*days, capfd=capfd))
    assert (found["zone"], found["since"]) == ("Asia/Kathmandu", "2027-01-15T00:00:00+05:45")
    assert [row["day"] for row in found["rows"]] == ["2027-01-15"]


WRONG = {
    "a group": (["--by", "keys"], "--by: there is no group 'keys'; there are key, model, provider, client, tag, "),
    "groups that do not go together": (["--by", "thread,model"], "--by: sums of a thread are kept by day alone"),
    "a time": (["--since", "last tuesday"], "--since: 'last tuesday' is no time; it may be 7d, 24h, 90m, today, "),
    "a day": (["--until", "2026-02-30"], "--until: '2026-02-30' is no time"),
    "an end": (["--since", "2026-02-02", "--until", "2026-02-01"], "since 2026-02-02 00:00"),
    "a zone": (["--zone", "Mars/Olympus"], "zone: 'Mars/Olympus' is not known on this machine"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_said_wrongly_is_one_sentence_and_nothing_is_changed(
    case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words, problem = WRONG[case]
    folder = directory_of(str(state(tmp_path)))
    with closing(Journal(folder)) as journal:
        journal.finalize(entry(1))
        assert main(["usage", *words]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"dragoman: {problem}")
    assert captured.err.count("\n") == 1
    assert not state(tmp_path).exists()


def test_a_file_of_a_newer_version_is_told_and_stays_as_it_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    some(state(tmp_path))
    with closing(sqlite3.connect(state(tmp_path))) as db:
        db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    before = state(tmp_path).read_bytes()
    assert main(["usage"]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "the file was written by a newer version" in captured.err
    assert captured.err.count("\n") == 1
    assert state(tmp_path).read_bytes() == before


def test_in_memory_there_is_nothing_to_see(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put_trusted(tmp_path, '[storage]\npath = ":memory:"\n')
    assert main(["usage"]) == 1
    assert capfd.readouterr().err == "dragoman: storage.path names no file: nothing is recorded in memory\n"


def test_another_file_is_that_of_another_configuration(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    some(tmp_path / "other.db")
    (tmp_path / "other.toml").write_text('[storage]\npath = "other.db"\n', encoding="utf-8")
    found = json.loads(told("--config", "other.toml", "--json", *THEN, capfd=capfd))
    assert found["total"]["requests"] == 4


def test_whoever_may_not_read_it_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    # Not in the folder of the tests, which may be closed to other users.
    with TemporaryDirectory(prefix="dragoman-usage-") as folder:
        file = Path(folder) / "state.db"
        some(file)
        config = Path(folder) / "dragoman.toml"
        config.write_text('[storage]\npath = "state.db"\n', encoding="utf-8")
        for path in (config, Path(folder)):
            path.chmod(0o755)
        # Whose it is may; and what is loaded by then, nobody else has to find, who may not read this installation.
        assert main(["usage", "--config", str(config)]) == 0
        capfd.readouterr()
        file.chmod(0)
        with as_nobody():
            status = main(["usage", "--config", str(config)])
        captured = capfd.readouterr()
    assert (status, captured.out) == (1, "")
    assert captured.err.count("\n") == 1
    assert "cannot be written to by this user" in captured.err


@pytest.mark.parametrize(("said", "shown"), [((), "2 losses"), (("--all-losses",), "5 losses")])
def test_bookkeeping_is_counted_on_request(tmp_path: Path, said: tuple[str, ...], shown: str) -> None:
    lost = (
        LossEntry("sampling", "dropped"),
        LossEntry("top_k", "dropped"),
        *(LossEntry("cache_breakpoint", "dropped"),) * 3,
    )
    put(state(tmp_path), replace(entry(1), losses=lost))
    assert shown in on_screen(["usage", *said, *THEN], tmp_path, columns=80).plain


def test_programs_are_told_bookkeeping_apart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(
        state(tmp_path),
        replace(entry(1), losses=(LossEntry("top_k", "dropped"), LossEntry("cache_breakpoint", "dropped"))),
    )
    total = json.loads(told("--json", *THEN, capfd=capfd))["total"]
    assert (total["losses"], total["bookkeeping_losses"]) == (1, 1)
