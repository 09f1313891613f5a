"""Updating the book of prices: fetched, checked, compared, agreed to, and only then put in the other's place.

What comes is data from outside, and nothing of it is run: it has a limit in size and a schema, and a price that changes
steeply is asked about.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from dragoman.cli import documents
from dragoman.cli.terminal import printable, progress
from dragoman.config.prices import MAX_PRICE_BOOK_BYTES, dollars, price_book_of
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError, Unreachable, UsageError
from dragoman.prices.changes import Bounds, Change, Changes, compare
from dragoman.prices.price_source import read_source
from dragoman.prices.table import PriceBookTable, check_table, own_table, read_table

# Where the collection is published that the book of a release is made of.
PUBLISHED = "https://raw.githubusercontent.com/pydantic/genai-prices/refs/heads/main/prices/new_data/v2/data.json"
_CONNECT_TIMEOUT, _TOTAL_TIMEOUT = 10.0, 60.0
_MAX_LINES = 40
REFUSED = 1


def update(settings: Settings, source: str, *, agreed: bool, dry: bool = False) -> int:
    """Replace the book with one from a file or an address; `agreed` is that steep changes are, `dry` only tells."""
    if not settings.price_book_path:
        raise DragomanError("there is no home to keep a book in (set HOME or XDG_STATE_HOME to an absolute path)")
    data = _fetched(source)
    try:
        book = _read(data)
        check_table(book)
    except DragomanError as error:
        raise DragomanError(f"{source} {error}") from None
    if book.taken < own_table().taken:
        raise DragomanError(f"{source} is of {book.taken}, and the book of this release of {own_table().taken}")
    present = price_book_of(settings, documents.complain).table
    changes = compare(present, book)
    documents.write_text("\n".join(map(printable, _change_lines(present, book, changes))))
    if dry:
        return 0
    if changes.large and not agreed and not _confirm(len(changes.large)):
        documents.complain("the book stays as it is (--yes agrees to what changes steeply)")
        return REFUSED
    write_atomically(Path(settings.price_book_path), msgspec.json.encode(book))
    documents.write_text(printable(f"kept in {settings.price_book_path}"))
    return 0


def _fetched(source: str) -> bytes:
    scheme, separator, _ = source.partition("://")
    if not separator:
        with Path(source).open("rb") as file:
            data = file.read(MAX_PRICE_BOOK_BYTES + 1)
    elif scheme.lower() == "https":
        with progress() as show_step:
            show_step(f"fetching {source} …")
            data = asyncio.run(_fetch(source))
    else:
        clear = "what decides about money is not read in clear text"
        raise UsageError(f"--from: {source} is no address with https://: {clear}")
    if len(data) > MAX_PRICE_BOOK_BYTES:
        raise DragomanError(f"{source} is larger than {MAX_PRICE_BOOK_BYTES} bytes")
    return data


async def _fetch(url: str) -> bytes:
    # The client is needed for this alone.
    from dragoman.http.client import HttpClient
    from dragoman.http.upstream_call import UpstreamRequest

    client = HttpClient(connect_timeout=_CONNECT_TIMEOUT)
    try:
        async with asyncio.timeout(_TOTAL_TIMEOUT):
            call = client.open(UpstreamRequest(method="GET", url=url, headers=[(b"accept", b"application/json")]))
            try:
                await call.head()
                if call.status != 200:
                    raise DragomanError(f"{url} answered {call.status}")
                return await call.read(MAX_PRICE_BOOK_BYTES)
            finally:
                call.close()
    except TimeoutError:
        raise DragomanError(f"{url} did not answer in time") from None
    except Unreachable as error:
        # Its words are of a provider, which this is not to whoever reads them.
        remedy = "fetch it otherwise, and name the file with --from"
        raise DragomanError(f"{url} cannot be reached: {error} ({remedy})") from None
    except ValueError as error:
        raise DragomanError(f"{url} cannot be called: {error}") from None
    finally:
        await client.close()


def _read(data: bytes) -> PriceBookTable:
    """A compiled table, or the collection that tables are made of, as it is today."""
    if data.lstrip()[:1] == b"{":
        return read_table(data)
    return read_source(data, "published", time.strftime("%Y-%m-%d", time.gmtime()))


def _change_lines(present: PriceBookTable, book: PriceBookTable, changes: Changes) -> list[str]:
    """What would change, the steep ones first, in lines that are not too many."""
    lines = [f"from {present.title}", f"to   {book.title}"]
    steep = [f"! {_describe(change)}" for change in changes.large]
    others = [f"  {_describe(change)}" for change in changes.rates if not change.is_large]
    for title, entries in (("gone", changes.removed), ("new", changes.new)):
        others += [f"  {entry} is {title}" for entry in entries]
    room = max(_MAX_LINES - len(steep), 0)
    lines += [*steep, *others[:room]]
    if len(others) > room:
        lines.append(f"  and {len(others) - room} more")
    if not steep and not others:
        lines.append("  no price changes")
    return lines


def _describe(change: Change) -> str:
    tier = f" ({change.tier})" if change.tier else ""
    return f"{change.entry} {change.member}{tier} {_amount(change, change.before)} → {_amount(change, change.after)}"


def _amount(change: Change, bounds: Bounds | None) -> str:
    if bounds is None:
        return "unknown"
    member = f"per_{change.member}" if change.member in ("search", "request") else change.member
    low, high = dollars(member, bounds.low), dollars(member, bounds.high)
    return low if low == high else f"{low}–{high}"


def _confirm(steep: int) -> bool:
    """Whether somebody at the terminal agrees; nobody is there to be asked elsewhere."""
    if not (os.isatty(0) and os.isatty(2)):
        return False
    prices = "one price" if steep == 1 else f"{steep} prices"
    documents.prompt(f"Let {prices} fall below a tenth or rise above ten times what is known?")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file as a whole or not at all, for its user alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
