"""OpenCode through the gateway, on each of the wires that its provider packages speak.

`opencode run` does a task as a user would start it; the rest is asked of `opencode serve`, the same agent behind an
interface of its own, because it is started once for all.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.clients.cells import PROTOCOLS, Claim, Client, one_by_day
from tests.clients.desk import NOWHERE, PATIENCE, Desk, Received, npm_program
from tests.clients.evidence import proofs
from tests.media import png
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.waiting import reporting_state, wait_until

CLIENT = Client(name="OpenCode", package="opencode-ai", more=("edit a file", "subagent", "compaction"))
# Its provider packages, by the protocol that each of them speaks; all are part of the program.
ROWS = {"@ai-sdk/anthropic": MESSAGES, "@ai-sdk/openai-compatible": CHAT, "@ai-sdk/openai": RESPONSES}
# The package that `opencode run` is tried with, by the provider's protocol: never its own.
ABROAD = {MESSAGES: "@ai-sdk/openai", CHAT: "@ai-sdk/anthropic", RESPONSES: "@ai-sdk/openai-compatible"}
PICTURE = base64.b64encode(png()).decode()
ABLE: JsonObject = {
    "reasoning": True,
    "attachment": True,
    "modalities": {"input": ["text", "image"], "output": ["text"]},
    "limit": {"context": 200000, "output": 32000},
}
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "population": {"type": "integer"}},
    "required": ["name", "population"],
    "additionalProperties": False,
}
PATCH = "*** Begin Patch\n*** Update File: {file}\n@@\n one\n-two\n+three\n*** End Patch"
LISTENING = re.compile(r"listening on (http://\S+)")


def environment(desk: Desk, home: Path) -> dict[str, str]:
    """What OpenCode needs to use the gateway, and nothing that it could want from elsewhere."""
    models: JsonObject = {desk.model(protocol): ABLE for protocol in PROTOCOLS}
    providers: JsonObject = {
        _provider(row): {
            "npm": row,
            "name": row,
            "options": {"baseURL": f"{desk.url}/v1", "apiKey": "{env:DRAGOMAN_KEY}"},
            "models": models,
        }
        for row in ROWS
    }
    config: JsonObject = {
        "provider": providers,
        "enabled_providers": list(providers),
        "permission": "allow",
        "share": "disabled",
        "autoupdate": False,
        "snapshot": False,
    }
    return {
        "DRAGOMAN_KEY": desk.key,
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "HTTP_PROXY": NOWHERE,
        **{f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")},
    }


def _provider(row: str) -> str:
    return row.rpartition("/")[2]


# Where a server listens, and the directory that it works in.
Server = tuple[str, Path]


class Session:
    """A session of the agent with one model, by one of its provider packages."""

    def __init__(self, desk: Desk, server: Server, row: str, protocol: str) -> None:
        self.desk, self.row, self.protocol = desk, row, protocol
        self._url, self._place = server
        self.marker = desk.marker()
        self._model: JsonObject = {"providerID": _provider(row), "modelID": desk.model(protocol)}
        # One without a title asks the model for one.
        session = self._call("POST", "/session", {"title": "A task"})
        assert isinstance(session, dict)
        self._path = f"/session/{session['id']!s}/message"

    def _call(self, method: str, path: str, body: JsonObject | None = None) -> JsonValue:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"content-type": "application/json", "x-opencode-directory": str(self._place)}
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            told: JsonValue = json.loads(answer.read())
            return told

    def ask(self, script: str, *parts: JsonObject, **more: JsonValue) -> JsonObject:
        """Prompt it, and wait until it is done; what it says of its last message."""
        text: JsonObject = {"type": "text", "text": f"{self.marker} Do as told.\n<mock>\n{script.strip()}\n</mock>"}
        told = self._call("POST", self._path, {"model": self._model, "parts": [text, *parts], **more})
        assert isinstance(told, dict)
        assert isinstance(told["info"], dict)
        assert told["info"].get("error") is None, told["info"]
        return told["info"]

    def file(self, name: str = "hello.txt") -> Path:
        """A file that is this session's alone, in the directory that all share: a new one costs a second to set up."""
        return self._place / f"{self.marker}-{name}"

    def said(self, kind: str = "text") -> list[JsonObject]:
        """The parts of a kind in all of its own messages, in order."""
        messages = self._call("GET", self._path)
        assert isinstance(messages, list)
        found: list[JsonObject] = []
        for message in messages:
            assert isinstance(message, dict)
            assert isinstance(message["info"], dict)
            assert isinstance(message["parts"], list)
            if message["info"]["role"] == "assistant":
                found += [part for part in message["parts"] if isinstance(part, dict) and part["type"] == kind]
        return found

    def texts(self, kind: str = "text") -> list[JsonValue]:
        """The words of these parts."""
        return [part["text"] for part in self.said(kind)]

    def requests(self, *, refused: bool = False) -> list[Received]:
        """What the provider got; its types are the client's to keep on the relay."""
        return self.desk.requests(self.marker, checked=ROWS[self.row] != self.protocol, refused=refused)


