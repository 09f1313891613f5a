"""`dragoman service` from the first question to the last file, with init systems that really start what a unit says."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from dragoman.launching.gateway import greeting_of
from tests.cli.machine import SECRET
from tests.cli.screens import Seen, on_screen, piped, process_on_screen
from tests.gateway.harness import running
from tests.ports import free_port
from tests.server.process import Process
from tests.system_service.fake_init import FakeInit

PROGRAMS = ["systemctl", "launchctl"]
UNITS = {
    "systemctl": ".config/systemd/user/dragoman.service",
    "launchctl": "Library/LaunchAgents/local.dragoman.plist",
}
SHELL = {
    "BOX_KEY": SECRET,
    "OPENAI_API_KEY": "sk-openai-0123456789",
    "GATEWAY_KEY": "dgm_gateway-key-0123456789-abcdef",
}
CONFIG = """
[server]
port = {port}
[timeouts]
lame_duck = 0
[providers.box]
protocol = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
api_key = "$BOX_KEY"
[keys.laptop]
key = "$GATEWAY_KEY"
"""


@pytest.fixture(params=PROGRAMS)
def init(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeInit]:
    made = FakeInit(tmp_path, request.param)
    yield made
    made.end()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[FakeInit]:
    made = FakeInit(tmp_path, "systemctl")
    yield made
    made.end()


@contextmanager
def serving(place: Path, environment: dict[str, str] | None = None) -> Iterator[Process]:
    """A gateway that was started by hand."""
    process = Process(["--port", "0"], place, environment)
    try:
        process.listening()
        yield process
    finally:
        process.end()


def service(init: FakeInit, *words: str, **shell: str) -> tuple[int, str, str]:
    """A command, in a shell with keys, where nobody can be asked; on a busy machine a gateway starts slowly."""
    with mock.patch("dragoman.cli.service._READY_SECONDS", 120.0):
        return piped(["service", *words], init.home, {**SHELL, **init.environment, **shell})


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeInit]:
    """A service that runs under systemd, for tests that leave it as it is."""
    made = FakeInit(tmp_path_factory.mktemp("installed"), "systemctl")
    try:
        put(made, free_port())
        assert service(made, "install", "--yes")[0] == 0
        yield made
    finally:
        made.end()


def unit_of(init: FakeInit) -> Path:
    program = next(iter((init.home.parent / "bin").iterdir())).name
    return init.home / UNITS[program]


def put(init: FakeInit, port: int) -> Path:
    """A configuration in the user's own folder."""
    folder = init.home / ".config/dragoman"
    folder.mkdir(parents=True)
    file = folder / "dragoman.toml"
    file.write_text(CONFIG.format(port=port))
    file.chmod(0o600)
    return file


def files(init: FakeInit) -> set[str]:
    return {str(path.relative_to(init.home)) for path in init.home.rglob("*") if not path.is_dir()}


def test_pitfall_625_626_627_a_service_from_its_first_to_its_last_moment(init: FakeInit) -> None:
    port = free_port()
    config = put(init, port)
    env_file, unit = config.parent / "service.env", unit_of(init)
    before = files(init)

    status, out, err = service(init, "install", "--yes")
    assert (status, err) == (0, "")
    # What is written was said before what was done; of variables the names alone.
    assert out.index(str(unit)) < out.index(str(env_file)) < out.index("The service runs")
    assert "BOX_KEY, GATEWAY_KEY, OPENAI_API_KEY" in out
    assert f"The service runs, at http://127.0.0.1:{port}." in out
    for way in ("dragoman service stop", "dragoman service uninstall", "dragoman service status", "its log"):
        assert way in out
    assert stat.S_IMODE(env_file.stat().st_mode) == 0o600
    text = unit.read_text()
    for secret in SHELL.values():
        assert secret not in out + text
        assert secret in env_file.read_text()
    # The service has what the shell had.
    assert greeting_of(f"http://127.0.0.1:{port}") is not None
    assert f"configured by {config}" in init.log()
    assert "runs as a service: `dragoman service stop` ends it" in init.log()
    assert "box " in init.log() and "openai " in init.log()

    first = init.pid
    status, out, err = service(init, "status")
    assert (status, err) == (0, "")
    for words in (str(config), f"process {first}", "BOX_KEY, GATEWAY_KEY, OPENAI_API_KEY", "dragoman service stop"):
        assert words in out
    assert not [secret for secret in SHELL.values() if secret in out]

    # Once more, with another key: the same files, anew, and another process.
    status, out, err = service(init, "install", "--yes", OPENAI_API_KEY="sk-another-0123456789")
    assert (status, err) == (0, "")
    assert init.pid not in (0, first)
    assert "sk-another-0123456789" in env_file.read_text() and SHELL["OPENAI_API_KEY"] not in env_file.read_text()
    assert stat.S_IMODE(env_file.stat().st_mode) == 0o600

    status, out, err = service(init, "stop")
    assert (status, err, init.pid) == (0, "", 0)
    assert out.startswith("The service is stopped.") and "dragoman service uninstall" in out
    assert greeting_of(f"http://127.0.0.1:{port}") is None
    assert (init.place / "status").read_text() == "0"
    status, out, _ = service(init, "status")
    assert status == 1 and "the service does not run" in out

    status, out, err = service(init, "uninstall", "--yes")
    assert (status, err) == (0, "")
    assert not unit.exists() and not env_file.exists()
    _, _, stays = out.partition("Remaining files:")
    assert str(config) in stays and str(init.home / ".local/state/dragoman") in stays
    assert files(init) - before == {path for path in files(init) if path.startswith(".local/state/dragoman/")}
    assert service(init, "uninstall", "--yes")[1] == "No service is installed, and no files of one are left.\n"


