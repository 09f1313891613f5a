"""The page of the library and the types of the official SDKs pass `mypy --strict`, as users check their programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.bare import ROOT
from tests.docs.pages import blocks

EXAMPLES = blocks("python", [ROOT / "docs/library.md"])
# What the page leaves to its reader.
GIVEN = """from collections.abc import Callable, Iterable

upstream_bytes: Iterable[bytes] = ()
send: Callable[[bytes], object] = print
"""
SDKS = """from anthropic.types.message_create_params import MessageCreateParams
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses.response_create_params import ResponseCreateParams

from dragoman import (
    Failure,
    Ledger,
    LossLine,
    ProtocolName,
    Response,
    StreamTranslator,
    TranslatedRequest,
    Usage,
    translate_request,
    translate_response,
)


def messages(body: MessageCreateParams) -> TranslatedRequest:
    return translate_request(body, source="anthropic-messages", target="openai-chat")


def chat(body: CompletionCreateParams) -> TranslatedRequest:
    return translate_request(body, source="openai-chat", target="openai-responses", strict="all")


def responses(body: ResponseCreateParams) -> TranslatedRequest:
    return translate_request(body, source="openai-responses", target="anthropic-messages", strict=True)


def back(request: TranslatedRequest, body: bytes) -> tuple[Usage | None, Failure | None, Response | None, Ledger]:
    answer = translate_response(body, source=request.target, target=request.source, request=request)
    return answer.usage, answer.failure, answer.response, request.ledger


def streamed(request: TranslatedRequest, chunks: list[bytes]) -> tuple[bytes, tuple[LossLine, ...], Usage | None]:
    stream = StreamTranslator(source=request.target, target=request.source, request=request)
    return b"".join([*map(stream.feed, chunks), stream.close()]), stream.losses, stream.usage


NAME: ProtocolName = "openai-chat"
# What must be refused: a comment that ignores nothing is an error.
translate_request({}, target="openai")  # type: ignore[arg-type]
translate_request({}, target=NAME, strict="some")  # type: ignore[arg-type]
translate_request([], target=NAME)  # type: ignore[arg-type]
StreamTranslator(source=NAME, target=NAME).speaking  # type: ignore[attr-defined]
"""


def test_the_pages_examples_and_the_types_of_the_sdks_pass_mypy_strict(tmp_path: Path) -> None:
    assert len(EXAMPLES) >= 4
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"example_{number}.py").write_text(GIVEN + "\n" + example.text)
    (tmp_path / "sdks.py").write_text(SDKS)
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT / 'src'}\n")
    words = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(config),
        "--cache-dir",
        str(ROOT / "build/library_types"),
    ]
    done = subprocess.run(
        [*words, *map(str, sorted(tmp_path.glob("*.py")))], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
