"""Exchanges that were written down, with all that is known of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.records.digest_key import key_of, secret_in
from dragoman.records.exchanges import (
    after,
    find,
    instant,
    latest,
    newest,
    speed_of,
    uncached_input_of,
)
from dragoman.records.ids import new_id
from dragoman.records.journal_entry import CallEntry, CandidateEntry, CostBreakdown, LossEntry, TokenCounts
from dragoman.records.rows import Batch
from dragoman.records.thread_assignment import AssignedThread
from dragoman.sessions.assign import response_of
from dragoman.sessions.facts import ExchangeFacts
from dragoman.store.record_queries import RecordFilter
from dragoman.store.record_tables import RecordTables
from dragoman.wire.history_digest import digest
from tests.records.filled import fill
from tests.records.invented import NOON, entry
from tests.records.kept_sessions import filling
from tests.records.viewed import as_json
from tests.sdk.digging import dig_object, dig_objects
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")

SECOND = 1_000_000
TOKENS = TokenCounts(100, 60, 10, 4, 21, 5, 1)
MONEY = CostBreakdown(
    1000, 500, 60, 30, 7, 0, 10_000_000, 0, ("thinking",), "2026-10-30", "anthropic/large", "priority", 999
)
CALLS = (
    CallEntry("ollama", "qwen3", "openai-chat", "unreachable", 0, 100, 0, 5000),
    CallEntry(
        "anthropic",
        "large",
        "anthropic-messages",
        "answered",
        200,
        6000,
        1000,
        3000,
        "theirs",
        1,
        True,
        TOKENS,
        True,
        MONEY,
    ),
)
WHOLE = replace(
    entry(3, time=NOON + 3 * SECOND, tokens=TOKENS, money=MONEY),
    calls=CALLS,
    losses=(LossEntry("top_k", "dropped", "sampling.top_k"),),
    stream=True,
    provider_request_id="theirs",
    response_id="msg_1",
    stop_reason="end",
    trace="00-abc",
    candidates=(
        CandidateEntry("anthropic/large", "", 5, 1, 250_000, 80.5),
        CandidateEntry("ollama/qwen3", "left out: in cooldown"),
    ),
    candidates_more=1,
)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[RecordTables]:
    with filling(tmp_path / "state.db") as file:
        file.session(1, "5f0c", started=NOON, last=NOON)
        file.thread(10, 1, label="Explore", rule="agent-prompt", sure=60)
        file.exchanges([entry(1, time=NOON), entry(2, time=NOON + SECOND, tokens=None, money=None)])
        file.exchanges([WHOLE], 1, 10)
        file.exchanges([replace(entry(4, time=NOON), response_id="twice"), replace(entry(5), response_id="twice")])
    with closing(opened_records(tmp_path / "state.db", read_only=True)) as opened:
        yield opened


def test_a_list_ends_with_the_latest(tables: RecordTables) -> None:
    assert [int(each.entry.id[4:]) for each in latest(tables, RecordFilter(), 2)] == [2, 3]
    assert [int(each.entry.id[4:]) for each in after(tables, 3, RecordFilter(), 9)] == [4, 5]
    assert newest(tables) == 5


@pytest.mark.parametrize("text", [WHOLE.id, "theirs", "msg_1"])
def test_pitfall_562_an_exchange_is_found_by_the_providers_own_id(tables: RecordTables, text: str) -> None:
    found = find(tables, text)
    assert (found.entry.id, found.entry.calls[1].provider_request_id) == (WHOLE.id, "theirs")


@pytest.mark.parametrize("theirs", ["msg_9d5f7c1be2a84d6f", "chatcmpl-9d5f7c1be2a84d6f", "9d5f7c1be2a84d6f"])
@pytest.mark.parametrize("begin", ["msg_", "chatcmpl-", "resp_"])
def test_an_exchange_is_found_by_the_id_that_its_client_saw_in_a_translated_answer(
    tmp_path: Path, theirs: str, begin: str
) -> None:
    with filling(tmp_path / "state.db") as file:
        told = replace(entry(1, time=NOON), response_id=theirs)
        file.exchanges([told, replace(entry(2, time=NOON), response_id=f"msg_1{theirs[-16:]}")])
    with closing(opened_records(tmp_path / "state.db", read_only=True)) as tables:
        assert find(tables, begin + theirs[-16:]).entry.id == told.id


def test_an_exchange_is_found_by_the_id_under_which_its_answer_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "state.db.records"
    named = digest(key_of(secret_in(folder), "alice"), "response", "resp_kept")
    with filling(tmp_path / "state.db") as file:
        file.session(1, "5f0c", started=NOON, last=NOON)
        file.thread(10, 1)
        first = replace(entry(1, time=NOON), facts=ExchangeFacts(answer_id=named))
        # The next one goes on from there, and says so by the same digest.
        file.exchanges([first, replace(entry(2, time=NOON + SECOND), facts=ExchangeFacts(previous=named))], 1, 10)
        file.tip(response_of(named), 10)
    with closing(opened_records(tmp_path / "state.db", read_only=True)) as tables:
        assert find(tables, "resp_kept", folder).entry.id == first.id
        for text, where in (("resp_other", folder), ("resp_kept", tmp_path / "elsewhere"), ("resp_kept", None)):
            with pytest.raises(DragomanError, match="there is no exchange"):
                find(tables, text, where)
        (folder / "secret").write_bytes(b"half")
        with pytest.raises(DragomanError, match=r"'resp_kept' cannot be looked for among .* is damaged"):
            find(tables, "resp_kept", folder)
    assert not (tmp_path / "elsewhere").exists()


def test_an_unassigned_exchange_is_found_by_the_id_of_its_stored_response(tmp_path: Path) -> None:
    path, folder = str(tmp_path / "state.db"), tmp_path / "state.db.records"
    secret = secret_in(folder)
    facts = [
        ExchangeFacts(tip=name, answer_id=digest(key_of(secret, "alice"), "response", f"resp_{name}"))
        for name in ("first", "second")
    ]
    with closing(opened_records(path)) as tables:
        batch = Batch()
        for number, each in enumerate(facts, 1):
            batch.add_unassigned(replace(entry(number, time=NOON), facts=each, requested_model="large"))
        with tables.transaction():
            batch.write_rows(tables)
            batch.write_rollups(tables)
    with closing(opened_records(path, read_only=True)) as tables:
        assert len(tables.unassigned.oldest(9)) == 2
        assert find(tables, "resp_second", folder).entry.id == entry(2, time=NOON).id
        with pytest.raises(DragomanError, match="there is no exchange"):
            find(tables, "resp_third", folder)


def test_an_exchange_is_found_by_how_its_id_begins_at_its_time(tmp_path: Path) -> None:
    first, second = (new_id(NOON + ago, lambda length: "x" * length) for ago in (0, 20 * SECOND))
    with filling(tmp_path / "state.db") as file:
        file.exchanges([replace(entry(1, time=NOON), id=first), replace(entry(2, time=NOON + 20 * SECOND), id=second)])
    with closing(opened_records(tmp_path / "state.db", read_only=True)) as tables:
        assert find(tables, first[:14]).entry.id == first
        assert find(tables, second).entry.id == second
        with pytest.raises(DragomanError, match="several exchanges"):
            find(tables, first[:10])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nobody", "there is no exchange 'nobody'"),
        ("", "there is no exchange ''"),
        ("' OR 1 --", "there is no exchange"),
        ("twice", f"'twice' means several exchanges: {entry(5).id}, {entry(4).id}"),
    ],
)
def test_what_means_none_or_several_is_told_in_a_sentence(tables: RecordTables, text: str, words: str) -> None:
    with pytest.raises(DragomanError) as told:
        find(tables, text)
    assert str(told.value).startswith(words)


def test_all_that_is_known_is_told_to_programs(tables: RecordTables) -> None:
    told = as_json(find(tables, WHOLE.id))
    assert {
        name: told[name] for name in ("id", "time", "ended", "outcome", "stop_reason", "trace", "provider_request_id")
    } == {
        "id": WHOLE.id,
        "time": "2027-01-15T08:00:03.000000Z",
        "ended": "2027-01-15T08:00:03.003000Z",
        "outcome": "answered",
        "stop_reason": "end",
        "trace": "00-abc",
        "provider_request_id": "theirs",
    }
    assert told["session"] == {"id": "5f0c", "key": "alice", "client": "claude-code"}
    assert isinstance(told["thread"], dict)
    assert (told["thread"]["number"], told["thread"]["rule"], told["thread"]["sure"]) == (10, "agent-prompt", 60)
    assert told["losses"] == [
        {"feature": "top_k", "fate": "dropped", "weight": "changes_response", "place": "sampling.top_k"}
    ]
    attempts = told["attempts"]
    assert isinstance(attempts, list)
    outcomes = [
        (each["outcome"], each["provider_request_id"], each["cost_nano_usd"])
        for each in attempts
        if isinstance(each, dict)
    ]
    assert outcomes == [("unreachable", "", None), ("answered", "theirs", MONEY.total)]
    assert told["candidates"] == [
        {
            "target": "anthropic/large",
            "why": "",
            "cost_nano_usd": 5,
            "losses": 1,
            "first_token_microseconds": 250_000,
            "tokens_per_second": 80.5,
        },
        {
            "target": "ollama/qwen3",
            "why": "left out: in cooldown",
            "cost_nano_usd": None,
            "losses": None,
            "first_token_microseconds": None,
            "tokens_per_second": None,
        },
    ]
    assert told["candidates_more"] == 1


def test_pitfall_555_uncached_read_and_written_tokens_are_the_input(tables: RecordTables) -> None:
    told = as_json(find(tables, WHOLE.id))
    names = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "input_tokens", "output_tokens")
    uncached, read, written, whole, output = (told[name] for name in names)
    assert (uncached, read, written, whole, output) == (30, 60, 10, 100, 21)
    assert uncached_input_of(TokenCounts(5, 60, 0)) == 0


def test_pitfall_553_the_tokens_of_an_exchange_are_its_last_usage_once(tables: RecordTables) -> None:
    found = find(tables, WHOLE.id)
    assert found.entry.tokens == TOKENS
    assert as_json(found)["cost_nano_usd"] == MONEY.total == found.cost


def test_what_nobody_said_is_null_and_no_number(tables: RecordTables) -> None:
    told = as_json(find(tables, entry(2).id))
    assert {told[name] for name in ("input_tokens", "output_tokens", "cost", "session", "thread")} == {None}
    assert (told["unpriced"], told["cost_nano_usd"]) == (True, None)


def test_a_wholly_unpriced_exchange_has_no_cost_and_no_amounts() -> None:
    money = CostBreakdown(unpriced=("model",), reported=7)
    made = replace(entry(1, money=money), calls=(CallEntry("chat", "served", "openai-chat", cost=money),))
    with closing(opened_records()) as tables:
        fill(tables, [(made, AssignedThread())])
        told = as_json(find(tables, made.id))
    for each in (dict[str, object](told), *dig_objects(told, "attempts")):
        assert (each["cost_nano_usd"], each["reported_cost_nano_usd"]) == (None, 7)
        cost = dict(dig_object(each, "cost"))
        assert cost.pop("unpriced") == ["model"] and set(cost.values()) == {None}


def test_pitfall_571_speed_leaves_out_what_passed_before_the_first_content(tables: RecordTables) -> None:
    assert speed_of(21, 1_000_000, 3_000_000) == 10.0
    assert [speed_of(*given) for given in ((1, 1, 9), (21, 0, 9), (21, 9, 9))] == [None] * 3
    # Twenty more in two milliseconds; nothing is said of what came at once.
    assert find(tables, WHOLE.id).speed == 10_000.0
    assert find(tables, entry(1).id).speed is None


def test_times_are_told_to_the_microsecond() -> None:
    assert instant(NOON + 1) == "2027-01-15T08:00:00.000001Z"
