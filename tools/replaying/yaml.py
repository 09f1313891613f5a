"""The YAML of cassettes: what PyYAML, Psych and Go's writers put out, and no more.

Block mappings and sequences, scalars in all styles, flow collections that are JSON, tags and anchors. Written for speed
by lines, because recordings are large; what it does not know is an error, never a guess.
"""

from __future__ import annotations

import base64
import json
import re

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_SINGLE = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_KEY = re.compile(
    r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'\[\]{}#&*!|>%@`,?:-][^\n]*?|[?:-][^\s][^\n]*?)\s*:(?=\s|$)"""
)
_BLOCK = re.compile(r"([|>])([+-]?)([1-9]?)([+-]?)\s*(?:#.*)?$")
_PROPERTY = re.compile(r"(?:!(?P<tag>\S*)|&(?P<anchor>\S+))(?:\s+|$)")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)$")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$")
_WORDS: dict[str, object] = {"": None, "~": None, "null": None, "Null": None, "true": True, "false": False}
_SURROGATE = re.compile("[\ud800-\udfff]")


class YamlError(ValueError):
    """A document that is not in the subset."""


def load(text: str) -> object:
    """The first document of a text."""
    return _Reader(text).document()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


class _Reader:
    """A cursor over the lines of a text. `self.at` is the line that is read next."""

    def __init__(self, text: str) -> None:
        self.lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
        self.at = 0
        self.anchors: dict[str, object] = {}

    def document(self) -> object:
        while self.at < len(self.lines) and self.lines[self.at].startswith("%"):
            self.at += 1
        if self.at < len(self.lines) and self.lines[self.at].startswith("---"):
            rest = self.lines[self.at][3:].strip()
            if rest and not rest.startswith("#"):
                return self._value(rest, self.at, -1)
            self.at += 1
        return self._node(-1)

    def _skip(self) -> bool:
        """Go to the next line that says something; say whether there is one."""
        while self.at < len(self.lines):
            line = self.lines[self.at].strip()
            if line in ("---", "...") and not self.lines[self.at].startswith(" "):
                return False
            if line and not line.startswith("#"):
                return True
            self.at += 1
        return False

    def _node(self, parent: int) -> object:
        """The node that begins on the next line, if it stands deeper than its parent."""
        if not self._skip():
            return None
        line = self.lines[self.at]
        depth = _indent(line)
        if depth <= parent:
            return None
        rest = line[depth:]
        if rest == "-" or rest.startswith("- "):
            return self._sequence(depth)
        if rest.startswith("? ") or _KEY.match(rest):
            return self._mapping(depth)
        return self._value(rest, self.at, parent)

    def _sequence(self, depth: int) -> list[object]:
        items: list[object] = []
        while self._skip():
            line = self.lines[self.at]
            if _indent(line) != depth or not (line[depth:] == "-" or line[depth:].startswith("- ")):
                break
            items.append(self._inline(depth, depth + 1))
        return items

    def _inline(self, depth: int, column: int) -> object:
        """What stands behind a mark at `depth`: a node of its own, which may begin on the same line."""
        line = self.lines[self.at]
        rest = line[column:].lstrip(" ")
        if not rest:
            self.at += 1
            return self._node(depth)
        if rest == "-" or rest.startswith(("- ", "? ")) or _KEY.match(rest):
            self.lines[self.at] = " " * (len(line) - len(rest)) + rest
            return self._node(depth)
        return self._value(rest, self.at, depth)

    def _long_key(self, line: str, depth: int) -> str:
        """A key behind a question mark; one that some program made of a list of letters is the letters."""
        key = self._value(line[depth + 2 :].strip(" "), self.at, depth, in_mapping=True)
        if not self._skip() or not self.lines[self.at].startswith(":", depth):
            raise YamlError(f"line {self.at + 1}: a key without a value")
        return "".join(map(str, key)) if isinstance(key, list) else str(key)

    def _mapping(self, depth: int) -> dict[str, object]:
        members: dict[str, object] = {}
        while self._skip():
            line = self.lines[self.at]
            if _indent(line) != depth:
                break
            if line.startswith("? ", depth):
                name = self._long_key(line, depth)
                members[name] = self._inline(depth, depth + 1)
                continue
            key = _KEY.match(line[depth:])
            if key is None:
                break
            name = key[1]
            if name[0] == '"':
                name = _unescaped(name[1:-1])
            elif name[0] == "'":
                name = name[1:-1].replace("''", "'")
            members[name] = self._value(line[depth + key.end() :].strip(" "), self.at, depth, in_mapping=True)
        if self.at < len(self.lines) and self._skip() and _indent(self.lines[self.at]) > depth:
            raise YamlError(f"line {self.at + 1}: deeper than its mapping")
        return members

    def _value(self, rest: str, line: int, parent: int, *, in_mapping: bool = False) -> object:
        """The value whose first characters are `rest`, on a line that is taken with it."""
        tag = anchor = ""
        while (found := _PROPERTY.match(rest)) is not None:
            tag, anchor = found["tag"] or tag, found["anchor"] or anchor
            rest = rest[found.end() :]
        if not rest or rest.startswith("#"):
            self.at = line + 1
            value = self._below(parent, in_mapping)
        elif rest[0] == "*":
            self.at = line + 1
            return self.anchors[rest[1:].strip()]
        elif (block := _BLOCK.match(rest)) is not None:
            value = self._block(block, line, parent)
        elif rest[0] in "'\"":
            value = self._quoted(rest, line)
        elif rest[0] in "[{":
            value = self._flow(rest, line)
        else:
            value = self._plain(rest, line, parent)
        if tag.endswith("binary") and isinstance(value, str):
            value = base64.b64decode(value)
        elif tag in ("str", "!str") and value is None:
            value = ""
        if anchor:
            self.anchors[anchor] = value
        return value

    def _below(self, parent: int, in_mapping: bool) -> object:
        if in_mapping and self._skip():
            line = self.lines[self.at]
            # A sequence may stand at the depth of the key that it belongs to.
            if _indent(line) == parent and (line[parent:] == "-" or line[parent:].startswith("- ")):
                return self._sequence(parent)
        return self._node(parent)

    def _block(self, head: re.Match[str], line: int, parent: int) -> str:
        """A literal or folded scalar."""
        chomp = head[2] or head[4]
        self.at = line + 1
        taken: list[str] = []
        depth = max(parent, 0) + int(head[3]) if head[3] else -1
        while self.at < len(self.lines):
            text = self.lines[self.at]
            if text.strip(" "):
                here = _indent(text)
                if depth < 0:
                    if here <= parent:
                        break
                    depth = here
                elif here < depth:
                    break
            taken.append(text)
            self.at += 1
        kept = [text[depth:] if depth >= 0 else "" for text in taken]
        ending = len(kept)
        while ending and not kept[ending - 1]:
            ending -= 1
        blanks = len(kept) - ending
        body = _folded_block(kept[:ending]) if head[1] == ">" else "\n".join(kept[:ending])
        if chomp == "-" or (not body and chomp != "+"):
            return body
        if chomp != "+":
            return body + "\n"
        # The piece behind the last line end of the file is no line.
        return body + "\n" * (bool(ending) + blanks - (self.at == len(self.lines)))

    def _quoted(self, rest: str, line: int) -> str:
        quote = rest[0]
        pieces: list[str] = []
        text = rest[1:]
        while (end := _closing(text, quote)) < 0:
            pieces.append(text)
            line += 1
            if line >= len(self.lines):
                raise YamlError("a quote without an end")
            text = self.lines[line]
        tail = text[end + 1 :].strip()
        if tail and not tail.startswith("#"):
            raise YamlError(f"line {line + 1}: something behind a quote")
        pieces.append(text[:end])
        self.at = line + 1
        if quote == "'":
            return _folded(pieces).replace("''", "'")
        return _unescaped(_folded(pieces, escapes=True))

    def _flow(self, rest: str, line: int) -> object:
        text = rest
        while True:
            try:
                value: object = json.loads(text)
            except ValueError:
                line += 1
                if line >= len(self.lines) or line > self.at + 2000:
                    raise YamlError("a flow collection that is not JSON") from None
                text += " " + self.lines[line].strip()
            else:
                self.at = line + 1
                return value

    def _plain(self, rest: str, line: int, parent: int) -> object:
        pieces = [rest]
        self.at = line + 1
        while self.at < len(self.lines):
            text = self.lines[self.at]
            if text.strip() and (_indent(text) <= parent or (parent < 0 and text.startswith(("---", "...")))):
                break
            pieces.append(text)
            self.at += 1
        while not pieces[-1].strip():
            pieces.pop()
        word = _folded(pieces) if len(pieces) > 1 else rest.rstrip()
        comment = word.find(" #")
        word = word[:comment].rstrip() if comment >= 0 else word
        if word in _WORDS:
            return _WORDS[word]
        if _INTEGER.match(word):
            return int(word)
        if _FLOAT.match(word):
            return float(word)
        return word


