"""Statements of the store are SQL that SQLite and PostgreSQL both accept (decision 47)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_STORE = Path(__file__).parents[2] / "src/dragoman/store"
# Modules of one engine.
_OF_ONE = {
    *("sqlite.py", "postgres.py", "heartbeat.py", "machines.py"),
    *("file_import.py", "postgres_privileges.py", "server_report.py"),
    *("migrations/sqlite.py", "migrations/postgres.py", "migrations/concurrent_index.py"),
    "migrations/contents.py",
}
# In place of the expressions of an f-string.
_ANY = "x9"
_NAME = r"[a-z_]\w*"

# What one engine lacks, and what both have.
_REFUSED = {
    r"\b(INSERT|UPDATE) OR\b|\bREPLACE INTO\b": "ON CONFLICT, or nothing: the exception ends the transaction",
    r"\bINDEXED\b": "nothing: see tests/store/test_query_plans.py; coalesce hides a column from an index",
    r"\b(GLOB|REGEXP|MATCH|I?LIKE|SIMILAR TO)\b": "glob(pattern, text), or =; LIKE differs in case",
    r"(?<!\w)[xXeE]'|\bzeroblob\b": "a value that is bound",
    r"\b(_rowid_|rowid|oid)\b|\bsqlite_\w": "a column",
    r"\bPRAGMA\b|\buser_version\b|\bATTACH\b|\bVACUUM\b": "a method of the connection",
    rf"(?<![:\w'\"]):{_NAME}|\?\d|\$\d": "? for each value",
    r"::": "CAST",
    r"\b(min|max)\((?:[^()]|\([^()]*\))*,|\b(greatest|least)\(": "CASE WHEN",
    r"(?:\b(?:AND|OR|NOT|WHERE|ON|BY|SELECT)\b|[(,=<>]) ?\+\w": "coalesce(column, …)",
    r"\bCROSS JOIN\b[^,]*\bON\b": "LEFT JOIN",
    r"\b(sum|avg)\([^()]*[<>=]|coalesce\([^()]*[<>=][^()]*, [01]\)": "CASE WHEN … THEN 1 ELSE 0 END",
    r"\b(?:AND|OR|NOT|WHERE) (?:\w+\.)?is_\w+(?!\w| [=<>I])": "a comparison: columns are integers",
    r"\bLIMIT -|\bISNULL\b|\bNOTNULL\b|\w == ": "the form of the standard",
    r"\b(ifnull|iif|printf|format|typeof|hex|quote|instr|total|group_concat|string_agg|julianday|strftime|datetime"
    r"|unixepoch|changes|last_insert_rowid|now|nextval|random|json\w*|pg_\w+)\(": "a function of both",
    r"\bsubstr(ing)?\(": "BETWEEN: PostgreSQL takes no bigint there",
    r"\bFOR (UPDATE|SHARE)\b|\bSKIP LOCKED\b|\bLATERAL\b|\bDISTINCT ON\b|\b(ANY|ALL) ?\(|\bARRAY\[": "standard SQL",
    r"\bWITHOUT ROWID\b|\bAUTOINCREMENT\b|\bSERIAL\b|\bCREATE\b": "a migration",
}
# Values of new columns at the right of DO UPDATE SET, without their table.
_UNQUALIFIED = re.compile(rf"(?:[=+<>-]|\b(?:WHEN|THEN|ELSE|AND|OR|WHERE)\b) ({_NAME})(?![\w.(])")


def problems_of(statement: str) -> list[str]:
    """What of a statement, or a part of one, is not of both engines."""
    problems = [
        f"{match[0]!r}: {instead}" for form, instead in _REFUSED.items() if (match := re.search(form, statement))
    ]
    if "excluded." in statement:
        _, _, changes = statement.rpartition("DO UPDATE")
        problems += [f"{name!r} in DO UPDATE: its table before it" for name in _UNQUALIFIED.findall(changes)]
    problems += [f"{tail!r}: a name for the subquery" for tail in _behind_subqueries(statement) if not _is_name(tail)]
    return problems


def _behind_subqueries(statement: str) -> Iterator[str]:
    """What follows each subquery in FROM, as far as it ends within the text."""
    for match in re.finditer(r"\b(?:FROM|JOIN) \((?=\s*(?:SELECT|WITH|VALUES|x9))", statement):
        depth = 1
        for at in range(match.end(), len(statement)):
            depth += {"(": 1, ")": -1}.get(statement[at], 0)
            if not depth:
                yield statement[at + 1 :][:20]
                break


def _is_name(text: str) -> bool:
    return re.match(rf"\s+(AS )?{_NAME}", text) is not None


def _literals(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module, with the numbers of their lines; neither docstrings nor parts of other texts."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(value) for value in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(_text(value) for value in node.values)


def _text(value: ast.expr) -> str:
    return str(value.value) if isinstance(value, ast.Constant) else _ANY


def test_statements_are_of_both_engines() -> None:
    modules = [path for path in sorted(_STORE.rglob("*.py")) if path.relative_to(_STORE).as_posix() not in _OF_ONE]
    assert len(modules) > 20
    problems = [
        f"{path.relative_to(_STORE)}:{line}: {problem}"
        for path in modules
        for line, text in _literals(path)
        for problem in problems_of(text)
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OR REPLACE INTO t VALUES (?)",
        "SELECT a FROM t INDEXED BY i WHERE a = ?",
        "a GLOB ?",
        "a LIKE 'b%'",
        "UPDATE t SET a = x''",
        "zeroblob(?)",
        "SELECT rowid FROM t",
        "SELECT seq FROM sqlite_sequence",
        "PRAGMA user_version",
        "SELECT a FROM t WHERE a = :name",
        "VALUES (?1, ?2)",
        "CAST(a AS text) = a::text",
        "SET a = max(a, ?)",
        "SET a = min(coalesce(a, 0), ?)",
        "SELECT a FROM t WHERE +a = ?",
        "SELECT a FROM t CROSS JOIN u ON u.a = t.a",
        "sum(kind = 'a')",
        "coalesce(a = b, 0)",
        "WHERE o.a = ? AND o.is_wrong",
        "WHERE NOT is_wrong",
        "SELECT a FROM t LIMIT -1",
        "ifnull(a, 0)",
        "substr(a, 1, ?) = ?",
        "SELECT a FROM t FOR UPDATE",
        "ON CONFLICT (a) DO UPDATE SET n = n + excluded.n",
        "x9 = x9 + excluded.x9",
        "ON CONFLICT (a) DO UPDATE SET n = excluded.n WHERE excluded.n > n",
        "SELECT count(*) FROM (SELECT a FROM t)",
        "SELECT count(*) FROM (SELECT a FROM (x9) u) WHERE a > ?",
    ],
)
def test_what_one_engine_lacks_is_refused(statement: str) -> None:
    assert problems_of(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t (a) VALUES (?) ON CONFLICT (a) DO UPDATE SET n = t.n + excluded.n, m = excluded.m",
        "x9 = x9.x9 + excluded.x9",
        "WHERE o.is_wrong = 1",
        "SELECT max(a), sum(b) FROM t WHERE coalesce(c, '') = ? AND a >= ? + 1",
        "SELECT count(*) FROM (SELECT a FROM (x9) u) v WHERE a > ?",
        "DO UPDATE SET n = CASE WHEN excluded.n > t.n THEN excluded.n ELSE t.n END",
        "the file cannot be opened: x9; name another one",
    ],
)
def test_what_both_have_is_not(statement: str) -> None:
    assert problems_of(statement) == []
