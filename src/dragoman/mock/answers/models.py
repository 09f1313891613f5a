"""Models of `echo`: a table of names, descriptions and functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import cycle, islice
from typing import TypeAlias

from msgspec import Struct

from dragoman.mock.answers.last_turn import LastTurn, ToolOutput
from dragoman.mock.answers.schema_samples import sample, sample_object
from dragoman.mock.answers.signatures import MESSAGES
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import InputForm, Part, Refusal, Text, Thinking, ToolCall
from dragoman.model.request import OutputKind
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.rules.failures import STATUS_KINDS
from dragoman.wire.json import encode_text

# Calls have no IDs, and thinking has no signature: both depend on the protocol.
ModelOutput: TypeAlias = tuple[Part, ...] | Failure

MAX_OUTPUT_TOKENS = 16_384


class Ending(Enum):
    """The end of a response on the wire."""

    COMPLETE = "whole"
    BREAKS = "the connection breaks after a few tokens"
    FAILS = "an error of the protocol after a few tokens"


class EchoModel(Struct, frozen=True, kw_only=True):
    """One model. `pace` is the time between two tokens in seconds."""

    description: str
    respond: Callable[[LastTurn], ModelOutput]
    pace: float = 0.0
    ending: Ending = Ending.COMPLETE


_GREETING = "Hello! I am an echo: say something, and I will say it again."
_REFUSAL = "I am sorry, but refusing is all that I was made for."


def echo(turn: LastTurn) -> ModelOutput:
    """Return the user's text, tool outputs, and media as text."""
    return (Text(text=_echo_text(turn)),)


def _echo_text(turn: LastTurn) -> str:
    paragraphs = [f"You said: {turn.text}"] if turn.text else []
    paragraphs += [_quoted(result) for result in turn.results]
    if turn.attachments:
        paragraphs.append(f"You showed me {_listed(turn.attachments)}.")
    if turn.thoughts:
        paragraphs.append(f"Of my earlier thoughts {turn.thoughts} came back to me.")
    return "\n\n".join(paragraphs) or _GREETING


def _quoted(result: ToolOutput) -> str:
    verb = "failed" if result.is_error else "answered"
    return f"The tool {result.name or 'without a name'} {verb}: {result.text}"


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def call_one(turn: LastTurn) -> ModelOutput:
    return _calls(turn, 1)


def call_two(turn: LastTurn) -> ModelOutput:
    return _calls(turn, 2 if turn.parallel else 1)


def _calls(turn: LastTurn, number: int) -> ModelOutput:
    if turn.results or not turn.tools:
        return echo(turn)
    return tuple(_call(tool, turn) for tool in turn.tools[:number])


def _call(tool: FunctionTool | TextTool, turn: LastTurn) -> ToolCall:
    words = _sample_text(turn)
    return call_of(tool, words if isinstance(tool, TextTool) else encode_text(sample_object(tool.parameters, words)))


def call_of(tool: FunctionTool | TextTool, arguments: str) -> ToolCall:
    return ToolCall(
        call_id="",
        name=tool.name,
        arguments=arguments,
        form=InputForm.TEXT if isinstance(tool, TextTool) else InputForm.JSON,
        namespace=tool.namespace.name if tool.namespace is not None else None,
    )


# A sample may repeat them many times.
_MAX_SAMPLE_LENGTH = 200


def _sample_text(turn: LastTurn) -> str:
    return turn.text[:_MAX_SAMPLE_LENGTH] or "echo"


def think(turn: LastTurn) -> ModelOutput:
    """Think, unless thinking is disabled, then return text."""
    return _after_thought(turn, (Text(text=_echo_text(turn)),))


def work(turn: LastTurn) -> ModelOutput:
    """Act as an agent: think and call, then think and return the output of the call."""
    output = call_one(turn)
    return output if isinstance(output, Failure) else _after_thought(turn, output)


