"""LiteLLM import: converts keys that LiteLLM lists into keys of this gateway. Both store the SHA-256 digest of a key
text, so users keep their keys. A key with a field whose effect this gateway lacks is rejected, unless the field is
ignored explicitly: no key may silently permit more than before. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from dragoman.errors import DragomanError, WireError
from dragoman.identities.changes import ImportedKey
from dragoman.identities.errors import InvalidMember, KeyChangeError, KeyExists
from dragoman.identities.identity import is_tag
from dragoman.identities.members import KeyMembers, quoted
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.wire.json import decode

_TOKEN = re.compile(r"[0-9a-f]{64}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME = 64
# Fields that become members of a key, and fields without an effect on its rights.
_CARRIED = frozenset({"token", "key_alias", "models", "expires", "max_parallel_requests", "metadata", "blocked"})
_WITHOUT_EFFECT = frozenset(
    {
        *(
            "key_name",
            "key_type",
            "user_id",
            "user",
            "user_email",
            "team_id",
            "team_alias",
            "organization_id",
            "org_id",
        ),
        *("created_at", "created_by", "updated_at", "updated_by", "last_active", "last_refreshed_at", "spend"),
        *("model_spend", "budget_reset_at", "rotation_count", "last_rotation_at", "soft_budget_cooldown"),
    }
)
# Fields that become tags, by the name of the tag.
_TAGS = {"team": ("team_alias", "team_id"), "user": ("user_id",), "organization": ("organization_id", "org_id")}
_ALL_MODELS, _OTHERS_MODELS = "all-proxy-models", ("all-team-models", "no-default-models")
# The routes of a client key, which all keys here are.
_CLIENT_ROUTES: JsonValue = ["llm_api_routes"]


class ImportLine(Struct, frozen=True, kw_only=True):
    """One key of the file: its number, its location, and the imported key or the reason for its rejection."""

    number: int
    location: str
    name: str
    key: ImportedKey | None
    problem: KeyChangeError | None = None
    # Fields that were dropped or renamed, without an effect on the key's rights.
    notes: tuple[str, ...] = ()


def read_litellm_keys(content: bytes, ignored: frozenset[str]) -> list[ImportLine]:
    """Read the keys of a file: the response of `/key/list?return_full_object=true`, an array of rows, or a page or a
    row on each line. `ignored` are fields that may be lost."""
    entries = _entries(content)
    lines = [_read(number, location, entry, ignored) for number, (location, entry) in enumerate(entries, 1)]
    places: dict[str | bytes, str] = {}
    return [_unlike(line, places) for line in lines]


def _unlike(line: ImportLine, places: dict[str | bytes, str]) -> ImportLine:
    """Reject a line if an earlier one has the same name or token; `places` are the locations of those."""
    if line.key is None:
        return line
    same = places.get(line.key.digest) or places.get(line.name)
    if same is None:
        places |= {line.key.digest: line.location, line.name: line.location}
        return line
    problem = KeyExists("", f"has the name or the token of the key at {same}", "remove one of them")
    return replace(line, key=None, problem=problem)


def _entries(content: bytes) -> list[tuple[str, JsonValue | WireError]]:
    """The entries of a file with their locations. A file with only some pages of a list is rejected, because missing
    keys would be noticed only by their users."""
    pages = _pages(content)
    entries = [entry for location, page in pages for entry in _entries_of(location, page)]
    total = max((_total(page) for _, page in pages), default=0)
    if len(entries) < total:
        raise DragomanError(f"the file has {len(entries)} of {total} keys: save the other pages, too, each on a line")
    return entries


def _pages(content: bytes) -> list[tuple[str, JsonValue | WireError]]:
    try:
        document = decode(content)
    except WireError as error:
        rows = content.splitlines()
        if len(rows) < 2:
            raise DragomanError(f"the file is not JSON: {error.actual}") from None
        return [(f"line {number}", _row(row)) for number, row in enumerate(rows, 1) if row.strip()]
    if isinstance(document, list):
        return [(f"/{at}", entry) for at, entry in enumerate(document)]
    if isinstance(document, dict) and ("token" in document or isinstance(document.get("keys"), list)):
        return [("" if "keys" in document else "line 1", document)]
    raise DragomanError("the file has no list of keys: save what LiteLLM sends for /key/list?return_full_object=true")


def _row(text: bytes) -> JsonValue | WireError:
    try:
        return decode(text)
    except WireError as error:
        return error


def _entries_of(location: str, page: JsonValue | WireError) -> Iterator[tuple[str, JsonValue | WireError]]:
    keys = page.get("keys") if isinstance(page, dict) else None
    if not isinstance(keys, list):
        yield location, page
        return
    for at, entry in enumerate(keys):
        yield f"{location} /keys/{at}".strip(), entry


def _total(page: JsonValue | WireError) -> int:
    total = page.get("total_count") if isinstance(page, dict) else None
    return total if isinstance(total, int) else 0


def _read(number: int, location: str, entry: JsonValue | WireError, ignored: frozenset[str]) -> ImportLine:
    name = f"litellm-{number}"
    notes: list[str] = []
    try:
        if isinstance(entry, WireError):
            raise InvalidMember("", f"is not JSON: {entry.actual}", "repair the line")
        if not isinstance(entry, dict):
            raise InvalidMember("", "is no object", "list keys with return_full_object=true")
        name = _name(entry, name, notes)
        digest = _digest(entry)
        _check_fields(entry, ignored)
        key = ImportedKey(name=name, digest=digest, members=_members(entry, ignored, notes))
    except KeyChangeError as error:
        return ImportLine(number=number, location=location, name=name, key=None, problem=error)
    return ImportLine(number=number, location=location, name=name, key=key, notes=tuple(notes))


def _name(entry: JsonObject, default: str, notes: list[str]) -> str:
    alias = entry.get("key_alias")
    if alias is None or alias == "":
        notes.append(f"has no key_alias: named {default}")
        return default
    if not isinstance(alias, str):
        raise InvalidMember("key_alias", "expected a string", "give the key another alias")
    name = _NOT_IN_NAMES.sub("-", alias).strip("-._")[:_MAX_NAME] or default
    if name != alias:
        notes.append(f"named {name}: {quoted(alias)} cannot name a key")
    return name


def _digest(entry: JsonObject) -> bytes:
    token = entry.get("token")
    # Any other text may be a key, so no error repeats it.
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        raise InvalidMember("token", "expected 64 hexadecimal digits, the hash of the key", "export the stored token")
    return bytes.fromhex(token)


def _check_fields(entry: JsonObject, ignored: frozenset[str]) -> None:
    """Reject a key with a field whose effect would be lost."""
    if entry.get("blocked") is True:
        raise InvalidMember("blocked", "the key is blocked", "leave it out")
    for field, value in entry.items():
        if field in _CARRIED or field in _WITHOUT_EFFECT or _is_empty(value) or field in ignored:
            continue
        if field == "allowed_routes" and value == _CLIENT_ROUTES:
            continue
        raise _uncarried(field)


def _members(entry: JsonObject, ignored: frozenset[str], notes: list[str]) -> KeyMembers:
    return KeyMembers(
        models=_models(entry, ignored),
        expires=_expires(entry.get("expires")),
        concurrency=_concurrency(entry.get("max_parallel_requests")),
        tags=_tags(entry, ignored, notes) or UNSET,
    )


def _models(entry: JsonObject, ignored: frozenset[str]) -> tuple[str, ...] | UnsetType:
    models = entry.get("models") or []
    if not isinstance(models, list):
        raise InvalidMember("models", "expected a list of strings", "repair the list")
    names = [name for name in models if isinstance(name, str)]
    if len(names) < len(models):
        raise InvalidMember("models", "expected a list of strings", "repair the list")
    if _ALL_MODELS in names:
        return UNSET
    for name in names:
        if name in _OTHERS_MODELS:
            raise InvalidMember(
                "models", f"{name} is a list that the file does not have", "write the models themselves"
            )
    if not names and entry.get("team_id") and "team_id" not in ignored:
        remedy = "write the models into the file; --ignore team_id permits all models"
        raise InvalidMember("models", "the key may use the models of its team, which the file does not have", remedy)
    return tuple(names) if names else UNSET


def _expires(value: JsonValue) -> datetime | UnsetType:
    if value is None:
        return UNSET
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise InvalidMember("expires", "expected a date and time, as 2027-01-31T14:30:00Z", "repair the time")
    # LiteLLM stores times in UTC, and exports some without a time zone.
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _concurrency(value: JsonValue) -> int | UnsetType:
    if value is None:
        return UNSET
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidMember("max_parallel_requests", "expected an integer", "repair the number")
    return value


def _tags(entry: JsonObject, ignored: frozenset[str], notes: list[str]) -> dict[str, str]:
    """Tags from the metadata of a key, and from its team, user and organization."""
    tags: dict[str, str] = {}
    metadata = entry.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidMember("metadata", "expected an object", "repair the field")
    for name, value in metadata.items():
        field = f"metadata.{name}"
        if name == "tags" or isinstance(value, (str, int, Number)):
            _add_tag(tags, name, value, field, notes)
        elif not _is_empty(value) and field not in ignored:
            raise _uncarried(field)
    for tag, fields in _TAGS.items():
        first = next((field for field in fields if entry.get(field)), None)
        if first is not None:
            _add_tag(tags, tag, entry[first], first, notes)
    return tags


def _add_tag(tags: dict[str, str], name: str, value: JsonValue, field: str, notes: list[str]) -> None:
    text = _text(value)
    if is_tag(name) and is_tag(text):
        tags[name] = text
    elif not _is_empty(value):
        notes.append(f"{field} cannot be a tag and is left out")


def _text(value: JsonValue) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Number():
            return value.text
    return ""


def _is_empty(value: JsonValue) -> bool:
    """Whether a field has no effect. 0 is a limit."""
    return value is None or value is False or value in ("", [], {})


def _uncarried(field: str) -> InvalidMember:
    shown = quoted(field)[1:-1]
    return InvalidMember(shown, "cannot be carried over", f"--ignore {shown} imports the key without it")
