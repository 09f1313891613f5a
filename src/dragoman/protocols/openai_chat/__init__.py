"""OpenAI Chat Completions and compatible servers: requests, responses, streams and errors, decoded and encoded."""

from __future__ import annotations

from dragoman.protocols.codec import Codec, ModelLists, TurnRestorer
from dragoman.protocols.openai_chat.failure import decode_limits
from dragoman.protocols.openai_chat.messages import encode_turn
from dragoman.protocols.openai_chat.missing_reasoning import repair_reasoning
from dragoman.protocols.openai_chat.relay import (
    include_usage,
    plain_end,
    relay_request,
    sign_calls,
    withhold_usage,
    without_reasoning,
)
from dragoman.protocols.openai_chat.request_decoder import decode_request, recognises
from dragoman.protocols.openai_chat.request_encoder import encode_request
from dragoman.protocols.openai_chat.request_glance import REFERENCE_KEYS, TIERS, ChatGlance
from dragoman.protocols.openai_chat.response import decode_response, encode_response
from dragoman.protocols.openai_chat.shapes import MODEL_MEMBERS, NAME, PATH, VENDOR
from dragoman.protocols.openai_chat.stream_decoder import ChatStreamDecoder
from dragoman.protocols.openai_chat.stream_encoder import ChatStreamEncoder
from dragoman.protocols.openai_chat.turn_restore import MARKER, build_cached_turn, lacking, restore
from dragoman.protocols.openai_chat.usage import usage_of, usual_usage
from dragoman.rules.failures import decode_openai_failure, encode_openai_failure
from dragoman.rules.model_lists import OPENAI, encode_openai_model, encode_openai_models
from dragoman.rules.retry_delays import encode_openai_limits
from dragoman.wire.sse import comment

__all__ = ["CODEC", "NAME"]


CODEC = Codec(
    name=NAME,
    vendor=VENDOR,
    serial=False,
    path=PATH,
    recognises=recognises,
    decode_request=decode_request,
    encode_request=encode_request,
    history="messages",
    history_blockers=(b'"function_call"', b'"custom"'),
    reuses=True,
    relay_request=relay_request,
    without_reasoning=without_reasoning,
    repair_reasoning=repair_reasoning,
    sign_calls=sign_calls,
    include_usage=include_usage,
    withhold_usage=withhold_usage,
    plain_end=plain_end,
    decode_response=decode_response,
    encode_response=encode_response,
    usage_of=usage_of,
    usual_usage=usual_usage,
    glance=ChatGlance,
    reference_keys=REFERENCE_KEYS,
    model_members=MODEL_MEMBERS,
    tiers=TIERS,
    decode_failure=decode_openai_failure,
    encode_failure=encode_openai_failure,
    stream_decoder=ChatStreamDecoder,
    stream_encoder=ChatStreamEncoder,
    encode_turn=encode_turn,
    turn_restorer=TurnRestorer(build_cached_turn=build_cached_turn, marker=MARKER, lacking=lacking, restore=restore),
    decode_limits=decode_limits,
    encode_limits=encode_openai_limits,
    heartbeat=comment("keep-alive"),
    models=ModelLists(form=OPENAI, path="/models", encode_one=encode_openai_model, encode_all=encode_openai_models),
)
