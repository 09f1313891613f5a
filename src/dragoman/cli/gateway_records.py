"""Records of another gateway, for commands with `--gateway`: the same views that they print of the local database."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from msgspec import Struct

from dragoman.cli import documents
from dragoman.cli.admin_option import add_admin_gateway, admin_client
from dragoman.cli.record_file import INCOMPLETE, RecordFile, add_config, complain_of_unassigned, name_of
from dragoman.database_location import MEMORY
from dragoman.errors import UsageError

if TYPE_CHECKING:
    from dragoman.launching.admin_client import AdminClient

R = TypeVar("R", bound=Struct)
# The status of a busy gateway, the number of attempts, and the delay in seconds.
_BUSY, _TRIES, _PAUSE = 429, 5, 1.0


class GatewayRecords:
    """The records of one gateway. `status` is not 0 once data was missing."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client
        self.complain: Callable[[str], None] = documents.complain
        self.status = 0

    def get(self, path: str, result: type[R], **parameters: str | int | bool | None) -> R:
        """The resource at a path of the admin API, with the parameters that are not None."""
        view = self._ask(path, result, _query(parameters))
        notes = self._client.notes
        if notes.incomplete:
            self.complain(f"the latest exchanges are missing: {notes.incomplete}")
            self.status = INCOMPLETE
        if notes.unassigned:
            complain_of_unassigned(notes.unassigned, self.complain)
        return view

    def _ask(self, path: str, result: type[R], query: Mapping[str, str | int]) -> R:
        """The resource at a path, requested again while another query of the same key runs."""
        from dragoman.launching.admin_client import AdminApiError

        for _ in range(_TRIES - 1):
            try:
                return self._client.get(path, result, query)
            except AdminApiError as error:
                if error.status != _BUSY:
                    raise
            time.sleep(_PAUSE)
        return self._client.get(path, result, query)


def add_records(parser: argparse.ArgumentParser) -> None:
    """Declare the options that select the records: a configuration here, or a gateway."""
    add_config(parser)
    add_admin_gateway(parser)


def records_of_gateway(options: argparse.Namespace) -> GatewayRecords | None:
    """The records of the gateway that the command line names; None for those of this machine."""
    client = admin_client(options)
    if client is None:
        return None
    if options.config is not None:
        raise UsageError("--config selects records of this machine, and --gateway those of a gateway: leave one out")
    return GatewayRecords(client)


def quoted_name(text: str) -> str:
    if not text:
        raise UsageError("the ID is empty")
    return quote(name_of(text) or "", safe="")


def clock_here() -> RecordFile:
    """Formats days and times in the local time zone. No database is read."""
    from dragoman.records.time_range import Zone

    return RecordFile(database=MEMORY, zone=Zone(name="local", rules=None))


def _query(parameters: Mapping[str, str | int | bool | None]) -> dict[str, str | int]:
    return {
        name: ("true" if value else "false") if isinstance(value, bool) else value
        for name, value in parameters.items()
        if value is not None
    }
