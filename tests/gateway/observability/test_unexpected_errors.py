"""What the standard loggers tell ends in our log, without an exception's own words."""

from __future__ import annotations

import io
import json
import logging

from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.unexpected_errors import UnexpectedErrors

SECRET = "what a client said"


def _told(record: logging.LogRecord) -> dict[str, object]:
    out = io.StringIO()
    UnexpectedErrors(Log(out, json=True)).handle(record)
    (line,) = out.getvalue().splitlines()
    value = json.loads(line)
    assert isinstance(value, dict)
    return value


def _record(level: int, message: str, error: BaseException | None = None) -> logging.LogRecord:
    information = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("dragoman.http", level, "", 0, message, None, information)


def test_an_exception_is_told_by_its_kind_and_its_places_alone() -> None:
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        told = _told(_record(logging.ERROR, "handler failed", error))
    assert SECRET not in str(told)
    assert (told["level"], told["event"], told["error"]) == ("error", "handler failed", "ValueError")
    assert str(told["at"]).startswith("test_unexpected_errors.py:")


def test_further_lines_of_a_message_are_left_out_because_they_show_exceptions() -> None:
    told = _told(_record(logging.ERROR, f"Task exception was never retrieved\nfuture: <Task {SECRET}>"))
    assert told["event"] == "Task exception was never retrieved"
    assert SECRET not in str(told)


def test_a_warning_is_a_warning() -> None:
    told = _told(_record(logging.WARNING, "socket.send() raised exception."))
    assert (told["level"], told["logger"]) == ("warn", "dragoman.http")


def test_what_is_less_than_a_warning_is_not_told() -> None:
    logger = logging.Logger("a logger of its own")
    out = io.StringIO()
    logger.addHandler(UnexpectedErrors(Log(out, json=True)))
    logger.info("nothing happened")
    assert out.getvalue() == ""
