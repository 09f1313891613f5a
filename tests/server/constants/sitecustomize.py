"""Sets constants of the gateway in a process that a test starts.

Every interpreter with this directory on its path runs this file first.

Intervals and limits that no setting changes become a test's own in this way: an interval of hundredths of a second,
or a limit that no test reaches. The constants are set in the given order, each before other modules import it. A name
may also be that of a function and one of its parameters, whose default value is set.

`TEST_CLOCK_AHEAD` is the number of seconds by which the wall clock of the process is ahead.
"""

import os

if ahead := float(os.environ.get("TEST_CLOCK_AHEAD", "0")):
    import time

    wall_clock, wall_clock_ns = time.time, time.time_ns
    time.time = lambda: wall_clock() + ahead
    time.time_ns = lambda: wall_clock_ns() + int(ahead * 1e9)

if given := os.environ.get("TEST_CONSTANTS"):
    import json
    from importlib import import_module
    from inspect import signature
    from types import FunctionType

    def holder_of(path: str) -> object:
        """A module, or something in it, by its name."""
        try:
            return import_module(path)
        except ModuleNotFoundError:
            outer, _, name = path.rpartition(".")
            held: object = getattr(holder_of(outer), name)
            return held

    for constant, value in json.loads(given).items():
        path, _, last = constant.rpartition(".")
        holder = holder_of(path)
        if isinstance(holder, FunctionType):
            parameters = signature(holder).parameters.values()
            if not any(each.name == last and each.default is not each.empty for each in parameters):
                raise SystemExit(f"no parameter with a default: {constant}")
            positional = [each for each in parameters if each.kind is not each.KEYWORD_ONLY]
            defaults = {each.name: each.default for each in positional if each.default is not each.empty}
            keywords = holder.__kwdefaults__ or {}
            holder.__defaults__ = tuple({**defaults, last: value}[name] for name in defaults)
            holder.__kwdefaults__ = {name: value if name == last else keywords[name] for name in keywords}
        elif hasattr(holder, last):
            setattr(holder, last, value)
        else:
            raise SystemExit(f"no constant: {constant}")
