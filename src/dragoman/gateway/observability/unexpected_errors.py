"""Unexpected errors and warnings of the loop: records of the standard loggers as lines of our own log. An exception's
message may quote a client, so only its class and traceback are logged."""

from __future__ import annotations

import logging
import traceback
from pathlib import PurePath

from dragoman.gateway.observability.logs import Log
from dragoman.model.jsonvalue import JsonObject


class UnexpectedErrors(logging.Handler):
    """A handler for the root logger."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record."""
        # The loop logs the failed task in further lines, which contain the exception's message.
        words = record.getMessage().partition("\n")[0]
        fields: JsonObject = {"logger": record.name}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            fields |= {"error": type(error).__name__, "at": traceback_summary(error)}
        self._log.event("error" if record.levelno >= logging.ERROR else "warn", words, **fields)


def traceback_summary(error: BaseException) -> str:
    """Where an exception passed through, the last place last."""
    frames = traceback.walk_tb(error.__traceback__)
    return " ".join(f"{PurePath(frame.f_code.co_filename).name}:{line}" for frame, line in frames)
