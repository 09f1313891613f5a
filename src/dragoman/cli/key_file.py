"""Key file: gateway keys of the local database, as `dragoman key` reads and changes them. Keys of the configuration are
listed too, but cannot be changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dragoman.cli.record_file import now_in_micro
from dragoman.config.configured_keys import configured_names
from dragoman.config.key_patterns import ConfiguredPatterns
from dragoman.config.settings import Settings
from dragoman.database_location import DatabaseLocation
from dragoman.errors import DragomanError
from dragoman.identities.changes import LOCAL_MAKER, ImportedKey
from dragoman.identities.errors import ImportRefused, KeyChangeError, KeyExists, KeyMissing
from dragoman.identities.key_text import digest_of, new_key
from dragoman.identities.members import KeyMembers, name_problem
from dragoman.identities.views import (
    AuditView,
    IssuedKey,
    KeyView,
    audit_view_of,
    configured_view_of,
    keys_view_of,
    view_of,
)

if TYPE_CHECKING:
    from dragoman.store.identity_file import IdentityFile

_PAGE = 1000


def clock() -> float:
    return now_in_micro() / 1_000_000


def database_of(settings: Settings) -> DatabaseLocation:
    if not settings.storage.is_persistent:
        raise DragomanError(
            "storage.path names no file, so the gateway has only the keys of its configuration: "
            "`dragoman key new NAME --print` prints the lines for one"
        )
    return settings.storage.location


class KeyFile:
    """The keys of one gateway. Each call opens the database briefly."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._configured = {key.name: key for key in settings.keys}
        self._patterns = ConfiguredPatterns(settings)
        self.database = database_of(settings)
        self.place = str(self.database)

    def list_all(self) -> Iterator[KeyView]:
        now, after = clock(), ""
        with self._open(read_only=True) as file:
            while True:
                stored = file.identities.page(after, _PAGE + 1)
                page = keys_view_of(self._settings.keys, stored, now, after=after, limit=_PAGE)
                yield from page.keys
                if page.next is None:
                    return
                after = page.next

    def get(self, name: str) -> KeyView:
        """One key. If both sources have the name, the key of the configuration, which is in force."""
        if name in self._configured:
            return configured_view_of(self._configured[name], clock())
        with self._open(read_only=True) as file:
            stored = file.identities.get(name)
        if stored is None:
            raise missing_key(name)
        return view_of(stored, clock())

    def create(self, name: str, members: KeyMembers) -> IssuedKey:
        text = new_key()
        with self._open() as file:
            stored = file.changes.create(
                name, members, digest_of(text), maker=LOCAL_MAKER, configured=configured_names(self._settings)
            )
        return IssuedKey(key=text, identity=view_of(stored, clock()))

    def change(self, name: str, members: KeyMembers) -> KeyView:
        with self._open_for(name) as file:
            stored = file.changes.change(name, members, maker=LOCAL_MAKER)
        return view_of(stored, clock())

    def rotate(self, name: str, grace: float) -> IssuedKey:
        """Give a key a new text. The former one is accepted for `grace` seconds."""
        text = new_key()
        with self._open_for(name) as file:
            stored = file.changes.rotate(name, digest_of(text), grace, maker=LOCAL_MAKER)
        return IssuedKey(key=text, identity=view_of(stored, clock()))

    def revoke(self, name: str) -> KeyView:
        with self._open_for(name) as file:
            stored = file.changes.revoke(name, maker=LOCAL_MAKER)
        return view_of(stored, clock())

    def refusals(self, keys: Sequence[ImportedKey]) -> dict[str, KeyChangeError]:
        """The reasons why keys cannot be imported, by name. Nothing is changed."""
        try:
            with self._open() as file, file.trial():
                file.changes.import_all(keys, maker=LOCAL_MAKER, configured=configured_names(self._settings))
        except ImportRefused as refused:
            return dict(map(_by_name, refused.problems))
        return {}

    def import_all(self, keys: Sequence[ImportedKey]) -> None:
        with self._open() as file:
            file.changes.import_all(keys, maker=LOCAL_MAKER, configured=configured_names(self._settings))

    def audit(self, limit: int) -> AuditView:
        with self._open(read_only=True) as file:
            return audit_view_of(file.identities.audit(None, limit + 1), limit)

    def warnings(self, key: KeyView) -> Iterator[str]:
        """Entries of a key's lists that match no name of the configuration."""
        return self._patterns.warnings(key.name, key.models, key.providers)

    @contextmanager
    def _open(self, *, read_only: bool = False) -> Iterator[IdentityFile]:
        from dragoman.store.identity_file import open_identity_file

        with open_identity_file(self.database, clock, read_only=read_only) as file:
            yield file

    @contextmanager
    def _open_for(self, name: str) -> Iterator[IdentityFile]:
        """Open the database to change an existing key."""
        with self._open(read_only=True) as file:
            is_stored = file.identities.get(name) is not None
        if name in self._configured and not is_stored:
            place = self._settings.file or "the configuration"
            raise KeyExists("", f"{name} is a key of the configuration", f"change it in {place}")
        if not is_stored:
            raise missing_key(name)
        with self._open() as file:
            yield file


def _by_name(problem: KeyChangeError) -> tuple[str, KeyChangeError]:
    """The name of the key that an import problem concerns, and the problem without it."""
    name, _, member = problem.member.partition(": ")
    return name, type(problem)(member, problem.problem, problem.remedy)


def missing_key(name: str) -> KeyMissing:
    # An invalid name may be a key text.
    which = f"key {name}" if name_problem(name) is None else "such key"
    return KeyMissing("", f"there is no {which}", "dragoman key list shows all keys")
