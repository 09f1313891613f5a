"""Write errors: why a file cannot be written, which user can, and the remedy. Usually a volume belongs to root."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from shlex import quote

from dragoman.errors import ConfigError

# Check as the effective user, not as the one that started the process.
_EFFECTIVE = os.access in os.supports_effective_ids


def not_writable(path: Path, error: Exception, *, key: str, otherwise: str) -> ConfigError | None:
    """The error for missing rights on a file, else None; `key` is its setting, `otherwise` another remedy."""
    directory = path.parent
    fixed = ConfigError(key=key, problem=f"{directory} is on a read-only file system", remedy=otherwise)
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        return fixed
    if os.name != "posix":
        return None
    nearest = next(place for place in (directory, *directory.absolute().parents) if _exists(place))
    if os.statvfs(nearest).f_flag & os.ST_RDONLY:
        # SQLite does not distinguish it from missing permissions.
        return fixed
    blocked = next((place for place in (path, nearest) if _exists(place) and not _may_write(place)), None)
    if blocked is None:
        return None
    owner, place = f"{os.geteuid()}:{os.getegid()}", quote(str(directory))
    if not _exists(directory):
        mended = f"mkdir -p {place} && chown {owner} {place}"
    else:
        # Of what lies beside it under the same name (`-wal`, `-shm`) the same is true.
        mended = f"chown {owner} {place}" + (f" {quote(str(path))}*" if _exists(path) else "")
    return ConfigError(
        key=key,
        problem=f"{blocked} cannot be written to by this user, uid {os.geteuid()}",
        remedy=f"as root: {mended}; or {otherwise}",
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # Not even the way there may be looked at.
        return False


def _may_write(path: Path) -> bool:
    wanted = os.W_OK | os.X_OK if path.is_dir() else os.W_OK | os.R_OK
    return os.access(path, wanted, effective_ids=_EFFECTIVE)
