"""Deferred output: buffers data for a client until a condition holds, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.http.request import ResponseOutput


class DeferredOutput:
    """A channel that buffers until it is released."""

    def __init__(self, channel: ResponseOutput) -> None:
        self._channel = channel
        self._pieces: list[bytes] = []
        self._severed: bool | None = None
        self._after: list[Callable[[], None]] = []

    @property
    def gone(self) -> bool:
        """Whether nothing that is written can arrive any more."""
        return self._channel.gone

    @property
    def retiring(self) -> bool:
        """Whether the connection ends with the present exchange."""
        return self._channel.retiring

    def send(self, data: bytes) -> None:
        """Keep a piece back."""
        self._pieces.append(data)

    def after_sending(self, call: Callable[[], None]) -> None:
        """Call this when the client has read the buffered data, or is gone."""
        self._after.append(call)

    def sever(self, reset: bool) -> None:
        """Break off after the buffered data."""
        self._severed = reset

    def release(self) -> ResponseOutput:
        """Send everything; returns the real channel."""
        pieces, self._pieces = self._pieces, []
        if pieces:
            self._channel.send(b"".join(pieces))
        for call in self._after:
            self._channel.after_sending(call)
        if self._severed is not None:
            self._channel.sever(self._severed)
        return self._channel
