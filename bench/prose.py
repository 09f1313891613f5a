"""Prose and source code out of a seeded source: what agents carry back and forth, without anybody's real words.

The text has what real text costs a JSON reader: line breaks, quotes, tabs, backslashes and some letters beyond ASCII.
"""

from __future__ import annotations

from base64 import b64encode
from random import Random
from string import ascii_letters, digits

_VOCABULARY = """
the a this each every that of in on for with from into over between after before and but because while when if so
request handler session router parser buffer module test cache schema token queue worker index table field message
loop state branch commit file path value error result config service client server record stream event frame
reads writes returns raises checks skips keeps drops moves holds opens closes retries parses encodes splits joins
slow stale empty missing shared nested frozen typed public private current previous exact partial final small large
only never always first then again still already twice here there therefore instead
"""
_WORDS = tuple(_VOCABULARY.split())
_ASIDES = ("– as before –", "(see §4)", "→ next step", "naïve", "café", "✓ done", "“quoted”", "`run_all()`", "C:\\temp")
_NAMES = (
    "session",
    "router",
    "parser",
    "buffer",
    "ledger",
    "cursor",
    "window",
    "handler",
    "registry",
    "payload",
    "cache",
    "reader",
)
_LINES = (
    "def {a}_{b}({a}: str, {b}: int = {n}) -> None:",
    "    if {a}.{b} is None or len({a}.{b}) > {n}:",
    '        raise ValueError(f"{a} has no {b}: {{{a}!r}}")',
    "    for {a}, {b} in enumerate(self._{b}s[{n}:]):",
    '        {a}["{b}"] = {b}.get("{a}", {n})',
    "    return [{a} for {a} in {b}.items() if {a}.size >= {n}]",
    "    # {a}: the {b} is kept until the {a} is closed (limit {n}).",
    '\tassert {a}.{b}({n}) == {a}.{b}("{n}\\n")',
    "",
    "class {a}{b}({a}):",
    '    """Keeps one {a} for each {b}."""',
)
_ALPHABET = digits + ascii_letters


def sentences(random: Random, size: int) -> str:
    """Prose of about `size` characters, in paragraphs."""
    written: list[str] = []
    length = 0
    while length < size:
        words = random.choices(_WORDS, k=random.randint(6, 18))
        if random.random() < 0.15:
            words.insert(len(words) // 2, random.choice(_ASIDES))
        sentence = " ".join(words).capitalize() + random.choice((". ", ". ", ". ", ": ", ".\n\n", ".\n- "))
        written.append(sentence)
        length += len(sentence)
    return "".join(written)[:size].strip() or "Yes."


def code(random: Random, size: int) -> str:
    """Source code of about `size` characters."""
    written: list[str] = []
    length = 0
    while length < size:
        line = random.choice(_LINES).format(a=random.choice(_NAMES), b=random.choice(_NAMES), n=random.randint(1, 4096))
        written.append(line)
        length += len(line) + 1
    return "\n".join(written)[:size]


def listing(random: Random, size: int) -> str:
    """A file as agents' readers show it: numbered lines."""
    lines = code(random, size * 6 // 7).split("\n")
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1))[:size]


def path(random: Random) -> str:
    """A file in some project."""
    return f"/srv/project/src/{random.choice(_NAMES)}/{random.choice(_NAMES)}_{random.choice(_NAMES)}.py"


def token(random: Random, length: int) -> str:
    """Letters and digits, as ids have them."""
    return "".join(random.choices(_ALPHABET, k=length))


def opaque(random: Random, size: int) -> str:
    """Base64 of about `size` characters, as signatures and encrypted reasoning are written."""
    return b64encode(random.randbytes(size * 3 // 4)).decode()


def picture(random: Random, size: int) -> str:
    """Base64 of about `size` characters that begins as a PNG file does."""
    return b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + random.randbytes(size * 3 // 4)).decode()


def pieces(random: Random, text: str) -> list[str]:
    """The text in pieces of the size that models stream: two to seven characters."""
    cut: list[str] = []
    position = 0
    while position < len(text):
        length = random.randint(2, 7)
        cut.append(text[position : position + length])
        position += length
    return cut
