"""Requests with one member replaced by what no real client sends, and what may be made of them.

The vendors' own types are the judge of what is wrong: where they see no fault, nothing is asked. Where they do, the
request is refused, or a line of the ledger tells of it, or the provider is told the same thing and judges it itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache

from anthropic.types.beta.message_create_params import MessageCreateParams
from msgspec import Struct
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses.response_create_params import ResponseCreateParams

from dragoman.errors import RefusedError, WireError
from dragoman.translate import LossLine, translate_request
from tests.golden.story import read
from tests.sdk.annotations import faults
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.sdk.stories import FILES, MODELS, NAMES

Path = tuple[str | int, ...]

TYPES: dict[str, object] = {
    MESSAGES: MessageCreateParams,
    CHAT: CompletionCreateParams,
    RESPONSES: ResponseCreateParams,
}
EXAMPLES = {"claude": MESSAGES, "chat": CHAT, "responses": RESPONSES}
MUTATIONS: dict[str, object] = {"null": None, "empty": "", "wrong": "wrong", "minus": -1, "list": [1], "true": True}
# Members whose value is a document of the client's own.
DOCUMENTS = ("input_schema", "parameters", "schema", "input_examples")


class Told(Struct, frozen=True):
    """What one provider is told, with the ledger; or the error instead."""

    body: bytes = b""
    losses: tuple[LossLine, ...] = ()
    error: WireError | RefusedError | None = None


class Case(Struct, frozen=True):
    """One mutation: the request as it was, where it is changed, and how."""

    protocol: str
    request: str
    path: Path
    mutation: str

    @property
    def body(self) -> object:
        """The request as it was."""
        return json.loads(self.request)

    @property
    def mutated(self) -> object:
        """The request with the member replaced."""
        body = self.body
        owner = at(body, self.path[:-1])
        owner[self.path[-1]] = MUTATIONS[self.mutation]  # type: ignore[index]  # an object or an array
        return body

    @property
    def without(self) -> object:
        """The request without the member."""
        body = self.body
        owner = at(body, self.path[:-1])
        del owner[self.path[-1]]  # type: ignore[attr-defined]  # likewise
        return body

    @property
    def place(self) -> str:
        """The path without positions, as tables name it."""
        return ".".join("[]" if isinstance(step, int) else step for step in self.path)

    @property
    def pointer(self) -> str:
        """The path as errors name it."""
        return "".join(f"/{step}" for step in self.path)


def at(value: object, path: Path) -> object:
    for step in path:
        value = value[step]  # type: ignore[index]  # a wrong shape fails the test as it should
    return value


def requests() -> Iterator[tuple[str, str]]:
    """Every request that is an example of something."""
    for name, protocol in EXAMPLES.items():
        path = FILES[0].parents[2] / "examples" / f"{name}-request.json"
        yield protocol, path.read_text(encoding="utf-8")
    for path in FILES:
        for section in read(path).inputs:
            if len(section.words) > 2 and section.words[1] == "request" and section.text:
                yield section.words[2], section.text


def cases(protocol: str) -> Iterator[Case]:
    """Each member of each kind of object once, under every mutation that changes it."""
    seen: set[tuple[str, str]] = set()
    for spoken, request in requests():
        if spoken != protocol:
            continue
        body = json.loads(request)
        if any(told.error is not None for told in tell(protocol, body)):
            continue
        for path, value in _places(body):
            owner = at(body, path[:-1])
            kind = (owner.get("type") or owner.get("role")) if isinstance(owner, dict) else ""
            key = Case(protocol, "", path, "").place, str(kind) if path[-1] not in ("type", "role") else ""
            if key in seen:
                continue
            seen.add(key)
            for mutation, new in MUTATIONS.items():
                if _changes(value, new):
                    yield Case(protocol, request, path, mutation)


def _places(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in members:
        yield (*path, step), member
        if step not in DOCUMENTS:
            yield from _places(member, (*path, step))


def _changes(old: object, new: object) -> bool:
    if isinstance(new, bool) or new == -1:
        return isinstance(old, str | int | float) and type(old) is not type(new) if new is True else _is_number(old)
    return type(old) is not type(new) or old != new


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value != -1


def tell(protocol: str, body: object) -> tuple[Told, ...]:
    """What the providers of the other protocols are told."""
    text = json.dumps(body)
    return tuple(_told(protocol, text, target) for target in NAMES if target != protocol)


# Every mutation of a request is compared with that same request.
@lru_cache(maxsize=64)
def _told(protocol: str, text: str, target: str) -> Told:
    try:
        out = translate_request(text, source=protocol, target=target, model=MODELS[target])
    except (WireError, RefusedError) as error:
        return Told(error=error)
    return Told(out.body, out.losses)


def is_fault(case: Case) -> bool:
    """Whether the vendor's types see a fault that was not there before; null is none where absence is none."""
    before = _faults_before(case.protocol, case.request)
    if not _faults(case.protocol, case.mutated) - before:
        return False
    if case.mutation != "null":
        return True
    return isinstance(case.path[-1], str) and bool(_faults(case.protocol, case.without) - before)


@lru_cache(maxsize=1)
def _faults_before(protocol: str, request: str) -> frozenset[str]:
    return _faults(protocol, json.loads(request))


def _faults(protocol: str, body: object) -> frozenset[str]:
    return frozenset(str(fault) for fault in faults(TYPES[protocol], body, models=False))


def is_at_its_place(error: WireError | RefusedError, case: Case) -> bool:
    """Whether an error names the member, what holds it, what is in it, or its neighbour that it speaks of."""
    if isinstance(error, RefusedError):
        return bool(error.at)
    owner = case.pointer.rpartition("/")[0]
    return error.path.startswith(f"{owner}/") or f"{case.pointer}/".startswith(f"{error.path}/")


def is_reported(told: Told, before: Told, case: Case) -> bool:
    """Whether the ledger has a line for it: a new one, or one that tells of all that the member stands in."""
    known = {(line["feature"], line["at"]) for line in before.losses}
    return any((line["feature"], line["at"]) not in known or _covers(line["at"], case.path) for line in told.losses)


def _covers(place: str, path: Path) -> bool:
    """Whether a place of the model holds a place of the wire."""
    names = [step for step in path if isinstance(step, str)]
    if path[0] not in ("messages", "input", "tools"):
        return not set(names).isdisjoint(re.split(r"[.\[\]]+", place))
    top = "tools" if path[0] == "tools" else "messages"
    found = re.fullmatch(rf"{top}\[(\d+)\](?:\.parts\[(\d+)\])?(?:\.(?:extras\.)?(\w+).*)?", place)
    if found is None or int(found[1]) != path[1]:
        return False
    part = path[3] if len(path) > 3 and path[2] == "content" else None
    inside = found[2] is None or part is None or int(found[2]) == part
    return inside and (found[3] is None or found[3] in names)


def is_carried(told: Told, case: Case, position: int) -> bool:
    """Whether the provider is told it as it was said, and judges it: neither as before nor as if it were not there."""
    before, absent = tell(case.protocol, case.body)[position], tell(case.protocol, case.without)[position]
    return told.body not in (before.body, absent.body)
