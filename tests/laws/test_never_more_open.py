"""Never more open: no change of configuration at run time lowers protection.

A gateway runs in this process, on a real socket, and follows a file that becomes whatever a file may become: other
settings, cut short at any byte, emptied, broken, gone. After each change it is asked without a key, under a foreign
`Host`, and where it is bound; what was refused once is refused from then on.
"""

from __future__ import annotations

import asyncio
import gc
import io
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.config.config_file import fingerprint
from dragoman.config.load import read_settings
from dragoman.config.settings import Settings
from dragoman.errors import ConfigError
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.processes.config_reload import WorkerSettings
from dragoman.gateway.processes.listen_socket import bind, listen
from dragoman.gateway.processes.worker import Worker
from dragoman.gateway.workers.protection import bound_host, protection_at_start
from dragoman.providers.catalogue import catalogue
from tests.config.support import named

KEYS = {name: f"dgm_{name}-of-the-law-0123456789abcdef" for name in ("first", "second")}
FOREIGN_HOST, NAMED_HOST = "rebound.example", "named.example"
QUESTION = b'{"model":"echo/text","messages":[{"role":"user","content":"Hello."}]}'


def _table(name: str) -> str:
    return f'[keys.{name}]\nhash = "sha256:{sha256(KEYS[name].encode()).hexdigest()}"\n'


WHOLE = f"""# The gateway of our house.
[server]
host = "0.0.0.0"
allowed_hosts = ["{NAMED_HOST}"]
discover = false

[models]
"cheap" = "echo/text"

{_table("first")}
{_table("second")}
[limits]
request_body = "1 MiB"
"""

_HOSTS = ("0.0.0.0", "::", "127.0.0.1", FOREIGN_HOST)
_BROKEN = ("[keys", "[keys.first]\n", "keys = 5\n", '[keys.first]\nkey = "$NOT_SET"\n', "[[server]]\n")
hosts = st.sampled_from(["", *(f'[server]\nhost = "{host}"\n' for host in _HOSTS)])
keys = st.sampled_from(["", "[keys]\n", _table("first"), _table("second"), _table("first") + _table("second")])
written = st.builds(lambda host, key, more: host + more + key, hosts, keys, st.sampled_from(["", "[limits]\n"]))
cut = st.integers(0, len(WHOLE)).map(lambda end: WHOLE[:end])
starts = st.one_of(written, cut, st.sampled_from(["", WHOLE]))
# None is a file that is gone.
changes: st.SearchStrategy[str | None] = st.one_of(
    written, cut, st.sampled_from(_BROKEN), st.sampled_from(["", "# nothing\n", WHOLE, None])
)


class House:
    """A worker in this process, on a socket that others may reach, and the file that it follows."""

    def __init__(self, file: Path, host: str, insists: bool) -> None:
        self._file = file
        self._listener = bind(host, 0)
        self.port: int = self._listener.getsockname()[1]
        try:
            began = self._read()
            # As if the command line said where to listen.
            began = replace(began, server=replace(began.server, host=host), storage=replace(began.storage, path=""))
            protection = protection_at_start(began, bound_host(self._listener), open_to_all=insists)
        except ConfigError:
            self._listener.close()
            raise
        duty = WorkerSettings(
            read=self._read, log=Log(io.StringIO()), protection=protection, fingerprint=partial(fingerprint, file)
        )
        self._worker = Worker(duty, began)
        listen(self._listener)

    def _read(self) -> Settings:
        return read_settings(named(self._file), {"OPENAI_API_KEY": "sk-of-the-environment"}, catalogue())

    def write(self, text: str | None) -> None:
        """Change the file, and have it read."""
        if text is None:
            self._file.unlink(missing_ok=True)
        else:
            self._file.write_text(text)
        self._worker.reload()

    async def asked(self, host: str = "127.0.0.1", key: str = "") -> int:
        """The status that somebody gets."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        lines = [
            "POST /v1/chat/completions HTTP/1.1",
            f"host: {host}:{self.port}",
            *([f"x-api-key: {key}"] if key else []),
            f"content-length: {len(QUESTION)}",
            "connection: close",
        ]
        writer.write("\r\n".join((*lines, "", "")).encode() + QUESTION)
        told = await reader.read()
        writer.close()
        return int(told.split()[1])

    async def serve(self) -> None:
        """Serve until told to stop."""
        await self._worker.run(self._listener, lambda: None)

    def stop(self) -> None:
        """Have it end as SIGINT would, without a signal to the process of the tests."""
        self._worker._stop_at_once()


@asynccontextmanager
async def serving(text: str, host: str, insists: bool = False) -> AsyncIterator[House]:
    """Such a worker, started with a text of the file; `ConfigError` if that may not be."""
    with TemporaryDirectory() as name:
        file = Path(name) / "dragoman.toml"
        file.write_text(text)
        house = House(file, host, insists)
        running = asyncio.create_task(house.serve())
        try:
            yield house
        finally:
            house.stop()
            await running


async def change(text: str, host: str, insists: bool, later: Sequence[str | None]) -> None:
    """Start with a text, change it again and again, and see that nothing that was closed is open."""
    starting = serving(text, host, insists)
    try:
        house = await starting.__aenter__()
    except ConfigError:
        # One that may not start with this is closed enough.
        return
    try:
        closed = await house.asked() == 401
        for found in later:
            house.write(found)
            refused = await house.asked() == 401
            assert refused or not closed, "a key was asked for, and is not any more"
            closed = refused
            assert await house.asked(FOREIGN_HOST) == 403, "a Host is let in that nobody allowed"
            assert await house.asked(key="dgm_nobody") == (401 if closed else 200)
    finally:
        await starting.__aexit__(None, None, None)


@pytest.fixture(autouse=True)
def restored_process() -> Iterator[None]:
    """The process as it was: a worker sets collector, turns of threads and signals for a process of its own."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        gc.unfreeze()
        gc.collect()
        gc.freeze()


@given(
    text=starts,
    host=st.sampled_from(["127.0.0.1", "0.0.0.0"]),
    insists=st.booleans(),
    later=st.lists(changes, min_size=1, max_size=6),
)
def test_no_change_of_configuration_opens_anything(
    text: str, host: str, insists: bool, later: list[str | None]
) -> None:
    asyncio.run(change(text, host, insists, later))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_file_cut_short_at_any_byte_opens_nothing(host: str) -> None:
    async def main() -> None:
        async with serving(WHOLE, host) as house:
            for end in range(len(WHOLE) - 1, -1, -1):
                house.write(WHOLE[:end])
                assert await house.asked() == 401, WHOLE[:end]
                assert await house.asked(FOREIGN_HOST) == 403, WHOLE[:end]

    asyncio.run(main())
