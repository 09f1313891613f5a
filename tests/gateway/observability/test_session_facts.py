"""Listener: who is speaking is on the record of every exchange, and rules may ask for it."""

from __future__ import annotations

import io
import json
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, RouteRule, Settings, Storage
from dragoman.gateway.forwarding.provider_request import glance_at
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.record import Record
from dragoman.gateway.observability.session_facts import SessionFacts
from dragoman.gateway.paths import api_path_of
from dragoman.model.jsonvalue import JsonObject
from dragoman.records.deferred_assignment import assign_scope
from dragoman.records.journal_directory import directory_of
from dragoman.records.journal_ingest import ingest_all
from dragoman.routing.route import RuleCondition
from dragoman.sessions.facts import NOTHING, ExchangeFacts
from dragoman.store.record_tables import open_record_tables
from dragoman.store.unassigned import RowScope
from tests.gateway.harness import PATHS, House, Reply, running, settings_for, whole
from tests.gateway.harness import stream as streamed
from tests.sessions.invented import (
    AGENT_PROMPT,
    AGENT_TOOLS,
    CHAT,
    MESSAGES,
    SESSION,
    TITLE_PROMPT,
    Asked,
    assistant,
    call,
    claude,
    codex,
    opencode,
    plain,
    result,
    user,
)
from tests.store.opened import sqlite

RULES = (
    RouteRule(when=RuleCondition(client="claude-code", thread="subagent"), targets=("echo/tools",)),
    RouteRule(when=RuleCondition(thread="utility"), targets=("echo/thinking",)),
)


def ruled(port: int) -> Settings:
    lines = (RouteConfig(pattern="*", targets=("echo/text",), rules=RULES),)
    return replace(settings_for(port), routes=lines)


def sent(house: House, asked: Asked, model: str = "any") -> str:
    """Who answered a request."""
    said = {name.decode().replace("-", "_"): value.decode() for name, value in asked.headers}
    body: JsonObject = {**asked.body, "model": model, "stream": False}
    answer = house.post(PATHS[asked.protocol], body, **said)
    assert answer.status == 200
    return (answer.header("x-dragoman-route") or "").partition(";")[0]


def lines_of(house: House) -> list[JsonObject]:
    lines = [json.loads(line) for line in house.log.getvalue().splitlines()]
    return [line for line in lines if line["event"] == "exchange"]


def heard_of(asked: Asked, listener: SessionFacts, *, key: str = "") -> ExchangeFacts:
    record = Record(id="r", client_protocol=asked.protocol, path="", started=0, time=0, key=key)
    glance, _ = glance_at(json.dumps(asked.body).encode(), api_path_of(PATHS[asked.protocol]))
    return listener.extract(record, glance)[0]


@pytest.mark.parametrize(
    ("asked", "session", "thread"),
    [
        (claude([user("go")]), SESSION, "main"),
        (claude([user("go")], system=AGENT_PROMPT, tools=AGENT_TOOLS, agent_id="a"), SESSION, "subagent"),
        (codex([user("go")]), "s1", "main"),
        (codex([user("go")], kind="compaction"), "s1", "compaction"),
        (opencode([user("go")], session="ses_a", parent="ses_b"), "ses_a", "subagent"),
        (plain([user("go")]), None, None),
    ],
)
def test_the_log_says_who_speaks(asked: Asked, session: str | None, thread: str | None) -> None:
    with running(settings=ruled) as house:
        sent(house, asked, "echo/text")
        line = lines_of(house)[0]
    assert (line.get("session"), line.get("thread")) == (session, thread)


def test_rules_choose_by_thread_and_client_and_a_thread_stays_where_it_is() -> None:
    main = claude([user("go")])
    agent = claude([user("look")], system=AGENT_PROMPT, tools=AGENT_TOOLS, agent_id="a1")
    title = claude([user("go")], system=TITLE_PROMPT, tools=())
    with running(settings=ruled) as house:
        order = [main, agent, title, main, agent, title, main]
        found = [sent(house, asked) for asked in order]
        assert found == [f"echo/{name}" for name in ("text", "tools", "thinking", "text", "tools", "thinking", "text")]
        assert sent(house, Asked([(b"user-agent", b"other/1")], agent.body)) == "echo/text"
        hinted = claude([user("x")], request_class="subagent")
        assert sent(house, hinted) == "echo/tools"


def test_what_a_session_came_to_is_in_the_tables_as_a_tree(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")

    def settings(port: int) -> Settings:
        return replace(settings_for(port), storage=Storage(path=path))

    with running(settings=settings) as house:

        async def start() -> None:
            house.app.runtime.usage_recorder.start()
            house.app.runtime.session_facts.attach_records(path, house.app.runtime.log)

        house.run(start())
        history = [user("go")]
        sent(house, claude(history), "echo/text")
        sent(house, claude([user("go")], system=TITLE_PROMPT, tools=()), "echo/text")
        sent(house, claude([user("look")], system=AGENT_PROMPT, tools=AGENT_TOOLS, agent_id="a1"), "echo/text")
        sent(house, claude([*history, assistant("Hello."), user("on")]), "echo/text")
        sent(house, plain([user("beside")]), "echo/text")
        sent(house, plain([user("beside"), assistant("Hello."), user("on")]), "echo/text")
        house.run(house.app.runtime.usage_recorder.close(30.0))
    ingest_all(path, now=0)
    assert assign_scope(path, RowScope()) == 0
    tables = open_record_tables(path, read_only=True)
    with closing(tables):
        ask = sqlite(tables.connection).execute
        threads = ask(
            "SELECT sessions.name, threads.name, class, rule, client FROM threads JOIN sessions ON"
            " sessions.id = session ORDER BY threads.id"
        ).fetchall()
        turns = ask("SELECT thread, count(*) FROM records GROUP BY thread ORDER BY thread").fetchall()
        sums = ask("SELECT thread, sum(requests) FROM thread_sums GROUP BY thread ORDER BY thread").fetchall()
    assert [row[:4] for row in threads[:3]] == [
        (SESSION, "main", "main", "length"),
        (SESSION, "utility", "utility", "no tools"),
        (SESSION, "a1", "subagent", "agent id"),
    ]
    assert [row[4] for row in threads] == ["claude-code"] * 3 + ["python-httpx"]
    assert turns == sums == [(1, 2), (2, 1), (3, 1), (4, 2)]


def calling(number: int, *, stream: bool) -> Reply:
    """A provider of Messages that calls a tool."""
    call: JsonObject = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}
    head: JsonObject = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    if not stream:
        return whole({**head, "content": [call], "stop_reason": "tool_use"})
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": head},
        {"type": "content_block_start", "index": 0, "content_block": call},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return streamed(*[f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events])


