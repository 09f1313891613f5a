"""A peer as a process: it sees settings of its own alone, and its port may be one that it selects."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from msgspec import structs

from bench.gateway.process import cores
from bench.peers.peers import PEERS, Peer, Place, running, start

_WORDS = """
import os, time
print(sorted(os.environ))
print("serving on http://127.0.0.1:4711/openai/v1", flush=True)
time.sleep(60)
"""


def command(place: Place) -> list[str]:
    assert place.config.exists()
    return [sys.executable, "-c", _WORDS]


@pytest.fixture
def peer() -> Peer:
    """TensorZero's entry, with another program."""
    return structs.replace(PEERS[0], command=command)


def test_a_peer_gets_no_variable_of_the_user(peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    with start(peer, tmp_path, tmp_path, cores().measured, 4321) as served:
        program = running(peer, tmp_path, served)
        assert program.served.port == 4711
        names = re.findall(r"'(\w+)'", served.log.read_text())
    assert {"HOME", "HTTPS_PROXY", "MOCK_KEY"} <= set(names)
    assert "OPENAI_API_KEY" not in names
    assert (program.base, program.prefix, program.cases) == (peer.base, peer.prefix, peer.cases)
