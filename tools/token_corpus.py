"""The texts by which the token estimate is fitted: what a Debian machine with documentation holds, and made-up data.

Nothing of it is kept in the repository, only the table that is fitted to it. Kinds that a machine has no text of are
left out. Translations come from message catalogues (`*.mo`) and manual pages, in some seventy languages.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
import struct
import sys
import sysconfig
import unicodedata
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

LENGTH = 3000
PER_KIND = 70
_LARGEST = 300_000
_STANDARD = Path(sysconfig.get_paths()["stdlib"])
_LOCALES = Path("/usr/share/locale")
_ROOTS = (Path("/usr/share"), Path("/usr/include"), Path("/usr/lib/node_modules"), Path("/etc"), _STANDARD)

_LANGUAGES = [
    "de",
    "fr",
    "es",
    "pt_BR",
    "pt",
    "ru",
    "uk",
    "el",
    "ar",
    "he",
    "hi",
    "bn",
    "th",
    "zh_CN",
    "zh_TW",
    "ja",
    "ko",
    "vi",
    "tr",
    "pl",
    "id",
    "cs",
    "hu",
    "fi",
    "sv",
    "nl",
    "it",
    "ro",
    "fa",
    "ta",
    "te",
    "ka",
    "hy",
    "sr",
    "bg",
    "ml",
    "kn",
    "mr",
    "gu",
    "pa",
    "ne",
    "si",
    "my",
    "km",
    "da",
    "nb",
    "hr",
    "sk",
    "sl",
    "lt",
    "lv",
    "et",
    "ca",
    "eu",
    "gl",
    "ms",
    "be",
    "kk",
    "sq",
    "is",
    "ga",
    "cy",
    "mn",
    "lo",
    "or",
    "as",
]
_MANUALS = [
    "cs",
    "da",
    "de",
    "es",
    "fr",
    "hu",
    "id",
    "it",
    "ja",
    "ko",
    "nl",
    "pl",
    "pt",
    "pt_BR",
    "ro",
    "ru",
    "sr",
    "sv",
    "tr",
    "uk",
    "zh_CN",
    "zh_TW",
]

# Kinds of files: how many samples, and what their paths match.
_FILES: dict[str, tuple[int, str]] = {
    "tutor": (90, r"tutor/tutor.*utf-8$"),
    "english docs": (150, r"/doc/.*(README[^/]*|NEWS[^/]*|\.txt)(\.gz)?$"),
    "english man": (150, r"/man/man[1-8]/"),
    "english help": (80, r"vim\d+/doc/.*txt$"),
    "licences": (70, r"common-licenses/|/copyright$"),
    "changelogs": (70, r"changelog[^/]*gz$"),
    "python": (300, r"python3[.\d]*/(?!test)(asyncio/|email/|http/|json/|site-packages/.*)?[^/]*\.py$"),
    "python tests": (80, r"/test/test_.*py$"),
    "javascript": (200, r"\.c?js$"),
    "minified": (80, r"\.min\.js$"),
    "typescript": (80, r"\.[cm]?ts$|\.mjs$"),
    "markdown": (150, r"\.md(\.gz)?$"),
    "json files": (200, r"\.json(\.gz)?$"),
    "c headers": (150, r"/include/.*\.h$"),
    "c": (60, r"\.c(\.gz)?$"),
    "c++": (80, r"include/c\+\+/|\.(cpp|cc|hpp)$"),
    "rust, go, java": (60, r"\.(rs|go|java)$"),
    "html": (120, r"\.html?$"),
    "css": (80, r"\.css$"),
    "xml": (100, r"\.(xml|svg)$"),
    "shell": (100, r"\.sh(\.gz)?$|/etc/init\.d/|bash-completion/completions/"),
    "sql": (100, r"\.sql(\.gz)?$"),
    "yaml": (60, r"\.ya?ml$"),
    "perl": (70, r"\.p[ml]$"),
    "vim": (60, r"\.vim$"),
    "diffs": (80, r"\.(diff|patch)(\.gz)?$"),
    "csv": (80, r"\.(csv|tsv|tab)$"),
    "latex": (60, r"\.tex$"),
    "rst": (80, r"\.rst$"),
    "settings": (60, r"\.(conf|toml|ini|service|cfg)$"),
}


def kinds() -> dict[str, list[str]]:
    """Every kind of text that this machine has, with its samples, the same ones each time."""
    found: dict[str, list[str]] = {}
    for language in _LANGUAGES:
        found[f"messages {language}"] = list(_messages(language))
    paths = [path for root in _ROOTS for path in _walked(root)]
    for language in _MANUALS:
        found[f"manual {language}"] = _files(paths, rf"/man/{language}/man", 30, _unrolled)
    for name, (many, pattern) in _FILES.items():
        found[name] = _files(paths, pattern, many, _unrolled if name == "english man" else str)
    return {name: samples for name, samples in (found | _made_up()).items() if len(samples) >= 4}


def _order(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "replace"))


def _walked(root: Path) -> Iterator[str]:
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and 1000 < path.stat().st_size < _LARGEST:
            yield str(path)


def _unrolled(text: str) -> str:
    """A manual page without most of its macros."""
    return re.sub(r"\\f.|\\-|\\&", "", re.sub(r"(?m)^\.\w+ ?", "", text))


def _files(paths: list[str], pattern: str, many: int, clean: Callable[[str], str]) -> list[str]:
    samples: list[str] = []
    for path in sorted(filter(re.compile(pattern).search, paths), key=_order)[: many * 3]:
        if len(samples) >= many:
            break
        octets = Path(path).read_bytes()
        try:
            text = clean((gzip.decompress(octets) if path.endswith(".gz") else octets).decode("utf-8"))
        except UnicodeDecodeError:
            # What is not text is no sample of it.
            continue
        if len(text) < LENGTH // 2:
            continue
        chance = random.Random(_order(path))
        for _ in range(min(3, max(1, len(text) // LENGTH))):
            start = chance.randrange(max(1, len(text) - LENGTH))
            samples.append(text[start : start + LENGTH])
    return samples


def _messages(language: str) -> Iterator[str]:
    lines: set[str] = set()
    for path in sorted((_LOCALES / language / "LC_MESSAGES").glob("*.mo")):
        if "iso_" not in path.name:
            lines.update(said for asked, said in _catalogue(path.read_bytes()) if len(said) > 25 and said != asked)
    text = "\n".join(sorted(lines, key=_order))
    for start in range(0, min(len(text) - LENGTH, LENGTH * PER_KIND), LENGTH):
        yield text[start : start + LENGTH]


def _catalogue(octets: bytes) -> Iterator[tuple[str, str]]:
    """The pairs of a compiled message catalogue: the library's own reader stumbles over some headers."""
    order = "<" if octets[:4] == b"\xde\x12\x04\x95" else ">"
    _, _, many, asked, said = struct.unpack(f"{order}5I", octets[:20])

    def text(table: int, index: int) -> str:
        length, place = struct.unpack_from(f"{order}2I", octets, table + 8 * index)
        return octets[place : place + length].decode("utf-8", "replace").split("\0")[0]

    for index in range(many):
        if text(asked, index) and "\ufffd" not in text(said, index):
            yield text(asked, index), text(said, index)


