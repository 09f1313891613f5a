"""The desk: a scripted provider and a gateway in front of it, as processes, and clients that are run against them.

    marker = desk.marker()
    done = desk.run([npm_program("codex"), "exec", f"{marker} <mock>say hello</mock>"], home)
    assert desk.requests(marker)[0].body["model"] == "gpt-5.1"

Nothing leaves the machine: clients get an environment of their own, in which TLS goes nowhere.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from dragoman.identities.key_text import new_key
from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.clients.installing import INSTALLERS, NODE, PACKAGES, PLACE, installed
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.sdk.oracles import check_request
from tests.server.process import Process

# Generous: several clients start at once on a busy machine.
PATIENCE = 180.0
# Nobody listens there.
NOWHERE = "http://127.0.0.1:9"
MODELS = {MESSAGES: "m/claude-opus-5", CHAT: "c/gpt-5.1", RESPONSES: "r/gpt-5.1"}
# A server of Chat Completions that nobody knows.
LOCAL_MODEL = "l/qwen3"
# Where conversations are held; elsewhere are counts and lists.
CONVERSATIONS = frozenset({"/v1/messages", "/v1/chat/completions", "/v1/responses"})

# Providers of each protocol at the mock, known to the rules as the services that it imitates.
CONFIG = """
[server]
discover = false

[keys.desk]
key = "$DESK_KEY"

[keys.other]
key = "$OTHER_KEY"

[providers.m]
protocol = "anthropic-messages"
base_url = "{mock}"
api_key = "mock-key-of-m"
vendor = "anthropic"
counts_tokens = true

[providers.c]
protocol = "openai-chat"
base_url = "{mock}/v1"
api_key = "mock-key-of-c"
vendor = "openai"

[providers.r]
protocol = "openai-responses"
base_url = "{mock}/v1"
api_key = "mock-key-of-r"
vendor = "openai"
counts_tokens = true

[providers.l]
protocol = "openai-chat"
base_url = "{mock}/v1"
api_key = "mock-key-of-l"
"""


class Received(Struct, frozen=True, kw_only=True):
    """A request as the provider got it, and what it answered (streams in their whole form)."""

    protocol: str
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: JsonObject
    status: int
    answer: JsonValue


class Done(Struct, frozen=True, kw_only=True):
    """How a client ended, and what it said."""

    status: int
    out: str
    err: str

    def objects(self) -> list[JsonObject]:
        """What it said, as JSON line by line; other lines are left out."""
        values: list[object] = []
        for line in self.out.splitlines():
            with suppress(json.JSONDecodeError):
                values.append(json.loads(line))
        return [value for value in values if isinstance(value, dict)]

    def worked(self) -> Done:
        """Assert that it ended well."""
        assert self.status == 0, f"the client ended with {self.status}:\n{self.out}\n{self.err}"
        return self


class Desk:
    """A gateway at `url`, opened by `key`, in front of a mock. `other_key` opens it, too, and is another customer."""

    def __init__(self, directory: Path, mock: Process, gateway: Process, record: Path, keys: tuple[str, str]) -> None:
        self.directory = directory
        # The models to ask for, by the protocol of the provider that answers.
        self.models: Mapping[str, str] = MODELS
        self.mock, self.gateway = mock, gateway
        self.url = f"http://127.0.0.1:{gateway.listening()}"
        self.mock_url = f"http://127.0.0.1:{mock.listening()}"
        self.key, self.other_key = keys
        self._record = record
        # How far it was read, and the lines up to there.
        self._read = 0
        self._lines: list[bytes] = []

    def model(self, protocol: str) -> str:
        """The model to ask for, so that a provider of the protocol answers."""
        return self.models[protocol]

    def marker(self) -> str:
        """A word that no other prompt has."""
        return f"marker{secrets.token_hex(6)}"

    def record(self, marker: str) -> list[Received]:
        """Everything that the provider got with the marker in it, in order; counts of tokens, too."""
        with self._record.open("rb") as file:
            file.seek(self._read)
            # A line that is still being written is left for the next time.
            new, end, _ = file.read().rpartition(b"\n")
        self._read += len(new) + len(end)
        self._lines += new.splitlines()
        found = [_received(line) for line in self._lines if marker.encode() in line]
        # An answer may have it, too, to what did not.
        return [one for one in found if marker in json.dumps(one.body)]

    def requests(self, marker: str, *, checked: bool = True, refused: bool = False) -> list[Received]:
        """The conversations that the provider got with the marker in them, in order.

        None may have been refused as wrong (`refused` allows it, where a script does so), and each is held against the
        types of the service's SDK (unless `checked` is off, because a client knows more of its own service).
        """
        found = [one for one in self.record(marker) if one.path in CONVERSATIONS]
        for one in found:
            assert refused or one.status != 400, f"the provider refused {one.path}: {one.answer!r}\n{one.body!r}"
            if checked:
                check_request(one.protocol, one.body, one.headers)
        return found

    def environment(self, home: Path) -> dict[str, str]:
        """What every client gets: a home of its own, the new Node first, and no way out."""
        return {
            "PATH": os.pathsep.join((str(NODE.parent), str(PACKAGES / ".bin"), os.environ["PATH"])),
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "HTTPS_PROXY": NOWHERE,
            "https_proxy": NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "DO_NOT_TRACK": "1",
        }

    def run(
        self,
        words: Sequence[str | Path],
        home: Path,
        environment: Mapping[str, str] | None = None,
        *,
        place: Path | None = None,
        given: str = "",
        patience: float = PATIENCE,
    ) -> Done:
        """Run a client to its end in `place`, or else in its home; whatever it leaves running is ended with it."""
        process = subprocess.Popen(
            words,
            cwd=place or home,
            env={**self.environment(home), **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(given, patience)
        except subprocess.TimeoutExpired:
            _end_session(process.pid)
            out, err = process.communicate()
            raise AssertionError(f"{words[0]} did not end in {patience} s:\n{out}\n{err}") from None
        finally:
            _end_session(process.pid)
        return Done(status=process.returncode, out=out, err=err)


def npm_program(name: str) -> Path:
    """A program of an npm package: `claude`, `codex`, `opencode`."""
    return PACKAGES / ".bin" / name


def python_of(name: str = "python") -> Path:
    """The Python that has the clients of one environment: `python`, `instructor`, `aider`."""
    return PLACE / name / "bin/python"


@contextmanager
def opened_desk(more: str = "") -> Iterator[Desk]:
    """A desk of one's own; `more` is added to the gateway's configuration, with `{mock}` for the mock's address."""
    missing = [name for name in INSTALLERS if not installed(name)]
    assert not missing, f"clients are not installed: {', '.join(missing)}; run `make clients` or `make test`"
    keys = new_key(), new_key()
    with TemporaryDirectory() as name:
        directory = Path(name)
        record, file = directory / "record.jsonl", directory / "dragoman.toml"
        mock = Process(["--port", "0", "--record", str(record)], directory, command="mock")
        try:
            file.write_text((CONFIG + more).replace("{mock}", f"http://127.0.0.1:{mock.listening()}"))
            given = {"DESK_KEY": keys[0], "OTHER_KEY": keys[1]}
            gateway = Process(["--config", str(file), "--port", "0"], directory, given)
            try:
                yield Desk(directory, mock, gateway, record, keys)
            finally:
                gateway.end()
        finally:
            mock.end()


def _received(line: bytes) -> Received:
    told = json.loads(line)
    body = told["body"]
    return Received(**{**told, "body": body if isinstance(body, dict) else {}})


def _end_session(leader: int) -> None:
    """End what a client has started and left behind; its leader began a group of its own."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
