"""Script player: converts a step to the parts of a response, or to a failure.

keyword              result
think TEXT           reasoning, if the request does not force a call
say TEXT             text; several in a row are its lines
call NAME ARGUMENTS  a call if the tool is declared, otherwise text that reports it
json                 a value for the output schema of the request
empty                nothing; with other keywords beside it, once
refuse TEXT          a refusal
fail STATUS [TEXT]   an error of the service, once
overflow             the error for a conversation that is too long, once
break                a response that breaks off in the middle, once
pause SECONDS        a delay before the response begins"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.mock.answers.last_turn import offered, read_last_turn
from dragoman.mock.answers.models import ECHO_MODELS, EchoModel, Ending, call_of, call_one, failure_of, fill_in
from dragoman.mock.answers.signatures import CHAT, MESSAGES
from dragoman.mock.script import ScriptError, ScriptLine, ScriptStep, step_of
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.parts import Part, Refusal, Text, Thinking
from dragoman.model.request import OutputKind, Request
from dragoman.model.tools import ChoiceMode, FunctionTool, TextTool
from dragoman.rules.tool_table import flatten, wire_name
from dragoman.wire.json import decode, encode_text

PREFIX = "mock-"
_OVER = "The script has no step left."
_MAX_PAUSE_SECONDS = 600.0
# Each service has its own text for a context overflow, which agents recognise.
_OVERFLOWS = {
    MESSAGES: "prompt is too long: 215000 tokens > 200000 maximum",
    CHAT: "This model's maximum context length is 200000 tokens. However, your messages resulted in 215000 tokens. "
    "Please reduce the length of the messages.",
}
_OVERFLOW = "Your input exceeds the context window of this model. Please adjust your input and try again."


class Play(Struct, frozen=True, kw_only=True):
    """The response of a step: parts, or a failure; its delay, and its end on the wire."""

    parts: tuple[Part, ...] = ()
    failure: Failure | None = None
    wait: float = 0.0
    pace: float = 0.0
    ending: Ending = Ending.COMPLETE


def play(request: Request, once: Callable[[str], bool]) -> Play:
    """The response to a request. `once` returns whether a key is used for the first time."""
    try:
        step = step_of(request)
    except ScriptError as error:
        return Play(failure=_invalid(f"script: {error}"))
    if step is not None and not step.over:
        return _scripted(step, request, once)
    name = request.model.removeprefix(PREFIX)
    model = ECHO_MODELS.get(name) if name != request.model else None
    if model is not None:
        return _echoed(model, request)
    if _wants_json(request) or (step is None and _is_forced(request)):
        return Play(parts=_filled_in(request))
    if step is not None:
        return Play(parts=(Text(text=_OVER),))
    return _echoed(ECHO_MODELS["text"], request)


def _scripted(step: ScriptStep, request: Request, once: Callable[[str], bool]) -> Play:
    player = _Player(request)
    outcome = Play()
    more = any(line.word in _CONTENT_WORDS for line in step.lines)
    for number, line in enumerate(step.lines):
        if line.word == "empty":
            # The retry after an empty response gets the other lines of the step.
            if not more or once(f"{step.key} {number}"):
                return outcome
        elif line.word in _ONCE:
            if not once(f"{step.key} {number}"):
                continue
            if line.word == "break":
                outcome = replace(outcome, ending=Ending.BREAKS)
            else:
                return replace(outcome, failure=_failure(line, request.origin))
        elif line.word == "pause":
            outcome = replace(outcome, wait=outcome.wait + _seconds(line.rest))
        else:
            player.take(line)
    return replace(outcome, parts=player.parts())


_ONCE = frozenset({"fail", "overflow", "break"})
_CONTENT_WORDS = frozenset({"think", "say", "call", "json", "refuse"})


def _failure(line: ScriptLine, protocol: str) -> Failure:
    if line.word == "overflow":
        return Failure(
            kind=FailureKind.CONTEXT_OVERFLOW,
            status=400,
            message=_OVERFLOWS.get(protocol, _OVERFLOW),
            code="context_length_exceeded",
            param="messages" if protocol == CHAT else "input",
        )
    number, _, words = line.rest.partition(" ")
    status = int(number) if number.isdecimal() else 0
    if not 400 <= status <= 599:
        return _invalid(f"script: fail needs a status from 400 to 599, not {number[:20]!r}")
    return failure_of(status, words or f"The script asked for this error: {status}.")


def _seconds(text: str) -> float:
    try:
        return min(max(float(text), 0.0), _MAX_PAUSE_SECONDS)
    except ValueError:
        return 0.0


def _invalid(message: str) -> Failure:
    return Failure(kind=FailureKind.INVALID, status=400, message=message)


class _Player:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._parts: list[Part] = []
        self._called = 0
        self._missed: list[str] = []

    def take(self, line: ScriptLine) -> None:
        match line.word:
            case "think":
                self._parts.append(Thinking(text=line.rest))
            case "say":
                self._add_text(line.rest)
            case "call":
                self._call(line.rest)
            case "json":
                self._parts += _filled_in(self._request)
            case "refuse":
                self._parts.append(Refusal(text=line.rest or "I cannot help with that."))

    def parts(self) -> tuple[Part, ...]:
        """The response. A request for JSON without any of the tools is not the one for which the calls were written."""
        if self._missed and not self._called:
            if _wants_json(self._request):
                return _filled_in(self._request)
            for name in self._missed:
                self._add_text(f"The tool {name} is not declared.")
        return tuple(self._parts)

    def _add_text(self, text: str) -> None:
        last = self._parts[-1] if self._parts else None
        if isinstance(last, Text):
            self._parts[-1] = Text(text=f"{last.text}\n{text}")
        else:
            self._parts.append(Text(text=text))

    def _call(self, rest: str) -> None:
        name, given = _divided(rest)
        tool = self._declared(name)
        if tool is None:
            self._missed.append(name)
            return
        self._called += 1
        if self._called > 1 and self._request.parallel_calls is False:
            # The request allows one call at a time.
            return
        self._parts.append(call_of(tool, _free_text(given) if isinstance(tool, TextTool) else _arguments(given)))

    def _declared(self, name: str) -> FunctionTool | TextTool | None:
        wanted, wired = _plain(name), wire_name(name)
        loose: FunctionTool | TextTool | None = None
        for tool in offered(self._request):
            if tool.name in (name, wired):
                return tool
            full = flatten(tool.namespace.name, tool.name) if tool.namespace is not None else tool.name
            if loose is None and _plain(full) == wanted:
                loose = tool
        return loose


def _divided(rest: str) -> tuple[str, str]:
    pieces = rest.split(maxsplit=1)
    name = pieces[0] if pieces else ""
    return name, rest[len(name) + 1 :] if len(pieces) > 1 else ""


def _plain(name: str) -> str:
    """A name in a form that ignores spelling differences."""
    return "".join([letter for letter in name.lower() if letter.isalnum()])


def _arguments(given: str) -> str:
    """JSON for a function: as written, or an object around free text."""
    if not given.strip():
        return "{}"
    return given.strip() if isinstance(_value(given), dict) else encode_text({"input": given})


def _free_text(given: str) -> str:
    value = _value(given)
    if isinstance(value, dict) and list(value) == ["input"] and isinstance(value["input"], str):
        return value["input"]
    return given


def _value(given: str) -> object:
    try:
        return decode(given)
    except WireError:
        return None


def _wants_json(request: Request) -> bool:
    output = request.updates.output or request.output
    return output is not None and output.kind is not OutputKind.TEXT


def _is_forced(request: Request) -> bool:
    choice = request.tool_choice
    if choice is None:
        return False
    return choice.mode in (ChoiceMode.REQUIRED, ChoiceMode.NAMED) or (
        choice.mode is ChoiceMode.ALLOWED and choice.required
    )


def _filled_in(request: Request) -> tuple[Part, ...]:
    """A value in the requested form: for a schema, or as the arguments of a forced call."""
    turn = replace(read_last_turn(request), text="mock", results=())
    output = call_one(turn) if _is_forced(request) and not _wants_json(request) else fill_in(turn)
    return output if isinstance(output, tuple) else ()


def _echoed(model: EchoModel, request: Request) -> Play:
    output = model.respond(read_last_turn(request))
    if isinstance(output, Failure):
        return Play(failure=output)
    return Play(parts=output, pace=model.pace, ending=model.ending)
