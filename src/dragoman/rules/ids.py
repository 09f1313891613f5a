"""Wire IDs of calls (N2), of responses (N4) and of legacy calls without one (T4). An ID is changed only for a provider
that rejects it; clients accept all, and a provider gets its own IDs unchanged. Every function is deterministic and
applies to a call and its result alike, so no table, state or randomness is needed."""

from __future__ import annotations

import re
from base64 import b32encode
from enum import Enum
from functools import lru_cache
from hashlib import sha256

from msgspec import Struct


class HashForm(Enum):
    BASE32 = "call_ and 24 characters of base32"
    BASE62 = "9 digits of base 62"


class IdRule(Struct, frozen=True, kw_only=True):
    pattern: re.Pattern[str]
    form: HashForm


# For servers that are not known to reject any: Kimi's `functions.add:0` and xAI's 43 characters stay unchanged.
ANY = IdRule(pattern=re.compile(r".+", re.DOTALL), form=HashForm.BASE32)
# Messages documents no length, but other hosts of the protocol accept at most 64 characters.
ANTHROPIC = IdRule(pattern=re.compile(r"[a-zA-Z0-9_-]{1,64}"), form=HashForm.BASE32)
# OpenAI's, and Azure's: https://github.com/camel-ai/camel/issues/2215, https://github.com/BerriAI/litellm/issues/11392
CHAT = IdRule(pattern=re.compile(r".{1,40}", re.DOTALL), form=HashForm.BASE32)
# https://github.com/openai/codex/issues/14355
RESPONSES = IdRule(pattern=re.compile(r".{1,64}", re.DOTALL), form=HashForm.BASE32)
# https://github.com/anomalyco/opencode/issues/1680; the second form occurs in Mistral's own responses.
MISTRAL_LIKE = IdRule(pattern=re.compile(r"[a-zA-Z0-9]{9}|chatcmpl-tool-(?:[0-9a-f]{16}){1,2}"), form=HashForm.BASE62)

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

_OBJECT_PREFIXES = ("msg", "chatcmpl", "resp", "cmpl", "gen")
_match_object_id = re.compile(rf"(?:(?:{'|'.join(_OBJECT_PREFIXES)})[_-])?+([A-Za-z0-9_-]{{16,64}})").fullmatch


def call_id(value: str, rule: IdRule) -> str:
    return value if rule.pattern.fullmatch(value) else _hashed(value, rule.form)


def object_suffix(upstream_id: str) -> str | None:
    """The part of a response ID that the IDs of other protocols can share."""
    match = _match_object_id(upstream_id)
    return None if match is None else match[1]


def object_ids(response_id: str) -> tuple[str, ...]:
    """The IDs, in all protocols, of a response that shares its own part with this one."""
    suffix = object_suffix(response_id)
    if suffix is None:
        return ()
    return (suffix, *(f"{prefix}{separator}{suffix}" for prefix in _OBJECT_PREFIXES for separator in "_-"))


def legacy_call_id(name: str, position: int) -> str:
    """A synthetic ID for a `function_call` and the `function` message that answers it; both lack one."""
    return "call_" + sha256(_encode_utf8(f"{name}:{position}")).hexdigest()[:24]


def _hashed(value: str, form: HashForm) -> str:
    # Long IDs are not cached, so that many of them cannot fill the memory.
    return _remembered(value, form) if len(value) <= _REMEMBERED else _digested(value, form)


_REMEMBERED = 256


def _digested(value: str, form: HashForm) -> str:
    digest = sha256(_encode_utf8(value)).digest()
    return _WRITERS[form](digest)


_remembered = lru_cache(maxsize=4096)(_digested)


def _base32(digest: bytes) -> str:
    return "call_" + b32encode(digest).decode().lower()[:24]


def _base62(digest: bytes) -> str:
    number = int.from_bytes(digest, "big")
    digits: list[str] = []
    while number:
        number, digit = divmod(number, 62)
        digits.append(_BASE62[digit])
    return "".join(reversed(digits[-9:]))


_WRITERS = {HashForm.BASE32: _base32, HashForm.BASE62: _base62}


def _encode_utf8(text: str) -> bytes:
    # A lone surrogate has no UTF-8 form, but needs a stable ID, too.
    return text.encode("utf-8", "surrogatepass")
