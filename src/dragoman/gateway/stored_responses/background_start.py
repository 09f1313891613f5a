"""Background start: what an answer that is kept must say of that, and how one begins that nobody waits for."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from dragoman.gateway.exchange.provider_request import ProviderRequest
from dragoman.gateway.stored_responses.background import BackgroundRun
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.response_writer import ResponseWriter, Task
from dragoman.model.events import Failed
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.protocols.openai_responses.response_object import response_object
from dragoman.protocols.registry import codec_of
from dragoman.translate import asked_by
from dragoman.wire.json import decode_object
from dragoman.wire.json_spans import object_members, with_member, without


def kept_request(prepared: ProviderRequest, task: Task) -> ProviderRequest:
    """The same request: its answer says its id, and what the client referred to."""
    recalled = task.recalled
    if recalled is None or prepared.relay:
        return prepared
    asked = _asked(prepared)
    request = asked.request
    extras = request.extras
    if recalled.background:
        fields: JsonObject = {**(extras.fields if extras is not None else {}), "background": True}
        extras = Extras(origin=prepared.client, fields=fields)
    told = replace(request, continues=recalled.previous, conversation=recalled.conversation, extras=extras)
    answer_id = task.response_id if recalled.keeps else ""
    translated = replace(prepared.translated, asked=replace(asked, request=told, answer_id=answer_id))
    return replace(prepared, translated=translated)


def begun_of(prepared: ProviderRequest, task: Task) -> JsonObject:
    """The response as it stands before anybody was asked."""
    asked = _asked(prepared) if not prepared.relay else _relayed(prepared, task)
    body = response_object(task.response_id, int(time.time()), asked, asked.request.model)
    body["status"] = "queued"
    return body


def running_of(
    prepared: ProviderRequest,
    task: Task,
    begun: JsonObject,
    *,
    kept_answer: ResponseWriter,
    client: DetachedClient,
    exchange: Callable[[], Awaitable[None]],
    release: Callable[[], None],
    mint: Mint,
) -> BackgroundRun:
    """A response that is to run in the background."""
    recalled = task.recalled
    assert recalled is not None

    def fail(failure: Failure) -> bytes:
        return codec_of(prepared.client).stream_encoder(_asked(prepared), mint, Ledger()).feed(Failed(failure))

    return BackgroundRun(
        store=task.store,
        owner=task.owner,
        begun=begun,
        context=recalled.context,
        said=recalled.said,
        previous=recalled.previous,
        conversation=recalled.conversation,
        holder=task.holder,
        release=release,
        stream=prepared.stream,
        kept_answer=kept_answer,
        client=client,
        exchange=exchange,
        fail=fail,
    )


def _relayed(prepared: ProviderRequest, task: Task) -> TranslationContext:
    """What a request asked that goes on as it was written, but for what it says, which no answer repeats."""
    body, recalled = prepared.translated.body, task.recalled
    assert recalled is not None
    said = [member.whole for member in object_members(body) if member.key == "input"]
    request = codec_of(prepared.client).decode_request(decode_object(with_member(without(body, said), "input", b'"."')))
    fields = request.extras.fields if request.extras is not None else {}
    extras = Extras(origin=prepared.client, fields={**fields, "background": True})
    told = replace(request, store=True, continues=recalled.previous, conversation=recalled.conversation, extras=extras)
    return replace(_asked(prepared), request=told)


def _asked(prepared: ProviderRequest) -> TranslationContext:
    return asked_by(prepared.translated, codec_of(prepared.target.endpoint.protocol))
