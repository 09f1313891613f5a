"""Frames are numbered without a gap, and a prepared delta reads like any other frame."""

from __future__ import annotations

from dragoman.protocols.openai_responses.frames import FrameWriter
from dragoman.wire.json import decode_object
from dragoman.wire.sse import SseReader


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
