"""`/responses/compact`: a provider that has it is asked, for others the model writes a summary (K1).

On a route with several targets they are asked in turn, as for any request; what a provider keeps stays with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.settings import Key
from dragoman.errors import BadAnswer, RefusedError, WireError
from dragoman.gateway.endpoints.passthrough import ask_in_turn, check_relayed, order_for, pass_on
from dragoman.gateway.endpoints.passthrough_fallback import Answered, SameModel
from dragoman.gateway.exchange.attempt import Attempt, ErrorAnswer, Missed
from dragoman.gateway.exchange.client import ClientRequest
from dragoman.gateway.exchange.driver import Driver
from dragoman.gateway.exchange.fixed_target import compaction_course, stay
from dragoman.gateway.exchange.provider_request import receive
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.json_limits import weighed_object
from dragoman.gateway.observability.record import Record
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.paths import RESPONSES, ApiPath, api_path_of
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest, look
from dragoman.gateway.stored_responses.reference_resolver import recalled_of
from dragoman.gateway.stored_responses.references import items_of, named_in
from dragoman.gateway.stored_responses.response_endpoint import item_shown
from dragoman.gateway.stored_responses.stored_state import looked_up, owner_of
from dragoman.gateway.thread_offload import beside_loop
from dragoman.http.server import ServerRequest
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.protocols.openai_responses.shapes import COMPACTION_TRIGGER
from dragoman.protocols.registry import codec_of
from dragoman.providers.transport_interface import Order
from dragoman.records.ids import answer_suffix
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.target import Target
from dragoman.wire.json import decode_object, encode
from dragoman.wire.splice import replace_text

_TRIGGER: JsonObject = {"type": COMPACTION_TRIGGER}
# What is not the summary's: state that is resolved here, and forms of an answer that this endpoint does not have.
_OTHERS = frozenset({"input", "previous_response_id", "conversation", "store", "stream", "background"})


async def compact(
    service: Runtime, request: ServerRequest, api_path: ApiPath, account: RecordBuilder, key: Key | None
) -> None:
    """Answer with what stands for a conversation: what its user said, and one compaction."""
    name = account.record.key
    body = await receive(service, request, name)
    looked = await beside_loop(partial(look, body, api_path), len(body), name)
    account.update(asked=looked.model, size=len(body))
    asking = ClientRequest(api_path=api_path, headers=request.headers, key=key)
    course = await compaction_course(service, asking, body, looked, account)
    if isinstance(course, RetryState):
        account.update(**(course.noted or {}))
        several = _InTurn(service, request, account, course, asking, body, looked)
        await ask_in_turn(service, request, account, several, several.unused)
        return
    target = course
    said = await _recalled(service, account, asking, body, looked, target)
    if _compacts(target):
        await pass_on(service, request, api_path, account, owner=owner_of(key), target=target, body=said.body)
        if account.record.status == 200:
            await stay(service, asking, body, looked, target)
        return
    detached = await _summarized(service, request, account, asking, said, target)
    account.finalize()
    request.respond(detached.status, detached.headers, detached.answer)


class _Said(Struct, frozen=True):
    """What is to be compacted, with all that it refers to as far as that is kept here."""

    body: bytes
    size: int
    is_recalled: bool


async def _recalled(
    service: Runtime, account: RecordBuilder, asking: ClientRequest, body: bytes, looked: ParsedRequest, target: Target
) -> _Said:
    found = await looked_up(service.state, service.settings, asking.key, looked.said, body, target)
    if found is None or looked.said is None:
        return _Said(body, len(body), found is not None)
    size = len(body) + found.size
    before = await beside_loop(partial(recalled_of, body, looked.said, found), size, account.record.key)
    return _Said(before.body, size, is_recalled=True)


async def _summarized(
    service: Runtime, request: ServerRequest, account: RecordBuilder, asking: ClientRequest, said: _Said, target: Target
) -> DetachedClient:
    """What a model without compaction makes of a conversation: a summary; the record is not final yet."""
    name = account.record.key
    items, asked = await beside_loop(partial(_asked, said.body, recalled=said.is_recalled), said.size, name)
    detached = DetachedClient(behalf=request)
    client_request = replace(asking, api_path=api_path_of("/v1/responses"), target=target)
    # What is told comes of the summary, and only then it is settled.
    its_own = RecordBuilder(account.record, service.clock, _unsettled)
    try:
        await Driver(service, client_request, detached, its_own).run(_known(asked))
    finally:
        account.adopt(its_own.record)
    if detached.status == 200:
        telling = partial(_told, items, detached.answer, account.record.id)
        detached.answer = await beside_loop(telling, said.size + len(detached.answer), name, paid=True)
    return detached


class _InTurn(SameModel):
    """A compaction that the targets of a route are asked for, one after the other, each in its own way."""

    def __init__(
        self,
        service: Runtime,
        request: ServerRequest,
        account: RecordBuilder,
        course: RetryState,
        asking: ClientRequest,
        body: bytes,
        looked: ParsedRequest,
    ) -> None:
        super().__init__(service, account, course=course)
        self._request = request
        self._asking = asking
        self._body = body
        self._looked = looked

    def unused(self, target: Target, key: str | None) -> Order:
        """No order holds for several targets: each has its own model, and its own state."""
        raise AssertionError("orders are made for each target")

    async def _try(
        self, attempt: Attempt, order_of: Callable[[Target, str | None], Order], answered: Answered
    ) -> Missed | None:
        service, request, account, asking, target = (
            self._service,
            self._request,
            self._account,
            self._asking,
            attempt.target,
        )
        said = await _recalled(service, account, asking, self._body, self._looked, target)
        if not _compacts(target):
            return await self._summarize(attempt, said)
        check_relayed(service, request, asking.api_path, account)
        body = said.body
        if target.model != self._looked.model:
            renaming = partial(replace_text, body, "model", target.model)
            body = await beside_loop(renaming, said.size, account.record.key)
        kind = request.header(b"content-type") or b"application/json"
        ordered = partial(order_for, request, asking.api_path, owner_of(asking.key), kind, body)
        missed = await super()._try(attempt, ordered, answered)
        if missed is None and account.record.status == 200:
            await stay(service, asking, self._body, self._looked, target)
        return missed

    async def _summarize(self, attempt: Attempt, said: _Said) -> Missed | None:
        """Have a summary written by a target; give how it failed, or None if the client has its answer."""
        account, request, made = self._account, self._request, len(self._account.record.attempts)
        try:
            detached = await _summarized(self._service, request, account, self._asking, said, attempt.target)
        except BadAnswer as error:
            self._errors[attempt] = error
            failure = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=str(error))
            return Missed(failure=failure, attempt=attempt, kind=AttemptOutcome.UNREADABLE)
        if detached.status == 200:
            account.finalize()
            request.respond(detached.status, detached.headers, detached.answer)
            return None
        failure = codec_of(self._asking.api_path.protocol).decode_failure(detached.status, detached.answer)
        calls = account.record.attempts[made:]
        if not calls and failure.status < 500:
            # The target cannot be asked this: nothing was sent to it.
            raise RefusedError("", "", failure.message)
        attempt.status, attempt.headers = detached.status, detached.headers
        kind = AttemptOutcome(calls[-1].kind) if calls else AttemptOutcome.FULL
        answer = ErrorAnswer(status=detached.status, headers=detached.headers, failure=failure, body=detached.answer)
        return Missed(failure=failure, attempt=attempt, answer=answer, kind=kind)


def _compacts(target: Target) -> bool:
    """Whether a target has compaction; of others a summary is requested."""
    return target.endpoint.protocol == RESPONSES


def _unsettled(_: Record) -> None:
    """Nothing was told yet."""


async def _known(body: bytes) -> bytes:
    return body


def _asked(body: bytes, *, recalled: bool) -> tuple[JsonList, bytes]:
    """The items that are to be compacted, and the request for it."""
    wire = weighed_object(body)
    items = _items(wire.get("input"))
    asked: JsonObject = {name: value for name, value in wire.items() if name not in _OTHERS}
    asked |= {"input": [*items, _TRIGGER], "store": False}
    if not recalled and wire.get("previous_response_id") is not None:
        # Without a store it leads nowhere, which the library tells.
        asked["previous_response_id"] = wire["previous_response_id"]
    return items, encode(asked)


def _told(items: JsonList, answer: bytes, exchange: str) -> bytes:
    response = decode_object(answer)
    if response.get("status") != "completed":
        # This endpoint has no word for half a summary, and its client is about to forget the rest.
        raise BadAnswer("the provider gave no complete summary of the conversation")
    return encode(_compacted(items, response, exchange))


def _items(said: JsonValue) -> JsonList:
    if isinstance(said, str):
        return [{"type": "message", "role": "user", "content": said}]
    if not isinstance(said, list):
        raise WireError("/input", "a string or items", "nothing")
    return said


def _compacted(items: JsonList, response: JsonObject, exchange: str) -> JsonObject:
    """The answer as this endpoint gives it."""
    users = [encode(item) for item in items if isinstance(item, dict) and item.get("role") == "user"]
    told: JsonList = [item_shown(item) for item in items_of(users)]
    output = response.get("output")
    for item in output if isinstance(output, list) else ():
        if named_in(encode(item)).type == "compaction":
            told.append(item)
    return {
        "id": "resp_" + answer_suffix(exchange),
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": told,
        "usage": response["usage"],
    }
