"""The text of units, and the command that is read back from it; no init system is needed for that."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.system_service.units import Job, command_of, is_ours, launchd_agent, option_of, systemd_unit

JOB = Job(
    command=(
        "/opt/python",
        "-P",
        "-m",
        "dragoman",
        "serve",
        "--config",
        "/home/me/d.toml",
        "--env-file",
        "/e/service.env",
    ),
    directory="/home/me/.config/dragoman",
    stop_seconds=50,
    log="/Users/me/Library/Logs/dragoman.log",
)
UNIT = """\
# Written by `dragoman service install`; `dragoman service uninstall` takes it back.
[Unit]
Description=Dragoman, one endpoint for several LLM protocols
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=exec
WorkingDirectory=/home/me/.config/dragoman
ExecStart=/opt/python -P -m dragoman serve --config /home/me/d.toml --env-file /e/service.env
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2
# The first process is told, and tells its workers itself.
KillMode=mixed
TimeoutStopSec=50
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""
AGENT = {
    "Label": "local.dragoman",
    "ProgramArguments": list(JOB.command),
    "WorkingDirectory": "/home/me/.config/dragoman",
    "RunAtLoad": True,
    "KeepAlive": {"SuccessfulExit": False},
    "ThrottleInterval": 10,
    "ExitTimeOut": 50,
    "StandardOutPath": "/Users/me/Library/Logs/dragoman.log",
    "StandardErrorPath": "/Users/me/Library/Logs/dragoman.log",
    "Umask": 0o077,
}
# A path, and how systemd has to be told of it.
PATHS: dict[str, tuple[str, str]] = {
    "plain": ("/home/me/d.toml", "/home/me/d.toml"),
    "a blank": ("/home/my self/d.toml", '"/home/my self/d.toml"'),
    "a percent sign": ("/100%h/d.toml", '"/100%%h/d.toml"'),
    "a dollar sign": ("/$HOME/${x}", '"/$$HOME/$${x}"'),
    "quotes": ("/a\"b'c", '"/a\\"b\'c"'),
    "a backslash": ("/a\\nb", '"/a\\\\nb"'),
    "a semicolon": (";", '";"'),
    "letters beyond ASCII": ("/schön", '"/schön"'),
}


def test_the_unit_of_systemd() -> None:
    assert systemd_unit(JOB) == UNIT


def test_the_agent_of_launchd() -> None:
    text = launchd_agent(JOB)
    assert plistlib.loads(text.encode()) == AGENT
    assert text.splitlines()[2].startswith("<!-- Written by `dragoman service install`")


@pytest.mark.parametrize("case", PATHS)
def test_paths_of_any_kind_stay_what_they_are(case: str) -> None:
    path, written = PATHS[case]
    job = replace(JOB, command=("/opt/python", path, "end"))
    unit, agent = systemd_unit(job), launchd_agent(job)
    assert f"ExecStart=/opt/python {written} end\n" in unit
    assert command_of(unit) == command_of(agent) == job.command


def test_a_unit_of_another_maker_is_known() -> None:
    assert is_ours(UNIT) and is_ours(launchd_agent(JOB))
    assert not is_ours("[Service]\nExecStart=/usr/bin/dragoman\n")


@pytest.mark.parametrize("text", ["", "[Service]\n", "<?xml", "<?xml version='1.0'?><plist><array/></plist>"])
def test_a_unit_that_was_cut_short_has_no_command(text: str) -> None:
    assert command_of(text) == ()


def test_an_option_is_found_by_its_name() -> None:
    assert option_of(JOB.command, "--config") == "/home/me/d.toml"
    assert option_of(JOB.command, "--port") == option_of(("--config",), "--config") == ""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here to read it")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.service"
    job = replace(JOB, command=("/bin/sh", "-c", "a b%$"), directory=str(tmp_path))
    file.write_text(systemd_unit(job))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(file)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert "dragoman.service" not in done.stderr.decode()