def test_pitfall_621_627_nothing_is_done_that_nobody_agreed_to(init: FakeInit) -> None:
    put(init, free_port())
    for action in ("install", "uninstall"):
        before = files(init)
        status, out, err = service(init, action)
        assert status == 1 and "--yes" in err and str(unit_of(init)) in out
        status, out, err = service(init, action, "--dry-run")
        assert (status, err) == (0, "")
        assert files(init) == before
        assert bool(init.pid) is (action == "uninstall")
        assert service(init, action, "--yes")[0] == 0
    # It ran, and was ended.
    assert not init.pid
    assert (init.place / "status").read_text() == "0"


def test_the_dry_run_shows_the_unit(init: FakeInit) -> None:
    config = put(init, free_port())
    _, out, _ = service(init, "install", "--dry-run")
    assert str(config) in out.partition(f"\n{unit_of(init)}:\n")[2]
    assert [words for words in init.told() if "show" not in words and "print" not in words] == []


def test_variables_of_keys_that_are_not_set_are_named_before_anything_is_written(systemd: FakeInit) -> None:
    config = put(systemd, free_port())
    own = 'protocol = "openai-chat"\nbase_url = "https://own.test"\napi_key = "$OWN_KEY"\n'
    more = f"[providers.groq]\n[providers.own]\n{own}"
    config.write_text(f'{config.read_text()}{more}[models]\nfast = ["openai/gpt-5.1", "xai/grok-4"]\n')
    _, out, _ = service(systemd, "install", "--dry-run")
    unset = out.partition("(set them, and run this again):\n")[2].splitlines()[:3]
    assert [line.split(":")[0].strip() for line in unset] == ["GROQ_API_KEY", "OWN_KEY", "XAI_API_KEY"]
    assert unset[2] == "  XAI_API_KEY: without it xai is left out"


def test_a_file_that_was_merely_found_is_refused(systemd: FakeInit) -> None:
    file = systemd.home / "dragoman.toml"
    file.write_text("[server]\nport = 0\n")
    status, out, err = service(systemd, "install", "--yes")
    assert (status, out) == (1, "")
    assert err.startswith(f"dragoman: {file}: was found in the current directory") and "--config" in err
    # Named, it is somebody's decision.
    status, out, _ = service(systemd, "install", "--dry-run", "--config", "dragoman.toml")
    assert status == 0 and f"configured by {file}" in out


def test_files_of_others_are_not_written_over(systemd: FakeInit) -> None:
    put(systemd, free_port())
    unit = unit_of(systemd)
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/usr/bin/true\n")
    status, out, err = service(systemd, "install", "--yes")
    assert (status, out) == (1, "") and f"{unit} is there already" in err
    unit.unlink()
    unit.symlink_to(systemd.home / "elsewhere")
    status, _, err = service(systemd, "install", "--yes")
    assert status == 1 and "is there already" in err
    assert service(systemd, "uninstall", "--yes")[1] == "No service is installed, and no files of one are left.\n"
    assert unit.is_symlink()


def test_where_there_is_no_init_system_it_is_one_sentence(tmp_path: Path) -> None:
    for action in ("install", "status", "stop", "uninstall"):
        status, out, err = piped(["service", action], tmp_path, {"PATH": str(tmp_path)})
        assert (status, out) == (1, "")
        assert err == (
            "dragoman: there is neither systemd nor launchd here to watch over a service: start `dragoman serve` by "
            "whatever does\n"
        )


def test_an_init_system_that_is_not_there_for_this_user_is_told_before_anything_is_written(systemd: FakeInit) -> None:
    put(systemd, free_port())
    before = files(systemd)
    (systemd.place / "no-bus").touch()
    status, out, err = service(systemd, "install", "--yes")
    assert (status, out, len(err.splitlines())) == (1, "", 1)
    assert "systemd does not run for this user: Failed to connect to bus" in err
    assert files(systemd) == before


def test_a_command_that_fails_is_named_with_its_words(systemd: FakeInit) -> None:
    put(systemd, free_port())
    (systemd.place / "fails-enable").touch()
    status, _, err = service(systemd, "install", "--yes")
    assert status == 1
    assert err == (
        "dragoman: `systemctl --user enable dragoman.service` failed: Failed to enable unit: of course; `dragoman "
        "service uninstall` removes the written files\n"
    )
    assert service(systemd, "uninstall", "--yes")[0] == 0
    assert files(systemd) == {".config/dragoman/dragoman.toml"}


