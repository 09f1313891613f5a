"""Container: whether this process runs in one, where a loopback address is not the machine's."""

from __future__ import annotations

from functools import cache
from pathlib import Path

# The name under which containers reach the host.
HOST = "host.docker.internal"
_MARKER_FILES = ("/.dockerenv", "/run/.containerenv")
# The namespace of the machine's first process, by the number that every Linux kernel gives it
# (PROC_PID_INIT_INO, https://github.com/torvalds/linux/blob/master/include/linux/proc_ns.h).
_NAMESPACE, _OF_MACHINE = "/proc/self/ns/pid", "pid:[4026531836]"
_GROUPS = "/proc/self/cgroup"
_CGROUP_NAMES = (b"docker", b"containerd", b"kubepods", b"libpod", b"lxc")


@cache
def in_container() -> bool:
    """Whether this process runs in a container, by the marks that those leave."""
    return has_container_markers(Path("/"))


def has_container_markers(root: Path) -> bool:
    """Whether a root has the marks of a container. A virtual machine of its image has them, in the first namespace."""
    try:
        if str((root / _NAMESPACE.lstrip("/")).readlink()) == _OF_MACHINE:
            return False
    except OSError:
        # No Linux, or no right to see it: the marks decide.
        pass
    if any((root / marker.lstrip("/")).exists() for marker in _MARKER_FILES):
        return True
    try:
        groups = (root / _GROUPS.lstrip("/")).read_bytes()
    except OSError:
        # Not Linux, or nothing readable: treated as no container.
        return False
    return any(name in groups for name in _CGROUP_NAMES)
