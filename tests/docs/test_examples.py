"""Every configuration in examples/ starts in an empty environment, and each of its names leads to an answer."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.bare import ROOT, ask, bare_environ, gateway
from tests.docs.warm import warm_program
from tests.mock.asking import mock_running

FILES = sorted((ROOT / "examples").glob("*.toml"))
# A name that a client asks for by itself, for each pattern.
ASKED_BY_PATTERN = {"claude-haiku-*": "claude-haiku-5-5", "claude-*": "claude-opus-5"}
KEY = "dgm_a_key_that_only_this_test_has_0123456789"
KEY_HASH = f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()}"

each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def _variables(file: Path) -> dict[str, str]:
    """A value for each variable that the file names."""
    text = file.read_text(encoding="utf-8")
    return {name: f"sk-of-{name.lower()}" for name in re.findall(r'"\$([A-Z_]+)"', text)}


def _names(file: Path) -> list[str]:
    """Names that the file's lines lead somewhere."""
    models = tomllib.loads(file.read_text(encoding="utf-8")).get("models", {})
    return [ASKED_BY_PATTERN[name] if "*" in name else name for name in models]


def _toml(value: object) -> str:
    """A value as TOML writes it on one line."""
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(name)} = {_toml(member)}" for name, member in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case _:
            return json.dumps(value)


def _leading_to(address: str, file: Path, tmp_path: Path) -> Path:
    """The same configuration, whose providers are all at one address."""
    config = tomllib.loads(file.read_text(encoding="utf-8"))
    for provider in config["providers"].values():
        provider |= {"base_url": f"http://{address}/v1", "api_key": "sk-any-key-will-do", "auth": "bearer"}
    copied = tmp_path / "dragoman.toml"
    copied.write_text("\n".join(f"{name} = {_toml(table)}" for name, table in config.items()), encoding="utf-8")
    copied.chmod(0o600)
    return copied


def _keyed(file: Path) -> tuple[str, ...]:
    """How it is served with one more key, that of this test."""
    return "--config", str(file), "--key-hash", KEY_HASH


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with warm_program(tmp_path_factory.mktemp("bin") / "dragoman") as path:
        yield str(path)


def test_there_are_some() -> None:
    assert len(FILES) >= 6


@each_file
def test_pitfall_634_every_example_starts_in_an_empty_environment(file: Path, tmp_path: Path, program: str) -> None:
    with gateway(tmp_path, *_keyed(file), program=(program,)) as address:
        status, body = ask(address, "echo/text", KEY)
        assert (status, "You said: Hello" in body) == (200, True), body


@each_file
def test_nothing_is_wrong_with_it_once_its_variables_are_set(file: Path, tmp_path: Path, program: str) -> None:
    done = subprocess.run(
        [program, "check", "--config", str(file)],
        env=bare_environ(tmp_path, _variables(file)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


@each_file
def test_each_of_its_names_leads_to_an_answer(file: Path, tmp_path: Path, program: str) -> None:
    names = _names(file)
    with (
        mock_running() as mock,
        gateway(tmp_path, *_keyed(_leading_to(mock.address, file, tmp_path)), program=(program,)) as address,
    ):
        for name in names or ["anthropic/claude-opus-5"]:
            status, body = ask(address, name, KEY)
            assert (status, "Hello" in body) == (200, True), f"{name}: {body}"


@pytest.mark.parametrize("name", ["team-with-keys.toml", "load-balancer.toml"])
def test_those_for_others_open_for_a_key_alone(name: str, tmp_path: Path, program: str) -> None:
    file = ROOT / "examples" / name
    with gateway(tmp_path, *_keyed(file), environ=_variables(file), program=(program,)) as address:
        assert ask(address, "echo/text")[0] == 401


@each_file
def test_a_page_tells_of_it(file: Path) -> None:
    named = re.search(r"docs/[a-z/-]+\.md", file.read_text(encoding="utf-8"))
    assert named is not None
    assert file.name in (ROOT / named[0]).read_text(encoding="utf-8")
