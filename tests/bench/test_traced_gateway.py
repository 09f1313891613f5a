"""The trace of an exchange with a real gateway and the mock provider as processes."""

from __future__ import annotations

import pytest

from bench.gateway import process
from tests.waiting import LIMIT
from tools.exchange_trace import summarize, trace


@pytest.mark.parametrize("name", ["S1", "S4"])
def test_an_exchange_is_traced_from_its_first_byte_to_its_log_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "READY", LIMIT)
    calls = trace(name)
    functions = [f"{call.module}.{call.function}" for call in calls]
    read = functions.index("dragoman.http.client_connection.ClientConnection.data_received")
    assert read < functions.index("dragoman.gateway.observability.logs.Log.exchange")
    assert functions.count("dragoman.gateway.observability.logs.Log.exchange") == 1
    assert summarize(calls).changes > 0
