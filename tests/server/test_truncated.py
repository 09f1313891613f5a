"""A truncated configuration opens nothing: a gateway for everybody, with keys, asks for them for as long as it runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from tests.gateway.harness import CHAT, PATHS, Received, Reply
from tests.gateway.says import question, tells
from tests.server.process import FIRST_PAUSE, Served, config, serving
from tests.server.workers import children, running_workers, wait_for_turns

KEY = "dgm_key-of-the-truncation-test-0123456789"
KEYS = f'[keys.laptop]\nhash = "sha256:{sha256(KEY.encode()).hexdigest()}"\n'
REFUSED = "cannot reload configuration"
# More often than it takes to look at the file twice, and to read it.
TURNS = 6

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")


def _answer(received: Received) -> Reply:
    return tells(CHAT)


@contextmanager
def public(workers: int) -> Iterator[Served]:
    """A gateway with a key that is bound to every address; what is asked of it here comes over loopback."""
    # The address is in the file, too: what is left of that says nothing of others.
    more = f'[server]\nhost = "0.0.0.0"\nworkers = {workers}\n{KEYS}'
    environment = {"OPENAI_API_KEY": "sk-of-the-environment"}
    with serving(_answer, more, environment=environment, constants={FIRST_PAUSE: 0.05}) as house:
        yield house


def _look_again(house: Served) -> None:
    """Wait until all processes of the gateway have looked at their file several times."""
    wait_for_turns((house.process.pid, *children(house.process.pid)), TURNS)


def _is_closed(house: Served) -> bool:
    """Whether nobody is answered without a key, and the key's holder still is; asked often enough to reach all."""
    asked = question(CHAT, CHAT)
    without = {house.post(PATHS[CHAT], asked).status for _ in range(10)}
    listed = {house.get("/v1/models").status for _ in range(10)}
    return without == listed == {401} and house.post(PATHS[CHAT], asked, x_api_key=KEY).status == 200


# What is left of the file.
CUT: dict[str, Callable[[str], str]] = {
    "emptied": lambda text: "",
    "cut in its first line": lambda text: text[:5],
    "cut before the keys": lambda text: text[: text.index("[keys")],
    "only a comment left": lambda text: "# the gateway of our house\n",
    "another file without keys": lambda text: config(1),
    "for this machine alone": lambda text: '[server]\nhost = "127.0.0.1"\n',
}


@pytest.mark.parametrize("workers", [1, 2], ids=["one worker", "two workers"])
def test_a_truncated_configuration_does_not_open_a_public_gateway(workers: int) -> None:
    with public(workers) as house:
        whole = house.file.read_text()
        assert _is_closed(house)
        told = 0
        for cut in CUT.values():
            house.replace_file(cut(whole))
            told += workers
            house.process.log.wait(REFUSED, told)
            assert _is_closed(house)
        # A signal to read again makes it no better.
        house.process.send(signal.SIGHUP)
        house.process.log.wait(REFUSED, told + workers)
        assert _is_closed(house)
        # Nor does it get open at a later look.
        _look_again(house)
        assert _is_closed(house)
        # All keys revoked: nobody gets in, and nobody else does.
        house.replace_file(config(house.provider.port, "[keys]\n"))
        house.process.log.wait("configuration reloaded", workers)
        house.process.log.wait("change only with a restart", workers)
        statuses = {house.post(PATHS[CHAT], question(CHAT, CHAT), x_api_key=KEY).status for _ in range(10)}
        assert statuses == {401}


def test_a_worker_that_is_started_anew_is_as_closed_as_the_others() -> None:
    with public(2) as house:
        workers = running_workers(house.process.pid, 2)
        house.replace_file("")
        house.process.log.wait(REFUSED, 2)
        for killed in workers:
            os.kill(killed, signal.SIGKILL)
        house.process.log.wait("is restarted", 2)
        assert not workers & running_workers(house.process.pid, 2, without=workers)
        assert _is_closed(house)
        _look_again(house)
        assert _is_closed(house)


def test_keys_that_were_added_are_there_for_a_worker_that_is_started_anew() -> None:
    with serving(_answer, arguments=("--workers", "2"), constants={FIRST_PAUSE: 0.05}) as house:
        workers = running_workers(house.process.pid, 2)
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        house.replace_file(config(house.provider.port, KEYS))
        house.process.log.wait("configuration reloaded", 2)
        assert _is_closed(house)
        # The supervisor has read it, too, and logs nothing.
        _look_again(house)
        # The file is gone by the time that another one starts.
        house.replace_file("")
        house.process.log.wait(REFUSED, 2)
        for killed in workers:
            os.kill(killed, signal.SIGKILL)
        house.process.log.wait("is restarted", 2)
        running_workers(house.process.pid, 2, without=workers)
        assert _is_closed(house)
