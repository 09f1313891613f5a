"""Responses in the background when their process ends: what is being written down, and what is to be, is not lost."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest

from dragoman.config.settings import Storage
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.stored_responses.stored_state import StoredState
from dragoman.store import open_tables
from tests import virtual_time
from tests.gateway.stored_responses.test_background import ANSWER, Run, forever
from tests.store.asked import Gate, another, asking_in_virtual_time
from tests.store.opened import ALICE, Clock, opened
from tests.waiting import wait_until_async


@pytest.mark.parametrize("seconds", [20.0, 0.0], ids=["in time", "too late"])
def test_a_stop_waits_for_what_is_being_written_down_and_is_told_as_begun(tmp_path: Path, seconds: float) -> None:
    path = tmp_path / "state.db"

    async def main() -> list[str]:
        said: list[str] = []
        async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
            with opened(path) as tables, another(path) as other:
                run = Run(tables, asked=store)

                async def exchange() -> None:
                    await asyncio.sleep(1)
                    run.kept_answer.mark_written(run.kept_answer.full_response(json.dumps(ANSWER).encode()))

                other.execute("BEGIN IMMEDIATE")
                asyncio.get_running_loop().call_later(1, other.execute, "ROLLBACK")
                starting = asyncio.ensure_future(run.start(exchange))
                await asyncio.sleep(0)
                await run.background.finish(seconds)
                said.append("begun" if starting.done() else "not begun")
                run.background.close()
                await starting
                found = await store.read(lambda tables: tables.responses.find(ALICE, "resp_1"))
                assert found is not None and run.background.running == 0
                said.append(found.status)
        return said

    # What nobody runs any more has failed when its promise is broken.
    assert virtual_time.run(main()) == (["begun", "completed"] if seconds else ["not begun", "queued"])


@pytest.mark.parametrize("hurried", [False, True], ids=["waited for", "hurried"])
def test_nothing_that_was_told_is_lost_when_a_process_ends_with_a_slow_store(tmp_path: Path, hurried: bool) -> None:
    path, log = tmp_path / "state.db", io.StringIO()

    async def main() -> None:
        state, gate = StoredState(Storage(path=str(path)), Log(log, json=True)), Gate()
        store = state.store
        assert store is not None
        await store.write(lambda tables: tables.conversations.create(ALICE, "c1", b"{}", ()))
        await state.leases.take(ALICE, "c1", "r1", (0, 0))
        with opened(path) as tables:
            run = Run(tables, stream=True, asked=store)
            run.background = state.background
            await run.start(forever)
            run.client.start(200, [])
            run.client.write(b"one\n\n")
            held = store.read(gate)
            await gate.passed_by_nobody()
            store.post(lambda tables: tables.responses.record_owner(ALICE, "r2", "chat"))
            ending = [asyncio.ensure_future(state.close(0.0))]
            # Behind the post there is the end of the response.
            await wait_until_async(lambda: store._threads[0]._queue.qsize() >= 2, "two units wait in the line")
            if hurried:
                ending.append(asyncio.ensure_future(state.background.finish(0.0)))
                await wait_until_async(lambda: not state.background.running, "nothing runs in the background")
            gate.open()
            await asyncio.gather(held, *ending)

    asyncio.run(main())
    with opened(path, clock=Clock()) as tables:
        found = tables.responses.find(ALICE, "resp_1")
        assert found is not None and (found.status, found.alive) == ("failed", 0)
        assert b"".join(data for _, data in tables.events.after("resp_1", 0)) == b"one\n\n"
        assert tables.responses.exists("r2")
        assert tables.conversations.lease(ALICE, "c1", "another")
    assert '"level":"info"' in log.getvalue() and "cannot" not in log.getvalue()
