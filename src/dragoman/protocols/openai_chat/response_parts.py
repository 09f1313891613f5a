"""Functions that full responses and streams share: restored calls, signed turns, paragraphs, citations (mapping.md §16,
§19)."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import (
    Citation,
    Compaction,
    Foreign,
    HostedCall,
    HostedResult,
    InputForm,
    Part,
    Seal,
    Text,
    ToolCall,
)
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.protocols.openai_chat.parts import encode_annotation
from dragoman.protocols.openai_chat.reasoning import rebuilds
from dragoman.protocols.openai_chat.shapes import ANTHROPIC, ID_PREFIX, NAME, RESPONSES
from dragoman.rules.arguments import unwrapped
from dragoman.rules.extras import HOSTED_FEATURES, drop_extras
from dragoman.rules.tool_table import flatten, report_bent, unwrapper_for


def restore_call(call: ToolCall, translation: TranslationContext, index: int, ledger: Ledger) -> ToolCall:
    """A provider's call with the name and form of the client's declaration."""
    entry = translation.table.restored(call.name)
    arguments = call.arguments
    if entry is None:
        if translation.request.origin == NAME or call.form is InputForm.TEXT:
            return call
        return replace(call, arguments=unwrapped(arguments))
    if call.form is InputForm.JSON:
        unwrapper = unwrapper_for(entry)
        arguments = unwrapped(arguments) if unwrapper is None else unwrapper.unwrap(arguments)
        if unwrapper is not None and unwrapper.bent:
            report_bent(index, ledger)
    return replace(call, name=entry.name, namespace=entry.namespace, arguments=arguments, form=entry.form)


def completion_id(upstream_id: str, mint: Mint) -> str:
    """The response ID in this protocol's form (N4)."""
    return ID_PREFIX + mint.response_suffix(upstream_id)


def client_name(call: ToolCall) -> str:
    return flatten(call.namespace, call.name)


def seal_turn(parts: tuple[Part, ...], origin: str, translation: TranslationContext) -> Seal | None:
    """The exact form of a turn that the client's echo would not give back (V1), or None."""
    if translation.render_turn is None or origin not in (ANTHROPIC, RESPONSES) or rebuilds(parts):
        return None
    blocks: JsonList = [*translation.render_turn(parts)]
    return Seal(
        origin=origin,
        kind="turn",
        body={"blocks": blocks},
        model=translation.target.model,
        vendor=translation.target.vendor,
    )


def report_call(part: ToolCall, index: int, ledger: Ledger) -> None:
    if part.extras is not None and part.extras.origin != NAME:
        if "type" in part.extras.fields:
            ledger.approximated(Feature.VENDOR_TOOL, ("parts", index), "told as a function call")
        else:
            drop_extras(part.extras, ("parts", index), ledger)


def report_hidden(part: Part, index: int, ledger: Ledger) -> None:
    """Report a part that this protocol's responses cannot express. The signed turn may carry it."""
    at = ("parts", index)
    match part:
        case HostedCall() | HostedResult():
            ledger.dropped(HOSTED_FEATURES[part.kind], at, "what the provider ran itself is not shown here")
        case Compaction():
            ledger.dropped(Feature.COMPACTION, at, "there are no compactions here")
        case Foreign():
            ledger.dropped(Feature.UNSUPPORTED_CONTENT, at, f"only {part.origin} knows {part.kind!r}")
        case _:
            ledger.dropped(Feature.UNSUPPORTED_CONTENT, at, f"an answer here holds no {type(part).__name__}")


class Paragraphs:
    """Decides when text needs a blank line before it: after another part, or in another message (T11)."""

    __slots__ = ("_apart", "_unit", "begun")

    def __init__(self) -> None:
        self.begun = False
        self._apart = False
        self._unit: str | None = None

    def interrupt(self) -> None:
        """A part other than text follows."""
        self._apart = True

    def separates(self, unit: str | None) -> bool:
        """Whether the next text of this unit is separate from earlier text."""
        other = self._unit is not None and unit is not None and unit != self._unit
        apart = self.begun and (self._apart or other)
        self.begun = True
        self._apart = False
        self._unit = unit
        return apart


class ResponseText(Paragraphs):
    """The text of a response with its citations, which count code points of the full text."""

    __slots__ = ("_length", "_pieces", "annotations")

    def __init__(self) -> None:
        # Direct call, because `super` would take as long as creating a second object.
        Paragraphs.__init__(self)
        self._pieces: list[str] = []
        self._length = 0
        self.annotations: JsonList = []

    def add(self, part: Text, index: int, ledger: Ledger) -> None:
        if part.text:
            if self.separates(part.id):
                self._pieces.append("\n\n")
                self._length += 2
            self._pieces.append(part.text)
        if part.citations:
            self.annotations += annotate(part.citations, self._length, len(part.text), index, ledger)
        self._length += len(part.text)
        if part.extras is not None and part.extras.origin != NAME:
            drop_extras(part.extras, ("parts", index), ledger)

    def content(self) -> str | None:
        return "".join(self._pieces) if self._pieces else None


def annotate(citations: tuple[Citation, ...], start: int, length: int, index: int, ledger: Ledger) -> list[JsonObject]:
    """The annotations for a text's citations. Only web pages can be cited (mapping.md §19)."""
    written: list[JsonObject] = []
    for number, citation in enumerate(citations):
        annotation = encode_annotation(citation, start, length)
        at = ("parts", index, "citations", number)
        if annotation is None:
            ledger.dropped(Feature.CITATIONS, at, "only web pages are cited here")
            continue
        written.append(annotation)
        if citation.cited_text or citation.native.get("encrypted_index"):
            ledger.dropped(Feature.CITATIONS, at, "the cited words and their index are not told here")
    return written
