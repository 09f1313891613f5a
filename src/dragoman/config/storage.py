"""`[storage]`: where data is stored, in a file or in a database of PostgreSQL; `[storage.contents]`: which bodies are.
No message has the address of a database, which may have a password: it has hosts, ports and the database's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from dragoman.config import file_schema
from dragoman.config.environment import Unset, resolved
from dragoman.config.settings import Contents, Storage
from dragoman.config.tables import ConfigTable
from dragoman.config.values import invalid, is_loopback
from dragoman.database_location import MEMORY, PostgresDatabase
from dragoman.errors import ConfigError, DragomanError

_DATABASE = "database"
_KEY, _REDACT = "key", "redact"
_VERIFIED = "verify-full"


def read_storage(table: ConfigTable, environ: Mapping[str, str], path_of: Callable[[str], str]) -> Storage:
    """The table with its paths and the address of its database resolved; its problems are reported there."""
    table.refuse_others((*file_schema.STORAGE, "contents"))
    kinds = {name: kind for name, kind in file_schema.STORAGE.items() if name != _DATABASE}
    storage = table.fill(Storage, kinds)
    storage = replace(storage, path=path_of(storage.path))
    written = table.take(_DATABASE, file_schema.DATABASE)
    if written is None:
        return storage
    try:
        return replace(storage, database=_database(written, storage, environ))
    except ConfigError as error:
        table.complain(_DATABASE, error.problem, error.remedy)
        return storage


def read_contents(table: ConfigTable, environ: Mapping[str, str]) -> Contents:
    """The table with its key resolved; its problems are reported there. Patterns and keys are checked where they are
    given: that loads what most gateways do not need."""
    table.refuse_others(file_schema.CONTENTS)
    contents = table.fill(Contents, file_schema.CONTENTS)
    if contents.redact:
        from dragoman.contents.pattern_cost import check_pattern

        for pattern in contents.redact:
            try:
                check_pattern(pattern)
            except DragomanError as error:
                table.complain(_REDACT, f"has the pattern {pattern[:60]!r}, which cannot be used: {error}", "change it")
    if contents.key:
        from dragoman.contents.sealing import check_key

        try:
            key = resolved(contents.key, environ)
            check_key(key)
        except Unset as unset:
            table.complain(_KEY, unset.problem, unset.remedy)
        except ConfigError as error:
            table.complain(_KEY, error.problem, error.remedy or "")
        else:
            return replace(contents, key=key)
    return contents


def _database(written: str, storage: Storage, environ: Mapping[str, str]) -> PostgresDatabase:
    address = resolved(written, environ)
    try:
        from dragoman.store.postgres import PostgresAddress
    except ImportError:
        problem = "a database of PostgreSQL needs psycopg, which is not installed"
        raise invalid(problem, "pip install '.[postgres]' in a clone of dragoman") from None
    # Only a configuration with a database needs them.
    from socket import gethostname

    from dragoman.store.errors import StoreError

    try:
        parsed = PostgresAddress(address)
    except StoreError as error:
        problem, _, remedy = str(error).partition("; ")
        raise invalid(problem, remedy) from None
    is_local = all(not host or host[0] in "/@" or is_loopback(host) for host in parsed.hosts)
    if not (is_local or parsed.sslmode == _VERIFIED or storage.allow_unverified_database):
        problem = f"the connection to {parsed} is not verified: sslmode is {parsed.sslmode}, which is below {_VERIFIED}"
        raise invalid(problem, f"add sslmode={_VERIFIED} to the address, or set allow_unverified_database = true")
    if storage.path in ("", MEMORY):
        raise invalid("needs a directory for the journals of this machine", "name a file in storage.path")
    return PostgresDatabase(
        address=address,
        name=str(parsed),
        path=storage.path,
        journal_keep=storage.journal_keep,
        machine=storage.machine or gethostname(),
        time_zone=storage.time_zone,
    )
