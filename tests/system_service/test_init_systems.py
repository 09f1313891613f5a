"""Init systems: how they are found, what they are told, and what is made of their answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.system_service import init_systems
from dragoman.system_service.init_systems import (
    ServiceState,
    check_manager,
    find_manager,
    read_launchd,
    read_systemd,
    run_commands,
    state_of,
)
from tests.system_service.fake_init import FakeInit

SYSTEMD: dict[str, tuple[int, str, ServiceState]] = {
    "runs": (
        0,
        "LoadState=loaded\nActiveState=active\nSubState=running\nMainPID=42\nResult=success\n",
        ServiceState(loaded=True, running=True, pid=42, description="active (running)"),
    ),
    "is stopped": (
        0,
        "MainPID=0\nResult=success\nLoadState=loaded\nActiveState=inactive\nSubState=dead\n",
        ServiceState(loaded=True, running=False, description="inactive (dead)"),
    ),
    "fails again and again": (
        0,
        "LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nMainPID=0\nResult=exit-code\n",
        ServiceState(loaded=True, running=False, description="activating (auto-restart), exit-code"),
    ),
    "is not there": (
        0,
        "LoadState=not-found\nActiveState=inactive\n",
        ServiceState(loaded=False, running=False, description="systemd does not know it"),
    ),
    "cannot be asked": (1, "", ServiceState(loaded=False, running=False, description="systemd does not know it")),
}
LAUNCHD: dict[str, tuple[int, str, ServiceState]] = {
    "runs": (
        0,
        "gui/501/local.dragoman = {\n\tactive count = 1\n\tstate = running\n\n\tpid = 42\n"
        "\tlast exit code = (never exited)\n\tspawn type = daemon {\n\t\tstate = other\n\t}\n}\n",
        ServiceState(loaded=True, running=True, pid=42, description="running"),
    ),
    "has failed": (
        0,
        "gui/501/local.dragoman = {\n\tstate = not running\n\tlast exit code = 1\n}\n",
        ServiceState(loaded=True, running=False, description="not running, last exit code 1"),
    ),
    "is not loaded": (
        113,
        "",
        ServiceState(loaded=False, running=False, description="launchd does not have it loaded"),
    ),
}


@pytest.mark.parametrize("case", SYSTEMD)
def test_what_systemd_says_is_understood(case: str) -> None:
    status, told, state = SYSTEMD[case]
    assert read_systemd(status, told) == state


@pytest.mark.parametrize("case", LAUNCHD)
def test_what_launchd_says_is_understood(case: str) -> None:
    status, told, state = LAUNCHD[case]
    assert read_launchd(status, told) == state


@pytest.mark.parametrize(("program", "name"), [("systemctl", "systemd"), ("launchctl", "launchd")])
def test_an_init_system_is_found_by_its_program(program: str, name: str, tmp_path: Path) -> None:
    init = FakeInit(tmp_path, program)
    manager = find_manager(init.environment)
    assert (manager.name, manager.unit.is_relative_to(init.home)) == (name, True)
    check_manager(manager, init.environment)
    assert state_of(manager, init.environment).loaded is False


@pytest.mark.parametrize("inside", [False, True], ids=["on a machine", "in a container"])
def test_where_an_init_system_does_not_run_for_a_user_the_remedy_is_that_of_the_place(
    inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init_systems, "in_container", lambda: inside)
    init = FakeInit(tmp_path, "systemctl")
    (init.place / "fails-show").touch()
    with pytest.raises(DragomanError, match="systemd does not run for this user") as caught:
        check_manager(find_manager(init.environment), init.environment)
    remedy = (
        "(start `dragoman serve` itself)" if inside else "(log in without su or sudo, or start `dragoman serve` itself)"
    )
    assert str(caught.value).endswith(remedy)


def test_a_program_of_the_current_directory_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init = FakeInit(tmp_path, "systemctl")
    monkeypatch.chdir(tmp_path / "bin")
    for path in (".", "", str(tmp_path / "bin")):
        with pytest.raises(DragomanError, match="neither systemd nor launchd"):
            find_manager({**init.environment, "PATH": path})
    with pytest.raises(DragomanError, match="no home"):
        find_manager({"PATH": "/usr/bin", "HOME": "here"})


def test_the_first_command_that_fails_is_the_last(tmp_path: Path) -> None:
    init = FakeInit(tmp_path, "systemctl")
    (init.place / "fails-enable").touch()
    manager = find_manager(init.environment)
    with pytest.raises(DragomanError, match=r"`systemctl --user enable dragoman\.service` failed: Failed to enable"):
        run_commands(manager, manager.start, init.environment)
    assert init.told() == [["--user", "daemon-reload"], ["--user", "enable", "dragoman.service"]]
