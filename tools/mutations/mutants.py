"""Single mutations of Python source: small changes that a good test suite notices.

A mutation replaces one span of text, so that every other line keeps its text and its number. Text for people stays:
docstrings, annotations, `__all__`, f-strings, addresses, and strings in `raise` and `assert`.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

COMPARISON, BOOLEAN, NEGATION, ARITHMETIC = "comparison", "and/or", "not removed", "+/-"
INTEGER, FLAG, STRING = "integer", "True/False", "string"
RETURN, STATEMENT, CONDITION, LOOP_EXIT = "return None", "statement removed", "condition", "break/continue"

_SWAPPED = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "is": "is not",
    "is not": "is",
    "in": "not in",
    "not in": "in",
    "and": "or",
    "or": "and",
    "+": "-",
    "-": "+",
}
# A longer operator stands before its own beginning.
_COMPARISONS = re.compile(r"\bis not\b|\bnot in\b|\bis\b|\bin\b|[<>=!]=|[<>]")
_BOOLEANS = re.compile(r"\b(and|or)\b")
_ARITHMETIC = re.compile(r"[+-]")
# Arguments of a class that change what Python allows, and no behaviour.
_CLASS_FLAGS = frozenset({"frozen", "kw_only", "gc"})
_SEQUENCES = (ast.List, ast.Tuple, ast.JoinedStr, ast.ListComp)
_Position = tuple[int, int]


class Mutation(Struct, kw_only=True, frozen=True):
    """One change of one file."""

    # From the root of the tree.
    path: str
    # 1-based, as editors count.
    line: int
    # Bytes of UTF-8 from the beginning of the line, as `ast` counts.
    column: int
    kind: str
    before: str
    after: str
    # The lines of the statement, or of the head of a compound statement.
    first_line: int
    last_line: int

    @property
    def name(self) -> str:
        """A name that no other mutation of the tree has."""
        return f"{self.path}:{self.line}:{self.column} {self.before!r} -> {self.after!r}"

    def apply_to(self, source: str) -> str:
        """Return the mutated source, or raise `ValueError` if the source is not the one that was sampled."""
        data, before = source.encode(), self.before.encode()
        start = sum(len(line) for line in data.splitlines(keepends=True)[: self.line - 1]) + self.column
        if data[start : start + len(before)] != before:
            raise ValueError(f"{self.path}:{self.line}: {self.before!r} not found: take a new sample of this source")
        return (data[:start] + self.after.encode() + data[start + len(before) :]).decode()

    def is_effective(self, source: str) -> bool:
        """Whether the mutated source compiles and differs in more than its text."""
        try:
            mutated = ast.parse(self.apply_to(source))
            compile(mutated, self.path, "exec")
        except SyntaxError:
            return False
        return ast.dump(mutated) != ast.dump(ast.parse(source))


def sample(root: Path, packages: Iterable[str], count: int, seed: int) -> list[Mutation]:
    """Choose mutations at random, at most one in a line. The same source and seed give the same sample."""
    sources: dict[str, str] = {}
    by_line: dict[tuple[str, int], list[Mutation]] = {}
    for path in sorted(chain.from_iterable((root / package).rglob("*.py") for package in packages)):
        name = path.relative_to(root).as_posix()
        sources[name] = path.read_text(encoding="utf-8")
        for mutation in mutations_of(sources[name], name):
            by_line.setdefault((name, mutation.line), []).append(mutation)
    rng = random.Random(seed)
    lines = sorted(by_line)
    rng.shuffle(lines)
    chosen: list[Mutation] = []
    for line in lines:
        if len(chosen) == count:
            break
        mutation = rng.choice(by_line[line])
        if mutation.is_effective(sources[mutation.path]):
            chosen.append(mutation)
    return chosen


def mutations_of(source: str, path: str) -> list[Mutation]:
    """All mutations of a source text, in the order of its lines."""
    found = _Finder(source, path).in_block(ast.parse(source).body)
    return sorted(found, key=lambda mutation: (mutation.line, mutation.column, mutation.after))


class _Finder:
    """Finds the mutations of one file: a method for each level of the grammar."""

    def __init__(self, source: str, path: str) -> None:
        self._path = path
        self._lines = source.encode().splitlines(keepends=True)

    def in_block(self, statements: Iterable[ast.stmt]) -> Iterator[Mutation]:
        for statement in statements:
            yield from self._in_statement(statement)

    def _in_statement(self, statement: ast.stmt) -> Iterator[Mutation]:
        blocks = list(_blocks_of(statement))
        last = min((block[0].lineno - 1 for block in blocks), default=statement.end_lineno or statement.lineno)
        first = min((statement.lineno, *(part.lineno for part in getattr(statement, "decorator_list", ()))))
        head = chain(self._of_statement(statement), self._in_expressions(_expressions_of(statement)))
        yield from (replace(each, first_line=first, last_line=max(first, last, each.line)) for each in head)
        for block in blocks:
            yield from self.in_block(block)
        if isinstance(statement, ast.Match):
            for case in statement.cases:
                yield from self._in_case(case)

    def _in_case(self, case: ast.match_case) -> Iterator[Mutation]:
        values = [node.value for node in ast.walk(case.pattern) if isinstance(node, ast.MatchValue)]
        guards = [case.guard] if case.guard else []
        for guard in guards:
            yield from self._conditions(guard)
        yield from self._in_expressions([*values, *guards])
        yield from self.in_block(case.body)

    def _of_statement(self, statement: ast.stmt) -> Iterator[Mutation]:
        match statement:
            case ast.Return(value=ast.expr() as value) if not _is_constant(value, None):
                yield self._replaced(statement, RETURN, "return None")
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield self._replaced(statement, STATEMENT, "pass")
            case ast.Assign(targets=[ast.Attribute()]) | ast.AugAssign(target=ast.Attribute()):
                yield self._replaced(statement, STATEMENT, "pass")
            case ast.Break():
                yield self._replaced(statement, LOOP_EXIT, "continue")
            case ast.Continue():
                yield self._replaced(statement, LOOP_EXIT, "break")
            case ast.If(test=test) if not _is_type_checking(test):
                yield from self._conditions(test)
            case ast.While(test=test):
                yield self._replaced(test, CONDITION, "False")
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add | ast.Sub):
            yield from self._operator(statement.target, statement.value, ARITHMETIC, _ARITHMETIC)

    def _in_expressions(self, roots: Iterable[ast.expr]) -> Iterator[Mutation]:
        for root in roots:
            for node in _walk(root):
                yield from self._of_expression(node)

    def _of_expression(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Compare(left=left, comparators=comparators):
                for one, other in pairwise((left, *comparators)):
                    yield from self._operator(one, other, COMPARISON, _COMPARISONS)
            case ast.BoolOp(values=values):
                for one, other in pairwise(values):
                    yield from self._operator(one, other, BOOLEAN, _BOOLEANS)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                if not any(isinstance(side, _SEQUENCES) or _is_text(side) for side in (left, right)):
                    yield from self._operator(left, right, ARITHMETIC, _ARITHMETIC)
            case ast.UnaryOp(op=ast.Not()):
                yield self._mutation(_start(node), "not", "", NEGATION)
            case ast.IfExp(test=test):
                yield from self._conditions(test)
            case ast.Constant(value=bool() as flag):
                yield self._replaced(node, FLAG, str(not flag))
            case ast.Constant(value=int() as number):
                yield self._replaced(node, INTEGER, str(number + 1))
            case ast.Constant(value=str() as text) if "://" not in text:
                yield self._replaced(node, STRING, repr(f"{text}-mutated"))

    def _conditions(self, test: ast.expr) -> Iterator[Mutation]:
        for value in (True, False):
            if not _is_constant(test, value):
                yield self._replaced(test, CONDITION, str(value))

    def _operator(self, left: ast.expr, right: ast.expr, kind: str, operators: re.Pattern[str]) -> Iterator[Mutation]:
        start = _end(left)
        # Brackets of the operands are in the gap as well, and comments, which may contain the same words.
        gap = re.sub(r"#.*", lambda comment: " " * len(comment[0]), self._text(start, _start(right)))
        if match := operators.search(gap):
            line = start[0] + match.string.count("\n", 0, match.start())
            in_line = match.string[: match.start()].rpartition("\n")[2]
            column = len(in_line.encode()) + (start[1] if line == start[0] else 0)
            yield self._mutation((line, column), match[0], _SWAPPED[match[0]], kind)

    def _replaced(self, node: ast.expr | ast.stmt, kind: str, after: str) -> Mutation:
        before = self._text(_start(node), _end(node))
        # As many lines as before: an expression needs brackets for them, a statement is followed by empty lines.
        if breaks := "\n" * before.count("\n"):
            after = f"({after}{breaks})" if isinstance(node, ast.expr) else f"{after}{breaks}"
        return self._mutation(_start(node), before, after, kind)

    def _mutation(self, start: _Position, before: str, after: str, kind: str) -> Mutation:
        line, column = start
        return Mutation(
            path=self._path,
            line=line,
            column=column,
            kind=kind,
            before=before,
            after=after,
            first_line=line,
            last_line=line,
        )

    def _text(self, start: _Position, end: _Position) -> str:
        lines = self._lines[start[0] - 1 : end[0]]
        lines[-1] = lines[-1][: end[1]]
        lines[0] = lines[0][start[1] :]
        return b"".join(lines).decode()


def _blocks_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks inside of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        if block := getattr(statement, name, None):
            yield block
    for handler in getattr(statement, "handlers", ()):
        yield handler.body


def _expressions_of(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself that may be mutated: no docstring, no annotation, no message."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from statement.decorator_list
            yield from statement.args.defaults
            yield from (default for default in statement.args.kw_defaults if default)
        case ast.ClassDef():
            yield from statement.decorator_list
            yield from (each.value for each in statement.keywords if each.arg not in _CLASS_FLAGS)
        case ast.AnnAssign(value=ast.expr() as value):
            yield value
        case ast.AnnAssign() | ast.Raise() | ast.Assert() | ast.Expr(value=ast.Constant()):
            pass
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            pass
        case ast.If(test=test) if _is_type_checking(test):
            pass
        case _:
            for child in ast.iter_child_nodes(statement):
                if isinstance(child, ast.expr):
                    yield child
                elif isinstance(child, ast.withitem):
                    yield child.context_expr


def _walk(root: ast.AST) -> Iterator[ast.AST]:
    """A node and what is below it, without f-strings, whose parts have no positions of their own in Python 3.11."""
    if not isinstance(root, ast.JoinedStr):
        yield root
        for child in ast.iter_child_nodes(root):
            yield from _walk(child)


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _is_constant(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _start(node: ast.expr | ast.stmt) -> _Position:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> _Position:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset
