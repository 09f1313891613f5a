"""Everything that is recorded is told, by names, and no cell of it is a formula."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing

import pytest
from msgspec.structs import asdict, replace

from dragoman.model.jsonvalue import JsonObject
from dragoman.records.exchanges import instant
from dragoman.records.export import (
    FIELDS,
    as_csv,
    as_json_lines,
    calls,
    csv_line,
    csv_names,
    details_as_json,
    exchanges,
)
from dragoman.records.journal_entry import (
    CallEntry,
    CandidateEntry,
    CostBreakdown,
    JournalEntry,
    LossEntry,
    TokenCounts,
)
from dragoman.records.thread_assignment import AssignedThread
from dragoman.store.record_queries import Exports
from dragoman.store.records import COLUMNS
from tests.records.filled import fill, some_entries, speak
from tests.records.invented import NOON, entry
from tests.sdk.digging import dig
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")

EVER = 1 << 60


def as_named(value: TokenCounts | CostBreakdown | None) -> object:
    return {name: found for name, found in asdict(value).items() if found not in ((), "", None)} if value else None


def test_pitfall_555_an_exchange_is_told_with_all_that_is_known_of_it() -> None:
    known = replace(
        entry(1),
        losses=(LossEntry("sampling", "dropped", "sampling.seed"),),
        refusal="no room",
        stream=True,
        tags="team=web,zone=eu",
    )
    with closing(opened_records()) as tables:
        fill(tables, [(known, AssignedThread(1, 2))])
        speak(tables, [(1, "alice", "first")], [(2, 1)])
        (told,) = exchanges(Exports(tables.connection), 0, EVER)
    assert told["time"] == "2027-01-15T08:00:00.000000Z"
    assert (told["session"], told["thread"], told["thread_class"]) == ("first", "thread-2", "main")
    assert told["tags"] == {"team": "web", "zone": "eu"}
    assert (told["input_tokens"], told["uncached_input_tokens"], told["cache_read_tokens"]) == (100, 40, 60)
    assert (told["cost_nano_usd"], told["unpriced"], told["stream"]) == (1500, False, True)
    details = told["details"]
    assert isinstance(details, dict)
    assert details["losses"] == [{"feature": "sampling", "fate": "dropped", "place": "sampling.seed"}]
    assert details["refusal"] == "no room"
    assert details["calls"] == [
        {
            "provider": "anthropic",
            "model": "large",
            "protocol": "anthropic-messages",
            "status": 200,
            "started": 0,
            "first_content": 0,
            "ended": 0,
            "key": -1,
            "maybe_billed": False,
            "tokens": as_named(known.tokens),
            "estimated": False,
            "cost": as_named(known.cost),
        }
    ]


def test_whom_an_exchange_might_have_gone_to_is_told_by_names_in_both_forms() -> None:
    candidates = (CandidateEntry("b/m", "", 5, 0, 250_000, 80.5), CandidateEntry("a/m", "left out: in cooldown"))
    known = [replace(entry(1), candidates=candidates, candidates_more=3), entry(2)]
    with closing(opened_records()) as tables:
        fill(tables, [(each, AssignedThread()) for each in known])
        exports = Exports(tables.connection)
        ranked, calm = (json.loads(line)["details"] for line in as_json_lines(exchanges(exports, 0, EVER)))
        text = b"".join(as_csv(csv_names(), exchanges(exports, 0, EVER))).decode()
    assert ranked["candidates"] == [
        {"target": "b/m", "cost": 5, "losses": 0, "first_token": 250_000, "rate": 80.5},
        {"target": "a/m", "why": "left out: in cooldown"},
    ]
    assert ranked["candidates_more"] == 3
    assert not [name for name in calm if name.startswith("candidates")]
    assert [json.loads(row["details"]) for row in csv.DictReader(io.StringIO(text))] == [ranked, calm]


def test_no_column_of_a_row_is_forgotten() -> None:
    assert set(COLUMNS) <= set(FIELDS.values())


def test_what_nobody_knows_is_null_and_not_0() -> None:
    with closing(opened_records()) as tables:
        fill(tables, [(entry(1, tokens=None, money=None), AssignedThread())])
        (told,) = exchanges(Exports(tables.connection), 0, EVER)
    assert (told["input_tokens"], told["uncached_input_tokens"], told["thinking_tokens"]) == (None, None, None)
    assert (told["unpriced"], told["cost_nano_usd"]) == (True, None)
    assert told["session"] is None


def test_a_wholly_unpriced_exchange_has_no_cost_and_a_partly_priced_one_has() -> None:
    parts = [
        CostBreakdown(unpriced=("model",)),
        CostBreakdown(input=5, unpriced=("search",)),
        CostBreakdown(reported=7, unpriced=("model",)),
        CostBreakdown(),
    ]
    made_of = [(CallEntry("chat", "served", "openai-chat", cost=money),) for money in parts]
    made = [replace(entry(number, money=money), calls=made_of[number]) for number, money in enumerate(parts)]
    with closing(opened_records()) as tables:
        fill(tables, [(each, AssignedThread()) for each in made])
        lines = list(exchanges(Exports(tables.connection), 0, EVER))
        row = csv_names().index("cost_nano_usd")
        text = b"".join(as_csv(csv_names(), iter(lines))).decode()
    assert [line["cost_nano_usd"] for line in lines] == [None, 5, None, 0]
    assert [cells[row] for cells in csv.reader(io.StringIO(text))] == ["cost_nano_usd", "", "5", "", "0"]
    money = [dig(line, "details", "cost") for line in lines]
    assert money[0] == dig(lines[0], "details", "calls", 0, "cost") == {"unpriced": ["model"]}
    assert money[2] == {"unpriced": ["model"], "reported": 7}
    assert isinstance(money[1], dict) and money[1]["input"] == 5


def test_lines_of_json_and_of_csv_say_the_same() -> None:
    with closing(opened_records()) as tables:
        fill(tables, some_entries(4, 60))
        exports = Exports(tables.connection)
        lines = [json.loads(line) for line in as_json_lines(exchanges(exports, 0, EVER))]
        text = b"".join(as_csv(csv_names(), exchanges(exports, 0, EVER))).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [list(line) for line in lines] == [list(csv_names())] * 60
    for line, row in zip(lines, rows, strict=True):
        assert row["id"] == line["id"]
        assert row["input_tokens"] == ("" if line["input_tokens"] is None else str(line["input_tokens"]))
        assert json.loads(row["details"]) == line["details"]
        assert row["model"] == line["model"].replace("=cmd", "'=cmd")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x")'])
def test_texts_that_begin_like_a_formula_are_told_as_texts(text: str) -> None:
    (cells,) = csv.reader(io.StringIO(csv_line(["a", text, -5, None]).decode(), newline=""))
    assert cells == ["a", f"'{text}", "-5", ""]


def test_quotes_commas_and_lines_stay_in_their_cell() -> None:
    said = ['a "b", c', "two\nlines", "", "plain = fine"]
    (cells,) = csv.reader(io.StringIO(csv_line(said).decode(), newline=""))
    assert cells == said


def test_details_of_another_release_are_told_as_they_are() -> None:
    assert details_as_json(b'{"a": 1}') == '{"a": 1}'
    assert details_as_json(b"\xff") == "\ufffd"


def test_a_time_keeps_its_microseconds() -> None:
    assert instant(1_800_000_000_000_007) == "2027-01-15T08:00:00.000007Z"


def test_pitfall_562_every_call_is_listed_by_the_id_of_its_provider() -> None:
    failed = CallEntry("openai", "small", "openai-chat", status=529, provider_request_id="up_1", started=1_000_000)
    answered = CallEntry(
        "anthropic", "large", "anthropic-messages", status=200, provider_request_id="up_2", started=2_000_000
    )
    silent = CallEntry("openai", "small", "openai-chat")
    entries = [
        JournalEntry(id="req_1", time=NOON, provider="anthropic", provider_request_id="up_2", calls=(failed, answered)),
        JournalEntry(id="req_2", time=NOON + 1, calls=(silent,)),
        JournalEntry(
            id="req_3", time=NOON + 2, provider="openai", model="small", status=200, provider_request_id="up_3"
        ),
        JournalEntry(id="req_4", time=NOON + 3),
    ]
    with closing(opened_records()) as tables:
        fill(tables, [(each, AssignedThread()) for each in entries])
        told = list(calls(Exports(tables.connection), 0, EVER))
    assert [[(call.exchange, call.provider, call.id, call.status) for call in each] for each in told] == [
        [("req_1", "openai", "up_1", 529), ("req_1", "anthropic", "up_2", 200)],
        [("req_2", "openai", "", 0)],
        [("req_3", "openai", "up_3", 200)],
        [],
    ]
    assert told[0][0].time == "2027-01-15T08:00:01.000000Z"


def test_calls_of_rows_that_another_release_wrote_are_those_of_the_row() -> None:
    with closing(opened_records()) as tables:
        fill(tables, [(replace(entry(1), provider_request_id="up_1"), AssignedThread())])
        tables.connection.change("UPDATE records SET details = ?", (b"\xff",))
        ((call,),) = calls(Exports(tables.connection), 0, EVER)
    assert (call.id, call.provider) == ("up_1", "anthropic")


def test_names_from_outside_say_nothing_to_a_terminal() -> None:
    name = "a\x1b]0;t\x07\x9b31m\u202eb\u2028c\x00 d\u00e9"
    told: JsonObject = {"requested_model": name, "details": {"place": name}}
    (line,) = as_json_lines(iter([told]))
    assert json.loads(line) == told
    shown = line.decode() + csv_line([name, json.dumps(told)]).decode()
    assert [letter for letter in shown if not letter.isprintable() and letter != "\n"] == []
    assert csv_line(["d\u00e9", "=1"]).decode() == "d\u00e9,'=1\n"
