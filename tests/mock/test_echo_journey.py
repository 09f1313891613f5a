"""Translation seen from end to end: a client of each protocol in conversation with an echo of each other one."""

from __future__ import annotations

import asyncio
import json
from itertools import permutations

import pytest

from dragoman.errors import Truncated
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_request, translate_response
from tests.mock.calling import (
    LIMIT,
    PATIENCE,
    PROTOCOLS,
    Json,
    calls_of,
    collected,
    fly,
    next_turn,
    question,
    text_of,
)
from tests.sdk.oracles import check_answer, check_request, check_stream

PAIRS = list(permutations(PROTOCOLS, 2))


def converse(client: str, provider: str, body: Json, *, stream: bool) -> Json:
    """One turn: the client's question in the provider's protocol, and its answer as the client's SDK has it."""
    asked = {**body, "stream": True} if stream else body
    request = translate_request(json.dumps(asked), source=client, target=provider, vendor="echo")
    check_request(provider, json.loads(request.body), request.headers)

    async def run() -> Json:
        async with asyncio.timeout(PATIENCE):
            flight = fly(provider, request.body)
            await flight.head()
            if not stream:
                raw = await flight.read(LIMIT)
                assert flight.status == 200, raw
                whole = translate_response(raw, source=provider, target=client, request=request)
                answer: Json = json.loads(whole.body)
                check_answer(client, answer)
                return answer
            translator = StreamPipeline(source=provider, target=client, request=request)
            told = [translator.feed(piece) for piece in await collected(flight)]
            assert flight.status == 200, told
            return check_stream(client, b"".join([*told, translator.close()])).body

    return asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), PAIRS, ids=lambda name: str(name))
@pytest.mark.parametrize("model", ["tools", "parallel", "agent"])
def test_a_tool_loop_crosses_protocols(model: str, client: str, provider: str, stream: bool) -> None:
    body = question(client, model, "Oslo", tools=("weather", "news"))
    first = converse(client, provider, body, stream=stream)
    calls = calls_of(client, first)
    assert [name for _, name, _ in calls] == ["weather", "news"][: 2 if model == "parallel" else 1]
    following = next_turn(client, body, first, results=("rain", "no news")[: len(calls)])
    text = text_of(client, converse(client, provider, following, stream=stream))
    assert "The tool weather answered: rain" in text
    # The proof of the thought came home through a client that does not know its form.
    assert ("Of my earlier thoughts 1 came back to me." in text) is (model == "agent")


@pytest.mark.parametrize(("client", "provider"), PAIRS, ids=lambda name: str(name))
def test_a_stream_that_breaks_off_ends_in_the_clients_error_form(client: str, provider: str) -> None:
    body = question(client, "broken", "hi", stream=True)
    request = translate_request(json.dumps(body), source=client, target=provider, vendor="echo")
    translator = StreamPipeline(source=provider, target=client, request=request)
    told: list[bytes] = []

    async def run() -> None:
        async with asyncio.timeout(PATIENCE):
            await fly(provider, request.body).pump(lambda piece: told.append(translator.feed(piece)))

    with pytest.raises(Truncated):
        asyncio.run(run())
    assert check_stream(client, b"".join([*told, translator.close()])).error is not None
