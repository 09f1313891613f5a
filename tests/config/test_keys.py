"""Gateway keys are known by their digests alone."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from dragoman.config.keys import read_keys
from dragoman.config.tables import ConfigTable, Problems
from dragoman.config.toml_lines import Lines
from dragoman.errors import ConfigErrors
from dragoman.identities.identity import AcceptedDigest, Identity, Rights
from dragoman.identities.key_text import digest_of, hash_text
from dragoman.identities.members import MAX_CONCURRENCY
from tests.identities.holders import holder

SECRET = "dgm_0123456789abcdef"
# The checksum of zeros is another.
MISTYPED = "dgm_" + "0" * 49
HASH, OTHER_HASH = hash_text("a"), hash_text("b")


def read(text: str, environ: dict[str, str] | None = None) -> tuple[tuple[Identity, ...], tuple[str, ...]]:
    """The keys of a text."""
    problems = Problems("x.toml", Lines(text))
    keys = read_keys(ConfigTable(tomllib.loads(text), (), problems).table("keys"), environ or {}, "Europe/Berlin")
    problems.raise_if_any()
    return keys.identities, keys.short


def test_keys_are_read_from_texts_names_and_hashes() -> None:
    text = f"""
[keys.a]
key = "{SECRET}"
[keys.b]
key = "$B"
strict = "all"
concurrency = 4
[keys.c]
hash = "sha256:{digest_of("c").hex().upper()}"
"""
    keys, short = read(text, {"B": "short"})
    assert keys == (
        holder("a", digest_of(SECRET)),
        holder("b", digest_of("short"), rights=Rights(strict="all", concurrency=4)),
        holder("c", digest_of("c")),
    )
    assert short == ("b",)


def test_the_rights_of_a_key_are_read() -> None:
    text = f"""
[keys.ci]
hash = ["{hash_text("new")}", "{hash_text("old")}"]
owner = "{hash_text("old")}"
role = "viewer"
models = ["claude-*", "fast"]
providers = "anthropic"
addresses = ["10.0.0.0/8", "::1"]
paths = ["embeddings", "files:read"]
tags = {{ team = "web", cost-centre = "7" }}
expires = 2027-01-31
"""
    (identity,), _ = read(text)
    assert identity == Identity(
        name="ci",
        owner=digest_of("old"),
        digests=(AcceptedDigest(digest=digest_of("new")), AcceptedDigest(digest=digest_of("old"))),
        rights=Rights(
            role="viewer",
            models=("claude-*", "fast"),
            providers=("anthropic",),
            addresses=("10.0.0.0/8", "::1/128"),
            paths=("embeddings", "files:read"),
        ),
        tags=(("cost-centre", "7"), ("team", "web")),
        expires=datetime(2027, 2, 1, tzinfo=ZoneInfo("Europe/Berlin")).timestamp(),
    )


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2027-01-31T12:00:00Z", datetime(2027, 1, 31, 12, tzinfo=UTC)),
        ("2027-01-31T12:00:00", datetime(2027, 1, 31, 12, tzinfo=ZoneInfo("Europe/Berlin"))),
    ],
)
def test_a_date_time_without_an_offset_is_in_the_configured_zone(written: str, moment: datetime) -> None:
    (identity,), _ = read(f'[keys.a]\nkey = "{SECRET}"\nexpires = {written}\n')
    assert identity.expires == moment.timestamp()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[keys.a]\n", "x.toml:1: keys.a: has neither key nor hash"),
        (f'[keys.a]\nkey = "{SECRET}"\nhash = "x"\n', "x.toml:1: keys.a: has both key and hash"),
        ('[keys.a]\nhash = "md5:00"\n', "x.toml:2: keys.a.hash: expected sha256: and 64 hexadecimal digits"),
        ('[keys.a]\nkey = "$NONE"\n', "x.toml:2: keys.a.key: the environment variable NONE is not set (export NONE=…)"),
        (f'[keys.a]\nkey = "{SECRET} x"\n', "x.toml:2: keys.a.key: holds a character that no key has"),
        (f'[keys.a]\nkey = ["{SECRET}"]\n', "x.toml:2: keys.a.key: expected a string, got an array"),
        (f'[keys.a]\nkey = "{SECRET}"\n[keys.b]\nkey = "{SECRET}"\n', "x.toml:3: keys.b: is the same key as keys.a"),
        (f'[keys."a b"]\nkey = "{SECRET}"\n', 'x.toml:1: keys."a b": cannot name a key'),
        (f'[keys.launch]\nkey = "{SECRET}"\n', "x.toml:1: keys.launch: is reserved for the key of the command line"),
        (f'[keys.a]\nkey = "{MISTYPED}"\n', "x.toml:2: keys.a.key: has a wrong checksum"),
        (f'[keys.a]\nhash = ["{HASH}", "{OTHER_HASH}"]\n', "x.toml:1: keys.a: has two digests and no owner"),
        (f'[keys.a]\nhash = ["{HASH}", "{HASH}"]\n', "x.toml:2: keys.a.hash: expected one digest, or two different"),
        (
            f'[keys.a]\nhash = "{HASH}"\n[keys.b]\nhash = "{OTHER_HASH}"\nowner = "{HASH}"\n',
            "x.toml:3: keys.b: is the same key as keys.a",
        ),
        (f'[keys.a]\nhash = "{HASH}"\nrole = "root"\n', "x.toml:3: keys.a.role: expected one of client, viewer, admin"),
        (f'[keys.a]\nhash = "{HASH}"\nmodels = "a**"\n', "x.toml:3: keys.a.models: expected a pattern of model names"),
        (f'[keys.a]\nhash = "{HASH}"\nmodels = []\n', "x.toml:3: keys.a.models: expected at least one string"),
        (f'[keys.a]\nhash = "{HASH}"\naddresses = "10.0.0.1/8"\n', "x.toml:3: keys.a.addresses: expected a network"),
        (
            f'[keys.a]\nhash = "{HASH}"\npaths = "embedding"\n',
            'x.toml:3: keys.a.paths: there is no path family "embedding" (did you mean embeddings?)',
        ),
        (
            f'[keys.a]\nhash = "{HASH}"\npaths = "files:write"\n',
            "x.toml:3: keys.a.paths: expected files: and one of create, read, delete, cancel",
        ),
        (
            f'[keys.a]\nhash = "{HASH}"\ntags = {{ team = "a b" }}\n',
            "x.toml:3: keys.a.tags: expected a name",
        ),
        (f'[keys.a]\nhash = "{HASH}"\nexpires = "soon"\n', "x.toml:3: keys.a.expires: expected a date or a date-time"),
        (f'[keys.a]\nkay = "{SECRET}"\n', "x.toml:2: keys.a.kay: is not a known key (did you mean key?)"),
        (
            f'[keys.a]\nkey = "{SECRET}"\nconcurrency = {MAX_CONCURRENCY + 1}\n',
            "x.toml:3: keys.a.concurrency: expected an integer from 1 to 100000, got 100001",
        ),
        (
            f'[keys.a]\nkey = "{SECRET}"\nconcurrency = 0\n',
            "x.toml:3: keys.a.concurrency: expected an integer from 1 to 100000, got 0",
        ),
        (f'[keys]\na = "{SECRET}"\n', "x.toml:2: keys.a: expected a table, got a string"),
    ],
)
def test_what_cannot_be_a_key_is_told_without_showing_it(text: str, problem: str) -> None:
    with pytest.raises(ConfigErrors) as refused:
        read(text)
    assert problem in str(refused.value)
    assert SECRET not in str(refused.value)
