"""Keys: the one that opens the gateway, and where it was found. The gateway knows digests alone, so users give it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.identities.key_text import digest_of, new_key
from dragoman.launching.clients import KEY_REMEDY, KEY_VARIABLE

# Clients insist on some key; a gateway without keys looks at none.
PLACEHOLDER = "none"


class GivenKey(Struct, frozen=True, kw_only=True):
    """A key, and the file it was read from, if it was not in the environment."""

    text: str
    file: str | None = None
    # Whether it was made here, for one gateway.
    is_new: bool = False

    def __repr__(self) -> str:
        return "GivenKey(…)"

    @property
    def is_placeholder(self) -> bool:
        """Whether it is no secret, because it opens nothing."""
        return self.text == PLACEHOLDER

    @property
    def sent(self) -> str:
        """The key that goes out; "" for a placeholder."""
        return "" if self.is_placeholder else self.text


def find_key(settings: Settings, environ: Mapping[str, str], file: str | None = None) -> GivenKey:
    """The key to send, even if this configuration has none: the running gateway may have another configuration."""
    # Only commands that call a gateway look into its database.
    from dragoman.store.identity_file import may_accept, requires_keys

    given, database = _given(environ, file), settings.storage.location
    if not given.text:
        if settings.keys or requires_keys(database):
            raise DragomanError(f"the gateway requires a key: {KEY_REMEDY}; `dragoman key new NAME` makes one")
        return GivenKey(text=PLACEHOLDER)
    if settings.keys and not (_is_configured(settings, given) or may_accept(database, digest_of(given.text))):
        names = ", ".join(key.name for key in settings.keys)
        raise DragomanError(
            f"the key in {file or KEY_VARIABLE} is none of those in {settings.file or 'the configuration'} ({names}) "
            f"or in {database if settings.storage.is_persistent else 'a database'}; "
            "`dragoman key new NAME` makes one"
        )
    return given


def key_of_own(settings: Settings, environ: Mapping[str, str], file: str | None = None) -> GivenKey:
    """The key for a gateway of one client: the user's, else a new one: all users of the machine reach its port. Such a
    gateway has the keys of the configuration, and none of the database."""
    if settings.keys and _given(environ, file).text:
        given = find_key(settings, environ, file)
        if _is_configured(settings, given):
            return given
    return GivenKey(text=new_key(), is_new=True)


def _is_configured(settings: Settings, given: GivenKey) -> bool:
    return digest_of(given.text) in {accepted.digest for key in settings.keys for accepted in key.digests}


def _given(environ: Mapping[str, str], file: str | None) -> GivenKey:
    if file is None:
        return GivenKey(text=_sendable(environ.get(KEY_VARIABLE, ""), KEY_VARIABLE))
    text = Path(file).read_text(encoding="utf-8", errors="replace").strip()
    if not text:
        raise DragomanError(f"{file} holds no key")
    return GivenKey(text=_sendable(text, file), file=file)


def _sendable(text: str, place: str) -> str:
    """A key that a header can carry. All that `dragoman key new` prints, for example, is none."""
    if not (text.isascii() and text.isprintable()):
        raise DragomanError(
            f"{place} holds more than a key, or another text: "
            "a key is one line, the first that `dragoman key new` prints"
        )
    return text
