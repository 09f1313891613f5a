"""What a record tells of the targets that a request might have gone to: what `route` explains of the same moment."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Missing, RouteConfig, Settings, Storage
from dragoman.gateway.observability.record import Record
from dragoman.prices.book import Override
from dragoman.prices.table import Rates
from dragoman.records.exchanges import find
from dragoman.records.export import as_csv, as_json_lines, csv_names, exchanges
from dragoman.records.journal_entry import CandidateEntry
from dragoman.records.journal_ingest import ingest_all
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health import PROMPT
from dragoman.store.record_queries import Exports
from dragoman.store.record_tables import open_record_tables
from tests.cli.screens import on_screen
from tests.gateway.harness import CHAT, PATHS, House, Received, Reply, settings_for
from tests.gateway.observability.kept import recorded
from tests.gateway.says import tells
from tests.screen import fits

SECRET = "The raven's name is Huckebein."
LINES = (
    RouteConfig(pattern="two", targets=("chat/m", "messages/m")),
    RouteConfig(pattern="turns", targets=("chat/m", "messages/m"), policy="round-robin"),
    RouteConfig(pattern="cheap", targets=("chat/dear", "messages/m", "responses/m"), policy="cheapest", max_cost=10**7),
    RouteConfig(pattern="fast", targets=("chat/m", "messages/m"), policy="fastest"),
    RouteConfig(pattern="faithful", targets=("messages/m", "responses/m", "chat/m"), policy="least-loss"),
    RouteConfig(pattern="some", targets=("chat/m", "gone/m", "messages/m")),
    RouteConfig(pattern="many", targets=tuple(f"chat/m{number}" for number in range(20)), policy="cheapest"),
)
GONE = Missing(left_out="providers.gone", key="providers.gone.api_key", problem="no key", remedy="set one", line=7)
# Pico-dollars for a token.
PRICES = {
    "chat/dear": Override(rates=Rates(input=10**9, output=10**9)),
    "messages/m": Override(rates=Rates(input=10**6, output=10**6), context_window=1000),
}

LAST_RESORT = "deprioritized: in cooldown: called if all others fail"


def settings(port: int) -> Settings:
    return replace(settings_for(port), routes=LINES, prices=PRICES, absent={"gone": GONE})


def answers(received: Received) -> Reply:
    return tells(next(protocol for protocol, path in PATHS.items() if received.target == path))


def failed(house: House, target: str, times: int) -> None:
    """A target fails so often that it is suspect, or rests: with errors that take long."""
    traffic = house.app.runtime.routing_state
    now = traffic.clock()
    for begun in range(times):
        traffic.health.record(target, AttemptOutcome.CONNECTION_LOST, now + begun / 100, now + begun / 100 - PROMPT)


def suspect(house: House) -> None:
    """A target failed three seconds ago."""
    traffic = house.app.runtime.routing_state
    now = traffic.clock()
    traffic.clock = lambda: now
    failed(house, "chat/m", 1)
    traffic.clock = lambda: now + 3.0


def resting(house: House) -> None:
    failed(house, "chat/m", 5)


def all_rest(house: House) -> None:
    failed(house, "chat/m", 5)
    failed(house, "messages/m", 5)


def measured(house: House) -> None:
    traffic = house.app.runtime.routing_state
    traffic.speeds.record_response("messages/m", 100, traffic.clock() - 30.0, seconds=2.0, tokens=100.0, first=0.5)
    suspect(house)


def well(_: House) -> None:
    """Nothing happened."""


def request_of(model: str, **more: object) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": SECRET}], **more}


LONG = {"messages": [{"role": "user", "content": "word " * 4000}]}
CASES: dict[str, tuple[Callable[[House], None], dict[str, object], list[tuple[str, str]]]] = {
    "one failed a moment ago": (
        suspect,
        request_of("two"),
        [("messages/m", ""), ("chat/m", "deprioritized: failed 3 s ago")],
    ),
    "one rests": (resting, request_of("two"), [("messages/m", ""), ("chat/m", LAST_RESORT)]),
    "one is too dear, and one has no price": (
        well,
        request_of("cheap"),
        [
            ("messages/m", ""),
            ("chat/dear", "left out: its estimated cost exceeds max_cost"),
            ("responses/m", "left out: its price is unknown, and there is a max_cost"),
        ],
    ),
    "no target can be called": (
        well,
        {**request_of("cheap"), **LONG},
        [
            ("chat/dear", "left out: its estimated cost exceeds max_cost"),
            ("messages/m", "left out: its window is too small"),
            ("responses/m", "left out: its price is unknown, and there is a max_cost"),
        ],
    ),
    "two lose something": (
        well,
        request_of("faithful", seed=1, logit_bias={"7": 1}),
        [("chat/m", ""), ("responses/m", ""), ("messages/m", "")],
    ),
    "the speed of one is known": (
        measured,
        request_of("fast"),
        [("messages/m", ""), ("chat/m", "deprioritized: failed 3 s ago")],
    ),
    "one is not set up": (
        suspect,
        request_of("some"),
        [
            ("messages/m", ""),
            ("chat/m", "deprioritized: failed 3 s ago"),
            ("gone/m", "left out: its provider is not configured"),
        ],
    ),
}


def explained(house: House, body: dict[str, object]) -> list[dict[str, object]]:
    """What `dragoman route` has of a request."""
    told = house.post(f"/route?model={body['model']}&client={CHAT}", body)
    assert told.status == 200, told.body
    found = told.json()["candidates"]
    assert isinstance(found, list)
    return [dict(row) for row in found if isinstance(row, dict)]


def note_of(row: dict[str, object]) -> str:
    for name, words in (("left_out", "left out: "), ("deprioritized", "deprioritized: ")):
        found = row.get(name)
        if isinstance(found, dict):
            return f"{words}{found['why']}"
    return ""


def asked(prepare: Callable[[House], None], body: dict[str, object]) -> tuple[list[dict[str, object]], Record, str]:
    """What is explained of a request, then its record and its log line."""
    with recorded(answers, settings) as (house, records):
        prepare(house)
        rows = explained(house, body)
        records.clear()
        house.post(PATHS[CHAT], body)
        (record,) = records
        return rows, record, house.log.getvalue().splitlines()[-1]


@pytest.mark.parametrize("case", CASES)
def test_what_is_explained_is_what_is_recorded(case: str) -> None:
    prepare, body, expected = CASES[case]
    rows, record, line = asked(prepare, body)
    assert [(found.target, found.why) for found in record.candidates] == expected
    assert [(row["target"], note_of(row)) for row in rows] == expected
    assert record.candidates_more is None
    for found, row in zip(record.candidates, rows, strict=True):
        assert found.cost in (None, row.get("nano_dollars"))
        assert found.losses in (None, row.get("losses"))
        speed = row.get("speed")
        if found.rate is not None:
            assert isinstance(speed, dict)
            assert (found.first_token, found.rate) == (speed["first_token"] * 1e6, speed["tokens_per_second"])
    told = json.loads(line)
    assert [(each["target"], each.get("reason", "")) for each in told["candidates"]] == expected
    assert "candidates_more" not in told
    assert "Huckebein" not in line


def test_figures_are_those_that_the_policy_asked_for() -> None:
    _, record, line = asked(*CASES["one is too dear, and one has no price"][:2])
    cheap, dear, unknown = record.candidates
    assert cheap.cost and dear.cost and cheap.cost < 10**7 < dear.cost
    assert (unknown.cost, cheap.losses, cheap.first_token, cheap.rate) == (None, None, None, None)
    _, record, _ = asked(*CASES["two lose something"][:2])
    losses = [found.losses for found in record.candidates if found.losses is not None]
    assert losses[0] == 0 < losses[1] and losses == sorted(losses) and len(losses) == 3
    _, record, line = asked(*CASES["the speed of one is known"][:2])
    assert record.candidates[0] == CandidateEntry("messages/m", first_token=500_000, rate=50.0)
    assert json.loads(line)["candidates"][0] == {
        "target": "messages/m",
        "first_token": 0.5,
        "tokens_per_second": 50.0,
    }


@pytest.mark.parametrize("model", ["two", "turns", "chat/m"])
def test_on_a_calm_day_nothing_is_weighed_and_nothing_written(model: str) -> None:
    _, record, line = asked(well, request_of(model))
    assert (record.candidates, record.candidates_more) == ((), None)
    assert record.status == 200
    assert "candidates" not in line


def test_of_many_the_first_are_told_and_the_others_counted() -> None:
    _, record, line = asked(well, request_of("many"))
    assert [found.target for found in record.candidates] == [f"chat/m{number}" for number in range(16)]
    assert record.candidates_more == json.loads(line)["candidates_more"] == 4


def test_whoever_is_asked_for_want_of_others_stands_first() -> None:
    _, record, _ = asked(all_rest, request_of("two"))
    assert record.reason == "wakes"
    assert [found.why for found in record.candidates][1:] == [LAST_RESORT]


def test_it_is_in_the_file_on_the_page_and_in_an_export(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    with recorded(answers, lambda port: replace(settings(port), storage=Storage(path=path))) as (house, records):

        async def start() -> None:
            house.app.runtime.usage_recorder.start()

        async def close() -> None:
            await house.app.runtime.usage_recorder.close(30.0)

        house.run(start())
        house.post(PATHS[CHAT], request_of("two"))
        resting(house)
        house.post(PATHS[CHAT], request_of("two"))
        house.run(close())
    calm, ranked = records
    ingest_all(path, now=int(ranked.time * 1_000_000) + 1)
    with closing(open_record_tables(path, read_only=True)) as tables:
        found = find(tables, ranked.id)
        assert found.entry.candidates == ranked.candidates
        assert ranked.candidates == (CandidateEntry("messages/m"), CandidateEntry("chat/m", LAST_RESORT))
        assert find(tables, calm.id).entry.candidates == ()
        exports = Exports(tables.connection)
        lines = [json.loads(line)["details"] for line in as_json_lines(exchanges(exports, 0, 1 << 60))]
        text = b"".join(as_csv(csv_names(), exchanges(exports, 0, 1 << 60))).decode()
    assert lines[1]["candidates"] == [{"target": "messages/m"}, {"target": "chat/m", "why": LAST_RESORT}]
    assert "candidates" not in lines[0]
    assert [json.loads(row["details"]) for row in csv.DictReader(io.StringIO(text))] == lines
    (tmp_path / "gateway.toml").write_text(f'[storage]\npath = "{path}"\n', encoding="utf-8")
    (tmp_path / "gateway.toml").chmod(0o600)
    for columns in (80, 140):
        seen = on_screen(["logs", "--config", "gateway.toml", ranked.id], tmp_path, columns=columns)
        assert seen.status == 0, seen.raw
        shown = seen.plain[seen.plain.index("#  CANDIDATE") :].splitlines()[:3]
        assert [line.split()[:8] for line in shown] == [
            ["#", "CANDIDATE", "PRICE", "TTFT", "TOKENS/S", "LOSSES", "NOTE"],
            ["1", "messages/m", "-", "-", "-", "-"],
            ["2", "chat/m", "-", "-", "-", "-", "deprioritized:", "in"],
        ]
        assert fits(seen.raw.replace("\r", "").splitlines(), columns)
    assert on_screen(["db", "check", "--config", "gateway.toml"], tmp_path).status == 0
