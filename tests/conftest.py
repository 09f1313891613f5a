"""Settings that every test shares: the hypothesis profiles; and the matrix of clients, told at the end of a run.

`CI` in the environment selects "ci": the same examples on every run, so that a red build is the change's doing.
Otherwise "dev" draws new examples each time, and finds what nobody thought of.
"""

import atexit
import os
import signal
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

# Here, because the process that distributes the tests among others knows the conftest files of no single room.
pytest_plugins = ("tests.clients.matrix", "tests.clients.together")

# What a gateway keeps during tests is not kept among what its user has.
_state = TemporaryDirectory(prefix="dragoman-state-")
atexit.register(_state.cleanup)
os.environ["XDG_STATE_HOME"] = _state.name

# Whoever runs the tests with nohup has them go on; but what they start is to hear of a hang-up as anything else does.
# A signal that is ignored would be so there too, unlike one that is heard here.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)
_on_hangup = signal.getsignal(signal.SIGHUP)
# The same is true of a shell that runs them in the background, and of interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda number, frame: None)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Have hang-ups heard again: a gateway that was to start in this process ignores them until it has read its file.

    All that were started by this process later would ignore them, too.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _on_hangup)


# No deadline and no check of generation speed: both measure the machine, and tests run in parallel.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=60,
    print_blob=True,
    suppress_health_check=(HealthCheck.too_slow,),
)
settings.register_profile(
    "dev",
    deadline=None,
    max_examples=100,
    suppress_health_check=(HealthCheck.too_slow,),
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
