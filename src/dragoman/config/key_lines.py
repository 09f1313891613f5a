"""Key lines: a gateway key as lines of the configuration file, which hold the hash of its text alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from dragoman.config.toml_lines import dotted
from dragoman.identities.identity import CLIENT
from dragoman.identities.key_text import format_hash
from dragoman.identities.members import KeyTerms
from dragoman.wire.json import encode_text


def key_lines(name: str, digest: bytes, terms: KeyTerms) -> str:
    """The table of a key; members that are as if left out are left out."""
    return "\n".join([f"[keys.{dotted((name,))}]", *_members(digest, terms)])


def _members(digest: bytes, terms: KeyTerms) -> Iterator[str]:
    rights = terms.rights
    yield f"hash = {_string(format_hash(digest))}"
    if rights.role != CLIENT:
        yield f"role = {_string(rights.role)}"
    lists: Mapping[str, Sequence[str] | None] = {
        "models": rights.models,
        "providers": rights.providers,
        "addresses": rights.addresses,
        "paths": rights.paths,
    }
    for member, texts in lists.items():
        if texts is not None:
            yield f"{member} = [{', '.join(map(_string, texts))}]"
    if terms.tags:
        yield f"tags = {{ {', '.join(f'{dotted((tag,))} = {_string(text)}' for tag, text in terms.tags)} }}"
    if terms.expires is not None:
        yield f"expires = {datetime.fromtimestamp(terms.expires, UTC):%Y-%m-%dT%H:%M:%SZ}"
    if rights.strict is not False:
        yield f"strict = {_string(rights.strict) if isinstance(rights.strict, str) else 'true'}"
    if rights.concurrency is not None:
        yield f"concurrency = {rights.concurrency}"


def _string(text: str) -> str:
    """A basic string of TOML, which has the escapes of JSON."""
    return encode_text(text)
