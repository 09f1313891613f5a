"""`/responses/compact`: a provider that has it is asked, for others the model writes a summary (K1)."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from dragoman.accounts.ids import answer_suffix
from dragoman.config.settings import Key
from dragoman.errors import BadAnswer, WireError
from dragoman.gateway.endpoints.other_paths import pass_on
from dragoman.gateway.exchange.client import ClientRequest
from dragoman.gateway.exchange.driver import Driver
from dragoman.gateway.exchange.fixed_target import fixed_target, stay
from dragoman.gateway.exchange.provider_request import receive
from dragoman.gateway.large_work import beside_loop
from dragoman.gateway.paths import RESPONSES, ApiPath, api_path_of
from dragoman.gateway.records.account import Account
from dragoman.gateway.records.record import Record
from dragoman.gateway.service import Service
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.memory import look
from dragoman.gateway.stored_responses.recall import recalled_of
from dragoman.gateway.stored_responses.references import items_of, named_in
from dragoman.gateway.stored_responses.response_endpoint import item_shown
from dragoman.gateway.stored_responses.stored_state import looked_up, owner_of
from dragoman.gateway.value_limits import weighed_object
from dragoman.http.server import Request
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.protocols.openai_responses.shapes import COMPACTION_TRIGGER
from dragoman.wire.json import decode_object, encode

_TRIGGER: JsonObject = {"type": COMPACTION_TRIGGER}
# What is not the summary's: state that is resolved here, and forms of an answer that this endpoint does not have.
_OTHERS = frozenset({"input", "previous_response_id", "conversation", "store", "stream", "background"})


async def compact(service: Service, request: Request, api_path: ApiPath, account: Account, key: Key | None) -> None:
    """Answer with what stands for a conversation: what its user said, and one compaction."""
    name = account.record.key
    body = await receive(service, request, name)
    size, asked_for = len(body), body
    looked = await beside_loop(partial(look, body, api_path), size, name)
    account.note(asked=looked.model, size=len(body))
    asking = ClientRequest(api_path=api_path, headers=request.headers, key=key)
    target = await fixed_target(service, asking, body, looked)
    native = target.endpoint.protocol == RESPONSES
    found = await looked_up(service.state, service.settings, key, looked.said, body, target)
    if found is not None and looked.said is not None:
        size += found.size
        before = await beside_loop(partial(recalled_of, body, looked.said, found), size, name)
        body = before.body
    if native:
        await pass_on(service, request, api_path, account, owner=owner_of(key), target=target, body=body)
        if account.record.status == 200:
            await stay(service, asking, asked_for, looked, target)
        return
    items, asked = await beside_loop(partial(_asked, body, recalled=found is not None), size, name)
    detached = DetachedClient(behalf=request)
    client_request = replace(asking, api_path=api_path_of("/v1/responses"), target=target)
    # What is told comes of the summary, and only then it is settled.
    its_own = Account(account.record, service.clock, _unsettled)
    try:
        await Driver(service, client_request, detached, its_own).run(_known(asked))
    finally:
        account.adopt(its_own.record)
    answer = detached.answer
    if detached.status == 200:
        telling = partial(_told, items, answer, account.record.id)
        answer = await beside_loop(telling, size + len(answer), name, paid=True)
    account.settle()
    request.respond(detached.status, detached.headers, answer)


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
