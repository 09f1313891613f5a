"""Key report: formats gateway keys as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dragoman.cli.terminal import GREEN, RED, YELLOW, Column, OutputScreen, table
from dragoman.config.settings import Settings
from dragoman.identities.changes import KeyState
from dragoman.identities.views import AuditedKeyView, AuditEntryView, AuditView, ImportedKeyView, ImportView, KeyView
from dragoman.model.losses import Strict
from dragoman.store.identities import IdentityCount

_STYLES = {
    KeyState.ACTIVE.value: GREEN,
    KeyState.ROTATED.value: GREEN,
    KeyState.EXPIRED.value: YELLOW,
    KeyState.REVOKED.value: RED,
}
_LISTS = ("models", "providers", "addresses", "paths")
_COLUMNS = (
    Column(heading="NAME", least=8),
    Column(heading="STATE", styles=_STYLES),
    Column(heading="ROLE"),
    Column(heading="MODELS", least=12),
    Column(heading="PROVIDERS", least=10),
    Column(heading="EXPIRES", least=20),
    Column(heading="TAGS", least=8),
    Column(heading="SOURCE", below=True),
)
_AUDIT = (
    Column(heading="TIME"),
    Column(heading="BY", least=12),
    Column(heading="ACTION"),
    Column(heading="KEY", least=8),
    Column(heading="CHANGE", least=24),
)
_IMPORT = (
    Column(heading="AT"),
    Column(heading="NAME", least=8),
    Column(heading="RESULT", styles={"imported": GREEN, "accepted": GREEN, "refused": RED}),
    Column(heading="WHY", least=24),
)
_NEVER, _NONE = "never", "-"


def keys_as_text(keys: Iterable[KeyView], screen: OutputScreen) -> str:
    rows = [
        (
            key.name,
            key.state,
            key.role,
            _list(key.models),
            _list(key.providers),
            key.expires or _NEVER,
            _tags(key.tags) or _NONE,
            key.source,
        )
        for key in keys
    ]
    return "\n".join(table(screen, _COLUMNS, rows))


def key_as_text(key: KeyView, screen: OutputScreen) -> str:
    columns = (Column(heading="KEY"), Column(heading=key.name, least=24, styles=_STYLES))
    return "\n".join(table(screen, columns, list(_members(key))))


def _members(key: KeyView) -> Iterator[tuple[str, str]]:
    yield "state", key.state
    if key.former_until is not None:
        yield "former key until", key.former_until
    if key.revoked is not None:
        yield "revoked", key.revoked
    yield "role", key.role
    for name in _LISTS:
        yield name, _list(getattr(key, name))
    yield "tags", _tags(key.tags) or _NONE
    yield "expires", key.expires or _NEVER
    if key.strict is not False:
        yield "strict", _strict(key.strict)
    yield "concurrency", "any" if key.concurrency is None else str(key.concurrency)
    if key.created is not None:
        yield "created", f"{key.created} by {key.created_by}"
    yield "source", key.source


def audit_as_text(view: AuditView, screen: OutputScreen) -> str:
    rows = [(each.time, each.actor, each.action, each.subject, "; ".join(_changes(each))) for each in view.changes]
    return "\n".join(table(screen, _AUDIT, rows))


def import_as_text(view: ImportView, screen: OutputScreen) -> str:
    rows = [(each.location, each.name, each.result, "; ".join(_reasons(each))) for each in view.keys]
    return "\n".join(table(screen, _IMPORT, rows))


def _reasons(key: ImportedKeyView) -> Iterator[str]:
    if key.problem is not None:
        yield f"{key.problem} ({key.remedy})"
    yield from key.notes


def _changes(entry: AuditEntryView) -> Iterator[str]:
    """The changed members, such as `models: fast -> *`. A revoked key has lost all, which needs no list."""
    after = entry.after
    if after.revoked is not None:
        return
    before = entry.before
    for name, text in _audited(after).items():
        former = _audited(before)[name] if before is not None else ""
        if text != former:
            yield f"{name}: {text or _NONE}" if before is None else f"{name}: {former or _NONE} → {text or _NONE}"


def _audited(key: AuditedKeyView) -> dict[str, str]:
    return {
        "role": key.role,
        **{name: "" if getattr(key, name) is None else _list(getattr(key, name)) for name in _LISTS},
        "tags": _tags(key.tags),
        "expires": key.expires or "",
        "strict": _strict(key.strict),
        "concurrency": "" if key.concurrency is None else str(key.concurrency),
        "former key until": key.former_until or "",
    }


def _strict(strict: Strict) -> str:
    return strict if isinstance(strict, str) else "true" if strict else ""


def _list(texts: tuple[str, ...] | None) -> str:
    if texts is None:
        return "all"
    return ", ".join(texts) or "none"


def _tags(tags: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in tags.items())


def describe_keys(settings: Settings, stored: IdentityCount | None) -> str:
    """The number of accepted gateway keys by their source, and the consequence if there are none."""
    configured = len(settings.keys)
    if stored is None:
        return f"{configured or 'none'} in the configuration; cannot read those of the database"
    if stored.accepted:
        in_database = f"{stored.accepted} in the database"
        return f"{configured} in the configuration, {in_database}" if configured else in_database
    if configured:
        return str(configured)
    if stored.total:
        return "none, but the database has revoked or expired ones: every request is rejected"
    if settings.keys_table:
        return "none, but [keys] exists: every request is rejected"
    return "none: every client that reaches the gateway may use it"
