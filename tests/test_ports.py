"""Two processes of tests never have the same port."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests import ports

_CLAIM = (
    "import json, sys; from tests import ports; print(json.dumps([ports.claim(int(port)) for port in sys.argv[1:]]))"
)


def test_a_port_is_given_to_nobody_else() -> None:
    bound = ports.bound_socket()
    try:
        given = [ports.free_port() for _ in range(50)]
        assert len({*given, bound.getsockname()[1]}) == 51
    finally:
        bound.close()


def test_another_process_cannot_claim_it() -> None:
    # The port of a socket that is bound needs no claim: binding it fails.
    with ports.bound_socket() as bound:
        asked = [ports.free_port(), ports.free_port(), bound.getsockname()[1]]
        child = subprocess.run(
            [sys.executable, "-c", _CLAIM, *map(str, asked)],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            check=True,
            timeout=60,
        )
    assert json.loads(child.stdout) == [False, False, True]