def test_nothing_is_removed_while_nobody_can_be_told(installed: FakeInit) -> None:
    before = files(installed)
    no_bus = installed.place / "no-bus"
    no_bus.touch()
    try:
        status, _, err = service(installed, "uninstall", "--yes")
    finally:
        no_bus.unlink()
    assert status == 1 and "does not run for this user" in err
    assert files(installed) == before


def test_a_service_may_have_no_configuration_and_a_dry_run_makes_no_folder(systemd: FakeInit) -> None:
    status, out, err = service(systemd, "install", "--dry-run")
    assert (status, err) == (0, "") and "configured by environment variables only" in out
    assert "--config" not in out
    assert not (systemd.home / ".config").exists()


def test_a_port_that_is_taken_is_told_before_anything_is_written(systemd: FakeInit) -> None:
    with running() as house:
        put(systemd, house.port)
        status, _, err = service(systemd, "install", "--yes")
        assert status == 1 and f"cannot listen on 127.0.0.1:{house.port}" in err and f"kill {os.getpid()}" in err
        assert not unit_of(systemd).exists()


def test_a_service_that_does_not_answer_sends_its_user_to_the_log(
    systemd: FakeInit, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An ended service is given up at once.
    monkeypatch.setattr("dragoman.cli.service._GRACE", 0.0)
    put(systemd, free_port())
    # An installation that is gone, as the service sees it.
    environ = systemd.place / "environ"
    environ.write_text(json.dumps({"HOME": str(systemd.home), "PYTHONHOME": "/nowhere"}))
    status, out, err = service(systemd, "install", "--yes")
    assert status == 1 and "no gateway responds" in err
    assert "journalctl --user --unit dragoman.service" in out


def test_pitfall_625_what_the_service_has_not_is_named(installed: FakeInit) -> None:
    config = installed.home / ".config/dragoman/dragoman.toml"
    env_file = config.parent / "service.env"
    text = config.read_text()
    config.write_text(f'{text}[keys.more]\nkey = "$MORE_KEY"\n')
    try:
        status, out, _ = service(installed, "status", OPENAI_API_KEY="sk-another-one", GROQ_API_KEY="gsk-0123456789")
        assert status == 1
        assert "the configuration names environment variables that the service does not have: MORE_KEY" in out
        assert "set in this shell, and missing or different for the service: OPENAI_API_KEY, GROQ_API_KEY" in out
        status, out, _ = service(installed, "status", "--json")
        told = json.loads(out)
        assert (told["running"], told["wrong"]) == (True, 1)
        # A file that others can read is not believed, and not told from.
        env_file.chmod(0o644)
        _, out, _ = service(installed, "status")
        assert "can be read or written by others" in out
        assert not [secret for secret in SHELL.values() if secret in out]
    finally:
        env_file.chmod(0o600)
        config.write_text(text)


def test_pitfall_625_serve_warns_of_a_service_beside_it(systemd: FakeInit) -> None:
    config = put(systemd, free_port())
    assert service(systemd, "install", "--yes")[0] == 0
    environment = {**SHELL, **systemd.environment}
    with serving(systemd.home, environment) as beside:
        assert beside.log.wait("warning: a service") == (
            f"dragoman: warning: a service is running, too (process {systemd.pid}, configured by {config}): "
            "`dragoman service stop` ends it"
        )
        assert not [line for line in beside.out.all() if "runs as a service" in line]
    _, out, _ = piped(["doctor", "--offline"], systemd.home, environment)
    assert f"process {systemd.pid}" in out and "dragoman service uninstall" in out
    assert service(systemd, "stop")[0] == 0
    with serving(systemd.home, environment) as alone:
        assert not [line for line in alone.log.all() if "a service" in line]


@pytest.mark.parametrize("columns", [80, 140])
def test_what_a_person_sees_fits(columns: int, systemd: FakeInit) -> None:
    put(systemd, 0)
    many = {f"AWS_VARIABLE_{number}": "x" for number in range(20)}
    environ = {**SHELL, **systemd.environment, **many}
    seen = on_screen(["service", "install", "--dry-run"], systemd.home, columns=columns, environ=environ)
    assert seen.status == 0
    names = [line for line in seen.plain.splitlines() if line.startswith("    ")]
    assert len(names) > 1 and all(len(line) <= columns for line in names)
    assert all(name in " ".join(names) for name in many)
    assert "\x1b" not in seen.plain


@pytest.mark.parametrize(("answer", "run"), [(b"n\n", on_screen), (b"y\n", process_on_screen)])
def test_a_person_is_asked_and_may_say_no(answer: bytes, run: Callable[..., Seen], systemd: FakeInit) -> None:
    put(systemd, free_port())
    before = files(systemd)
    environ = {**SHELL, **systemd.environment}
    seen = run(["service", "install"], systemd.home, environ=environ, stream="both", typed=answer)
    assert str(unit_of(systemd)) in seen.plain.partition("[y/N]")[0]
    assert seen.status == (1 if answer == b"n\n" else 0)
    assert (files(systemd) == before) is (answer == b"n\n")
    assert bool(systemd.pid) is (answer == b"y\n")
