"""Reasoning of a stream, put together from the members that servers tell it in (V7)."""

from __future__ import annotations

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import Seal
from dragoman.protocols.codec import Target
from dragoman.protocols.openai_chat.reasoning import Details, Said, detail_text, repeats, text_seal
from dragoman.protocols.openai_chat.shapes import DETAILS, REASONING_FIELDS
from dragoman.wire.json import kind_of


class ThinkingRun:
    """One stretch of reasoning: the text, once, although several members may repeat it, and its details (V7)."""

    __slots__ = ("_details", "_since", "pieces", "said")

    def __init__(self) -> None:
        self.said: Said | None = None
        self.pieces: list[str] = []
        self._details = Details()
        self._since = 0

    def take(self, delta: JsonObject) -> str:
        """Read the reasoning members of a delta and give the text that is new."""
        told = ""
        for field in REASONING_FIELDS:
            text = delta.get(field)
            if not text:
                continue
            if not isinstance(text, str):
                raise WireError(f"/choices/0/delta/{field}", "string", kind_of(text))
            if not told:
                told = text
                if self.said is None:
                    self.said = Said(field, "")
            elif text == told and self.said is not None and self.said.also is None and self.said.field != field:
                self.said = Said(self.said.field, "", field)
        entries = delta.get(DETAILS)
        if not entries:
            return told
        if not isinstance(entries, list):
            raise WireError(f"/choices/0/delta/{DETAILS}", "array", kind_of(entries))
        return self._take_details(entries, told)

    def _take_details(self, entries: JsonList, told: str) -> str:
        found: list[str] = []
        for entry in entries:
            if isinstance(entry, dict):
                found.append(detail_text(entry))
                self._details.add(entry)
        text = "".join(found)
        since = "".join(self.pieces[self._since :])
        self._since = len(self.pieces) + bool(told)
        if told or not text:
            return told
        # Some servers repeat at the end, signed, what they have told piece by piece.
        if repeats(since, text):
            return ""
        self._since += 1
        return text

    def seal(self, target: Target) -> Seal:
        """The seal under which this reasoning returns to the provider."""
        return text_seal(self.said, "".join(self.pieces), self._details.merged(), target)
