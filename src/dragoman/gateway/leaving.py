"""Leaving: a question whose answer is kept, with what its answer must say of that; and how one begins detached."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from dragoman.gateway.background import Running
from dragoman.gateway.detached import Detached
from dragoman.gateway.keeping import Keeping, Task
from dragoman.gateway.leases import Leases, locked
from dragoman.gateway.question import Question
from dragoman.model.events import Failed
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.protocols.codec import Asked, Mint
from dragoman.protocols.openai_responses.echo import response_object
from dragoman.protocols.registry import codec_of
from dragoman.translate import asked_by


def kept_question(question: Question, task: Task) -> Question:
    """The same question: its answer says its id, and what the client referred to."""
    recalled = task.recalled
    if recalled is None or question.relay:
        return question
    asked = _asked(question)
    request = asked.request
    extras = request.extras
    if recalled.background:
        fields: JsonObject = {**(extras.fields if extras is not None else {}), "background": True}
        extras = Extras(origin=question.client, fields=fields)
    told = replace(request, continues=recalled.previous, conversation=recalled.conversation, extras=extras)
    answer_id = task.response_id if recalled.keeps else ""
    translated = replace(question.translated, asked=replace(asked, request=told, answer_id=answer_id))
    return replace(question, translated=translated)


def reserve(task: Task, leases: Leases) -> Callable[[], None]:
    """Have a conversation alone until the answer is there; give what lets others have it."""
    recalled, conversations = task.recalled, task.store.conversations
    assert recalled is not None and recalled.conversation is not None
    conversation = recalled.conversation
    if conversations.find(task.owner, conversation) is None:
        # Its provider keeps it, and its order.
        return _nothing
    if not leases.take(task.owner, conversation, task.holder):
        raise locked(conversation)
    release = partial(leases.release, conversation, task.holder)
    try:
        same = conversations.weight(conversation) == recalled.found
    except BaseException:
        release()
        raise
    if not same:
        # Another one was given since this one looked: it must not be answered without that.
        release()
        raise locked(conversation)
    return release


def _nothing() -> None:
    """Nobody was kept waiting."""


def begun_of(question: Question, task: Task) -> JsonObject:
    """The response as it stands before anybody was asked."""
    asked = _asked(question)
    body = response_object(task.response_id, int(time.time()), asked, asked.request.model)
    body["status"] = "queued"
    return body


def running_of(
    question: Question,
    task: Task,
    begun: JsonObject,
    *,
    keeping: Keeping,
    request: Detached,
    exchange: Callable[[], Awaitable[None]],
    release: Callable[[], None],
    mint: Mint,
) -> Running:
    """A response that is to run in the background."""
    recalled = task.recalled
    assert recalled is not None

    def fail(failure: Failure) -> bytes:
        return codec_of(question.client).stream_encoder(_asked(question), mint, Ledger()).feed(Failed(failure))

    return Running(
        store=task.store,
        owner=task.owner,
        begun=begun,
        context=recalled.context,
        said=recalled.said,
        previous=recalled.previous,
        provider=task.provider,
        conversation=recalled.conversation,
        holder=task.holder,
        release=release,
        stream=question.stream,
        keeping=keeping,
        request=request,
        exchange=exchange,
        fail=fail,
    )


def _asked(question: Question) -> Asked:
    return asked_by(question.translated, codec_of(question.aim.endpoint.protocol))
