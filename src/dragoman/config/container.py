"""Container: whether this process runs in one, where a loopback address is not the machine's."""

from __future__ import annotations

from functools import cache
from pathlib import Path

# The host as a container knows it, where somebody has given it that name.
HOST = "host.docker.internal"
_MARKS = ("/.dockerenv", "/run/.containerenv")
_GROUPS = "/proc/self/cgroup"
_WORDS = (b"docker", b"containerd", b"kubepods", b"libpod", b"lxc")


@cache
def in_container() -> bool:
    """Whether this process runs in a container, by the marks that those leave."""
    return found_in(Path("/"))


def found_in(root: Path) -> bool:
    """Whether the marks of a container are below a root."""
    if any((root / mark.lstrip("/")).exists() for mark in _MARKS):
        return True
    try:
        groups = (root / _GROUPS.lstrip("/")).read_bytes()
    except OSError:
        # No Linux, or nothing that may be read: nobody says that it is one.
        return False
    return any(word in groups for word in _WORDS)
