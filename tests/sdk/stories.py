"""The golden stories told again as bytes: what the library makes of every input, with nothing left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.mint import system_mint
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.rules.capabilities import CapabilityRow
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedRequest, translate_request, translate_response
from dragoman.wire.json import decode_object
from tests.golden.printing import stream_bytes
from tests.golden.story import Section, read

FILES = sorted((Path(__file__).parent.parent / "golden").glob("*.txtar"))
NAMES = PROTOCOL_NAMES
MODELS = {"anthropic-messages": "claude-opus-5", "openai-chat": "llama-4", "openai-responses": "gpt-5"}


class Outcome(Struct, frozen=True, kw_only=True):
    """One output of the library: a `request`, or a whole `answer` and the `stream` that tells the same."""

    kind: str
    target: str
    said: str
    source: str = ""
    request: bytes = b""
    headers: Mapping[str, str] = {}
    answer: bytes = b""
    stream: bytes = b""
    failed: bool = False

    @property
    def cut(self) -> bool:
        """Whether the answer broke off inside the arguments of a call."""
        return b'"_raw_arguments"' in self.answer


def outcomes(path: Path) -> Iterator[Outcome]:
    """Everything that the requests, answers and streams of a golden file become."""
    asked: dict[str, Section] = {}
    given: Section | None = None
    questions: dict[str, Section] = {}
    for section in read(path).inputs:
        kind = section.words[0]
        if kind == "asked":
            asked[section.words[2]] = section
            continue
        if kind == "again":
            assert given is not None
            section = Section(f"{given.header} {section.header.removeprefix('again')}", given.text)
            asked = asked or questions
        else:
            given = section
        questions, asked = asked, {}
        if section.words[1] == "request":
            yield from _requests(section)
        elif section.words[1] in ("answer", "stream"):
            yield from _answers(section, questions)


def _requests(section: Section) -> Iterator[Outcome]:
    for target in _targets(section, {}):
        try:
            told = _asked(section, target)
        except DragomanError:
            # What is refused has no outcome.
            continue
        yield Outcome(kind="request", target=target, said=section.header, request=told.body, headers=told.headers)


def _answers(section: Section, questions: Mapping[str, Section]) -> Iterator[Outcome]:
    """Each answer both ways: as the story has it, and as its client would have got it otherwise (S12)."""
    source = section.words[2]
    for target in _targets(section, questions):
        question = _asked(questions[target], source) if target in questions else None
        if section.words[1] == "answer":
            body, status = section.text.encode(), int(section.options.get("status", 200))
            told = [
                translate_response(body, source=source, target=target, request=question, status=status, stream=streamed)
                for streamed in (False, True)
            ]
            answer, stream, failed = told[0].body, told[1].body, told[0].failed
        else:
            upstream = stream_bytes(section.text, source)
            whole = StreamPipeline(source=source, target=target, request=question, collect=True, mint=system_mint())
            parts = StreamPipeline(source=source, target=target, request=question, mint=system_mint())
            answer = whole.feed(upstream) + whole.close()
            stream = parts.feed(upstream) + parts.close()
            failed = whole.failure is not None
        yield Outcome(
            kind="answer",
            target=target,
            said=section.header,
            source=section.text,
            answer=answer,
            stream=stream,
            failed=failed,
        )


def _asked(section: Section, target: str) -> TranslatedRequest:
    options = section.options
    abilities = options.get("abilities")
    return translate_request(
        section.text.encode(),
        source=section.words[2],
        target=target,
        model=options.get("model", MODELS[target]),
        vendor=options.get("upstream"),
        capability_rows=()
        if abilities is None
        else (CapabilityRow(protocol=target, changes=decode_object(abilities)),),
    )


def _targets(section: Section, questions: Mapping[str, Section]) -> list[str]:
    only = section.options.get("to")
    if only is not None:
        return [only]
    return [name for name in NAMES if name != section.words[2] and (not questions or name in questions)]
