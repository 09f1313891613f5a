"""Echo: a provider inside the process, always there, that needs no key and no network and says the same every time.

    Call ─▶ provider.reply_to ─▶ Reply ─▶ EchoFlight ─▶ head, read or pump
               │
               ├─ hearing     what the request says, as far as an echo cares
               ├─ models      who answers: a table of names, words and functions
               ├─ cutting     stop strings and the output cap
               └─ proofs      reasoning that is signed, and checked when it comes back

It speaks each protocol as a service would, through the same rooms as everybody else. What belongs here is how it
behaves; what a protocol looks like does not.
"""

from __future__ import annotations

from dragoman.echo.flight import EchoFlight, open_echo
from dragoman.echo.models import ECHO_MODELS, echo_models

__all__ = ["ECHO_MODELS", "EchoFlight", "echo_models", "open_echo"]
