"""Counts the bytes of JSON that the package reads and writes: this work is done in C, so it takes no steps.

counter = ByteCounter()
with counting_json(counter):
    translate_request(body, source=..., target=...)
assert counter.examined < 10 * len(body)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import BuiltinMethodType

import pytest
from msgspec import Raw
from msgspec.json import Decoder, Encoder

from tests.byte_counting import ByteCounter

Text = bytes | bytearray | memoryview | str | Raw


class _CountedDecoder:
    """A reader that counts the documents it reads."""

    def __init__(self, inner: Decoder[object], counter: ByteCounter) -> None:
        self._inner = inner
        self._counter = counter

    def decode(self, text: Text) -> object:
        self._counter.add(len(text) if isinstance(text, str) else memoryview(text).nbytes)
        return self._inner.decode(text)


class _CountedEncoder:
    """A writer that counts the documents it writes."""

    def __init__(self, inner: Encoder, counter: ByteCounter) -> None:
        self._inner = inner
        self._counter = counter

    def encode(self, value: object) -> bytes:
        text = self._inner.encode(value)
        self._counter.add(len(text))
        return text


@contextmanager
def counting_json(counter: ByteCounter) -> Iterator[None]:
    """Count while this block runs, in every module of the package that is loaded by now."""
    with pytest.MonkeyPatch.context() as patched:
        for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "dragoman"]:
            for name, value in list(vars(module).items()):
                if (counted := _counted(value, counter)) is not None:
                    patched.setattr(module, name, counted)
        yield


def _counted(value: object, counter: ByteCounter) -> _CountedDecoder | _CountedEncoder | Callable[..., object] | None:
    """The counting form of a reader, a writer or a method of one that a module holds; None for anything else."""
    owner = value.__self__ if isinstance(value, BuiltinMethodType) else value
    if isinstance(owner, Decoder):
        decoder = _CountedDecoder(owner, counter)
        return decoder if owner is value else decoder.decode
    if isinstance(owner, Encoder):
        encoder = _CountedEncoder(owner, counter)
        return encoder if owner is value else encoder.encode
    return None
