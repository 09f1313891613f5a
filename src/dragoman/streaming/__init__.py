"""StreamPipeline: a provider's stream, cut anywhere, as its client expects it (`translator`).

    bytes ─▶ `source`: SseReader ─▶ StreamDecoder ─▶ [stop emulation] ─▶ client side ─▶ bytes; `tap` watches

    client side   when                              what it does with the events
    Translation   the protocols differ              [PartSerializer] ─▶ StreamEncoder
    Relay         the protocols are the same        only watches; frames are forwarded unchanged
    Collection    the client requested no stream    folds them into the full response, sent at the end
    Summary       a compaction's summary (K1)       folds them into the compaction, sent at the end as a stream

Bytes that begin with `{` are a full response, sent when the call is over (S12). However the provider ends, the client's
stream ends in its own protocol: with its terminator if the response was complete, else with its error form.
"""

from __future__ import annotations

from dragoman.streaming.tap import Tap
from dragoman.streaming.translator import DEFAULT_LIMIT, Advance, Flow, StreamPipeline

__all__ = ["DEFAULT_LIMIT", "Advance", "Flow", "StreamPipeline", "Tap"]
