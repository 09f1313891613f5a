"""Two processes of tests never have the same port."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.ports import BLOCK, bound_socket, free_port

_DRAW = f"from tests.ports import free_port; print(*(free_port() for _ in range({BLOCK})))"


def test_a_port_is_given_again_after_all_others() -> None:
    with bound_socket() as bound:
        given = [free_port() for _ in range(2 * BLOCK)]
        assert bound.getsockname()[1] not in given
    # Ports may be in use for a minute after a connection to them ended, and are passed over meanwhile.
    again = next(at for at, port in enumerate(given) if port in given[:at])
    assert given[again] == given[0]


def test_no_port_is_given_twice_in_a_short_time() -> None:
    assert len({free_port() for _ in range(20)}) == 20
    # All but one port of this process's blocks are in use.
    bound = [bound_socket() for _ in range(BLOCK - 1)]
    try:
        assert len({free_port() for _ in range(20)}) == 20
    finally:
        for each in bound:
            each.close()


def test_there_are_more_ports_while_all_are_in_use() -> None:
    bound = [bound_socket() for _ in range(BLOCK + 1)]
    try:
        assert len({each.getsockname()[1] for each in bound}) == BLOCK + 1
    finally:
        for each in bound:
            each.close()


def test_another_process_has_other_ports() -> None:
    own = {free_port() for _ in range(BLOCK)}
    child = subprocess.run(
        [sys.executable, "-c", _DRAW], cwd=Path(__file__).parents[1], capture_output=True, check=True, timeout=60
    )
    others = set(map(int, child.stdout.split()))
    assert others and not own & others
