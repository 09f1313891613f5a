"""Contents recording: makes the writer of a worker by the settings, and keeps what it redacts up to date (decision 48).
Which contents are stored, and where, changes at a restart only, as all of `[storage]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dragoman.config.settings import Settings
from dragoman.gateway.forwarding.redaction import names_secret
from dragoman.gateway.observability.logs import Log
from dragoman.store.contents_database import contents_path

if TYPE_CHECKING:
    from dragoman.contents.redaction import ContentsRedactor
    from dragoman.contents.retention_thread import RetentionThread
    from dragoman.contents.writer import ContentsWriter


def contents_writer(settings: Settings, log: Log) -> ContentsWriter | None:
    """The writer of a worker; None if no contents are stored."""
    if not settings.records_contents:
        return None
    # Here: most gateways store none.
    from dragoman.contents.archive import Archive, open_archive
    from dragoman.contents.retention import RetentionLimits
    from dragoman.contents.writer import ContentsWriter

    contents, location = settings.contents, settings.storage.location
    redactor = redactor_of(settings)

    def opened() -> Archive:
        return open_archive(location, redactor, key=contents.key)

    writer = ContentsWriter(
        location,
        opened,
        RetentionLimits(days=contents.days, max_bytes=contents.size),
        lambda level, words: log.event(level, words),
    )
    writer.redactor = redactor
    return writer


def contents_retention(settings: Settings, log: Log) -> RetentionThread | None:
    """What removes the contents of a file that are too old although no more are stored; None if there is none. A
    server's are removed by the gateways that store some."""
    path = contents_path(settings.storage.location)
    if settings.records_contents or path is None or not path.exists():
        return None
    from dragoman.contents.retention import RetentionLimits
    from dragoman.contents.retention_thread import RetentionThread

    return RetentionThread(
        settings.storage.location,
        RetentionLimits(days=settings.contents.days, max_bytes=settings.contents.size),
        lambda level, words: log.event(level, words),
    )


def redactor_of(settings: Settings) -> ContentsRedactor:
    """What is replaced: credentials of providers by value, and the patterns of the configuration."""
    from dragoman.contents.redaction import ContentsRedactor

    return ContentsRedactor(tuple(dict.fromkeys(_secrets(settings))), settings.contents.redact)


def _secrets(settings: Settings) -> Iterator[str]:
    for provider in settings.callable.values():
        for key in provider.keys:
            # Clouds put several secrets into one.
            yield from (key, *key.split(":"))
        for name, value in provider.headers.items():
            if names_secret(name):
                yield from (value, *value.split())
