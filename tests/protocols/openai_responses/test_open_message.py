"""Messages while they grow: words said again in others are reported."""

from __future__ import annotations

from dragoman.model.losses import Ledger
from dragoman.protocols.openai_responses import CODEC
from dragoman.wire.json import encode
from dragoman.wire.sse import Frame
from tests.protocols.openai_responses.asking import MINT, asked_abroad, lines, response_body
from tests.protocols.openai_responses.numbering import (
    folded,
    meaning,
    message,
    told_message,
    vendor,
)


def test_item_8_text_said_again_in_other_words_is_reported() -> None:
    ledger = Ledger()
    decoder = CODEC.stream_decoder(asked_abroad(), MINT, ledger)
    stream = [vendor()[0], *told_message(0, message("m", "The first words."))]
    stream.append({"type": "response.completed", "response": response_body(message("m", "Other words."))})
    found = [one for body in stream for one in decoder.feed(Frame(str(body["type"]), encode(body)))]
    assert meaning(folded(found))[0] == "The first words."
    assert lines(ledger) == ["approximated text parts[0]"]
