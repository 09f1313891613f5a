"""Checks: the rejections of the real services, as failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.strict import chat, messages, responses
from dragoman.mock.strict.common import Issued
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject

_FAULTS: dict[str, Callable[[JsonObject, Mapping[str, str], Issued], Iterator[str]]] = {
    MESSAGES: messages.faults,
    CHAT: chat.faults,
    RESPONSES: responses.faults,
}
_RECORDERS: dict[str, Callable[[Issued, JsonObject], None]] = {
    MESSAGES: Issued.record_message,
    CHAT: Issued.record_completion,
    RESPONSES: Issued.record_response,
}
_ENCRYPTED = "invalid_encrypted_content"
# A long history that is wrong once may be wrong in every turn.
_MAX_REASONS = 10


def reasons(protocol: str, body: JsonObject, headers: Mapping[str, str], issued: Issued) -> list[str]:
    """Return every reason for which the service of a protocol would reject a request with a 400."""
    faults = [*_FAULTS[protocol](body, headers, issued)]
    if not isinstance(body.get("model"), str) or not body["model"]:
        faults.insert(0, "model: Field required" if protocol == MESSAGES else "you must provide a model parameter")
    return faults


def refusal(protocol: str, body: JsonObject, headers: Mapping[str, str], issued: Issued) -> Failure | None:
    """Return the error for a request that the service would reject, with every reason; otherwise None."""
    faults = reasons(protocol, body, headers, issued)
    if not faults:
        return None
    code = _ENCRYPTED if any(_ENCRYPTED in reason for reason in faults) else None
    return Failure(kind=FailureKind.INVALID, status=400, message="\n".join(faults[:_MAX_REASONS]), code=code)


def record_response(protocol: str, response: JsonObject, issued: Issued) -> None:
    _RECORDERS[protocol](issued, response)
