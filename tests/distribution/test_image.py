"""The Dockerfile and compose.yaml are what they say: the same steps, without a daemon, make a gateway that answers."""

from __future__ import annotations

import re
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dragoman.config.settings import Server, Timeouts
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.catalogue import catalogue
from tests.distribution.image import ROOT, Image, context, instructions
from tests.server.process import PATIENCE, Lines, port_in
from tools.distribution.running import ask
from tools.replaying.yaml import load

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STATE = "/var/lib/dragoman"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    made = Image(tmp_path_factory.mktemp("image"), context(tmp_path_factory.mktemp("context")))
    made.follow(instructions(DOCKERFILE))
    return made


@contextmanager
def running(image: Image) -> Iterator[tuple[str, list[str]]]:
    """The container: its address, and what it says at first on the standard error."""
    process = subprocess.Popen(
        [*image.command, "--port", "0"],
        executable=Path(image.inside("/opt/dragoman/bin")) / image.command[0],
        cwd="/",
        env=image.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    out, log = Lines(process.stdout), Lines(process.stderr)
    try:
        port = port_in(out.wait(" listens on "))
        log.wait("first-key")
        yield f"http://127.0.0.1:{port}", log.all()
    finally:
        # A container is ended by SIGTERM, and a second one ends it at once.
        process.terminate()
        log.wait("stopping")
        process.terminate()
        process.wait(PATIENCE)
        out.finish()
        log.finish()
    assert process.returncode == 0


def healthy(image: Image, address: str) -> bool:
    """What the health check says."""
    port = str(urlsplit(address).port)
    words = [word.replace(str(image.ports[0]), port) for word in image.health]
    # A proxy is for others.
    environment = {**image.environment, "HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(words, env=environment, capture_output=True, check=False, timeout=PATIENCE)
    return done.returncode == 0


def keys_in(lines: list[str]) -> list[str]:
    return re.findall(r"dgm_\w+", "\n".join(lines))


def test_pitfall_629_the_same_steps_make_a_gateway_that_is_neither_open_nor_mute(image: Image) -> None:
    state = Path(image.inside(STATE))
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    with running(image) as (address, said):
        (key,) = keys_in(said)
        assert healthy(image, address)
        ask(address, key)
        with pytest.raises(OSError, match="401"):
            ask(address)
    assert not healthy(image, address)
    assert {"first-key", "state.db"} <= {path.name for path in state.iterdir()}
    with running(image) as (address, said):
        assert keys_in(said) == []
        ask(address, key)


def test_only_what_runs_is_in_it(image: Image) -> None:
    (packages,) = Path(image.inside("/opt/dragoman/lib")).glob("python*/site-packages")
    names = {path.name.split("-")[0].lower() for path in packages.glob("*.dist-info")}
    assert names == {"dragoman", "msgspec", "httptools", "uvloop", "zstandard", "brotli"}
    assert not Path(image.inside("/build")).exists()


def test_it_is_not_root_and_its_folder_is_its_own(image: Image) -> None:
    uid, gid = map(int, image.user.split(":"))
    assert uid >= 10000
    steps = instructions(DOCKERFILE)
    words = [step.word for step in steps]
    # What is done to a folder after it became a volume is lost.
    assert words.index("VOLUME") > max(index for index, word in enumerate(words) if word == "RUN")
    assert f"-o {uid} -g {gid} -m 0700 {STATE}" in steps[words.index("USER") - 1].rest
    assert image.volumes == [STATE]
    assert image.environment["XDG_STATE_HOME"] == image.inside("/var/lib")


def test_it_is_small_and_of_a_python_that_the_package_names(image: Image) -> None:
    build, final = (re.fullmatch(r"python:(3\.\d+)-slim(?: AS build)?", name) for name in image.stages)
    assert build is not None
    assert final is not None
    assert build[1] == final[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Programming Language :: Python :: {final[1]}" in project["classifiers"]


def test_the_port_is_the_gateways_own(image: Image) -> None:
    assert image.ports == [Server().port]
    assert f"'127.0.0.1', {Server().port}" in image.health[-1]
    assert "/healthz" in image.health[-1]


def test_nothing_but_sources_is_sent_to_a_build(tmp_path: Path) -> None:
    given = context(tmp_path)
    assert {path.name for path in given.iterdir()} == {"requirements", "pyproject.toml", "README.md", "LICENSE", "src"}
    assert not list(given.rglob("__pycache__"))


@pytest.fixture(scope="module")
def service() -> JsonObject:
    """The one service of compose.yaml."""
    composed = load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    assert isinstance(composed, dict)
    assert list(composed["volumes"]) == ["state"]
    found = composed["services"]
    assert list(found) == ["dragoman"]
    service = found["dragoman"]
    assert isinstance(service, dict)
    return service


def test_pitfall_628_a_composed_gateway_reaches_servers_of_the_machine(service: JsonObject) -> None:
    assert service["extra_hosts"] == ["host.docker.internal:host-gateway"]


def test_a_composed_gateway_keeps_what_it_has_and_is_reached_by_this_machine_alone(service: JsonObject) -> None:
    assert service["build"] == "."
    assert service["volumes"] == [f"state:{STATE}"]
    assert service["ports"] == [f"127.0.0.1:{Server().port}:{Server().port}"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]


def test_keys_pass_through_by_name_and_stand_nowhere(service: JsonObject) -> None:
    names = service["environment"]
    assert isinstance(names, list)
    known = {name for listing in catalogue().values() for name in listing.env}
    assert names
    assert set(names) <= known


def test_streams_have_time_to_end(service: JsonObject) -> None:
    times = Timeouts()
    assert int(str(service["stop_grace_period"]).removesuffix("s")) > times.lame_duck + times.drain
