"""Anthropic Messages: https://platform.claude.com/docs/en/api/messages. Requests of the same protocol are relayed; the
encoders write those of others. Capabilities of models are in `rules`."""

from __future__ import annotations

from dragoman.protocols.anthropic_messages.failure import decode_failure, decode_limits, encode_failure, encode_limits
from dragoman.protocols.anthropic_messages.missing_reasoning import repair_reasoning
from dragoman.protocols.anthropic_messages.models import encode_model, encode_models
from dragoman.protocols.anthropic_messages.relay import plain_end, relay_request, resume_request, without_reasoning
from dragoman.protocols.anthropic_messages.request_decoder import decode_request, recognises
from dragoman.protocols.anthropic_messages.request_encoder import encode_request
from dragoman.protocols.anthropic_messages.request_glance import REFERENCE_KEYS, TIERS, MessagesGlance
from dragoman.protocols.anthropic_messages.response import decode_response, encode_response, encode_turn
from dragoman.protocols.anthropic_messages.shapes import MODEL_MEMBERS, NAME, PATH, SAMPLING_VERSION, VENDOR
from dragoman.protocols.anthropic_messages.stream_decoder import MessagesStreamDecoder
from dragoman.protocols.anthropic_messages.stream_encoder import PING, MessagesStreamEncoder
from dragoman.protocols.anthropic_messages.usage import usage_of
from dragoman.protocols.codec import Codec, ModelLists

CODEC = Codec(
    name=NAME,
    vendor=VENDOR,
    serial=True,
    path=PATH,
    recognises=recognises,
    decode_request=decode_request,
    encode_request=encode_request,
    history="messages",
    reuses=True,
    relay_request=relay_request,
    without_reasoning=without_reasoning,
    repair_reasoning=repair_reasoning,
    resume_request=resume_request,
    plain_end=plain_end,
    decode_response=decode_response,
    encode_response=encode_response,
    usage_of=usage_of,
    glance=MessagesGlance,
    reference_keys=REFERENCE_KEYS,
    model_members=MODEL_MEMBERS,
    tiers=TIERS,
    decode_failure=decode_failure,
    encode_failure=encode_failure,
    stream_decoder=MessagesStreamDecoder,
    stream_encoder=MessagesStreamEncoder,
    encode_turn=encode_turn,
    decode_limits=decode_limits,
    encode_limits=encode_limits,
    heartbeat=PING,
    models=ModelLists(
        form=NAME,
        path="/v1/models",
        query="limit=1000",
        headers={"anthropic-version": SAMPLING_VERSION},
        encode_one=encode_model,
        encode_all=encode_models,
    ),
)

__all__ = ["CODEC", "NAME"]
