"""Streams, both ways: frames to events, events to frames."""

from __future__ import annotations

from dragoman.protocols.anthropic_messages.stream_decoder import MessagesStreamDecoder
from dragoman.protocols.anthropic_messages.stream_encoder import PING, MessagesStreamEncoder

__all__ = ["PING", "MessagesStreamDecoder", "MessagesStreamEncoder"]
