"""`serve --first-key FILE`, as a container starts it: never open, and there is a way in."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.identities.key_text import hash_text, new_key
from tests.cli.machine import clean
from tests.server.process import PATIENCE, ROOT, Process, clean_environment
from tests.store.other_users import unwritable_folder

QUESTION = {"model": "echo/text", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
FOR_ALL = ("--host", "0.0.0.0", "--port", "0", "--log", "json", "--first-key", "kept/first-key")


@contextmanager
def started(folder: Path, *more: str) -> Iterator[Process]:
    process = Process([*FOR_ALL, *more], folder)
    try:
        process.listening()
        yield process
        assert process.stop() == 0
    finally:
        process.end()


def status(process: Process, key: str | None = None) -> int:
    """What the gateway says to a request with a key or without."""
    headers = {"content-type": "application/json", **({"x-api-key": key} if key else {})}
    url = f"http://127.0.0.1:{process.listening()}/v1/messages"
    request = urllib.request.Request(url, json.dumps(QUESTION).encode(), headers)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def shown(process: Process) -> list[str]:
    return re.findall(r"dgm_\w+", "\n".join([*process.out.all(), *process.log.all()]))


def config(folder: Path, text: str) -> str:
    file = folder / "named.toml"
    file.write_text(f"[timeouts]\nlame_duck = 0\n{text}", encoding="utf-8")
    return str(file)


def test_pitfall_629_a_gateway_for_all_makes_a_key_and_shows_it_once(tmp_path: Path) -> None:
    named = ("--config", config(tmp_path, ""))
    with started(tmp_path, *named) as first:
        # Its first line is for programs, whatever else is said.
        assert " listens on " in first.out.all()[0]
        (key,) = shown(first)
        assert status(first) == 401
        assert status(first, new_key()) == 401
        assert status(first, key) == 200
    assert (tmp_path / "kept/first-key").read_text(encoding="ascii").strip() == hash_text(key)
    with started(tmp_path, *named) as second:
        assert status(second) == 401
        assert status(second, key) == 200
        assert shown(second) == []
        second.log.wait("delete kept/first-key and start again")


def test_pitfall_629_without_its_file_there_is_a_new_one_and_the_old_one_opens_nothing(tmp_path: Path) -> None:
    named = ("--config", config(tmp_path, ""))
    with started(tmp_path, *named) as first:
        (old,) = shown(first)
    (tmp_path / "kept/first-key").unlink()
    with started(tmp_path, *named, "--workers", "2") as second:
        (new,) = shown(second)
        assert new != old
        assert status(second, old) == 401
        assert status(second, new) == 200


def test_with_keys_of_its_own_none_is_made(tmp_path: Path) -> None:
    key = new_key()
    with started(tmp_path, "--config", config(tmp_path, f'[keys.a]\nhash = "{hash_text(key)}"\n')) as process:
        assert status(process, key) == 200
        assert shown(process) == []
    assert not (tmp_path / "kept").exists()


def test_keys_that_the_file_gets_later_end_it(tmp_path: Path) -> None:
    key = new_key()
    with started(tmp_path, "--config", config(tmp_path, "")) as process:
        (first,) = shown(process)
        config(tmp_path, f'[keys.a]\nhash = "{hash_text(key)}"\n')
        process.log.wait("configuration reloaded")
        assert status(process, key) == 200
        assert status(process, first) == 401


def test_whoever_wants_it_open_wants_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    clean(tmp_path, monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--no-auth", "--first-key", "first-key"])
    assert ended.value.code == 2
    assert "not allowed with argument" in capfd.readouterr().err


# Whoever is not root may not be able to read the modules of whoever is: they are loaded before.
AS_NOBODY = """
import sys
import dragoman.gateway.processes.supervisor, dragoman.gateway.access.first_key, dragoman.system_service.init_systems
from dragoman.cli import main
from dragoman.launching.local_servers import find_local_models
from dragoman.providers.catalogue import catalogue
from tests.store.other_users import as_nobody
catalogue()
find_local_models({'nobody': 'http://127.0.0.1:1/v1'})
with as_nobody() as who:
    status = main(sys.argv[1:])
print(who)
sys.exit(status)
"""


@pytest.mark.parametrize("option", ["the first key", "the store"])
def test_pitfall_630_a_volume_of_another_user_ends_the_start_without_a_traceback(option: str) -> None:
    with unwritable_folder() as folder:
        more = ["--first-key", f"{folder}/first-key"] if option == "the first key" else []
        environment = clean_environment(folder)
        environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{environment['PYTHONPATH']}"
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, "serve", "--port", "0", *more],
            cwd=folder,
            env=environment | {"XDG_STATE_HOME": str(folder)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    who = done.stdout.strip()
    place = folder if more else folder / "dragoman"
    assert done.returncode == 1
    # Before the store is opened, what is set is told.
    *before, said = done.stderr.splitlines()
    assert ["settings that are not default" in line for line in before] == ([] if more else [True])
    assert f"{folder} cannot be written to by this user, uid {who.partition(':')[0]} (as root: " in said
    assert f"chown {who} {place}; or " in said
