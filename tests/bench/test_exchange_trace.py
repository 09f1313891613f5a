"""The trace of an exchange: counts of calls, modules, packages and changes of package."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import msgspec

from bench.workloads import CHAT
from dragoman.protocols.registry import codec_of
from tools.exchange_trace import Call, Tracer, listing, package_of, summarize, table

_CALLS = [
    Call(0, "dragoman.http.client_connection", "ClientConnection.data_received", ""),
    Call(1, "dragoman.http.request_parser", "RequestParser.feed", "dragoman.http.client_connection"),
    Call(1, "dragoman.gateway.app", "App.handle", "dragoman.http.client_connection"),
    Call(2, "enum", "property.__get__", "dragoman.gateway.app"),
    Call(2, "dragoman.routing", "choose", "dragoman.gateway.app"),
    Call(2, "dragoman.routing", "choose", "dragoman.routing.health"),
]


def test_a_module_is_in_its_package_and_a_package_in_itself() -> None:
    assert package_of("dragoman.gateway.app") == "dragoman.gateway"
    assert package_of("dragoman.routing") == "dragoman.routing"
    assert package_of("dragoman.translate") == "dragoman"


def test_a_summary_counts_own_calls_functions_modules_packages_and_changes() -> None:
    summary = summarize(_CALLS)
    assert msgspec.structs.astuple(summary) == (6, 5, 4, 4, 3, 2)
    assert table([("S1", summary)]).splitlines()[1].split() == ["S1", "6", "5", "4", "4", "3", "2"]


def test_the_listing_is_indented_and_marks_changes() -> None:
    assert listing(_CALLS).splitlines()[1:4] == [
        "    dragoman.http.request_parser.RequestParser.feed",
        ">   dragoman.gateway.app.App.handle",
        "      enum.property.__get__",
    ]


def test_a_tracer_writes_the_calls_between_two_signals(tmp_path: Path) -> None:
    file = tmp_path / "calls.json"
    tracer = Tracer(file)
    before = sys.getprofile()
    try:
        tracer.switch(signal.SIGRTMIN, sys._getframe())
        assert file.read_bytes() == b"[]"
        assert codec_of(CHAT) is not None
        tracer.switch(signal.SIGRTMIN, None)
    finally:
        sys.setprofile(before)
    calls = msgspec.json.decode(file.read_bytes(), type=list[Call])
    # This test is below the traced calls, as the event loop is in a gateway.
    assert Call(0, "dragoman.protocols.registry", "codec_of", "") in calls
