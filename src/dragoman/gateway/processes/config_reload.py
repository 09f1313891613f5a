"""Configuration reload: every worker, and the supervisor for later workers, watch the file. A change that has settled
is read and checked (`protection.py`). If it must not be applied, that is logged and the old configuration stays."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from dragoman.config.config_file import Fingerprint
from dragoman.config.settings import Settings, Storage
from dragoman.errors import ConfigError, ConfigErrors
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.unexpected_errors import traceback_summary
from dragoman.gateway.processes.sighup import OnHangup
from dragoman.gateway.workers.protection import Protection, judged, protection_of, tightened
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.model.jsonvalue import JsonObject

# Interval of checks of the file. A changed file is read at the next check if it is stable by then: editors write in
# several steps.
POLL_INTERVAL = 0.5


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """Settings of a worker process: how to reload its configuration, how strict access control must be, and where the
    other workers listen."""

    # Returns the present settings. An invalid or untrusted file raises `ConfigError`.
    read: Callable[[], Settings]
    log: Log
    # None means as the settings require.
    protection: Protection | None = None
    # Detects changes of the file; None if there is no file.
    fingerprint: Callable[[], Fingerprint] | None = None
    # The fingerprint of the file before the settings were read, so that no change is missed.
    seen: Fingerprint | None = None
    # The number of the worker, and the shared memory.
    number: int = 0
    page: SharedMemory = field(default_factory=SharedMemory)
    # The token for queries between workers; empty for a single worker.
    token: bytes = b""
    # The effect of SIGHUP.
    hangup: OnHangup = OnHangup.RELOADS
    # Whether gateway keys of the database are accepted: not by a gateway that `launch` starts for one client.
    reads_key_database: bool = True
    # A pipe that closes with the process at its other side.
    lifeline: int | None = None
    # Seconds without a turn of its loop after which the process ends itself; None for never.
    max_turn_seconds: float | None = None


class Configuration:
    """The settings in force, and the protection. `quiet` if the workers log."""

    def __init__(self, worker_settings: WorkerSettings, settings: Settings, *, quiet: bool = False) -> None:
        self._worker_settings = worker_settings
        self._quiet = quiet
        self.protection = protection = worker_settings.page.closed_with(
            worker_settings.protection or protection_of(settings)
        )
        worker_settings.page.record(protection)
        self.settings = settings
        self._read = self._seen = worker_settings.seen if worker_settings.seen is not None else self._now()

    @property
    def seen(self) -> Fingerprint | None:
        """The fingerprint of the file when it was last read."""
        return self._read

    def catch_up(self) -> bool:
        """Reload if the file has changed since the settings were read. Returns whether other settings apply."""
        return self._now() != self._read and self.reload()

    def poll(self) -> bool:
        """Reload if the file has changed and is stable. Returns whether other settings apply."""
        now, before = self._now(), self._seen
        self._seen = now
        return now == before and now != self._read and self.reload()

    def reload(self) -> bool:
        """Read the file and apply it if allowed. Returns whether it was applied."""
        worker_settings, old = self._worker_settings, self.settings
        self._read = self._seen = self._now()
        self.protection = protection = worker_settings.page.closed_with(self.protection)
        try:
            new = worker_settings.read()
            settings = judged(protection, old, new)
        except ConfigError as error:
            self._refuse(error)
            return False
        except Exception as error:
            # An unexpected error in a file or its directory must not end a worker or its supervisor.
            details: JsonObject = {"error": type(error).__name__, "at": traceback_summary(error)}
            self._worker_settings.log.event("error", "cannot reload configuration: unexpected error", **details)
            return False
        self.settings, self.protection = settings, tightened(protection, settings)
        worker_settings.page.record(self.protection)
        if _fixed(new) != _fixed(settings):
            self._log("warn", "host, port, workers and storage change only with a restart")
        for warning in settings.warnings:
            self._log("warn", warning)
        return True

    def _now(self) -> Fingerprint | None:
        return self._worker_settings.fingerprint() if self._worker_settings.fingerprint is not None else None

    def _log(self, level: str, message: str) -> None:
        if not self._quiet:
            self._worker_settings.log.event(level, message)

    def _refuse(self, error: ConfigError) -> None:
        """Log every problem of a rejected configuration."""
        if self._quiet:
            return
        for problem in error.problems if isinstance(error, ConfigErrors) else (error,):
            details: JsonObject = {
                "file": problem.file,
                "line": problem.line,
                "key": problem.key,
                "problem": problem.problem,
                "remedy": problem.remedy,
            }
            nonempty = {name: value for name, value in details.items() if value}
            self._worker_settings.log.event("error", "cannot reload configuration: it has errors", **nonempty)


def _fixed(settings: Settings) -> tuple[str, int, int, Storage]:
    """Settings that a running gateway cannot change."""
    return settings.server.host, settings.server.port, settings.server.workers, settings.storage
