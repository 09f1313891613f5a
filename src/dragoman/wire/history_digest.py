"""History digests: keyed digests of a conversation that do not change while a client only appends to it. Each protocol
reduces a message to texts without reminders, and ids for calls and results, without what clients move, renew or drop
from turn to turn (cache breakpoints, thinking, old results)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from hashlib import blake2b

from msgspec import Raw

from dragoman.model.session_hints import HintQuery

# Roles of messages: instructions, the model's output, the user's input.
INSTRUCTION, ASSISTANT, USER = "instructs", "answers", "asks"
# A call by its id, with the tool and its arguments; or what one gave, by its id, without a tool.
CallOrResult = tuple[str, str, Raw | str]
# A message as its protocol reduces it: its role; all of it as one text (`joined`), "" if it is empty; the text of the
# user, or the instructions; the calls, or their results.
Turn = tuple[str, str, str, Sequence[CallOrResult]]
# The number of declared tools, and the distinctive ones.
ToolShape = tuple[int, tuple[str, ...]]
NO_TOOLS: ToolShape = (0, ())
# Bytes of a digest, and characters of instructions that are digested: further down are dates and directories.
DIGEST_SIZE = 16
HEAD = 96
# Objects that may be small, and bytes of which one is at least, where there are more: messages have words in them.
_FEW, _SMALLEST = 2000, 16
# Bytes in which there is no room for so many.
_SPARSE = _FEW * len(b"{}")
# The separator between a prompt and instructions repeated after it; and the length of these, in characters.
_PARAGRAPH = "\n\n"
MIN_REPEATED, _MAX_REPEATED = 32, 16 * 1024
REMINDER, _CLOSE = "<system-reminder>", "</system-reminder>"
# The separator of the pieces of a message.
SEPARATOR = "\x1f"
# The end mark of each message in a digest.
RECORD = "\x1e"
_digits = re.compile(r"\d+").sub
# Tools with the distinctive names among which their shape was found, by their size: a client offers the same ones in
# each request. All lists together take 8 MB at most.
_SHAPES: dict[int, tuple[Raw, frozenset[str], ToolShape]] = {}
_LARGEST, _MAX_SHAPES = 128 * 1024, 64
_KINDS = ("call", "history", "instructions", "prompt")
_MAX_KEYS = 4096


def digest(key: bytes, kind: str, text: str) -> str:
    """A text as it may be stored; `kind` keeps equal texts of different meaning apart."""
    return digest_with(hashers_of(key)[kind], text)


def digest_with(keyed: blake2b, text: str) -> str:
    hasher = keyed.copy()
    hasher.update(text.encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()


@lru_cache(maxsize=_MAX_KEYS)
def hashers_of(key: bytes) -> dict[str, blake2b]:
    """Hashers to be copied, by the kind of text: each has taken the key. To copy one is cheaper than to make one."""
    # A prefix is as good a key for BLAKE2, and takes less than the block that BLAKE2 takes for one.
    hashers = {kind: blake2b(key + f"{kind} ".encode(), digest_size=DIGEST_SIZE) for kind in _KINDS}
    # Records are searched by these, older ones too.
    hashers["response"] = blake2b(b"response ", digest_size=DIGEST_SIZE, key=key)
    return hashers


def tool_shape(tools: Raw, query: HintQuery, names_in: Callable[[Raw], Collection[str]]) -> ToolShape:
    """The shape of the tools that a request offers; `names_in` reads their names."""
    size, distinctive = len(tools), query.distinctive_tools
    cached = _SHAPES.get(size)
    # To compare the bytes takes a twentieth of the time to hash them.
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
    """The start of instructions, without numbers, which may be dates; those of a client are the same in all
    requests."""
    return digest_head(key, instructions[:HEAD])


@lru_cache(maxsize=512)
def digest_head(key: bytes, head: str) -> str:
    """The same of their first characters, `HEAD` of them."""
    return digest(key, "instructions", _digits("", head))


def joined(sign: str, pieces: list[str]) -> str:
    """A message as one text."""
    return sign + SEPARATOR.join(pieces) if pieces else ""


def is_crowded(body: bytes) -> bool:
    """Whether a request holds more objects than one with content has: to look at all of them would take too long."""
    # To leave them out is many times faster than to count them.
    if len(body) < _SPARSE or len(body) - len(body.replace(b"{", b"", _FEW + 1)) <= _FEW:
        return False
    return body.count(b"{") * _SMALLEST > len(body)


def without_reminders(text: str) -> str:
    """The user's text without additions of the client."""
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
    """A question without the end of the instructions, which some clients repeat behind their latest question."""
    limit = min(len(text), len(instructions), _MAX_REPEATED)
    if limit < MIN_REPEATED:
        return text
    # The longest end that both have: if they have one, they have all that are shorter.
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
