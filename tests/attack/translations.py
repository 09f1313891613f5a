"""CPU time of single translations of hostile shapes: `python -m tests.attack.translations`, and part of `make attack`.

The laws count steps and assert that they are linear. Steps do not see loops inside of C functions, such as a search in
a list, so the time of 100 KB of every shape is measured here: none should take 100 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from dragoman.tokens.request import count_request
from dragoman.wire.json import decode_object, encode
from tests.laws.crowds import crowds
from tests.laws.floods import FLOODS
from tests.laws.strategies import ANSWERS, FIELDS, PROTOCOLS, single_answers, single_requests
from tests.laws.test_bounded_translation import answered, larger_bodies, written
from tests.laws.test_termination import told

SIZE = 100_000
_SHOWN = 10


def measured() -> Iterator[tuple[float, str]]:
    """CPU seconds of each shape between each pair of protocols, the better of two."""
    for name, work in _works():
        taken = []
        for _ in range(2):
            before = time.thread_time()
            work()
            taken.append(time.thread_time() - before)
        yield min(taken), name


def _works() -> Iterator[tuple[str, Callable[[], object]]]:
    for source in PROTOCOLS:
        for name, crowd in crowds(source, every=False).items():
            body = encode(crowd(SIZE))
            yield f"count of {name}: {source}", partial(count_request, decode_object(body), "gpt-5")
            for target in PROTOCOLS:
                yield f"{name}: {source} to {target}", partial(written, body, source, target)
        for name, make in larger_bodies(single_requests(source), FIELDS[source], every=False):
            body = make(SIZE)
            for target in PROTOCOLS:
                yield f"{name}, to {target}", partial(written, body, source, target)
        for name, make in larger_bodies(single_answers(source), ANSWERS[source], every=False):
            body = make(SIZE)
            for target in PROTOCOLS:
                yield f"{name}, streamed to {target}", partial(answered, body, source, target, stream=True)
        for name, flood in FLOODS[source].items():
            body = flood(SIZE * 100 // len(flood(100)))
            for target in PROTOCOLS:
                yield f"stream of {name}: {source} to {target}", partial(told, source, target, body)


def main() -> None:
    """Print the slowest."""
    print(f"{'100 KB of':100} {'CPU ms':>7}", flush=True)
    for seconds, name in sorted(measured(), reverse=True)[:_SHOWN]:
        print(f"{name:100.100} {1000 * seconds:7.0f}", flush=True)


if __name__ == "__main__":
    main()
