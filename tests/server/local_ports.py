"""The usual ports of local servers, moved: what a test listens on must not be anybody's, nor be met by accident."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dragoman.providers import catalogue as catalogue_module
from tests.ports import free_port
from tests.server.process import clean_environment

USUAL = {"ollama": 11434, "lmstudio": 1234, "llamacpp": 8080, "vllm": 8000}
# Loaded by every Python that finds it, before anything of the program is.
_SITE = """
from pathlib import Path
import dragoman.launching.local_servers as local_servers
import dragoman.providers.catalogue as module
module._FILE = Path({file!r})
# Seconds that a server has to answer in: those of tests always answer, and the machine may be busy.
local_servers.models_at.__defaults__ = (60.0,)
"""


def moved_catalogue(folder: Path, ports: Mapping[str, int]) -> Path:
    """A copy of the catalogue with these ports, and free ones for the others."""
    text = catalogue_module._FILE.read_text(encoding="utf-8")
    for name, usual in USUAL.items():
        text = text.replace(f"//127.0.0.1:{usual}", f"//127.0.0.1:{ports.get(name) or free_port()}")
    file = folder / "catalogue.json"
    file.write_text(text, encoding="utf-8")
    return file


def environment_with(folder: Path, **ports: int) -> dict[str, str]:
    """An environment whose processes look for local servers at these ports."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(_SITE.format(file=str(moved_catalogue(folder, ports))))
    environment = clean_environment(folder)
    return environment | {"PYTHONPATH": os.pathsep.join([str(site), environment["PYTHONPATH"]])}
