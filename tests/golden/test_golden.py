"""The golden suite: every file is told again by the library, and must read the same.

`REWRITE_GOLDEN=1` writes what the library tells now; the diff is the review.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from difflib import unified_diff
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.rules.capabilities import CapabilityRow
from dragoman.streaming import StreamPipeline
from dragoman.translate import (
    LossLine,
    TranslatedRequest,
    TranslatedResponse,
    translate_headers,
    translate_request,
    translate_response,
)
from dragoman.wire.json import decode_object, encode
from tests.golden.printing import loads, pretty, print_answer, print_stream, sealed, stream_bytes
from tests.golden.story import Section, Story, read, written

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.txtar"))
NAMES = PROTOCOL_NAMES

# Whom requests are for, unless a section says otherwise: an adaptive Claude, a server that is not OpenAI's, OpenAI.
MODELS = {"anthropic-messages": "claude-opus-5", "openai-chat": "llama-4", "openai-responses": "gpt-5"}
# 14 November 2023, 22:13:20 UTC.
NOW = 1_700_000_000
# What every request to Messages carries beside its body; only other headers are shown.
USUAL_HEADERS = {"anthropic-version": "2026-10-21"}

Questions = dict[str, Section]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".txtar"))
def test_story(path: Path) -> None:
    story = read(path)
    assert story.opening, "a golden file opens with the rule it tells"
    told = written(Story(story.opening, tuple(_told(story))))
    found = path.read_text(encoding="utf-8")
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_text(told, encoding="utf-8")
        return
    if told != found:
        diff = unified_diff(found.splitlines(), told.splitlines(), "expected", "told by the library", lineterm="", n=6)
        pytest.fail("\n".join(diff), pytrace=False)


def _told(story: Story) -> Iterator[Section]:
    """The inputs of a story, each followed by what the library makes of it."""
    asked: Questions = {}
    given: Section | None = None
    questions: Questions = {}
    for section in story.inputs:
        yield section
        kind = section.words[0]
        if kind == "asked":
            asked[section.words[2]] = section
            continue
        if kind == "in":
            given, questions = section, asked
        assert given is not None, "again repeats an input"
        options = section.header.removeprefix("again") if kind == "again" else ""
        told = Section(f"{given.header} {options}", given.text)
        yield from _TELLERS[told.words[1]](told, asked or questions)
        asked = {}


def _request(section: Section, asked: Questions) -> Iterator[Section]:
    source = section.words[2]
    _check_identity(section)
    for target in _targets(section, {}):
        try:
            result = _asked(section, target)
        except DragomanError as error:
            yield Section(f"refused {target}", str(error))
            continue
        yield Section(f"out request {target}", pretty(loads(result.body)))
        headers = {name: value for name, value in result.headers.items() if USUAL_HEADERS.get(name) != value}
        if headers:
            yield Section(f"headers {target}", _header_lines(headers))
        yield from _losses(result.losses, target)
        assert result.source == source


def _check_identity(section: Section) -> None:
    """A request that stays in its protocol keeps every byte."""
    source, body = section.words[2], _body(section)
    assert translate_request(body, source=source, target=source).body == body


def _asked(section: Section, target: str) -> TranslatedRequest:
    options = section.options
    abilities = options.get("abilities")
    rows = () if abilities is None else (CapabilityRow(protocol=target, changes=decode_object(abilities)),)
    return translate_request(
        _body(section),
        source=section.words[2],
        target=target,
        model=options.get("model", MODELS[target]),
        vendor=options.get("upstream"),
        capability_rows=rows,
    )


def _answer(section: Section, asked: Questions) -> Iterator[Section]:
    source = section.words[2]
    streamed = section.options.get("as") == "stream"
    for target in _targets(section, asked):
        result = translate_response(
            _body(section),
            source=source,
            target=target,
            request=_question(asked, target, source),
            status=int(section.options.get("status", 200)),
            request_id="req_1",
            stream=streamed,
        )
        yield from _response(result, target, streamed, "full" in section.words)


def _response(result: TranslatedResponse, target: str, streamed: bool, full: bool) -> Iterator[Section]:
    if result.failed:
        yield Section(f"out failure {target} status={result.status}", pretty(loads(result.body)))
    elif streamed:
        yield Section(f"out stream {target}", print_stream(result.body, target, full))
    else:
        yield Section(f"out answer {target}", print_answer(result.body, target, full))
    yield from _losses(result.losses, target)
    yield from _resume(result.resume, target)


def _stream(section: Section, asked: Questions) -> Iterator[Section]:
    source = section.words[2]
    stream, full = stream_bytes(section.text, source), "full" in section.words
    collected = section.options.get("as") == "answer"
    for target in _targets(section, asked):
        question = _question(asked, target, source)
        translator = StreamPipeline(source=source, target=target, request=question, collect=collected)
        out = translator.feed(stream) + translator.close()
        if collected:
            failed = translator.failure is not None
            losses, resume = translator.losses, translator.resume
            result = TranslatedResponse(body=out, losses=losses, status=translator.status, failed=failed, resume=resume)
            yield from _response(result, target, False, full)
            continue
        slow = StreamPipeline(source=source, target=target, request=question)
        assert b"".join(slow.feed(bytes([octet])) for octet in stream) + slow.close() == out, "any cut (S14)"
        yield Section(f"out stream {target}", print_stream(out, target, full))
        yield from _losses(translator.losses, target)
        yield from _resume(translator.resume, target)


def _headers(section: Section, asked: Questions) -> Iterator[Section]:
    given = dict(line.split(": ", 1) for line in section.text.splitlines())
    for target in _targets(section, {}):
        found = translate_headers(given, source=section.words[2], target=target, now=NOW)
        yield Section(f"out headers {target}", _header_lines(found))


_TELLERS: dict[str, Callable[[Section, Questions], Iterator[Section]]] = {
    "request": _request,
    "answer": _answer,
    "stream": _stream,
    "failure": _answer,
    "headers": _headers,
}


def _targets(section: Section, asked: Questions) -> list[str]:
    only = section.options.get("to")
    if only is not None:
        return [only]
    return [name for name in NAMES if name != section.words[2] and (not asked or name in asked)]


def _question(asked: Questions, client: str, provider: str) -> TranslatedRequest | None:
    return _asked(asked[client], provider) if client in asked else None


def _losses(losses: tuple[LossLine, ...], target: str) -> Iterator[Section]:
    if losses:
        lines = [f"{loss['fate']} {loss['feature']} {loss['at']}: {loss['note']}" for loss in losses]
        yield Section(f"losses {target}", "\n".join(lines))


def _header_lines(headers: dict[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in headers.items())


def _resume(resume: tuple[JsonObject, ...] | None, target: str) -> Iterator[Section]:
    if resume is not None:
        yield Section(f"resume {target}", pretty(loads(encode(list(resume)))))


def _body(section: Section) -> bytes:
    return sealed(section.text).encode()
