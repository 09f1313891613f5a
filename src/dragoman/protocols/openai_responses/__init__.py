"""OpenAI Responses: requests, answers, streams and errors, both ways.

What belongs here is everything specific to this wire. What several wires share is in `rules`; what an item means to
another protocol is that protocol's room.
"""

from __future__ import annotations

from dragoman.protocols.codec import Codec, ModelLists
from dragoman.protocols.openai_responses.failure import decode_failure, decode_limits, encode_failure, encode_limits
from dragoman.protocols.openai_responses.output import encode_turn
from dragoman.protocols.openai_responses.relay import (
    ask_usage,
    keep_nothing,
    plain_end,
    rename_calls,
    repair_request,
    withhold_usage,
    without_reasoning,
)
from dragoman.protocols.openai_responses.request_decoder import decode_request, recognises
from dragoman.protocols.openai_responses.request_encoder import encode_request
from dragoman.protocols.openai_responses.request_features import KEEPSAKES, TIERS, opening_of, signs_of
from dragoman.protocols.openai_responses.response import decode_response, encode_response
from dragoman.protocols.openai_responses.session_hints import speech_of
from dragoman.protocols.openai_responses.shapes import NAME, PATH, UPSTREAM
from dragoman.protocols.openai_responses.stream_decoder import ResponsesStreamDecoder
from dragoman.protocols.openai_responses.stream_encoder import ResponsesStreamEncoder
from dragoman.protocols.openai_responses.usage import usage_of
from dragoman.rules.model_lists import OPENAI, encode_openai_model, encode_openai_models
from dragoman.wire.sse import comment

CODEC = Codec(
    name=NAME,
    upstream=UPSTREAM,
    serial=True,
    path=PATH,
    recognises=recognises,
    decode_request=decode_request,
    encode_request=encode_request,
    repair_request=repair_request,
    without_reasoning=without_reasoning,
    settle_thinking=None,
    prove_calls=None,
    without_telemetry=None,
    rename_calls=rename_calls,
    rename_cap=None,
    keep_nothing=keep_nothing,
    resume_request=None,
    ask_usage=ask_usage,
    withhold_usage=withhold_usage,
    plain_end=plain_end,
    decode_response=decode_response,
    encode_response=encode_response,
    usage_of=usage_of,
    signs_of=signs_of,
    keepsakes=KEEPSAKES,
    opening_of=opening_of,
    speech_of=speech_of,
    tiers=TIERS,
    decode_failure=decode_failure,
    encode_failure=encode_failure,
    stream_decoder=ResponsesStreamDecoder,
    stream_encoder=ResponsesStreamEncoder,
    encode_turn=encode_turn,
    kept_turns=None,
    decode_limits=decode_limits,
    encode_limits=encode_limits,
    heartbeat=comment("keep-alive"),
    models=ModelLists(form=OPENAI, path="/models", encode_one=encode_openai_model, encode_all=encode_openai_models),
)

__all__ = ["CODEC", "NAME"]