@pytest.mark.parametrize(
    ("protocol", "stream"),
    # Whole answers that are relayed are not read.
    [(CHAT, False), (CHAT, True), (MESSAGES, True)],
    ids=["translated whole", "translated stream", "relayed stream"],
)
def test_pitfall_501_what_an_answer_called_tells_equal_threads_apart(
    tmp_path: Path, protocol: str, stream: bool
) -> None:
    path, count = str(tmp_path / "state.db"), iter(range(100))

    def settings(port: int) -> Settings:
        return replace(settings_for(port), storage=Storage(path=path))

    def asked(*calls: int) -> JsonObject:
        said: list[JsonObject] = [user("go")]
        for number in calls:
            if protocol == CHAT:
                called: JsonObject = {"name": "look", "arguments": "{}"}
                told: JsonObject = {"id": f"toolu_{number}", "type": "function", "function": called}
                said += [{"role": "assistant", "content": None, "tool_calls": [told]}]
                said += [{"role": "tool", "tool_call_id": f"toolu_{number}", "content": "x"}]
            else:
                said += [call(f"toolu_{number}", "look"), result(f"toolu_{number}")]
        tool: JsonObject = {"name": "look", "input_schema": {"type": "object"}}
        if protocol == CHAT:
            tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
        return {"model": "messages/m", "max_tokens": 9, "messages": [*said], "tools": [tool], "stream": stream}

    with running(lambda _: calling(next(count), stream=stream), settings) as house:

        async def start() -> None:
            house.app.runtime.usage_recorder.start()
            house.app.runtime.session_facts.attach_records(path, house.app.runtime.log)

        house.run(start())
        # Two that begin alike; the second one goes on first, and both alike again.
        for calls in ((), (), (1,), (0,), (0, 3), (1, 2)):
            assert house.post(PATHS[protocol], asked(*calls)).status == 200
        house.run(house.app.runtime.usage_recorder.close(30.0))
    ingest_all(path, now=0)
    assert assign_scope(path, RowScope()) == 0
    with closing(open_record_tables(path, read_only=True)) as tables:
        threads = [row[0] for row in tables.connection.rows("SELECT thread FROM records ORDER BY number")]
    assert threads == [1, 2, 2, 1, 1, 2]


def test_where_nobody_asks_the_body_is_not_looked_at() -> None:
    listener = SessionFacts()
    assert heard_of(plain([user("go")]), listener) is NOTHING
    listener.is_required = True
    assert heard_of(plain([user("go")]), listener).tip


def test_large_requests_are_heard_beside_the_loop() -> None:
    large = claude([user("go " * 200_000)], system=AGENT_PROMPT, tools=AGENT_TOOLS)
    with running(settings=ruled) as house:
        assert sent(house, large) == "echo/tools"


def test_digests_outlive_a_process_and_belong_to_a_key(tmp_path: Path) -> None:
    log = Log(io.StringIO(), json=True)
    path = str(tmp_path / "state.db")
    first, second, other = SessionFacts(), SessionFacts(), SessionFacts()
    for listener in (first, second):
        listener.attach_records(path, log)
    other.attach_records(str(tmp_path / "other.db"), log)
    asked = plain([user("go")])
    assert heard_of(asked, first, key="a") == heard_of(asked, second, key="a")
    tips = {heard_of(asked, each, key=key).tip for each in (first, other) for key in ("a", "b")}
    assert len(tips) == 4


def test_in_memory_nothing_is_kept(tmp_path: Path) -> None:
    listener = SessionFacts()
    listener.attach_records(":memory:", Log(io.StringIO()))
    listener.attach_records("", Log(io.StringIO()))
    assert not listener.is_recorded


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    out = io.StringIO()
    listener = SessionFacts()
    directory_of(str(tmp_path / "state.db")).write_text("no folder")
    listener.attach_records(str(tmp_path / "state.db"), Log(out, json=True))
    assert (
        json.loads(out.getvalue())["event"]
        == "cannot read digest key: conversations are not recognized after a restart"
    )
    assert heard_of(plain([user("go")]), listener).tip


def test_a_crowd_of_empty_messages_is_not_looked_at() -> None:
    listener = SessionFacts()
    listener.is_required = True
    crowd: list[JsonObject] = [{} for _ in range(10_000)]
    assert heard_of(plain([user("go"), *crowd]), listener) is NOTHING


def test_no_word_of_a_request_is_in_its_facts() -> None:
    listener = SessionFacts()
    listener.is_required = True
    asked = claude([user("a marker of forty-two letters, unlike any")], system="a marker, too " * 100)
    told = repr(heard_of(asked, listener))
    assert "marker" not in told and MESSAGES not in told
