"""Key texts are known by their digests, and mistyped ones by their checksum."""

from __future__ import annotations

import hashlib
import re

import pytest

from dragoman.errors import ConfigError
from dragoman.identities.key_text import (
    digest_of,
    has_key_text,
    hash_text,
    is_mistyped,
    new_key,
    read_hash,
    without_key_texts,
)

SECRET = "dgm_0123456789abcdef"


def test_a_new_key_is_long_and_like_no_other() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(re.fullmatch(r"dgm_[0-9A-Za-z]{49}", key) for key in keys)


def test_a_key_and_its_bytes_have_one_digest() -> None:
    assert digest_of("a") == digest_of(b"a") == hashlib.sha256(b"a").digest()
    assert hash_text("a") == "sha256:" + hashlib.sha256(b"a").hexdigest()


def test_every_changed_character_of_a_key_is_found() -> None:
    key = new_key()
    assert not is_mistyped(key.encode())
    for place in range(4, len(key)):
        other = "0" if key[place] != "0" else "1"
        assert is_mistyped((key[:place] + other + key[place + 1 :]).encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sk-1234",
        "dgm_" + "0" * 43,
        "dgm_" + "0" * 48,
        "dgm_" + "0" * 50,
        "dgm-" + "0" * 49,
        "dgm_" + "0" * 48 + "-",
    ],
)
def test_keys_of_other_forms_have_no_checksum(text: str) -> None:
    assert not is_mistyped(text.encode())


def test_a_hash_is_read_as_it_is_printed_and_nothing_else_is_repeated() -> None:
    assert read_hash(hash_text(SECRET)) == digest_of(SECRET)
    assert read_hash(hash_text(SECRET).upper().replace("SHA", "sha")) == digest_of(SECRET)
    for wrong in (SECRET, "", hash_text(SECRET)[:-1], hash_text(SECRET) + "0", hash_text(SECRET) + "\n"):
        with pytest.raises(ConfigError, match="expected sha256: and 64 hexadecimal digits") as refused:
            read_hash(wrong)
        assert SECRET not in str(refused.value)


def test_a_key_text_in_another_text_is_found_and_left_out() -> None:
    key = new_key()
    # A mistyped one may be all but the last letter of a good one.
    for text in (key, key[:-1] + ("a" if key[-1] != "a" else "b")):
        assert has_key_text(f"/keys/{text}?x".encode())
        assert without_key_texts(f"/keys/{text}/{text}?x") == "/keys/dgm_…/dgm_…?x"
    for text in (key[:-1], key[1:], "/v1/messages", "/files/" + "a" * 60):
        assert not has_key_text(text.encode())
        assert without_key_texts(text) == text
