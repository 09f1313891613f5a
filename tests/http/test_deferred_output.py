"""What is kept back goes out in its order, once; who breaks off does so after it."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.http.deferred_output import DeferredOutput


class Noting:
    """A channel that notes what becomes of it."""

    def __init__(self) -> None:
        self.gone = False
        self.retiring = True
        self.seen: list[bytes | bool] = []

    def send(self, data: bytes) -> None:
        self.seen.append(data)

    def sever(self, reset: bool) -> None:
        self.seen.append(reset)

    def after_sending(self, call: Callable[[], None]) -> None:
        call()


def test_nothing_goes_out_before_it_is_released_and_then_everything_at_once() -> None:
    channel = Noting()
    held = DeferredOutput(channel)
    assert (held.gone, held.retiring) == (False, True)
    held.send(b"a")
    held.send(b"b")
    assert channel.seen == []
    assert held.release() is channel
    assert channel.seen == [b"ab"]
    held.release()
    assert channel.seen == [b"ab"]


def test_what_follows_the_sending_waits_for_the_release() -> None:
    channel, called = Noting(), [0]
    held = DeferredOutput(channel)
    held.send(b"a")
    held.after_sending(lambda: called.append(len(channel.seen)))
    assert called == [0]
    held.release()
    assert called == [0, 1]


def test_who_breaks_off_does_so_after_what_was_written() -> None:
    channel = Noting()
    held = DeferredOutput(channel)
    held.send(b"a")
    held.sever(True)
    assert channel.seen == []
    held.release()
    assert channel.seen == [b"a", True]
