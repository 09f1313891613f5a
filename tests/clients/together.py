"""Together: tests that share a client's process are run by one worker, so that it is started once.

The marks that pytest-xdist has for that (`xdist_group`) are lost on the way under pytest 9.2: what belongs together is
told by the names of the tests instead.
"""

from __future__ import annotations

import re
from zlib import crc32

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]  # pytest-xdist tells no types
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # likewise

from tests.clients.cells import PROTOCOLS

# One server of OpenCode serves all its tests; what was built or installed once is looked at by several.
_AS_ONE = (
    "tests/clients/test_opencode.py",
    "tests/dist/test_contents.py",
    "tests/dist/test_image.py",
    "tests/dist/test_make_run.py",
)
# Programs that run all scenarios on one provider.
_BY_PROTOCOL = ("tests/clients/test_vercel_ai.py", "tests/clients/test_node_sdks.py")
_PYTHON = "tests/clients/test_python_clients.py"
# A client's name goes first in the brackets, up to the way in which it is used; other tests there look at one of them.
_client = re.compile(r"test_the_client_does_it\[([A-Za-z ]+)").search
_OTHERS = {"tool_runner": "Anthropic SDK for Python", "responses_provider": "OpenAI Agents SDK"}
# Other tests belong to nobody; they are handed out in parts of their files.
_PARTS = 16


def group_of(test: str) -> str:
    """The name of what a test is run together with."""
    path, _, name = test.partition("::")
    protocol = next((protocol for protocol in PROTOCOLS if f"{protocol}-" in name or f"{protocol}]" in name), "")
    if path in _AS_ONE:
        return path
    if path in _BY_PROTOCOL:
        return f"{path} {protocol}"
    if path == _PYTHON:
        found = _client(name)
        client = found[1].strip() if found else next((_OTHERS[word] for word in _OTHERS if word in name), name)
        return f"{path} {client} {protocol or PROTOCOLS[-1]}"
    return f"{path} {crc32(name.encode()) % _PARTS}"


class _Together(LoadScopeScheduling):  # type: ignore[misc]  # of a package without types
    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Together:
    """Hand tests out by groups."""
    return _Together(config, log)