_WORDS = [
    "request",
    "response",
    "handler",
    "user",
    "session",
    "timeout",
    "connection",
    "started",
    "finished",
    "failed",
    "retry",
    "worker",
    "queue",
    "cache",
    "miss",
    "hit",
    "payload",
    "token",
    "upstream",
    "closed",
]
_CHATTER = [
    "ok",
    "thanks",
    "that",
    "works",
    "great",
    "see",
    "you",
    "later",
    "lol",
    "nice",
    "one",
    "what",
    "do",
    "you",
    "think",
    "about",
    "this",
    "sorry",
    "I",
    "was",
    "away",
]
_HEX = "0123456789abcdef"
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_MIXED = _ALPHABET + _ALPHABET.upper() + "0123456789"
_FACES = [
    "😀",
    "😂",
    "😊",
    "😍",
    "🤔",
    "😎",
    "😢",
    "👍",
    "👏",
    "🙏",
    "💪",
    "🔥",
    "✨",
    "🎉",
    "❤️",
    "🚀",
    "✅",
    "❌",
    "⚠️",
    "📦",
    "🐛",
    "🔧",
    "📝",
    "💡",
    "⏳",
    "🌍",
    "🍕",
    "🐶",
    "☀️",
    "⭐",
    "👩\u200d💻",
    "👨\u200d👩\u200d👧",
    "🇩🇪",
    "🇯🇵",
    "👋🏽",
    "🤷\u200d♂️",
]


