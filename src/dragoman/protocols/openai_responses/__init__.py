"""OpenAI Responses: requests, responses, streams and errors, decoded and encoded. Shared rules are in `rules`."""

from __future__ import annotations

from dragoman.protocols.codec import Codec, ModelLists
from dragoman.protocols.openai_responses.failure import decode_limits
from dragoman.protocols.openai_responses.output import encode_turn
from dragoman.protocols.openai_responses.relay import relay_request, without_reasoning, without_storage
from dragoman.protocols.openai_responses.request_decoder import decode_request, recognises
from dragoman.protocols.openai_responses.request_encoder import encode_request
from dragoman.protocols.openai_responses.request_glance import REFERENCE_KEYS, TIERS, ResponsesGlance
from dragoman.protocols.openai_responses.response import decode_response, encode_response
from dragoman.protocols.openai_responses.shapes import MODEL_MEMBERS, NAME, PATH, VENDOR
from dragoman.protocols.openai_responses.stream_decoder import ResponsesStreamDecoder
from dragoman.protocols.openai_responses.stream_encoder import ResponsesStreamEncoder
from dragoman.protocols.openai_responses.usage import usage_of
from dragoman.rules.failures import decode_openai_failure, encode_openai_failure
from dragoman.rules.model_lists import OPENAI, encode_openai_model, encode_openai_models
from dragoman.rules.retry_delays import encode_openai_limits
from dragoman.wire.sse import comment

# Every frame of a stream is parsed, because the end of a broken one must repeat its content: there is no `plain_end`.
CODEC = Codec(
    name=NAME,
    vendor=VENDOR,
    serial=True,
    path=PATH,
    recognises=recognises,
    decode_request=decode_request,
    encode_request=encode_request,
    history="input",
    history_blockers=(b"shell_call", b"tool_search_call"),
    reuses=True,
    relay_request=relay_request,
    without_reasoning=without_reasoning,
    without_storage=without_storage,
    decode_response=decode_response,
    encode_response=encode_response,
    usage_of=usage_of,
    glance=ResponsesGlance,
    reference_keys=REFERENCE_KEYS,
    model_members=MODEL_MEMBERS,
    tiers=TIERS,
    decode_failure=decode_openai_failure,
    encode_failure=encode_openai_failure,
    stream_decoder=ResponsesStreamDecoder,
    stream_encoder=ResponsesStreamEncoder,
    encode_turn=encode_turn,
    decode_limits=decode_limits,
    encode_limits=encode_openai_limits,
    heartbeat=comment("keep-alive"),
    models=ModelLists(form=OPENAI, path="/models", encode_one=encode_openai_model, encode_all=encode_openai_models),
)

__all__ = ["CODEC", "NAME"]
