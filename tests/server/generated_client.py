"""A client of the admin API that `openapi-python-client` makes of the document that a gateway sends.

with generated_client(house, folder) as client:
    answer = client.call("show_key", key, name="ann")
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.waiting import LIMIT

PACKAGE = "generated_admin_client"


class Parsed(Struct, frozen=True, kw_only=True):
    """A response as the generated client reads it: its status, the name of its type, its members, and members that the
    document does not have."""

    status: int
    kind: str
    members: JsonObject
    unknown: list[str]


class GeneratedClient:
    """The client of one gateway. `called` are the operations that were called."""

    def __init__(self, url: str, operations: dict[str, str]) -> None:
        self._url = url
        # The tags of operations, which are packages.
        self.operations = operations
        self.called: set[str] = set()

    def stream(self, operation: str, text: str, begun: Callable[[], object], **arguments: object) -> tuple[int, str]:
        """The status and the text of a stream, at its end; `begun` is called once its head has arrived."""
        self.called.add(operation)
        client_of = importlib.import_module(f"{PACKAGE}.client").AuthenticatedClient
        module = importlib.import_module(f"{PACKAGE}.api.{self.operations[operation]}.{operation}")
        hooks = {"event_hooks": {"response": [lambda _: begun()]}}
        with client_of(base_url=self._url, token=text, timeout=LIMIT, httpx_args=hooks) as client:
            response = module.sync_detailed(client=client, **arguments)
        parsed: str = response.parsed
        return int(response.status_code), parsed

    def call(self, operation: str, text: str, body: JsonObject | None = None, /, **arguments: object) -> Parsed:
        """Call an operation with the text of a key."""
        self.called.add(operation)
        client_of = importlib.import_module(f"{PACKAGE}.client").AuthenticatedClient
        module = importlib.import_module(f"{PACKAGE}.api.{self.operations[operation]}.{operation}")
        if body is not None:
            kind = module.sync_detailed.__annotations__["body"]
            arguments = {**arguments, "body": kind.from_dict(body)}
        with client_of(base_url=self._url, token=text, timeout=LIMIT) as client:
            response = module.sync_detailed(client=client, **arguments)
        members: JsonObject = response.parsed.to_dict()
        assert members == json.loads(response.content)
        return Parsed(
            status=int(response.status_code),
            kind=type(response.parsed).__name__,
            members=members,
            unknown=sorted(_unknown(response.parsed)),
        )


@contextmanager
def generated_client(url: str, document: bytes, folder: Path) -> Iterator[GeneratedClient]:
    """Validate a document, make a client of it in a folder, and import that while the block runs."""
    file, package = folder / "openapi.json", folder / PACKAGE
    file.write_bytes(document)
    settings = folder / "generator.json"
    # Formatting the code would need another program.
    settings.write_text('{"post_hooks": []}')
    _run("openapi_spec_validator", str(file))
    said = _run(
        "openapi_python_client",
        *("generate", "--path", str(file), "--output-path", str(package), "--meta", "none", "--config", str(settings)),
    )
    assert "arning" not in said, said
    sys.path.insert(0, str(folder))
    try:
        yield GeneratedClient(url, _operations(json.loads(document)))
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


def _run(module: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *words], capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _operations(document: JsonObject) -> dict[str, str]:
    found: dict[str, str] = {}
    paths = document["paths"]
    assert isinstance(paths, dict)
    for methods in paths.values():
        assert isinstance(methods, dict)
        for operation in methods.values():
            assert isinstance(operation, dict)
            tags = operation["tags"]
            assert isinstance(tags, list)
            found[str(operation["operationId"])] = str(tags[0])
    return found


def _unknown(value: object) -> Iterator[str]:
    """Members in a response that its class does not have. A class of additional members alone is a mapping."""
    if isinstance(value, list):
        for each in value:
            yield from _unknown(each)
        return
    fields = [field.name for field in getattr(value, "__attrs_attrs__", ())]
    more: dict[str, JsonValue] = getattr(value, "additional_properties", {})
    if fields != ["additional_properties"]:
        yield from more
    for name in fields:
        yield from _unknown(getattr(value, name))
    for each in more.values():
        yield from _unknown(each)
