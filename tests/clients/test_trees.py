"""The real agents run a task with an agent of theirs and a compaction: what they did is in the records as a tree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.records.deferred_assignment import assign_scope
from dragoman.records.journal_ingest import ingest_all
from dragoman.store.record_tables import open_record_tables
from dragoman.store.unassigned import RowScope
from tests.clients import test_claude_code as claude
from tests.clients import test_codex as codex
from tests.clients import test_opencode as opencode
from tests.clients.desk import Desk, npm_program, opened_desk
from tests.sdk.names import MESSAGES, RESPONSES
from tests.store.opened import sqlite

# Class, class of the parent, windows, label.
Node = tuple[str, str, int, str]
HINTS = {"CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1"}


@pytest.fixture(name="kept", scope="module")
def _kept() -> Iterator[Desk]:
    """A desk that writes down what is asked."""
    with opened_desk('\n[storage]\npath = "state.db"\n') as desk:
        yield desk


def latest(desk: Desk, client: str) -> tuple[list[Node], int]:
    """The threads of the latest session of a client, and how many exchanges belong to it; all of them to a thread."""
    path = str(desk.directory / "state.db")
    ingest_all(path, now=0)
    assert assign_scope(path, RowScope()) == 0
    with closing(open_record_tables(path, read_only=True)) as tables:
        ask = sqlite(tables.connection).execute
        (session,) = ask("SELECT max(id) FROM sessions WHERE client = ?", (client,)).fetchone()
        threads = ask(
            "SELECT threads.class, coalesce(parents.class, ''), threads.windows, threads.label"
            " FROM threads"
            " LEFT JOIN threads AS parents ON parents.id = threads.parent"
            " WHERE threads.session = ? ORDER BY threads.id",
            (session,),
        ).fetchall()
        (count,) = ask("SELECT count(*) FROM records WHERE session = ?", (session,)).fetchone()
        own = "SELECT id FROM threads WHERE session = ?"
        summed = ask(
            f"SELECT sum(requests + cancelled + others) FROM thread_sums WHERE thread IN ({own})", (session,)
        ).fetchone()
    assert summed == (count,)
    return threads, count


def spawned(prompt: str, tool: str, **more: object) -> str:
    """A step that gives an agent a prompt with a script in it, which is not taken for this one's."""
    return f"call {tool} " + json.dumps(more | {"prompt": prompt}).replace("<", "\\u003c")


@pytest.mark.parametrize("hints", [True, False], ids=["with hints", "without"])
def test_claude_code_is_a_tree(kept: Desk, home: Path, hints: bool) -> None:
    agent = claude.Agent(kept, MESSAGES, home)
    inner = f'{agent.marker} <mock>\ncall Bash {{"command": "echo found"}}\n---\nsay It is there.\n</mock>'
    order = {"description": "look", "subagent_type": "general-purpose", "run_in_background": False}
    script = f"{spawned(inner, 'Agent', **order)}\n---\noverflow\nsay A summary."
    agent.run(script, given=HINTS if hints else {}).well()
    threads, count = latest(kept, "claude-code")
    assert count == 6
    # Without hints the request for a summary is one more history of the main thread.
    compaction = [("compaction", "main", 0, "")] if hints else []
    # Without hints the call that began the agent says what it is.
    agent_node = ("subagent", "main", 1, "general-purpose")
    assert threads == [("main", "", 2 if hints else 3, ""), agent_node, *compaction]


def test_codex_is_a_tree(kept: Desk, home: Path) -> None:
    agent = codex.Agent(kept, RESPONSES, home)
    inner = f'{agent.marker} <mock>\ncall exec_command {{"cmd": "echo found > found"}}\n---\nsay It is there.\n</mock>'
    spawn = json.dumps({"message": inner, "agent_type": "explorer"}).replace("<", "\\u003c")
    wait = 'call exec_command {"cmd": "until [ -e found ]; do sleep 0.1; done; echo seen"}'
    agent.run(f"call multi_agent_v1__spawn_agent {spawn}\n---\n{wait}\n---\nsay It found it.").well()
    threads, _ = latest(kept, "codex")
    assert threads == [("main", "", 1, ""), ("subagent", "main", 1, "explorer")]
    agent.settings["model_auto_compact_token_limit"] = 8000
    agent.knows(codex.PLAIN).run(f"{codex.ONCE_LONG}\n---\nsay The work so far.").well()
    threads, count = latest(kept, "codex")
    assert count == 4
    assert threads == [("main", "", 2, ""), ("compaction", "main", 0, "")]


@pytest.fixture(scope="module")
def server(kept: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[opencode.Server]:
    """One OpenCode for all rows."""
    home = tmp_path_factory.mktemp("opencode")
    place = home / "work"
    place.mkdir()
    variables = {**kept.environment(home), **opencode.environment(kept, home)}
    with opencode.served([npm_program("opencode"), "serve", "--port", "0"], variables, home) as url:
        yield url, place


@pytest.mark.parametrize("row", list(opencode.ROWS))
def test_opencode_is_a_tree(kept: Desk, server: opencode.Server, row: str) -> None:
    session = opencode.Session(kept, server, row, opencode.ROWS[row])
    prompt = f"{session.marker} <mock>say Seen from below.</mock>"
    task = json.dumps({"description": "Look", "prompt": prompt, "subagent_type": "general"})
    session.ask(f"call task {task}\n---\nsay Seen.")
    session.ask("say One.\n---\nsay What came before.")
    session.ask("overflow\nsay Two.")
    threads, count = latest(kept, "opencode")
    assert count == 7
    # Its summary has no tools, as its titles have none.
    assert threads == [("main", "", 2, ""), ("subagent", "main", 1, "general"), ("utility", "", 0, "")]
