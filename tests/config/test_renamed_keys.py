"""A file with the old name of a setting, or of a value, is refused with the new one, at its line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dragoman.config import file_schema
from dragoman.config.prices import PRICE
from dragoman.config.renamed_keys import RENAMED_KEYS, RENAMED_VALUES, new_name, new_value
from dragoman.config.values import ValueType
from tests.config.support import problems_of, settings_of

# The keys of each table, by its place in a file.
KNOWN: dict[str, Mapping[str, ValueType[object]]] = {
    "server": file_schema.SERVER,
    "providers.*": file_schema.PROVIDER,
    "providers.*.capabilities": file_schema.CAPABILITY,
    "models.*": file_schema.ROUTE,
    "models.*.rules.when": file_schema.WHEN,
    "prices.*": PRICE,
    "timeouts": file_schema.TIMEOUTS,
    "routing": file_schema.ROUTING,
    "limits": file_schema.LIMITS,
    "storage": file_schema.STORAGE,
    "telemetry": file_schema.TELEMETRY,
}
PROVIDER = '[providers.x]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1/v1"\nconcurrency = 1\n'
# What stands before a key in a file, and the place that an error names.
BEFORE = {
    "providers.*": (PROVIDER, "providers.x"),
    "providers.*.capabilities": (
        f'{PROVIDER}[[providers.x.capabilities]]\nprotocol = "openai-chat"\nset = {{}}\n',
        "providers.x.capabilities[0]",
    ),
    "models.*": ('[models.a]\nto = "echo/x"\n', "models.a"),
    "models.*.rules.when": (
        '[models.a]\nto = "echo/x"\n[[models.a.rules]]\nto = "echo/y"\n[models.a.rules.when]\ntools = true\n',
        "models.a.rules[0].when",
    ),
    "prices.*": ('[prices."echo/x"]\n', 'prices."echo/x"'),
    "telemetry": ('[telemetry]\nendpoint = "http://127.0.0.1:4318"\n', "telemetry"),
}
# Every table with an old and a new key of it.
RENAMED = [(table, old, new) for table, keys in RENAMED_KEYS.items() for old, new in keys.items()]
# It is an array of tables, and has a test of its own.
ROWS = ("providers.*", "rows", "capabilities")


def file_with(table: str, line: str) -> tuple[str, int, str]:
    """A file in which all is well but for a line of a table, the number of that, and where the table is."""
    before, place = BEFORE.get(table, (f"[{table}]\n", table))
    return f"{before}{line}\n", before.count("\n") + 1, place


@pytest.mark.parametrize(("table", "old", "new"), RENAMED)
def test_a_new_name_is_known_and_an_old_one_is_not(table: str, old: str, new: str) -> None:
    known = {*KNOWN[table], "capabilities"} if table == "providers.*" else set(KNOWN[table])
    assert new in known
    assert old not in known


@pytest.mark.parametrize(("table", "old", "new"), [each for each in RENAMED if each != ROWS])
def test_an_old_key_is_refused_with_its_new_name(tmp_path: Path, table: str, old: str, new: str) -> None:
    example = KNOWN[table][new].example
    text, line, place = file_with(table, f"{old} = {example}")
    assert problems_of(tmp_path, text) == [f"{line}: {place}.{old}: was renamed to {new} (write {new})"]
    if table != "providers.*.capabilities":
        settings_of(tmp_path, file_with(table, f"{new} = {example}")[0])


def test_rows_are_capabilities_now_and_what_is_in_them_is_told_at_once(tmp_path: Path) -> None:
    text = (
        f'{PROVIDER}[[providers.x.rows]]\nprotocol = "openai-chat"\nchanges = {{ images = false }}\n'
        '[[providers.x.rows]]\nprotocol = "openai-chat"\n[providers.x.rows.changes]\nimages = true\n'
    )
    assert problems_of(tmp_path, text) == [
        "5: providers.x.rows: was renamed to capabilities (write [[providers.x.capabilities]])",
        "7: providers.x.rows[0].changes: was renamed to set (write set)",
        "10: providers.x.rows[1].changes: was renamed to set (write set)",
    ]
    new = text.replace("rows", "capabilities").replace("changes", "set")
    assert [row.changes for row in settings_of(tmp_path, new).providers["x"].capabilities] == [
        {"images": False},
        {"images": True},
    ]


def test_rows_that_are_no_tables_are_refused_by_their_name_alone(tmp_path: Path) -> None:
    assert problems_of(tmp_path, f"{PROVIDER}rows = [1, {{ changes = 1 }}]\n") == [
        "5: providers.x.rows: was renamed to capabilities (write capabilities)"
    ]


@pytest.mark.parametrize(
    ("table", "line", "problem"),
    [
        ("providers.*", 'streams = "asked"', 'streams: was renamed to streaming (write streaming = "on-request")'),
        ("providers.*", 'streams = "always"', "streams: was renamed to streaming (write streaming)"),
        ("providers.*", "streams = 1", "streams: was renamed to streaming (write streaming)"),
        (
            "providers.*",
            'streaming = "asked"',
            'streaming: "asked" was renamed to "on-request" (write streaming = "on-request")',
        ),
        (
            "storage",
            'when_full = "answer"',
            'when_full: was renamed to on_write_failure (write on_write_failure = "serve")',
        ),
        (
            "storage",
            'when_full = "refuse"',
            'when_full: was renamed to on_write_failure (write on_write_failure = "reject")',
        ),
        (
            "storage",
            'on_write_failure = "answer"',
            'on_write_failure: "answer" was renamed to "serve" (write on_write_failure = "serve")',
        ),
        (
            "storage",
            'on_write_failure = "refuse"',
            'on_write_failure: "refuse" was renamed to "reject" (write on_write_failure = "reject")',
        ),
    ],
)
def test_an_old_value_is_refused_with_its_new_name(tmp_path: Path, table: str, line: str, problem: str) -> None:
    text, number, place = file_with(table, line)
    assert problems_of(tmp_path, text) == [f"{number}: {place}.{problem}"]


def test_a_new_value_can_be_read_and_an_old_one_cannot() -> None:
    for setting, values in RENAMED_VALUES.items():
        table, _, key = setting.rpartition(".")
        for old, new in values.items():
            assert KNOWN[table][key].read(new) == new
            assert new_value(tuple(setting.split(".")), old) == new


@pytest.mark.parametrize(
    ("table", "line"),
    [
        # Each of these is an old name of another table.
        ("providers.*", "keep = true"),
        ("providers.*", "changes = {}"),
        ("providers.*.capabilities", 'label = "x"'),
        ("models.*", "input_over = 1"),
        ("models.*.rules.when", "refusals = true"),
        ("server", "attempts = 1"),
    ],
)
def test_an_old_key_of_another_table_is_unknown(tmp_path: Path, table: str, line: str) -> None:
    text, number, place = file_with(table, line)
    (problem,) = problems_of(tmp_path, text)
    assert problem.startswith(f"{number}: {place}.{line.split(' ')[0]}: is not a known key (")


def test_an_old_key_where_the_new_one_is_not_allowed_is_unknown(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, '[providers.echo]\nlabel = "x"\n')
    assert problem == "2: providers.echo.label: is not a known key (known are protocol)"


def test_a_name_of_the_users_own_is_no_old_key(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[models]\nrefusals = "echo/x"\n[models.label]\nto = "echo/y"\n')
    assert [route.pattern for route in settings.routes] == ["refusals", "label"]
    assert new_name((), "server") is None
    assert new_name(("providers",), "label") is None
