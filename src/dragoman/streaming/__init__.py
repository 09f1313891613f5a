"""Stream pipeline: translates a provider's stream, cut anywhere, into the client's stream (`translator`).

bytes ─▶ `source`: SseReader ─▶ StreamDecoder ─▶ [stop emulation] ─▶ client side ─▶ bytes; `tap` watches

client side   condition                         handling of events
Translation   the protocols differ              [PartSerializer] ─▶ StreamEncoder
Relay         the protocols are the same        frames are forwarded unchanged
Collection    the client requested no stream    events are folded into the full response, sent at the end
Summary       a compaction's summary (K1)       events are folded into the compaction, sent at the end as a stream

Bytes that begin with `{` are a full response, sent when the call is over (S12). However the provider ends, the client's
stream ends in its own protocol: with its terminator if the response was complete, else with its error form."""

from __future__ import annotations

from dragoman.streaming.tap import Tap
from dragoman.streaming.translator import DEFAULT_LIMIT, Advance, Flow, StreamPipeline

__all__ = ["DEFAULT_LIMIT", "Advance", "Flow", "StreamPipeline", "Tap"]
