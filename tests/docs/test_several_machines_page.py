"""The pages about several machines and load balancers: their commands work with a real server, and the examples that
they name are what they say."""

from __future__ import annotations

import json
import re
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.gateway.paths import EndpointKind, api_path_of
from dragoman.sessions.rules import RULES
from dragoman.store.postgres_database import set_up
from tests.cli.machine import put_trusted
from tests.cli.screens import piped
from tests.docs.bare import ROOT, bare_environ, gateway
from tests.docs.pages import blocks
from tests.postgres import PostgresServer
from tests.records.full_file import write_full_file
from tests.sdk.digging import dig, dig_object, dig_objects
from tools.replaying.yaml import load

PAGE, BALANCER = ROOT / "docs/several-machines.md", ROOT / "docs/load-balancer.md"
EXAMPLES = ROOT / "examples/several-machines"


def _commands(begin: str) -> list[str]:
    """The lines of the block of the page that has a line with this beginning."""
    (block,) = (each for each in blocks("", [PAGE]) if re.search(rf"^{re.escape(begin)}", each.text, re.MULTILINE))
    return block.text.splitlines()


def _configured(folder: Path) -> Path:
    """A machine with the configuration of the page."""
    folder.mkdir()
    (block,) = blocks("toml", [PAGE])
    put_trusted(folder, block.text, bare_environ(folder))
    return folder


