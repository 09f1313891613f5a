"""Statement watcher: a thread that ends the statement of a connection whose server does not answer in time.

The driver waits for ever for a server whose processes are stopped, because the kernel still acknowledges for them. It
returns at once when another thread shuts the socket down.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time

from dragoman.store.errors import store_error


class StatementWatcher:
    """The watcher of one connection. Its thread wakes at the deadline of a statement, not at its begin and end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None
        # When the running statement must have ended, and when the thread looks next.
        self._deadline = math.inf
        self._wakes = math.inf
        self._is_closed = False
        # Whether the present socket was shut down.
        self.has_fired = False

    def watch(self, descriptor: int) -> None:
        """Watch the socket of a new connection in place of an earlier one."""
        self.forget()
        duplicate = socket.socket(fileno=os.dup(descriptor))
        with self._changed:
            self._socket, self.has_fired = duplicate, False
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="statements", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise store_error(error) from None
            self._thread = thread

    def forget(self) -> None:
        """Let go of the socket."""
        with self._changed:
            watched, self._socket = self._socket, None
        if watched is not None:
            watched.close()

    def begin(self, seconds: float) -> None:
        """A statement begins that must end within some seconds."""
        with self._changed:
            self._deadline = time.monotonic() + seconds
            if self._deadline < self._wakes:
                self._changed.notify()

    def end(self) -> None:
        """The statement has ended."""
        # The thread finds that out when it wakes.
        with self._changed:
            self._deadline = math.inf

    def close(self) -> None:
        """End the thread."""
        self.forget()
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _serve(self) -> None:
        with self._changed:
            while not self._is_closed:
                remaining = self._deadline - time.monotonic()
                if remaining <= 0:
                    self._shut_down()
                    self._deadline = remaining = math.inf
                self._wakes = self._deadline
                self._changed.wait(None if remaining == math.inf else remaining)

    def _shut_down(self) -> None:
        if self._socket is not None:
            self.has_fired = True
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                # The server closed it meanwhile, which ends the statement, too.
                return