@contextmanager
def served(words: Sequence[str | Path], variables: dict[str, str], home: Path) -> Iterator[str]:
    """The address of a server that is started, and ended with all that it started."""
    log = home / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(words, cwd=home, env=variables, stdout=out, stderr=out, start_new_session=True)
    try:
        with reporting_state(lambda: f"opencode: {log.read_text()}"):
            wait_until(
                lambda: LISTENING.search(log.read_text()) or process.poll() is not None, "the server of OpenCode"
            )
        listening = LISTENING.search(log.read_text())
        assert listening is not None, log.read_text()
        yield listening[1]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def server(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One OpenCode for all tests of this file, and where it works."""
    home = tmp_path_factory.mktemp("opencode")
    place = home / "work"
    place.mkdir()
    variables = {**desk.environment(home), **environment(desk, home)}
    with served([npm_program("opencode"), "serve", "--port", "0"], variables, home) as url:
        yield url, place


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every scenario on every protocol; by day through one of the packages, in turns, and by night through all."""
    if "row" in metafunc.fixturenames:
        turn = len(metafunc.function.__name__)
        cases = []
        for place, protocol in enumerate(PROTOCOLS):
            for number, row in enumerate(ROWS):
                by_day = (turn + place + number) % len(ROWS) == 0
                cases.append(pytest.param(protocol, row, marks=[] if by_day else pytest.mark.nightly))
        metafunc.parametrize(("protocol", "row"), cases)


@pytest.fixture
def session(desk: Desk, server: Server, protocol: str, row: str) -> Session:
    """A session on a provider of the protocol, by one of the packages."""
    return Session(desk, server, row, protocol)


def edits(model: str, file: str) -> str:
    """Steps that write a file and change it, with the tools that it offers to a model of that name."""
    if "gpt" not in model:
        write = json.dumps({"filePath": file, "content": "one\ntwo\n"})
        edit = json.dumps({"filePath": file, "oldString": "two", "newString": "three"})
        return f"call write {write}\n---\ncall edit {edit}\n---\nsay Edited."
    write = json.dumps({"command": f"printf 'one\\ntwo\\n' > {file}", "description": "Writes a file"})
    patch = json.dumps({"patchText": PATCH.format(file=file)})
    return f"call bash {write}\n---\ncall apply_patch {patch}\n---\nsay Edited."


@one_by_day(CHAT)
def test_opencode_run_edits_a_file(desk: Desk, home: Path, protocol: str, cell: Claim) -> None:
    cell(CLIENT, "edit a file")
    model, marker, place = desk.model(protocol), desk.marker(), home / "work"
    place.mkdir()
    words: list[str | Path] = [npm_program("opencode"), "run", "--format", "json", "--title", "A task", "-m"]
    words.append(f"{_provider(ABROAD[protocol])}/{model}")
    prompt = f"{marker} Do as told.\n<mock>\n{edits(model, 'hello.txt')}\n</mock>"
    done = desk.run(words, home, environment(desk, home), place=place, given=prompt).worked()
    parts = [event["part"] for event in done.objects() if event["type"] == "text"]
    assert [part["text"] for part in parts if isinstance(part, dict)] == ["Edited."]
    assert (place / "hello.txt").read_text() == "one\nthree\n"
    assert len(desk.requests(marker)) == 3


def test_opencode_edits_a_file(session: Session, cell: Claim) -> None:
    cell(CLIENT, "edit a file")
    session.ask(edits(session.desk.model(session.protocol), session.file().name))
    assert session.texts() == ["Edited."]
    assert session.file().read_text() == "one\nthree\n"


def test_opencode_runs_a_tool(session: Session, cell: Claim) -> None:
    cell(CLIENT, "tool")
    call = json.dumps({"command": f"echo hi > {session.file()}", "description": "Greets"})
    session.ask(f"call bash {call}\n---\nsay All done.")
    assert session.texts() == ["All done."]
    assert session.file().read_text() == "hi\n"
    assert len(session.requests()) == 2


def test_opencode_runs_tools_in_parallel(session: Session, cell: Claim) -> None:
    cell(CLIENT, "parallel tools")
    for name in ("a", "b"):
        session.file(name).write_text(f"This is {name}.")
    calls = [f'call read {{"filePath": "{session.file(name)}"}}' for name in "ab"]
    session.ask("\n".join((*calls, "---", "say Both.")))
    _, second = session.requests()
    assert all(f"This is {name}." in str(second.body) for name in "ab")
    assert session.texts() == ["Both."]


def test_opencode_takes_several_steps(session: Session, cell: Claim) -> None:
    cell(CLIENT, "several steps")
    file = session.file()
    steps = [f'call bash {{"command": "echo {number} >> {file}", "description": "Counts"}}' for number in (1, 2, 3)]
    session.ask("\n---\n".join((*steps, "say Counted.")))
    assert file.read_text() == "1\n2\n3\n"
    assert len(session.requests()) == 4


def test_opencode_thinks_and_its_proofs_come_back(session: Session, cell: Claim) -> None:
    cell(CLIENT, "thinking")
    call = 'call bash {"command": "echo one", "description": "Echoes"}'
    session.ask(
        f"think I look first.\n{call}\n---\nthink Once more.\n{call}\n---\nsay Thought through.", variant="high"
    )
    assert session.texts("reasoning") == ["I look first.", "Once more."]
    first, second, third = session.requests()
    one, two = proofs(first.answer), proofs(second.answer)
    assert one
    assert two
    # The package for Chat sends back the text of reasoning alone, which is all there is of it only on Chat.
    carried = session.protocol == CHAT or ROWS[session.row] != CHAT
    assert proofs(second.body) == (one if carried else [])
    assert proofs(third.body) == (one + two if carried else [])


def test_opencode_answers_in_a_structure(session: Session, cell: Claim) -> None:
    cell(CLIENT, "structured output")
    output: JsonObject = {"type": "json_schema", "schema": SCHEMA}
    info = session.ask('call StructuredOutput {"name": "Trieste", "population": 204234}', format=output)
    assert info["structured"] == {"name": "Trieste", "population": 204234}
    assert "population" in str(session.requests()[0].body["tools"])


def test_opencode_shows_an_image(session: Session, cell: Claim) -> None:
    cell(CLIENT, "image")
    url = f"data:image/png;base64,{PICTURE}"
    session.ask("say A red square.", {"type": "file", "mime": "image/png", "filename": "square.png", "url": url})
    (request,) = session.requests()
    assert PICTURE in str(request.body)
    assert session.texts() == ["A red square."]


def test_opencode_waits_and_asks_again(session: Session, cell: Claim) -> None:
    cell(CLIENT, "429 first")
    session.ask("fail 429\nsay At last.")
    assert session.texts() == ["At last."]
    assert [request.status for request in session.requests()] == [429, 200]


def test_opencode_takes_an_empty_answer(session: Session, cell: Claim) -> None:
    cell(CLIENT, "empty response")
    assert session.ask("empty")["finish"] == "stop"
    assert "".join(map(str, session.texts())) == ""


def test_opencode_sends_a_subagent(session: Session, cell: Claim) -> None:
    cell(CLIENT, "subagent")
    prompt = f"{session.marker} <mock>say Seen from below.</mock>"
    task = json.dumps({"description": "Look", "prompt": prompt, "subagent_type": "general"})
    session.ask(f"call task {task}\n---\nsay Seen.")
    assert session.texts() == ["Seen."]
    assert "Seen from below." in str(session.said("tool"))
    assert len(session.requests()) == 3


def test_opencode_compacts_when_the_context_is_full(session: Session, cell: Claim) -> None:
    cell(CLIENT, "compaction")
    session.ask("say One.\n---\nsay What came before.")
    session.ask("overflow\nsay Two.")
    assert session.texts()[-1] == "Two."
    statuses = [request.status for request in session.requests(refused=True)]
    # The first turn, what did not fit, its summary, and the same again behind that.
    assert [status == 200 for status in statuses] == [True, False, True, True]