def _post(address: str, body: Mapping[str, object]) -> dict[str, object]:
    request = urllib.request.Request(
        f"http://{address}/v1/responses", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = json.load(answer)
    assert isinstance(found, dict)
    return found


def test_the_commands_of_the_page_make_two_gateways_on_one_database(database: str, tmp_path: Path) -> None:
    commands = _commands("createdb")
    assert [command.split()[0] for command in commands] == ["createdb", "pip", "export", *["dragoman"] * 3]
    assert commands[3::2] == ["dragoman db migrate", "dragoman serve --host 0.0.0.0"]
    environ = {"DATABASE_URL": database}
    machines = [_configured(tmp_path / name) for name in ("one", "two")]
    status, _, err = piped(["db", "migrate"], machines[0], environ)
    assert (status, err) == (0, "")
    with ExitStack() as stack:
        config = ("--config", "dragoman.toml")
        one, two = (stack.enter_context(gateway(machine, *config, environ=environ)) for machine in machines)
        first = _post(one, {"model": "echo/text", "input": "The word is blue."})
        second = _post(two, {"model": "echo/text", "input": "Which?", "previous_response_id": first["id"]})
        assert second["previous_response_id"] == first["id"]


@pytest.fixture
def roles(postgres: PostgresServer) -> Iterator[str]:
    """The roles and the database of the page."""
    statements = _commands("CREATE ROLE dragoman_owner")
    assert len(statements) == 3
    for statement in statements:
        postgres.execute(statement)
    yield f"host={postgres.directory} dbname=dragoman"
    postgres.drop("dragoman")
    postgres.execute("DROP ROLE dragoman; DROP ROLE dragoman_owner")


def test_the_two_roles_of_the_page_are_enough(roles: str, tmp_path: Path) -> None:
    machine = _configured(tmp_path / "one")
    owner, serving = ({"DATABASE_URL": f"{roles} user={name}"} for name in ("dragoman_owner", "dragoman"))
    (command,) = _commands("dragoman db migrate --grant")
    status, out, err = piped(command.split()[1:], machine, owner)
    assert (status, err) == (0, "") and "dragoman has the privileges of serve" in out
    with gateway(machine, "--config", "dragoman.toml", environ=serving) as address:
        assert _post(address, {"model": "echo/text", "input": "Hello"})["id"]
    status, out, _ = piped(["doctor", "--offline"], machine, serving)
    assert "dragoman, which may not change tables" in out
    assert "lacks" not in out


def test_the_import_of_the_page_works(database: str, tmp_path: Path) -> None:
    machine = _configured(tmp_path / "one")
    (command,) = _commands("dragoman db import")
    path = machine / ".local/state/dragoman/state.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_full_file(path)
    words = command.replace("~", str(machine)).split()[1:]
    status, out, err = piped(words, machine, {"DATABASE_URL": database})
    assert (status, err) == (0, "") and out.startswith(f"imported {path} into ")


def _composed() -> object:
    return load((EXAMPLES / "compose.yaml").read_text(encoding="utf-8"))


def test_the_composed_gateways_have_one_database_and_journals_of_their_own() -> None:
    services = dig_object(_composed(), "services")
    assert list(services) == ["postgres", "migrate", "gateway-1", "gateway-2", "nginx"]
    one, two, migrate = (dig_object(services, name) for name in ("gateway-1", "gateway-2", "migrate"))
    assert one["environment"] == two["environment"] == migrate["environment"]
    assert {**one, "volumes": []} == {**two, "volumes": []}
    assert (one["volumes"], two["volumes"]) == (
        [".:/etc/dragoman:ro", "gateway-1:/var/lib/dragoman"],
        [".:/etc/dragoman:ro", "gateway-2:/var/lib/dragoman"],
    )
    assert migrate["command"] == ["db", "migrate"]
    assert list(dig_object(_composed(), "volumes")) == ["postgres", "gateway-1", "gateway-2"]
    ports = {name: dig(services, name, "ports") for name in services if "ports" in dig_object(services, name)}
    assert ports == {"nginx": ["127.0.0.1:8484:8484"]}


def _kubernetes() -> dict[str, object]:
    text = (EXAMPLES / "kubernetes.yaml").read_text(encoding="utf-8")
    return {str(dig(each, "kind")): each for each in map(load, text.split("\n---\n"))}


def _check(folder: Path, text: str, address: str) -> str:
    """What `dragoman check` finds wrong with a configuration."""
    put_trusted(folder, text, bare_environ(folder))
    environ = {"DATABASE_URL": address, "ANTHROPIC_API_KEY": "sk-of-anthropic"}
    status, out, err = piped(["check"], folder, environ)
    assert status == 0, err
    assert "anthropic" in out
    return err


def test_the_configurations_are_right(tmp_path: Path, database: str) -> None:
    set_up(PostgresDatabase(address=database, name="", path=""))
    _check(tmp_path, (EXAMPLES / "dragoman.toml").read_text(encoding="utf-8"), database)
    kubernetes = _kubernetes()
    assert list(kubernetes) == ["ConfigMap", "Service", "StatefulSet"]
    text = str(dig(kubernetes["ConfigMap"], "data", "dragoman.toml"))
    assert _check(tmp_path, text, database) == ""
    # The container has more time than the gateway takes.
    timeouts = tomllib.loads(text)["timeouts"]
    seconds = dig(kubernetes["StatefulSet"], "spec", "template", "spec", "terminationGracePeriodSeconds")
    assert isinstance(seconds, int) and seconds > sum(int(timeouts[name].split()[0]) for name in ("lame_duck", "drain"))


def test_kubernetes_probes_and_mounts_are_those_of_the_gateway() -> None:
    pod = dig_object(_kubernetes()["StatefulSet"], "spec", "template", "spec")
    (migration,), (container,) = dig_objects(pod, "initContainers"), dig_objects(pod, "containers")
    assert (migration["args"], container["args"]) == (["db", "migrate"], ["serve"])
    assert migration["volumeMounts"] == container["volumeMounts"]
    for probe, kind in (("readinessProbe", EndpointKind.READY), ("livenessProbe", EndpointKind.HEALTH)):
        assert api_path_of(str(dig(container, probe, "httpGet", "path"))).kind is kind
        assert dig(container, probe, "httpGet", "port") == 8484


def test_the_example_of_nginx_is_that_of_the_page() -> None:
    text = (EXAMPLES / "nginx.conf").read_text(encoding="utf-8")
    (block,) = blocks("nginx", [BALANCER])
    assert block.text in text
    # The location is that of the page about deployment.
    (location,) = blocks("nginx", [ROOT / "docs/deploy.md"])
    expected = location.text.replace("http://127.0.0.1:8484", "http://dragoman")
    assert "".join(f"    {line}\n" for line in expected.splitlines()) in text


def test_the_headers_of_nginx_are_those_by_which_sessions_are_found() -> None:
    (block,) = blocks("nginx", [BALANCER])
    named = {name.replace("_", "-") for name in re.findall(r"\$http_(\w+?)(?=[\s$;])", block.text)}
    sessions = {rule.field for rule in RULES if rule.fact == "session"}
    assert named - {"authorization", "x-api-key"} <= sessions
    assert {"x-claude-code-session-id", "x-dragoman-session"} <= named
