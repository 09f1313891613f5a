"""One call to a provider is noted in the record and ended, whatever happens."""

from __future__ import annotations

import pytest

from dragoman.errors import DragomanError
from dragoman.gateway.exchange.one_call import one_call
from dragoman.gateway.records.account import Account
from dragoman.gateway.records.record import Record
from dragoman.providers.order import Order
from tests.gateway.harness import CHAT, House, running

BODY = b'{"model":"text","messages":[{"role":"user","content":"Hello."}]}'


async def called(house: House, path: str, *, breaks: bool = False) -> tuple[Account, bytes]:
    service = house.app.service
    target = service.routes.target("echo/text", CHAT)
    account = service.account(Record(id="req_1", dialect=CHAT, path="", started=service.clock(), time=0.0))
    order = Order(
        provider=target.provider,
        endpoint=target.endpoint,
        model=target.model,
        stream=False,
        body=BODY,
        headers=[],
        key=None,
        path=path,
    )
    async with one_call(service, account, target, order) as (flight, _):
        if breaks:
            raise DragomanError("no more of this")
        return account, await flight.read(100_000)


def test_the_answer_is_handed_over_and_the_call_is_noted() -> None:
    with running() as house:
        account, body = house.run(called(house, "/chat/completions"))
    assert b"Hello." in body
    [attempt] = account.record.attempts
    assert (attempt.provider, attempt.model, attempt.protocol, attempt.status) == ("echo", "text", CHAT, 200)


def test_an_error_of_the_provider_is_an_answer_too() -> None:
    with running() as house:
        account, _ = house.run(called(house, "/nowhere"))
    assert account.record.attempts[0].status == 404


def test_what_is_raised_inside_comes_out() -> None:
    with running() as house, pytest.raises(DragomanError, match="no more of this"):
        house.run(called(house, "/chat/completions", breaks=True))
