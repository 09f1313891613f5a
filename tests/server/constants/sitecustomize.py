"""Sets constants of the gateway in a process that a test starts.

Every interpreter with this directory on its path runs this file first.

Intervals and limits that no setting changes become a test's own in this way: an interval of hundredths of a second,
or a limit that no test reaches. The constants are set in the given order, each before other modules import it.
"""

import os

if given := os.environ.get("TEST_CONSTANTS"):
    import importlib
    import json

    for name, value in json.loads(given).items():
        module, _, constant = name.rpartition(".")
        assert hasattr(importlib.import_module(module), constant), name
        setattr(importlib.import_module(module), constant, value)
