"""The page about deployment: its backup is for the user alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.docs.bare import ROOT, bare_environ
from tests.docs.pages import blocks
from tests.store.opened import opened

# As the program of SQLite, which may not be installed: `sqlite3 FILE ".backup COPY"`.
_SQLITE = """\
#!/bin/bash
[[ $2 == ".backup "* ]] && cat "$1" > "${2#.backup }"
"""


def test_only_the_user_can_read_the_backup(tmp_path: Path) -> None:
    (command,) = (block.text for block in blocks("", [ROOT / "docs/deploy.md"]) if ".backup" in block.text)
    state, backup, program = (
        tmp_path / name for name in (".local/state/dragoman/state.db", "backup/state.db", "bin/sqlite3")
    )
    for path in (state, backup, program):
        path.parent.mkdir(parents=True)
    with opened(state):
        pass
    program.write_text(_SQLITE, encoding="utf-8")
    program.chmod(0o755)
    environ = bare_environ(tmp_path)
    subprocess.run(
        ["bash", "-ec", f"umask 022; {command.replace('/backup', str(backup.parent))}"],
        env={**environ, "PATH": f"{program.parent}:{environ['PATH']}"},
        check=True,
        timeout=60,
    )
    assert backup.stat().st_mode & 0o777 == 0o600
    assert backup.stat().st_size > 0
