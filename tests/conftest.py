"""Settings that every test shares: plugins of our own, hypothesis profiles, a temporary directory for each process."""

import atexit
import gc
import os
import platform
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.store.copied_tables import copied_tables

# Here, because the process that distributes the tests reads no conftest file of a single folder.
pytest_plugins = (
    "tests.rings",
    "tests.isolation",
    "tests.engines",
    "tests.ordering",
    "tests.results",
    "tests.reports",
    "tests.sharing",
    "tests.clients.matrix",
)

# A directory for each process that runs tests, so that what a test leaves behind in it is its own.
_directory = tempfile.mkdtemp(prefix="tests-")
# Tests that run as another user look for their own directories in it.
Path(_directory).chmod(0o711)
atexit.register(shutil.rmtree, _directory, ignore_errors=True)
os.environ["TMPDIR"] = tempfile.tempdir = _directory
# State of gateways under test stays out of the state of whoever runs the tests.
os.environ["XDG_STATE_HOME"] = f"{_directory}/state"
# Gateways and commands that tests start would compile every module again, for 0.6 s each, if no bytecode may be
# written beside the source. The processes that run tests inherit the cache of the one that distributes them.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", "") and "PYTHONPYCACHEPREFIX" not in os.environ:
    _bytecode = Path(_directory, "bytecode")
    _bytecode.mkdir()
    os.environ["PYTHONPYCACHEPREFIX"] = str(_bytecode)

# The official SDKs send the name of the platform. Its first call starts `uname -p`, its later ones start nothing.
platform.platform()

# A child inherits ignored signals, unlike handled ones. nohup ignores SIGHUP, a shell's background job SIGINT: the
# gateways that tests start must hear both.
for _number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda number, frame: None)

# No deadline and no check of generation speed: both measure the machine, and tests run in parallel. The same examples
# on every run, so that a red run is the change's doing; `make nightly` searches.
_SLOW = (HealthCheck.too_slow,)
settings.register_profile(
    "test", derandomize=True, deadline=None, max_examples=20, print_blob=True, suppress_health_check=_SLOW
)
settings.register_profile("quick", settings.get_profile("test"), max_examples=4)
settings.register_profile("nightly", deadline=None, max_examples=500, print_blob=True, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, which walks all of them again and again, then and later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        # Tests make much garbage that is no cycle.
        gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _tables_are_copied() -> Iterator[None]:
    with copied_tables():
        yield
