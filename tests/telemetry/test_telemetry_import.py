"""Telemetry costs nothing before it begins."""

from __future__ import annotations

import subprocess
import sys

from tests.waiting import LIMIT


def test_nothing_is_loaded_or_started_before_it_is_begun() -> None:
    code = (
        "import sys, threading\n"
        "from dragoman.telemetry.export_queue import Collector, TelemetryExporter\n"
        "made = TelemetryExporter(Collector(endpoint='http://127.0.0.1:9'), dict, print, print)\n"
        "loaded = [name for name in sys.modules if name.startswith(('opentelemetry', 'requests'))]\n"
        "print(threading.active_count(), loaded)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT)
    assert told.stdout == "1 []\n"
