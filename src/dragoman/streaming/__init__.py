"""StreamPipeline: a provider's stream, cut anywhere, as what its client expects.

`source` is the provider's side, `lanes` and `relay` are the client's; `translator` joins them, and `tap` is for whoever
watches.

    bytes ─▶ SseReader ─▶ StreamDecoder ─▶ [stop emulation] ─▶ lane ─▶ bytes

Bytes that begin with `{` are a whole answer, though a stream was asked for: it is told when the call is over (S12).

    lane          when                              what it does with the events
    translation   the protocols differ              [Serializer] ─▶ StreamEncoder
    relay         the protocols are the same        only watches; whole frames go on as they came
    collection    the client did not ask to stream  folds them; the whole answer is told at the end
    summary       the answer stands for a           folds them; the compaction is told at the end, as a stream
                  compaction (K1)

However the provider ends, the client's stream ends as its own protocol demands: with its terminator if the answer was
complete, with its error form if not.
"""

from __future__ import annotations

from dragoman.streaming.tap import Tap
from dragoman.streaming.translator import DEFAULT_LIMIT, Advance, Flow, StreamPipeline

__all__ = ["DEFAULT_LIMIT", "Advance", "Flow", "StreamPipeline", "Tap"]
