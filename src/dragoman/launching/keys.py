"""Gateway keys of commands and launched clients: finds the key to send. The gateway stores only digests, so the user
provides the key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.identities.key_text import digest_of, new_key
from dragoman.launching.clients import KEY_REMEDY, KEY_VARIABLE

# Clients require some key. A gateway without keys ignores it.
PLACEHOLDER = "none"


class GivenKey(Struct, frozen=True, kw_only=True):
    text: str
    file: str | None = None
    is_new: bool = False

    def __repr__(self) -> str:
        return "GivenKey(…)"

    @property
    def is_placeholder(self) -> bool:
        """Whether it is no secret, because no gateway accepts it."""
        return self.text == PLACEHOLDER

    @property
    def sent(self) -> str:
        return "" if self.is_placeholder else self.text


def find_key(settings: Settings, environ: Mapping[str, str], file: str | None = None) -> GivenKey:
    """The key to send, even if this configuration has none: the running gateway may have another configuration."""
    # Imported here, because only commands that call a gateway read its database.
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
    """The key for a client's private gateway: the user's, otherwise a new one, because all users of the machine reach
    its port. Such a gateway has the keys of the configuration, and none of the database."""
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
    """Return a key that a header can carry, or raise an error. The full output of `dragoman key new`, for example, is
    rejected."""
    if not (text.isascii() and text.isprintable()):
        raise DragomanError(
            f"{place} holds more than a key, or another text: "
            "a key is one line, the first that `dragoman key new` prints"
        )
    return text
