"""System: what a command needs of the machine that it is called on."""

from __future__ import annotations

import sys

from dragoman.errors import DragomanError


def refuse_windows() -> None:
    """Refuse to serve on Windows, which has neither the processes nor the signals that a gateway is made of."""
    if sys.platform == "win32":
        raise DragomanError(
            "a gateway does not run on Windows itself: use WSL, where it runs as on Linux (`wsl --install` sets it up)"
        )