def _made_up() -> dict[str, list[str]]:
    """Data that no documentation holds enough of."""
    chance = random.Random(7)

    def word(alphabet: str, length: int) -> str:
        return "".join(chance.choices(alphabet, k=length))

    def times(many: int, make: Callable[[], str]) -> list[str]:
        return [make() for _ in range(many)]

    def number() -> str:
        return str(round(chance.gauss(0, 10 ** chance.randint(0, 7)), chance.randint(0, 8)))

    symbols = [*range(0x2190, 0x2300), *range(0x3B1, 0x3C9), *range(0x2080, 0x208F), *range(0x1D400, 0x1D4FF)]
    pictures = [chr(code) for code in range(0x1F300, 0x1FAFF) if unicodedata.name(chr(code), "")]
    letters = [chr(code) for code in range(0x250, 0xFFFF) if unicodedata.category(chr(code))[0] in "LMS"]
    ideographs = [chr(code) for code in range(0x4E00, 0xA000)]
    source = (_STANDARD / "argparse.py").read_bytes()
    return {
        "base64": times(70, lambda: base64.b64encode(chance.randbytes(1200)).decode()),
        "base64 in lines": times(23, lambda: base64.encodebytes(chance.randbytes(1200)).decode()),
        "base64 for addresses": times(23, lambda: base64.urlsafe_b64encode(chance.randbytes(1200)).decode()),
        "base64 of text": [base64.b64encode(source[at : at + 1200]).decode() for at in range(0, 31_500, 900)],
        "hex": times(23, lambda: word(_HEX, 2400)) + times(23, lambda: " ".join(word(_HEX, 2) for _ in range(600))),
        "hex, upper case": times(17, lambda: word(_HEX, 2400).upper()),
        "uuids": times(70, lambda: "\n".join(str(uuid.UUID(bytes=chance.randbytes(16))) for _ in range(60))),
        "numbers": times(70, lambda: " ".join(number() for _ in range(250))),
        "numbers in a table": times(
            35, lambda: "\n".join(",".join(f"{chance.random() * 999:.3f}" for _ in range(8)) for _ in range(40))
        ),
        "logs": times(70, lambda: "\n".join(_log_line(chance) for _ in range(28))),
        "json, compact": times(70, lambda: _json_text(chance, None, (",", ":"))),
        "json, spaced": times(35, lambda: _json_text(chance, None, (", ", ": "))),
        "json, indented": times(105, lambda: _json_text(chance, chance.choice((2, 2, 4)), (",", ": "))),
        "random letters": times(23, lambda: " ".join(word(_ALPHABET, chance.randint(2, 12)) for _ in range(220))),
        "random keys": times(23, lambda: " ".join(word(_MIXED, chance.randint(6, 40)) for _ in range(80))),
        "ids": times(
            23, lambda: "\n".join(f"{chance.choice(('call', 'msg', 'resp'))}_{word(_MIXED, 24)}" for _ in range(60))
        ),
        "white space": times(35, lambda: "\n".join(_sparse_line(chance) for _ in range(100))),
        "rules and boxes": times(
            35,
            lambda: "\n".join(
                chance.choice("-=*#~_.+─│═") * chance.randint(3, 100) + " " + chance.choice(_WORDS) for _ in range(50)
            ),
        ),
        "chat with emoji": times(
            35,
            lambda: "\n".join(
                " ".join(chance.choices(_CHATTER, k=5)) + " " + "".join(chance.choices(_FACES, k=chance.randint(1, 4)))
                for _ in range(60)
            ),
        ),
        "every emoji": times(
            23,
            lambda: "".join(
                chance.choice((chance.choice(pictures), f" {chance.choice(_CHATTER)} ")) for _ in range(400)
            ),
        ),
        "every ideograph": times(12, lambda: "".join(chance.choices(ideographs, k=800))),
        "every letter": times(24, lambda: " ".join("".join(chance.choices(letters, k=4)) for _ in range(200))),
        "symbols": times(
            23,
            lambda: "".join(chance.choice((chr(chance.choice(symbols)), " x", " =", " +", ", ")) for _ in range(600)),
        ),
    }


def _log_line(chance: random.Random) -> str:
    date = f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    clock = f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}"
    words = " ".join(chance.choices(_WORDS, k=5))
    identity = "".join(chance.choices(_HEX, k=chance.choice((8, 16, 32))))
    address = ".".join(str(chance.randint(0, 255)) for _ in range(4))
    when = f"{date}{chance.choice('T ')}{clock}.{chance.randint(0, 999_999):06}Z"
    who = f"{chance.choice(('INFO', 'WARN', 'ERROR'))} [{chance.choice(_WORDS)}-{chance.randint(0, 99)}]"
    return f"{when} {who} {words} id={identity} took={chance.randint(1, 9999)}ms ip={address}"


def _sparse_line(chance: random.Random) -> str:
    return (
        " " * chance.randint(0, 60)
        + chance.choice(_WORDS)
        + " " * chance.choice((0, 0, 5, 20))
        + "\t" * chance.choice((0, 1, 4))
        + "\n" * chance.choice((0, 0, 1, 3))
    )


def _json_text(chance: random.Random, indent: int | None, separators: tuple[str, str]) -> str:
    def value(depth: int) -> object:
        luck = chance.random()
        if depth < 3 and luck < 0.35:
            names = [chance.choice(_WORDS) + chance.choice(("", "_id", "Count", "_at")) for _ in range(4)]
            return {name: value(depth + 1) for name in names}
        if depth < 3 and luck < 0.5:
            return [value(depth + 1) for _ in range(chance.randint(1, 5))]
        address = f"https://{chance.choice(_WORDS)}.example.com/{chance.choice(_WORDS)}/{chance.randint(1, 9999)}"
        words = " ".join(chance.choices(_WORDS, k=chance.randint(1, 8)))
        return chance.choice((chance.randint(0, 10**6), chance.random(), True, None, words, address))

    text = ""
    while len(text) < LENGTH:
        made = {word: value(0) for word in chance.sample(_WORDS, 6)}
        text += json.dumps(made, indent=indent, separators=separators) + "\n"
    return text[:LENGTH]


if __name__ == "__main__":
    for name, samples in kinds().items():
        sys.stdout.write(f"{name}: {len(samples)}\n")
