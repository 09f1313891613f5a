"""Export: all records, as lines of JSON or CSV, under the names of `usage`. In CSV, formulas become text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from dragoman.identities.identity import read_tags
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.records.exchanges import instant
from dragoman.records.journal_entry import AMOUNTS, CostBreakdown, known_cost
from dragoman.records.record_fields import COLUMN_FIELDS, TOKEN_NAMES
from dragoman.records.rows import DETAILS, details_of
from dragoman.store.record_queries import Exports

# Columns that follow from an entry or from where it belongs, by their names in a line, before a member of the entry.
_BEFORE = {
    "client_protocol": {
        "session": "session_name",
        "session_id": "session",
        "thread": "thread_name",
        "thread_id": "thread",
        "thread_class": "thread_class",
    },
    "estimated": TOKEN_NAMES,
    "provider_request_id": {
        "cost_nano_usd": "cost",
        "unpriced": "unpriced",
        "reported_cost_nano_usd": "said_cost",
        "price_version": "price",
        "losses": "losses",
        "bookkeeping_losses": "bookkeeping",
    },
}
# The columns of a line, likewise, in its order.
FIELDS: dict[str, str] = {}
for _field in COLUMN_FIELDS:
    FIELDS |= {**_BEFORE.get(_field.name, {}), _field.export_name: _field.column}
FIELDS["details"] = "details"
# Between `input_tokens` and its cached parts.
UNCACHED = "uncached_input_tokens"
# As spreadsheets begin a formula: https://owasp.org/www-community/attacks/CSV_Injection
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
_YES_OR_NO = ("stream", "estimated", "unpriced")
# Characters that a terminal obeys, alone or as bidirectional controls: names from outside may have them, and an export
# may go to a terminal. Tabs and line ends within a cell are the reader's.
_OBEYED = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_obeyed = re.compile(f"[{_OBEYED}]").sub

_encode = msgspec.json.Encoder().encode


def exchanges(exports: Exports, since: int, until: int) -> Iterator[JsonObject]:
    """All that is recorded of the exchanges between two times, in microseconds, in the order of their beginnings."""
    names = tuple(FIELDS)
    for row in exports.rows(tuple(FIELDS.values()), since, until):
        record: JsonObject = dict(zip(names, row, strict=True))
        record["time"] = instant(row[names.index("time")])
        for name in _YES_OR_NO:
            record[name] = bool(record[name])
        record["cost_nano_usd"] = known_cost(row[names.index("cost_nano_usd")], unpriced=record["unpriced"] is True)
        record["tags"] = dict(read_tags(row[names.index("tags")]))
        record["details"] = details_as_json(row[-1])
        yield _with_uncached(record)


def _with_uncached(record: JsonObject) -> JsonObject:
    columns: JsonObject = {}
    for name, value in record.items():
        columns[name] = value
        if name == "input_tokens":
            read, write = record["cache_read_tokens"], record["cache_write_tokens"]
            all_counted = isinstance(value, int) and isinstance(read, int) and isinstance(write, int)
            columns[UNCACHED] = value - read - write if all_counted else None  # type: ignore[operator]  # all three are numbers
    return columns


def details_as_json(encoded: bytes) -> JsonValue:
    """The rest of an entry, by the names of its members."""
    try:
        return _named(details_of(encoded), DETAILS)
    except (msgspec.DecodeError, msgspec.ValidationError):
        # Written by a release with another format; exported as it is.
        return encoded.decode("utf-8", "replace")


def _named(value: object, names: tuple[str, ...] = ()) -> JsonValue:
    """A value by the names of its members, or by these of them."""
    if isinstance(value, Struct):
        members: JsonObject = {}
        for name in names or value.__struct_fields__:
            member = getattr(value, name)
            if isinstance(value, CostBreakdown) and value.known_total is None and name in AMOUNTS:
                # Of an amount without a price nothing is known either.
                continue
            # Unknown members are left out.
            if member not in ("", (), None):
                members[name] = _named(member)
        return members
    if isinstance(value, (tuple, list)):
        return [_named(each) for each in value]
    return value  # type: ignore[return-value]  # members are texts, numbers and truths


def as_json_lines(records: Iterator[JsonObject]) -> Iterator[bytes]:
    """One object on each line, in which nothing is left that a terminal would obey."""
    for each in records:
        line = _encode(each)
        if not line.isascii():
            # Those of ASCII are escaped by JSON itself.
            line = _obeyed(lambda found: f"\\u{ord(found[0]):04x}", line.decode()).encode()
        yield line + b"\n"


def as_csv(names: Sequence[str], records: Iterator[JsonObject]) -> Iterator[bytes]:
    """A line of names, and one per record; a value that is neither text nor number is JSON in its cell."""
    yield csv_line(names)
    for each in records:
        yield csv_line([_cell(each[name]) for name in names])


def csv_names() -> tuple[str, ...]:
    """The names of an export's columns."""
    return tuple(_with_uncached(dict.fromkeys(FIELDS)))


def _cell(value: JsonValue) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _encode(value).decode() if isinstance(value, (dict, list)) else value


def csv_line(cells: Sequence[object]) -> bytes:
    """One line of CSV. Texts that begin like a formula get an apostrophe; control characters become question marks."""
    written = io.StringIO()
    safe = [f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell for cell in cells]
    # The line end tells the writer what to quote.
    csv.writer(written, lineterminator="\r\n").writerow(safe)
    text = _obeyed("?", written.getvalue().removesuffix("\r\n"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


class CallId(Struct, frozen=True):
    """One call to a provider, by the provider's own ID, for comparison with its invoice; "" if it has none."""

    provider: str
    id: str
    time: str
    model: str
    status: int
    exchange: str


_OF_CALLS = ("id", "time", "provider", "model", "status", "upstream_id", "details")


def calls(exports: Exports, since: int, until: int) -> Iterator[tuple[CallId, ...]]:
    """Every call of each exchange, including failed calls before a successful one."""
    for exchange, time, provider, model, status, upstream_id, details in exports.rows(_OF_CALLS, since, until):
        try:
            made = details_of(details).calls
        except (msgspec.DecodeError, msgspec.ValidationError):
            made = ()
        if made:
            yield tuple(
                CallId(call.provider, call.provider_request_id, instant(time + call.started), *rest, exchange)
                for call in made
                for rest in [(call.model, call.status)]
            )
        else:
            yield (CallId(provider, upstream_id, instant(time), model, status, exchange),) if upstream_id else ()
