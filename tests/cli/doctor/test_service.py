"""The service as doctor tells of it."""

from __future__ import annotations

from pathlib import Path

from dragoman.cli.doctor.service import service
from dragoman.config.config_file import write_atomically
from dragoman.config.env_file import as_env_file
from dragoman.system_service.init_systems import find_manager
from dragoman.system_service.installed import env_file_in, find_installed
from dragoman.system_service.units import MARKER, Job
from tests.cli.machine import SECRET
from tests.system_service.fake_init import FakeInit


def test_a_service_that_is_stopped_is_a_note_and_what_it_lacks_is_wrong(tmp_path: Path) -> None:
    init = FakeInit(tmp_path, "systemctl")
    manager, env_file = find_manager(init.environment), env_file_in(init.environment)
    config = tmp_path / "mine.toml"
    config.write_text('[keys.a]\nkey = "$THERE"\n[keys.b]\nkey = "$MISSING"\n')
    words = ("/opt/python", "serve", "--config", str(config), "--env-file", str(env_file))
    write_atomically(
        manager.unit, manager.render_unit(Job(command=words, directory="/", stop_seconds=1)).encode(), 0o644
    )
    write_atomically(env_file, as_env_file({"THERE": SECRET}, MARKER).encode())
    installed = find_installed(init.environment)
    assert installed is not None
    runs, section = service(installed, {**init.environment, "THERE": "another"})
    assert not runs
    assert [finding.wrong for finding in section.findings] == [False, True, False]
    assert "MISSING" in section.findings[1].message and "THERE" in section.findings[2].message
    assert dict(section.facts)["variables"] == f"THERE (in {env_file})"
    assert SECRET not in str(section)
    config.unlink()
    env_file.chmod(0o640)
    assert "by others" in service(installed, init.environment)[1].findings[1].message
    env_file.chmod(0o600)
    assert "cannot be read" in service(installed, init.environment)[1].findings[1].message