def _after_thought(turn: LastTurn, parts: tuple[Part, ...]) -> ModelOutput:
    if not turn.thinks:
        return parts
    called = [part.name for part in parts if isinstance(part, ToolCall)]
    if called:
        plan = f"I will call {called[0]} and see what it says."
    elif turn.results:
        plan = "The tool has answered. I will say what it said."
    else:
        plan = "I will say it again."
    return (Thinking(text=f"I heard {len(turn.text.split())} words. {plan}"), *parts)


def fill_in(turn: LastTurn) -> ModelOutput:
    """Return JSON for the requested schema, or an object around the text."""
    output_format, words = turn.output, _sample_text(turn)
    if output_format is not None and output_format.kind is OutputKind.SCHEMA and output_format.schema is not None:
        return (Text(text=encode_text(sample(output_format.schema, words))),)
    return (Text(text=encode_text({"said": words})),)


def refuse(turn: LastTurn) -> ModelOutput:
    del turn
    return (Refusal(text=_REFUSAL),)


_PANGRAM = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]
_A_LOT = 2000
_number = re.compile(r"(?<!\d)\d{1,7}(?!\d)").search


def go_on(turn: LastTurn) -> ModelOutput:
    """Return many words: the number in the user's text, or a default."""
    match = _number(turn.text)
    wanted = int(match[0]) if match is not None else _A_LOT
    return (Text(text=" ".join(islice(cycle(_PANGRAM), max(1, min(wanted, MAX_OUTPUT_TOKENS))))),)


_status = re.compile(r"(?<!\d)[45]\d\d(?!\d)").search
# In some protocols, 503 without a code is no overload.
_KINDS = STATUS_KINDS | {503: FailureKind.UNAVAILABLE}


def fail(turn: LastTurn) -> ModelOutput:
    """Fail with the status in the user's text, or with a rate limit."""
    match = _status(turn.text)
    status = int(match[0]) if match is not None else 429
    return failure_of(status, f"You asked for an error, and here it is: {status}.")


def failure_of(status: int, message: str) -> Failure:
    return Failure(kind=_KINDS.get(status, FailureKind.OTHER), status=status, message=message)


ECHO_MODELS: dict[str, EchoModel] = {
    "text": EchoModel(description="says what you said, and which images and documents it was shown", respond=echo),
    "tools": EchoModel(description="calls the first tool offered, then quotes its result", respond=call_one),
    "parallel": EchoModel(description="calls the first two tools at once, then quotes their results", respond=call_two),
    "thinking": EchoModel(description="thinks first, and checks its thoughts when they come back", respond=think),
    "agent": EchoModel(description="thinks, calls the first tool, thinks again and quotes its result", respond=work),
    "json": EchoModel(description="answers something valid for the JSON schema asked for", respond=fill_in),
    "refusal": EchoModel(description="refuses, politely", respond=refuse),
    "long": EchoModel(description="says 2000 words, or as many as you ask for", respond=go_on),
    "slow": EchoModel(description="says what you said, one token every 0.2 seconds", respond=echo, pace=0.2),
    "error": EchoModel(description="answers 429 with retry-after, or the status that you name", respond=fail),
    "failing": EchoModel(description="tells an error in the middle of its stream", respond=echo, ending=Ending.FAILS),
    "broken": EchoModel(description="breaks off in the middle of its answer", respond=echo, ending=Ending.BREAKS),
}


def echo_models() -> tuple[str, ...]:
    return tuple(ECHO_MODELS)


# The time of every response and model of echo: the first second of 2026, also in RFC 3339.
CREATED, _CREATED_AT = 1_767_225_600, "2026-01-01T00:00:00Z"


def listed(models: Mapping[str, str], protocol: str) -> JsonObject:
    data: JsonList = [one_listed(name, words, protocol) for name, words in models.items()]
    if protocol != MESSAGES:
        return {"object": "list", "data": data}
    names = list(models)
    return {"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}


def one_listed(name: str, words: str, protocol: str) -> JsonObject:
    if protocol == MESSAGES:
        return {
            "type": "model",
            "id": name,
            "display_name": words,
            "created_at": _CREATED_AT,
            "lifecycle": "active",
            "max_tokens": MAX_OUTPUT_TOKENS,
        }
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "dragoman"}
