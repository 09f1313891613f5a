"""What the official SDKs read of a translated answer, and whether its form is what their types and grammars allow."""

from __future__ import annotations

import json
import warnings

import anthropic
import openai
from msgspec import Struct
from pydantic import BaseModel

from dragoman.wire.json import encode
from tests.laws.official import accumulated
from tests.sdk.clients import replay
from tests.sdk.oracles import check_answer
from tests.sdk.streams import check_stream
from tools.replaying.protocols import CHAT, MESSAGES, Object
from tools.replaying.reading import read_whole
from tools.replaying.said import Said, member, objects


class Heard(Struct, kw_only=True):
    """What a client got: the answer as its SDK holds it, what that says, and what was wrong with the form."""

    said: Said
    body: Object = {}
    fault: str | None = None


def hear_whole(protocol: str, body: bytes, status: int) -> Heard:
    """A whole answer, or an error under its status."""
    if status >= 400:
        return Heard(said=Said(error=_raised(protocol, body, status)))
    value: object = json.loads(body)
    if not isinstance(value, dict):
        return Heard(said=Said(error="no object"), fault="the answer is no object")
    try:
        told = _dumped(check_answer(protocol, value))
        fault = None
    except AssertionError as error:
        told, fault = value, str(error)
    return Heard(said=read_whole(protocol, told), body=told, fault=fault)


def hear_stream(protocol: str, stream: bytes) -> Heard:
    """A stream, through the SDK's own accumulator."""
    with warnings.catch_warnings():
        # The SDKs serialise what they were told even where their own types are older, and say so.
        warnings.simplefilter("ignore", UserWarning)
        try:
            told = check_stream(protocol, stream)
        except (AssertionError, RuntimeError) as error:
            return _heard_anyway(protocol, stream, str(error))
        body = _dumped(told.final) if told.final is not None else {}
    said = read_whole(protocol, body) if body else Said()
    if told.error is not None:
        said.error = told.error
    return Heard(said=said, body=body)


def _heard_anyway(protocol: str, stream: bytes, fault: str) -> Heard:
    """What the SDK makes of a stream whose form is wrong, if it makes anything of it."""
    try:
        value: object = json.loads(encode(accumulated(protocol, stream)))
    except (AssertionError, RuntimeError, anthropic.APIError, openai.APIError) as error:
        return Heard(said=Said(error=str(error)), fault=fault)
    body = value if isinstance(value, dict) else {}
    return Heard(said=read_whole(protocol, body), body=body, fault=fault)


def _dumped(final: BaseModel) -> Object:
    body: object = json.loads(final.model_dump_json(exclude_unset=True, warnings=False))
    assert isinstance(body, dict)
    message = member(next(iter(objects(body.get("choices"))), None), "message")
    for call in objects(member(message, "tool_calls")):
        # The position among the fragments is no member of a whole call.
        call.pop("index", None)
    return _without(body)


def _without(body: Object) -> Object:
    """The body without what the SDKs parse for their users' convenience."""
    return {name: _pruned(value) for name, value in body.items()}


def _pruned(value: object) -> object:
    if isinstance(value, dict):
        return {name: _pruned(one) for name, one in value.items() if name not in ("parsed", "parsed_arguments")}
    return [_pruned(one) for one in value] if isinstance(value, list) else value


def _raised(protocol: str, body: bytes, status: int) -> str:
    """The message of the exception that the SDK raises."""
    clients = replay()
    clients.whole(body, status)
    try:
        if protocol == MESSAGES:
            clients.anthropic.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "hi"}])
        elif protocol == CHAT:
            clients.openai.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        else:
            clients.openai.responses.create(model="m", input="hi")
    except anthropic.APIStatusError as error:
        return error.message
    except openai.APIStatusError as error:
        return error.message
    return ""
