"""A member of the record stands in few files, each with a reason: names outside of the program are in one table
(`records/record_fields.py`), and what follows from it repeats none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

_SOURCE = Path("src/dragoman")
# Where each member may stand: it is declared, set, reduced, and a member of the documents and lines that users read.
_EVERY = {
    "records/journal_entry.py": "declares it",
    "records/views/exchanges.py": "is the schema of the admin API",
    "gateway/observability/record.py": "has it while the exchange runs",
    "gateway/observability/journal_entries.py": "reduces it to what is recorded",
    "gateway/observability/logs.py": "is the schema of a log line",
    "cli/exchange_page.py": "is a sentence of the page",
}
# Where some stand for a purpose of their own.
_OTHERS = {
    "response_model": {
        "gateway/exchange/exchange.py": "sets it",
        "gateway/observability/costs.py": "looks for its price",
    },
    "stop_reason": {
        "gateway/exchange/exchange.py": "sets it",
        "gateway/exchange/full_response.py": "reads it in a response",
        "protocols/openai_responses/response.py": "reads it in a response",
        "telemetry/spans.py": "names a missing one",
    },
    "provider_request_id": {
        "gateway/exchange/call_log.py": "sets it",
        "gateway/exchange/one_call.py": "sets it",
        "gateway/forwarding/header_forwarding.py": "reads it in headers",
        "records/rows.py": "moves it to its column",
        "records/export.py": "lists calls for comparison with an invoice",
    },
    "candidates_more": {"telemetry/spans.py": "follows the candidates"},
    "queue_full": {
        "gateway/exchange/attempt.py": "is a cause of failures",
        "gateway/exchange/failing.py": "sets it",
    },
}


@pytest.fixture(scope="module")
def identifiers() -> dict[str, frozenset[str]]:
    """Identifiers of each source file."""
    found: dict[str, frozenset[str]] = {}
    for path in _SOURCE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        names |= {node.arg for node in nodes if isinstance(node, ast.arg | ast.keyword) and node.arg}
        names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        found[path.relative_to(_SOURCE).as_posix()] = frozenset(names)
    return found


@pytest.mark.parametrize("name", _OTHERS)
def test_a_member_stands_in_no_file_without_a_reason(identifiers: dict[str, frozenset[str]], name: str) -> None:
    files = {file for file, names in identifiers.items() if name in names}
    assert files - set(_EVERY) == set(_OTHERS[name])
