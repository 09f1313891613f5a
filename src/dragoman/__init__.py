"""Dragoman: any program that uses a language model, to any provider of one. Three protocols (`anthropic-messages`,
`openai-chat`, `openai-responses`), one canonical model, and a loss ledger. `__all__` is the public interface."""

from __future__ import annotations

from dragoman.errors import DragomanError, RefusedError, StrictError, WireError
from dragoman.library import (
    StreamTranslator,
    translate_failure,
    translate_headers,
    translate_request,
    translate_response,
)
from dragoman.mint import system_mint
from dragoman.model.failure import Failure
from dragoman.model.losses import Ledger
from dragoman.model.response import Response, Usage
from dragoman.protocols.codec import Mint, ProtocolName
from dragoman.rules.capabilities import Capabilities, CapabilityRow, capabilities_of
from dragoman.translate import LossLine, TranslatedRequest, TranslatedResponse

__all__ = [
    "Capabilities",
    "CapabilityRow",
    "DragomanError",
    "Failure",
    "Ledger",
    "LossLine",
    "Mint",
    "ProtocolName",
    "RefusedError",
    "Response",
    "StreamTranslator",
    "StrictError",
    "TranslatedRequest",
    "TranslatedResponse",
    "Usage",
    "WireError",
    "capabilities_of",
    "system_mint",
    "translate_failure",
    "translate_headers",
    "translate_request",
    "translate_response",
]

__version__ = "0.1.0"
