"""Background start: what a stored response states about it, and how a response begins without a waiting client."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from dragoman.gateway.forwarding.provider_request import ProviderRequest
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
from dragoman.translate import translation_context
from dragoman.wire.json import decode_object
from dragoman.wire.json_spans import object_members, with_member, without


def with_storage_fields(prepared: ProviderRequest, task: Task) -> ProviderRequest:
    """The same request; its response has the stored ID and the client's references."""
    resolved = task.resolved
    if resolved is None or prepared.relay:
        return prepared
    context = _context_of(prepared)
    request = context.request
    extras = request.extras
    if resolved.background:
        fields: JsonObject = {**(extras.fields if extras is not None else {}), "background": True}
        extras = Extras(origin=prepared.client, fields=fields)
    updated = replace(request, continues=resolved.previous, conversation=resolved.conversation, extras=extras)
    response_id = task.response_id if resolved.is_stored else ""
    translated = replace(prepared.translated, context=replace(context, request=updated, response_id=response_id))
    return replace(prepared, translated=translated)


def begun_of(prepared: ProviderRequest, task: Task) -> JsonObject:
    """The response before any target was called."""
    context = _context_of(prepared) if not prepared.relay else _relayed(prepared, task)
    body = response_object(task.response_id, int(time.time()), context, context.request.model)
    body["status"] = "queued"
    return body


def running_of(
    prepared: ProviderRequest,
    task: Task,
    begun: JsonObject,
    *,
    writer: ResponseWriter,
    client: DetachedClient,
    exchange: Callable[[], Awaitable[None]],
    release: Callable[[], None],
    mint: Mint,
) -> BackgroundRun:
    """A response that is to run in the background."""
    resolved = task.resolved
    assert resolved is not None

    def fail(failure: Failure) -> bytes:
        return codec_of(prepared.client).stream_encoder(_context_of(prepared), mint, Ledger()).feed(Failed(failure))

    return BackgroundRun(
        task=task,
        resolved=resolved,
        begun=begun,
        release=release,
        stream=prepared.stream,
        writer=writer,
        client=client,
        exchange=exchange,
        fail=fail,
    )


def _relayed(prepared: ProviderRequest, task: Task) -> TranslationContext:
    """The members of a relayed request, without the input, which no response repeats."""
    body, resolved = prepared.translated.body, task.resolved
    assert resolved is not None
    input_spans = [member.whole for member in object_members(body) if member.key == "input"]
    request = codec_of(prepared.client).decode_request(
        decode_object(with_member(without(body, input_spans), "input", b'"."'))
    )
    fields = request.extras.fields if request.extras is not None else {}
    extras = Extras(origin=prepared.client, fields={**fields, "background": True})
    updated = replace(
        request, store=True, continues=resolved.previous, conversation=resolved.conversation, extras=extras
    )
    return replace(_context_of(prepared), request=updated)


def _context_of(prepared: ProviderRequest) -> TranslationContext:
    return translation_context(prepared.translated, codec_of(prepared.target.endpoint.protocol))
