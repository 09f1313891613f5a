"""Every kind of part reaches every provider and client, or the ledger, or is refused: none falls through a table."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from dragoman.errors import RefusedError
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import (
    Audio,
    Compaction,
    Document,
    Extras,
    Foreign,
    HostedCall,
    HostedKind,
    HostedResult,
    Image,
    Inline,
    Part,
    PlainText,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.model.request import Message, Request, Role
from dragoman.model.response import Response, Stop, StopReason
from dragoman.protocols.codec import TargetModel, TranslationContext
from dragoman.protocols.registry import PROTOCOL_NAMES, codec_of
from dragoman.rules.capabilities import capabilities_of
from dragoman.rules.envelope import unseal
from dragoman.rules.tool_table import ToolTable
from dragoman.translate import derived_mint
from dragoman.wire.json import encode

MARK = "marker-7f3a"
SEAL = Seal(origin="openai-chat", kind="text", body={"text": MARK})

# One of each, said by nobody's protocol; a new kind of part belongs here, and then every room is asked about it.
SAMPLES: dict[type, Part] = {
    Text: Text(text=MARK),
    Image: Image(source=Url(url=f"https://example.org/{MARK}.png")),
    Document: Document(source=PlainText(text=MARK)),
    Audio: Audio(source=Inline(media_type="audio/wav", data=MARK)),
    Thinking: Thinking(text=MARK, seal=SEAL),
    ToolCall: ToolCall(call_id="call_1", name="look", arguments=f'{{"at":"{MARK}"}}'),
    ToolResult: ToolResult(call_id="call_1", parts=(Text(text=MARK),)),
    Refusal: Refusal(text=MARK),
    HostedCall: HostedCall(
        call_id="h1", kind=HostedKind.WEB_SEARCH, name="web_search", arguments=f'{{"query":"{MARK}"}}'
    ),
    HostedResult: HostedResult(call_id="h1", kind=HostedKind.CODE, text=MARK),
    Compaction: Compaction(summary=MARK, seal=SEAL),
    Foreign: Foreign(origin="elsewhere", kind=MARK, body={"type": MARK}, extras=Extras(origin="elsewhere", fields={})),
}

# Only the user's side has results, only the assistant's has calls, thinking and hosted steps.
USER_ONLY = {ToolResult, Audio, Image, Document}
ASSISTANT_ONLY = {Thinking, ToolCall, Refusal, HostedCall, HostedResult, Compaction}


def test_there_is_a_sample_of_every_part() -> None:
    assert set(SAMPLES) == set(get_args(Part))


def said(body: JsonObject) -> bool:
    """Whether the marker is in a body, readable or inside one of our envelopes."""
    text = encode(body).decode()
    envelopes = [unseal(found) for found in re.findall(r"rsv1z?\.[A-Za-z0-9_-]+", text)]
    return MARK in text or any(MARK in str(found.data) for found in envelopes if found is not None)


def target(protocol: str) -> TargetModel:
    return TargetModel(model="m", vendor="elsewhere", capabilities=capabilities_of(protocol, "m", "elsewhere"))


@pytest.mark.parametrize("protocol", list(PROTOCOL_NAMES))
@pytest.mark.parametrize("role", [Role.USER, Role.ASSISTANT])
@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
def test_no_part_of_a_request_vanishes(kind: type, role: Role, protocol: str) -> None:
    if kind in (USER_ONLY if role is Role.ASSISTANT else ASSISTANT_ONLY):
        return
    messages = (
        Message(role=Role.USER, parts=(Text(text="hi"),)),
        Message(role=role, parts=(SAMPLES[kind],)),
        Message(role=Role.USER, parts=(Text(text="go on"),)),
    )
    ledger = Ledger()
    try:
        encoded = codec_of(protocol).encode_request(
            Request(origin="elsewhere", model="m", messages=messages), target(protocol), ledger
        )
    except RefusedError:
        return
    assert said(encoded.body) or any(loss.at.startswith("messages[1]") for loss in ledger.losses)


@pytest.mark.parametrize("protocol", list(PROTOCOL_NAMES))
@pytest.mark.parametrize("kind", sorted(ASSISTANT_ONLY | {Text, Foreign}, key=str), ids=lambda kind: kind.__name__)
def test_no_part_of_an_answer_vanishes(kind: type, protocol: str) -> None:
    answer = Response(
        origin="elsewhere",
        id="x",
        model="m",
        parts=(SAMPLES[kind], Text(text="end")),
        stop=Stop(reason=StopReason.END),
    )
    asked = TranslationContext(request=Request(origin=protocol, model="m"), target=target(protocol), table=ToolTable())
    ledger = Ledger()
    body = codec_of(protocol).encode_response(answer, asked, derived_mint(b""), ledger)
    assert said(body) or any(loss.at.startswith("parts[0]") for loss in ledger.losses)
