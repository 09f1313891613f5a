"""Records of a gateway elsewhere, for commands with `--gateway`: the views that they print of the file here."""

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
# The status of a busy gateway, the number of tries, and the pause in seconds.
_BUSY, _TRIES, _PAUSE = 429, 5, 1.0


class GatewayRecords:
    """The records of one gateway. `status` is not 0 once something was not there to be shown."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client
        # Receives notes about the records.
        self.complain: Callable[[str], None] = documents.complain
        self.status = 0

    def get(self, path: str, result: type[R], **parameters: str | int | bool | None) -> R:
        """The resource at a path of the admin API, with the parameters that are not None."""
        view = self._ask(path, result, _query(parameters))
        notes = self._client.notes
        if notes.incomplete:
            self.complain(f"the latest exchanges are left out: {notes.incomplete}")
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
    """Declare whose records are meant: those of a configuration here, or of a gateway."""
    add_config(parser)
    add_admin_gateway(parser)


def records_of_gateway(options: argparse.Namespace) -> GatewayRecords | None:
    """The records of the gateway that the command line names; None for those of this machine."""
    client = admin_client(options)
    if client is None:
        return None
    if options.config is not None:
        raise UsageError("--config names records of this machine, and --gateway those of a gateway: leave one out")
    return GatewayRecords(client)


def quoted_name(text: str) -> str:
    """A name from the command line as a segment of a path."""
    if not text:
        raise UsageError("the id is empty")
    return quote(name_of(text) or "", safe="")


def clock_here() -> RecordFile:
    """Days and times as clocks show them here; there is no file."""
    from dragoman.records.time_range import Zone

    return RecordFile(database=MEMORY, zone=Zone(name="local", rules=None))


def _query(parameters: Mapping[str, str | int | bool | None]) -> dict[str, str | int]:
    return {
        name: ("true" if value else "false") if isinstance(value, bool) else value
        for name, value in parameters.items()
        if value is not None
    }
