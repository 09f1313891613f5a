"""Messages of a client's stream: places of citations, log probabilities, and what closes a message."""

from __future__ import annotations

from openai.types.responses import ResponseTextDeltaEvent, ResponseTextDoneEvent

from dragoman.model.folding import unfold
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Citation, Text
from dragoman.model.response import StopReason
from dragoman.protocols.openai_responses.stream_message import FrameWriter
from dragoman.wire.json import decode_object
from dragoman.wire.sse import SseReader
from tests.protocols.openai_responses.asking import MESSAGES, answer, kinds, output, streamed, told


def cited(text: str) -> Text:
    native: JsonObject = {"type": "web_search_result_location", "url": "https://x.org", "cited_text": "x"}
    return Text(text=text, citations=(Citation(origin=MESSAGES, native=native, url="https://x.org", title="x"),))


def test_a_citation_has_the_place_of_its_block_in_the_part() -> None:
    response = answer(Text(text="Today is "), cited("sunny"), Text(text="."))
    events = streamed(unfold(response))
    (added,) = [event for event in events if event["type"] == "response.output_text.annotation.added"]
    annotation = added["annotation"]
    assert isinstance(annotation, dict)
    assert (annotation["start_index"], annotation["end_index"]) == (9, 14)
    whole, _ = told(response)
    terminal = events[-1]["response"]
    assert isinstance(terminal, dict) and terminal["output"] == output(whole)


def test_a_refusal_with_an_explanation_ends_incomplete() -> None:
    response = answer(Text(text="Partly."), reason=StopReason.REFUSAL, explanation="No.")
    events = streamed(unfold(response))
    assert kinds(events)[-1] == "incomplete"
    terminal = events[-1]["response"]
    assert isinstance(terminal, dict) and terminal["incomplete_details"] == {"reason": "content_filter"}
    whole, _ = told(response)
    assert terminal["output"] == output(whole)


def test_bytes_of_tokens_stand_only_in_the_finished_part() -> None:
    entry: JsonObject = {
        "token": "a",
        "bytes": [97],
        "logprob": -1,
        "top_logprobs": [{"token": "a", "bytes": [97], "logprob": -1}],
    }
    events = streamed(unfold(answer(Text(text="a", logprobs=[entry]))))
    bare = [{"token": "a", "logprob": -1, "top_logprobs": [{"token": "a", "logprob": -1}]}]
    told_in = {str(event["type"]): event for event in events}
    assert told_in["response.output_text.delta"]["logprobs"] == bare
    assert told_in["response.output_text.done"]["logprobs"] == bare
    ResponseTextDeltaEvent.model_validate(told_in["response.output_text.delta"])
    ResponseTextDoneEvent.model_validate(told_in["response.output_text.done"])
    part = told_in["response.content_part.done"]["part"]
    assert isinstance(part, dict) and part["logprobs"] == [entry]


def test_deltas_and_frames_are_numbered_together() -> None:
    frames = FrameWriter()
    frames.item_id = "msg_1"
    written = frames.item_added({"id": "msg_1"})
    frames.prepare("response.output_text.delta", {"content_index": 0}, b',"logprobs":[]')
    written += frames.delta('a "b"\n\u2028') + frames.delta("c")
    written += frames.in_item("response.output_text.done", {"text": frames.part_text()})
    written += frames.item_done({"id": "msg_1"})
    read = SseReader().feed(written)
    bodies = [decode_object(frame.data) for frame in read]
    assert [frame.event for frame in read] == [body["type"] for body in bodies]
    assert [body["sequence_number"] for body in bodies] == [0, 1, 2, 3, 4]
    assert bodies[1] == {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "delta": 'a "b"\n\u2028',
        "logprobs": [],
        "sequence_number": 1,
    }
    assert bodies[3]["text"] == 'a "b"\n\u2028c'
    assert frames.items == [{"id": "msg_1"}]
