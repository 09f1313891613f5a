"""What providers themselves say that an answer cost."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Extras
from dragoman.model.response import Usage
from dragoman.prices.reported_cost import reported_cost_of
from dragoman.wire.json import decode_object

# Members of a usage, and nano-dollars.
SAID: dict[str, tuple[bytes, int | None]] = {
    "openrouter": (b'{"cost":0.00014}', 140_000),
    "openrouter, with an exponent": (b'{"cost":1.4e-4}', 140_000),
    "openrouter, nothing": (b'{"cost":0}', 0),
    "openrouter, less than is counted": (b'{"cost":0.0000000001}', 0),
    "openrouter, with a key of one's own": (
        b'{"cost":0.01,"is_byok":true,"cost_details":{"upstream_inference_cost":0.2}}',
        210_000_000,
    ),
    "openrouter, with its own key": (
        b'{"cost":0.01,"is_byok":false,"cost_details":{"upstream_inference_cost":0.01}}',
        10_000_000,
    ),
    "perplexity": (b'{"cost":{"input_tokens_cost":0.001,"total_cost":0.006}}', 6_000_000),
    "xai": (b'{"cost_in_usd_ticks":37756000}', 3_775_600),
    "text": (b'{"cost":"0.5"}', 500_000_000),
    "nothing": (b'{"other":1}', None),
    "null": (b'{"cost":null}', None),
    "true": (b'{"cost":true}', None),
    "a list": (b'{"cost":[1]}', None),
    "an object without a total": (b'{"cost":{}}', None),
    "below nothing": (b'{"cost":-1}', None),
    "words": (b'{"cost":"much"}', None),
    "no number": (b'{"cost":"NaN"}', None),
    "without end": (b'{"cost":"Infinity"}', None),
    "more than there is": (b'{"cost":1e300}', None),
    "more than can be reckoned with": (b'{"cost":"1e999999999"}', None),
    "ticks beyond that": (b'{"cost_in_usd_ticks":"9e999999999"}', None),
    "another's part beyond that": (
        b'{"cost":1,"is_byok":true,"cost_details":{"upstream_inference_cost":"1e999999"}}',
        1_000_000_000,
    ),
    "less than can be reckoned with": (b'{"cost":"1e-999999999"}', 0),
    "very many digits": (b'{"cost":0.' + b"1" * 100 + b"}", None),
}


@pytest.mark.parametrize("case", SAID)
def test_pitfall_417_what_a_provider_says_is_read(case: str) -> None:
    told, nano = SAID[case]
    fields: JsonObject = decode_object(told)
    assert reported_cost_of(Usage(input=1, output=1, extras=Extras(origin="openai-chat", fields=fields))) == nano


def test_most_say_nothing() -> None:
    assert reported_cost_of(Usage(input=1, output=1)) is None
