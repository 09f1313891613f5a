"""Dragoman: any program that uses a language model, to any provider of one. Three protocols (`anthropic-messages`,
`openai-chat`, `openai-responses`), one canonical model, and a loss ledger. `__all__` is the public interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

# The module of each public name. Names load when they are used: a command needs few of them.
_MODULES = {
    "Capabilities": "dragoman.rules.capabilities",
    "CapabilityRow": "dragoman.rules.capabilities",
    "DragomanError": "dragoman.errors",
    "Failure": "dragoman.model.failure",
    "Ledger": "dragoman.model.losses",
    "LossLine": "dragoman.translate",
    "Mint": "dragoman.protocols.codec",
    "ProtocolName": "dragoman.protocols.codec",
    "RefusedError": "dragoman.errors",
    "Response": "dragoman.model.response",
    "StreamTranslator": "dragoman.library",
    "StrictError": "dragoman.errors",
    "TranslatedRequest": "dragoman.translate",
    "TranslatedResponse": "dragoman.translate",
    "Usage": "dragoman.model.response",
    "WireError": "dragoman.errors",
    "capabilities_of": "dragoman.rules.capabilities",
    "system_mint": "dragoman.mint",
    "translate_failure": "dragoman.library",
    "translate_headers": "dragoman.library",
    "translate_request": "dragoman.library",
    "translate_response": "dragoman.library",
}

if not TYPE_CHECKING:
    # Hidden from type checkers, which would otherwise take every name for one of this package.
    def __getattr__(name: str) -> object:
        """Load a public name at its first use (PEP 562)."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        """The names of the package, including public names that are not loaded yet."""
        return sorted({*globals(), *__all__})
