"""The content of an assistant message, as a provider of this protocol gets it (mapping.md §5, T11)."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Place


class AssistantText:
    """The text of an assistant message: adjacent blocks are glued, others stand a blank line apart (T11).

    `apart` is set when something that is no text stands between.
    """

    __slots__ = ("_at", "_ends_with_text", "_in_parts", "_parts", "apart")

    def __init__(self) -> None:
        self._parts: list[JsonObject] = []
        self._in_parts = False
        # Whether text stands last.
        self._ends_with_text = False
        self._at: Place = ()
        self.apart = False

    def add(self, part: JsonObject, at: Place) -> None:
        """Add text; another unit of the client's wire is another paragraph."""
        if self._ends_with_text and (self.apart or self._at[:2] != at[:2]):
            part["text"] = "\n\n" + str(part["text"])
        self._at = at
        self.apart = False
        self._ends_with_text = True
        self._parts.append(part)

    def put(self, parts: list[JsonObject]) -> None:
        """Add content parts that are no text: they keep text apart by themselves."""
        self._parts += parts
        self._in_parts = True
        self._ends_with_text = False

    def content(self) -> JsonValue:
        """The content member: null if there is none."""
        parts = self._parts
        if not parts:
            return None
        if self._in_parts:
            return list[JsonValue](parts)
        if len(parts) == 1 and len(parts[0]) == 2:
            return parts[0]["text"]
        for part in parts:
            if len(part) != 2:
                return list[JsonValue](parts)
        return "".join([str(part["text"]) for part in parts])


def joined_content(parts: list[JsonObject]) -> JsonValue:
    """A string when every part is plain text, else the parts in order."""
    texts: list[str] = []
    for part in parts:
        text = part.get("text")
        if len(part) != 2 or not isinstance(text, str):
            return JsonList(parts)
        texts.append(text)
    return texts[0] if len(texts) == 1 else "\n\n".join(texts)
