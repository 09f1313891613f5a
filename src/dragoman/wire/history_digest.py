"""History digests: keyed digests of a conversation that stay the same while a client only appends to it. Each protocol
reduces a message to texts without reminders, and to the ids of calls and results. Content that clients move, renew or
drop between turns (cache breakpoints, thinking, old results) is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from hashlib import blake2b

from msgspec import Raw

from dragoman.model.session_hints import HintQuery

INSTRUCTION, ASSISTANT, USER = "instructs", "answers", "asks"
# A call: its ID, tool and arguments. Or a result: the ID of its call, no tool, and its content.
CallOrResult = tuple[str, str, Raw | str]
# A message as its protocol reduces it: its role; its full text (`joined`), "" if empty; the user text or the
# instructions; the calls or the results.
Turn = tuple[str, str, str, Sequence[CallOrResult]]
# The number of declared tools, and the distinctive ones among them.
ToolShape = tuple[int, tuple[str, ...]]
NO_TOOLS: ToolShape = (0, ())
# Bytes of a digest. Characters of instructions that are digested: dates and directories come later.
DIGEST_SIZE = 16
HEAD = 96
# A request is crowded if it has more objects than `_FEW` and they are smaller than `_SMALLEST` bytes on average.
_FEW, _SMALLEST = 2000, 16
# Bytes that cannot hold so many objects.
_SPARSE = _FEW * len(b"{}")
# The separator before repeated instructions, and the limits of their length in characters.
_PARAGRAPH = "\n\n"
MIN_REPEATED, _MAX_REPEATED = 32, 16 * 1024
REMINDER, _CLOSE = "<system-reminder>", "</system-reminder>"
SEPARATOR = "\x1f"
RECORD = "\x1e"
_digits = re.compile(r"\d+").sub
# Cached tool shapes by size of the tool list, because a client offers the same tools in each request. All cached lists
# together take at most 8 MB.
_SHAPES: dict[int, tuple[Raw, frozenset[str], ToolShape]] = {}
_LARGEST, _MAX_SHAPES = 128 * 1024, 64
_KINDS = ("call", "history", "instructions", "prompt")
_MAX_KEYS = 4096


def digest(key: bytes, kind: str, text: str) -> str:
    return digest_with(hashers_of(key)[kind], text)


def digest_with(keyed: blake2b, text: str) -> str:
    hasher = keyed.copy()
    hasher.update(text.encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()


@lru_cache(maxsize=_MAX_KEYS)
def hashers_of(key: bytes) -> dict[str, blake2b]:
    """Return hashers by kind of text, keyed, to be copied: copying is cheaper than creating."""
    # A prefix is as secure a key for BLAKE2, and shorter than the block that BLAKE2 uses for a key.
    hashers = {kind: blake2b(key + f"{kind} ".encode(), digest_size=DIGEST_SIZE) for kind in _KINDS}
    # Stored records are searched by these digests, so the construction must not change.
    hashers["response"] = blake2b(b"response ", digest_size=DIGEST_SIZE, key=key)
    return hashers


def tool_shape(tools: Raw, query: HintQuery, names_in: Callable[[Raw], Collection[str]]) -> ToolShape:
    """Return the shape of a request's tools. `names_in` reads their names."""
    size, distinctive = len(tools), query.distinctive_tools
    cached = _SHAPES.get(size)
    # Comparing the bytes takes a twentieth of the time of hashing them.
    if cached is not None and cached[0] == tools and cached[1] == distinctive:
        return cached[2]
    names = names_in(tools)
    shape = len(names), tuple(filter(distinctive.__contains__, dict.fromkeys(names)))
    if size <= _LARGEST:
        if len(_SHAPES) >= _MAX_SHAPES:
            _SHAPES.clear()
        _SHAPES[size] = tools.copy(), distinctive, shape
    return shape


def head_digest(key: bytes, instructions: str) -> str:
    """Digest the start of instructions without numbers, which may be dates. It is the same in all requests of a
    client."""
    return digest_head(key, instructions[:HEAD])


@lru_cache(maxsize=512)
def digest_head(key: bytes, head: str) -> str:
    """Digest the first `HEAD` characters of instructions."""
    return digest(key, "instructions", _digits("", head))


def joined(sign: str, pieces: list[str]) -> str:
    return sign + SEPARATOR.join(pieces) if pieces else ""


def is_crowded(body: bytes) -> bool:
    """Whether a request has more objects than real content needs, so that reading all of them would take too long."""
    # Removing them is many times faster than counting them.
    if len(body) < _SPARSE or len(body) - len(body.replace(b"{", b"", _FEW + 1)) <= _FEW:
        return False
    return body.count(b"{") * _SMALLEST > len(body)


def without_reminders(text: str) -> str:
    if REMINDER not in text:
        return text
    pieces, end, at = [], 0, text.find(REMINDER)
    while at >= 0:
        close = text.find(_CLOSE, at)
        if close < 0:
            break
        pieces.append(text[end:at])
        end = close + len(_CLOSE)
        at = text.find(REMINDER, end)
    pieces.append(text[end:])
    return "".join(pieces).strip()


def without_repeated(text: str, instructions: str) -> str:
    """Remove the end of the instructions that some clients repeat after their latest question."""
    limit = min(len(text), len(instructions), _MAX_REPEATED)
    if limit < MIN_REPEATED:
        return text
    # Binary search for the longest common end: if one length matches, all shorter ones do.
    length, beyond = 0, limit + 1
    while beyond - length > 1:
        middle = (length + beyond) // 2
        if instructions.endswith(text[-middle:]):
            length = middle
        else:
            beyond = middle
    if length == len(text):
        return text
    start = text.find(_PARAGRAPH, len(text) - length - 1)
    return text[:start] if start > 1 and len(text) - start >= MIN_REPEATED else text
