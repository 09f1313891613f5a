"""Reasoning as a service of the protocol shows it, under a proof that no other answer has.

    protocol             shown                                            proof
    anthropic-messages   where thinking is on; its text unless omitted    `signature`, of the text and a nonce
    openai-responses     unless effort is none; a summary if asked for    `encrypted_content`, of the text and a nonce
    openai-chat          unless effort is none; `reasoning_content`       none

A proof can be checked without memory, so that what one run issued is still good in the next.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec.structs import replace

from dragoman.mock.answers.signatures import MESSAGES, RESPONSES, encrypted, sealed
from dragoman.mock.answers.signatures import signature as digest_of
from dragoman.mock.script import TURN_LETTERS
from dragoman.model.parts import Part, Thinking, ToolCall
from dragoman.model.request import Request, ThinkingMode
from dragoman.model.response import Response
from dragoman.protocols.codec import Mint

_NONCE = 14
_CALL_LETTERS = 8
# Models that think unless they are told not to, and those that show their thoughts unless they are told not to
# (docs/protocols/anthropic-messages.md §23).
_THINKING_BY_DEFAULT = ("*claude*[a-z]-5", "*claude*[a-z]-5[-.@]*")
_SHOWING_BY_DEFAULT = ("*claude-3*", "*-4-[0-6]*", "*-4.[0-6]*", "*-4-20*")


def sign(text: str, nonce: str) -> str:
    """The signature of a thought, the nonce at its end."""
    return digest_of(nonce + text).rstrip("=") + nonce


def is_signed(text: str, signature: str) -> bool:
    """Whether a signature belongs to a text; one of a thought that was not shown belongs to any."""
    nonce = signature[-_NONCE:]
    return signature in (sign(text, nonce), sign("", nonce))


def thinks(request: Request) -> bool:
    """Whether the model may think before this answer."""
    reasoning = request.reasoning
    if request.origin != MESSAGES:
        return reasoning.effort != "none"
    if reasoning.mode is None:
        return any(fnmatchcase(request.model.lower(), pattern) for pattern in _THINKING_BY_DEFAULT)
    return reasoning.mode is not ThinkingMode.DISABLED


def finished(response: Response, request: Request, mint: Mint) -> Response:
    """An answer with proofs and ids of its own."""
    turn = mint.token(TURN_LETTERS)
    parts = [_finished(part, request, turn, mint) for part in response.parts]
    return replace(response, parts=tuple(parts))


def _finished(part: Part, request: Request, turn: str, mint: Mint) -> Part:
    if isinstance(part, ToolCall) and not request.legacy_functions:
        prefix = part.call_id.partition("_")[0]
        return replace(part, call_id=f"{prefix}_{turn}{mint.token(_CALL_LETTERS)}")
    if isinstance(part, Thinking) and request.origin == MESSAGES:
        visible = _is_visible(request)
        token = sign(part.text if visible else "", mint.token(_NONCE))
        return sealed(part, MESSAGES, "", token=token, visible=visible)
    if isinstance(part, Thinking) and request.origin == RESPONSES:
        token = encrypted(f"{mint.token(_NONCE)}\n{part.text}")
        return sealed(part, RESPONSES, part.id or "", token=token, visible=request.reasoning.summary is not None)
    return part


def _is_visible(request: Request) -> bool:
    display = request.reasoning.display
    if display is not None:
        return display != "omitted"
    model = request.model.lower()
    # Servers of other models show what is thought.
    return "claude" not in model or any(fnmatchcase(model, pattern) for pattern in _SHOWING_BY_DEFAULT)
