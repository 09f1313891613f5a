"""The sentence of a refusal names locations and types, and nothing that a client sent."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.cli.exchange_page import as_page
from dragoman.cli.record_file import RecordFile
from dragoman.cli.terminal import OutputScreen
from dragoman.errors import (
    ClientError,
    DragomanError,
    RefusedError,
    StrictError,
    Unconfigured,
    Unreachable,
    WireError,
)
from dragoman.gateway.observability.refusals import MAX_TEXT, refusal_of
from dragoman.model.features import Feature
from dragoman.model.losses import Ledger
from dragoman.records.exchanges import latest
from dragoman.records.export import exchanges
from dragoman.records.journal_directory import directory_of
from dragoman.records.time_range import zone_of
from dragoman.store.record_queries import Exports, RecordFilter
from dragoman.store.record_tables import open_record_tables
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES, House, Received, Reply
from tests.gateway.says import log_lines, message_of, question
from tests.gateway.test_contents_kept_nowhere import KEY, found_in, kept, mark
from tests.records.viewed import as_json

SECRET = "sk-a-secret-of-somebody"


def strict_error(count: int) -> StrictError:
    ledger = Ledger()
    for number in range(count):
        ledger.dropped(Feature.SAMPLING, ("messages", number, "top_k"), f"the note quotes {SECRET}")
    return StrictError(ledger.losses)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (WireError("/messages/2/content", "array", "string"), "messages[2].content: expected a list, found text"),
        (
            WireError("/messages/0/role", "'user' or 'assistant'", repr(SECRET)),
            "messages[0].role: expected 'user' or 'assistant', found another value",
        ),
        (WireError("/metadata/a secret/x", "string", "number"), "metadata.?.x: expected text, found a number"),
        (WireError("", "object", "array"), "the request: expected an object, found a list"),
        (WireError("/n", "at least 1", "0"), "n: expected at least 1, found 0"),
        (WireError("/n", "string", "x" * 81), "n: expected text, found another value"),
        (RefusedError("file_id", "a[0].source", f"file {SECRET!r} is kept by x"), "a[0].source: file … is kept by x"),
        (RefusedError("x", "", "the provider's and the client's own"), "the provider's and the client's own"),
        (RefusedError("x", "", f"is {chr(39) + SECRET!r} there"), "is … there"),
        (strict_error(1), "1 loss refused: messages[0].top_k: dropped (sampling)"),
        (ClientError(413, "the body is too large"), "the body is too large"),
        (
            ClientError(400, f"no target of `x` takes it: only y knows {SECRET!r}"),
            "no target of `x` takes it: only y knows …",
        ),
        (ClientError(404, "there is no response `a few words`"), "there is no response `…`"),
        (ClientError(404, "there is no response `resp_0a-1`"), "there is no response `resp_0a-1`"),
        (Unconfigured("the provider is not configured completely"), "the provider is not configured completely"),
        (Unreachable("no connection"), ""),
    ],
    ids=repr,
)
def test_a_sentence_has_locations_and_types(error: DragomanError, sentence: str) -> None:
    assert refusal_of(error) == sentence


def test_a_sentence_is_bounded_and_names_few_losses() -> None:
    assert refusal_of(strict_error(20)).startswith("20 losses refused: messages[0].top_k: dropped (sampling); ")
    assert refusal_of(strict_error(20)).endswith("; and 12 more")
    assert SECRET not in refusal_of(strict_error(20))
    assert len(refusal_of(ClientError(400, "x" * 5000))) == MAX_TEXT


def unasked(received: Received) -> Reply:
    raise AssertionError("the gateway itself refuses")


# A request that is refused before any provider is called, and how the sentence for it begins.
def wrong(protocol: str) -> dict[str, tuple[dict[str, object], dict[str, str], str]]:
    asked = question(protocol, protocol)
    other = CHAT if protocol == MESSAGES else MESSAGES
    said = "input" if protocol == RESPONSES else "messages"
    roles = [{"role": mark("role"), "content": mark("content")}]
    return {
        "a wrong type": (question(protocol, other) | {said: 7}, {}, f"{said}: expected "),
        "a wrong value": (question(protocol, other) | {said: roles}, {}, f"{said}[0].role: expected "),
        "no model of this name": (asked | {"model": "claud"}, {}, "the model `claud` is not known here"),
        "no key of a provider": (asked | {"model": "gemini/x"}, {}, "google has no key here: set GEMINI_API_KEY"),
        "strict": (question(protocol, other) | {"top_k": 3, "user": mark("user")}, {"x_dragoman_strict": "1"}, ""),
    }


def sentences(folder: Path, house: House) -> set[str]:
    """The sentence of the only exchange, wherever it is told."""
    (line,) = log_lines(house)
    path = str(folder / "state.db")
    with closing(open_record_tables(path, read_only=True)) as tables:
        (exchange,) = latest(tables, RecordFilter(), 10)
        (row,) = exchanges(Exports(tables.connection), 0, 1 << 60)
    assert directory_of(path).exists()
    details = row["details"]
    assert isinstance(details, dict)
    recorded = RecordFile(database=path, zone=zone_of("UTC"))
    page = "\n".join(as_page(exchange, recorded, OutputScreen(terminal=False, width=10_000)))
    assert str(line["refusal"]) in page
    return {str(line["refusal"]), exchange.entry.refusal, str(details["refusal"]), str(as_json(exchange)["refusal"])}


@pytest.mark.parametrize("case", wrong(CHAT))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_refused_request_has_its_sentence_everywhere_and_no_contents(
    tmp_path: Path, protocol: str, case: str
) -> None:
    body, headers, begins = wrong(protocol)[case]
    with kept(tmp_path, unasked) as house:
        answer = house.post(PATHS[protocol], body, x_api_key=KEY, **headers)
        assert 400 <= answer.status < 500
        told = message_of(protocol, answer)
    (sentence,) = sentences(tmp_path, house)
    assert sentence.startswith(begins)
    assert sentence.partition(":")[0].partition(";")[0] in told or case == "strict"
    assert found_in(tmp_path, house) == {}


BESIDE = {
    "/v1/messages/count_tokens": "expected an object, found a list",
    "/v1/responses/compact": "expected an object, found a list",
    "/v1/embeddings": "the body is not a JSON object",
}


@pytest.mark.parametrize("path", BESIDE)
def test_a_request_beside_conversations_has_its_sentence(tmp_path: Path, path: str) -> None:
    with kept(tmp_path, unasked) as house:
        assert house.post(path, json.dumps([mark("list")]).encode(), x_api_key=KEY).status == 400
    (sentence,) = sentences(tmp_path, house)
    assert BESIDE[path] in sentence
    assert found_in(tmp_path, house) == {}
