"""The models of `echo`: a table of names, words about them, and how each answers what it heard."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from itertools import cycle, islice
from typing import TypeAlias

from msgspec import Struct

from dragoman.mock.answers.last_turn import LastTurn, ToolOutput
from dragoman.mock.answers.schema_samples import sample, sample_object
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.parts import InputForm, Part, Refusal, Text, Thinking, ToolCall
from dragoman.model.request import OutputKind
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.rules.failures import STATUS_KINDS
from dragoman.wire.json import encode_text

# Calls come without ids, and thinking without its proof: both depend on the protocol.
MockAnswer: TypeAlias = tuple[Part, ...] | Failure

# No answer is longer than this, in tokens.
LONGEST = 16_384


class Ending(Enum):
    """How an answer ends on the wire."""

    WHOLE = "whole"
    BREAKS = "the connection breaks after a few tokens"
    FAILS = "an error of the protocol after a few tokens"


class EchoModel(Struct, frozen=True, kw_only=True):
    """One model. `pace` is the time between two tokens in seconds."""

    words: str
    answer: Callable[[LastTurn], MockAnswer]
    pace: float = 0.0
    ending: Ending = Ending.WHOLE


_GREETING = "Hello! I am an echo: say something, and I will say it again."
_REFUSAL = "I am sorry, but refusing is all that I was made for."


def say(heard: LastTurn) -> MockAnswer:
    """Text: what was said, what tools gave, what was shown."""
    return (Text(text=_told(heard)),)


def _told(heard: LastTurn) -> str:
    paragraphs = [f"You said: {heard.text}"] if heard.text else []
    paragraphs += [_quoted(result) for result in heard.results]
    if heard.shown:
        paragraphs.append(f"You showed me {_listed(heard.shown)}.")
    if heard.thoughts:
        paragraphs.append(f"Of my earlier thoughts {heard.thoughts} came back to me.")
    return "\n\n".join(paragraphs) or _GREETING


def _quoted(result: ToolOutput) -> str:
    verb = "failed" if result.is_error else "answered"
    return f"The tool {result.name or 'without a name'} {verb}: {result.text}"


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def call_one(heard: LastTurn) -> MockAnswer:
    """A call of the first tool, or what the last call gave."""
    return _calls(heard, 1)


def call_two(heard: LastTurn) -> MockAnswer:
    """Calls of the first two tools at once, or what they gave."""
    return _calls(heard, 2 if heard.parallel else 1)


def _calls(heard: LastTurn, number: int) -> MockAnswer:
    if heard.results or not heard.tools:
        return say(heard)
    return tuple(_call(tool, heard) for tool in heard.tools[:number])


def _call(tool: FunctionTool | TextTool, heard: LastTurn) -> ToolCall:
    words = _words(heard)
    return call_of(tool, words if isinstance(tool, TextTool) else encode_text(sample_object(tool.parameters, words)))


def call_of(tool: FunctionTool | TextTool, arguments: str) -> ToolCall:
    """A call of a tool: with JSON for a function, else with text."""
    return ToolCall(
        call_id="",
        name=tool.name,
        arguments=arguments,
        form=InputForm.TEXT if isinstance(tool, TextTool) else InputForm.JSON,
        namespace=tool.namespace.name if tool.namespace is not None else None,
    )


# A sample may repeat them many times.
_FEW_WORDS = 200


def _words(heard: LastTurn) -> str:
    """What a sample's strings say."""
    return heard.text[:_FEW_WORDS] or "echo"


def think(heard: LastTurn) -> MockAnswer:
    """A thought, unless it is not wanted, and then text."""
    return _after_thought(heard, (Text(text=_told(heard)),))


def work(heard: LastTurn) -> MockAnswer:
    """What an agent does: a thought and a call, then a thought and what the call gave."""
    answer = call_one(heard)
    return answer if isinstance(answer, Failure) else _after_thought(heard, answer)


def _after_thought(heard: LastTurn, parts: tuple[Part, ...]) -> MockAnswer:
    if not heard.thinks:
        return parts
    called = [part.name for part in parts if isinstance(part, ToolCall)]
    if called:
        plan = f"I will call {called[0]} and see what it says."
    elif heard.results:
        plan = "The tool has answered. I will say what it said."
    else:
        plan = "I will say it again."
    return (Thinking(text=f"I heard {len(heard.text.split())} words. {plan}"), *parts)


def fill_in(heard: LastTurn) -> MockAnswer:
    """JSON for the schema that was asked for, or an object around what was said."""
    asked, words = heard.output, _words(heard)
    if asked is not None and asked.kind is OutputKind.SCHEMA and asked.schema is not None:
        return (Text(text=encode_text(sample(asked.schema, words))),)
    return (Text(text=encode_text({"said": words})),)


def refuse(heard: LastTurn) -> MockAnswer:
    """Words of refusal."""
    del heard
    return (Refusal(text=_REFUSAL),)


_PANGRAM = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]
_A_LOT = 2000
_number = re.compile(r"(?<!\d)\d{1,7}(?!\d)").search


def go_on(heard: LastTurn) -> MockAnswer:
    """Many words: as many as the number in what was said, or a lot."""
    found = _number(heard.text)
    wanted = int(found[0]) if found is not None else _A_LOT
    return (Text(text=" ".join(islice(cycle(_PANGRAM), max(1, min(wanted, LONGEST))))),)


_status = re.compile(r"(?<!\d)[45]\d\d(?!\d)").search
# 503 with no word beside it is no overload on every protocol.
_KINDS = STATUS_KINDS | {503: FailureKind.UNAVAILABLE}


def fail(heard: LastTurn) -> MockAnswer:
    """An error: the status in what was said, or a rate limit."""
    found = _status(heard.text)
    status = int(found[0]) if found is not None else 429
    return failure_of(status, f"You asked for an error, and here it is: {status}.")


def failure_of(status: int, message: str) -> Failure:
    """An error of a service."""
    return Failure(kind=_KINDS.get(status, FailureKind.OTHER), status=status, message=message)


ECHO_MODELS: dict[str, EchoModel] = {
    "text": EchoModel(words="says what you said, and which images and documents it was shown", answer=say),
    "tools": EchoModel(words="calls the first tool offered, then quotes its result", answer=call_one),
    "parallel": EchoModel(words="calls the first two tools at once, then quotes their results", answer=call_two),
    "thinking": EchoModel(words="thinks first, and checks its thoughts when they come back", answer=think),
    "agent": EchoModel(words="thinks, calls the first tool, thinks again and quotes its result", answer=work),
    "json": EchoModel(words="answers something valid for the JSON schema asked for", answer=fill_in),
    "refusal": EchoModel(words="refuses, politely", answer=refuse),
    "long": EchoModel(words="says 2000 words, or as many as you ask for", answer=go_on),
    "slow": EchoModel(words="says what you said, one token every 0.2 seconds", answer=say, pace=0.2),
    "error": EchoModel(words="answers 429 with retry-after, or the status that you name", answer=fail),
    "failing": EchoModel(words="tells an error in the middle of its stream", answer=say, ending=Ending.FAILS),
    "broken": EchoModel(words="breaks off in the middle of its answer", answer=say, ending=Ending.BREAKS),
}


def echo_models() -> tuple[str, ...]:
    """The names of the models, as `provider/model` has them after the slash."""
    return tuple(ECHO_MODELS)