def _closing(text: str, quote: str) -> int:
    """Where the quote ends on this line, or -1."""
    at = 0
    while True:
        at = text.find(quote, at)
        if at < 0:
            return -1
        if quote == "'":
            if text[at + 1 : at + 2] != "'":
                return at
            at += 2
            continue
        before = at
        while before and text[before - 1] == "\\":
            before -= 1
        if (at - before) % 2 == 0:
            return at
        at += 1


def _folded(pieces: list[str], *, escapes: bool = False) -> str:
    """Lines of a flow scalar: a line end is a space, an empty line is a line end, an escaped line end is nothing."""
    if len(pieces) == 1:
        return pieces[0]
    out: list[str] = []
    glue = ""
    last = len(pieces) - 1
    for place, piece in enumerate(pieces):
        text = piece if place == 0 else piece.lstrip(" \t")
        text = text if place == last else text.rstrip(" \t")
        if not text and 0 < place < last:
            glue = "\n" if glue == " " else glue + "\n"
            continue
        out += (glue, text)
        glue = " "
        if escapes and place < last and (len(text) - len(text.rstrip("\\"))) % 2:
            out[-1] = text[:-1]
            glue = ""
    return "".join(out)


def _folded_block(kept: list[str]) -> str:
    out: list[str] = []
    for place, text in enumerate(kept):
        if place == 0:
            out.append(text)
            continue
        before = kept[place - 1]
        if not text:
            out.append("\n")
        elif not before:
            # The first of several line ends was folded away, unless the text around it is indented.
            out.append("\n" + text if text[0] in " \t" else text)
        else:
            out.append(("\n" if text[0] in " \t" or before[0] in " \t" else " ") + text)
    return "".join(out)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    whole = _ESCAPE.sub(_character, text)
    if _SURROGATE.search(whole):
        whole = whole.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return whole


def _character(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _SINGLE.get(code, code)
