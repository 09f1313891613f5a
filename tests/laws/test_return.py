"""Law 2, return: what a room writes it reads again with the same meaning, or the ledger names the difference."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Image, Inline, Part, Refusal, Text, Thinking, ToolCall, ToolResult, Url
from dragoman.model.request import Message, OutputFormat, OutputKind, Reasoning, Request, Role, Sampling, ThinkingMode
from dragoman.model.tools import ChoiceMode, FunctionTool, TextTool, ToolChoice, ToolRef, ToolSpec
from dragoman.protocols.registry import codec_of
from dragoman.translate import translate_request
from dragoman.wire.json import decode_object, encode
from tests.laws.journey import home
from tests.laws.strategies import MESSAGES, PAIRS

TEXTS = st.text(alphabet='abc äß😀\n\u2028"\\{', min_size=1, max_size=12).filter(str.strip)
WORDS = st.sampled_from(["one", "two", "three"])
SCHEMAS: st.SearchStrategy[JsonObject] = st.sampled_from(
    [
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False},
    ]
)
IMAGES = st.one_of(
    st.just(Image(source=Url(url="https://example.com/cat.png"))),
    st.just(Image(source=Inline(media_type="image/webp", data="AAECAwQF"))),
)
FUNCTIONS = st.builds(FunctionTool, name=WORDS, description=st.none() | TEXTS, parameters=SCHEMAS)
TEXT_TOOLS = st.builds(TextTool, name=st.sampled_from(["patch", "query"]), description=st.none() | TEXTS)
ARGUMENTS = st.sampled_from(["{}", '{"city":"Köln","n":1.50}', '{"a":[1,{"b":null}]}'])


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """A user's turn, then tool loops and answers in turn, ending with the user's side."""
    messages: list[Message] = []
    calls = 0
    for _ in range(draw(st.integers(1, 3))):
        asked: list[Part] = [Text(text=draw(TEXTS))]
        asked += draw(st.lists(IMAGES, max_size=1))
        messages.append(Message(role=Role.USER, parts=tuple(asked)))
        if not draw(st.booleans()):
            continue
        said: list[Part] = [Text(text=text) for text in draw(st.lists(TEXTS, max_size=1))]
        results: list[Part] = []
        for _ in range(draw(st.integers(0 if said else 1, 2))):
            calls += 1
            said.append(ToolCall(call_id=f"call_{calls}", name=draw(WORDS), arguments=draw(ARGUMENTS)))
            results.append(ToolResult(call_id=f"call_{calls}", parts=(Text(text=draw(TEXTS)),)))
        messages.append(Message(role=Role.ASSISTANT, parts=tuple(said)))
        messages += [Message(role=Role.USER, parts=(result,)) for result in results]
    if messages[-1].role is Role.ASSISTANT:
        messages.append(Message(role=Role.USER, parts=(Text(text="Go on."),)))
    return tuple(messages)


CHOICES = st.one_of(
    st.sampled_from([ChoiceMode.AUTO, ChoiceMode.NONE, ChoiceMode.REQUIRED]).map(lambda mode: ToolChoice(mode=mode)),
    st.just(ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name="one"))),
)
# Messages knows neither names nor strictness of formats: what it says is always a schema that is kept to.
CLOSED: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}
SCHEMA_OUTPUTS = st.none() | st.just(OutputFormat(kind=OutputKind.SCHEMA, schema=CLOSED))
OUTPUTS = st.one_of(
    st.none(),
    st.just(OutputFormat(kind=OutputKind.JSON)),
    st.builds(
        OutputFormat, kind=st.just(OutputKind.SCHEMA), schema=SCHEMAS, name=st.just("answer"), strict=st.booleans()
    ),
)


def requests(origin: str) -> st.SearchStrategy[Request]:
    """Requests of what all protocols have in common."""
    first = FunctionTool(name="one", parameters={"type": "object", "properties": {}})
    others = st.lists(FUNCTIONS | TEXT_TOOLS, max_size=2, unique_by=lambda tool: tool.name).map(
        lambda tools: (first, *(tool for tool in tools if tool.name != "one"))
    )
    return st.builds(
        Request,
        origin=st.just(origin),
        model=st.just("any"),
        messages=conversations(),
        instructions=st.lists(TEXTS.map(lambda text: Text(text=text)), max_size=1).map(tuple),
        tools=others,
        tool_choice=st.none() | CHOICES,
        parallel_calls=st.none() | st.booleans(),
        max_tokens=st.none() | st.sampled_from([16, 4096]),
        sampling=st.builds(Sampling, temperature=st.sampled_from([None, 0.5, 1.5]), top_p=st.sampled_from([None, 0.9])),
        stop=st.sampled_from([(), ("STOP",)]),
        reasoning=st.builds(Reasoning, effort=st.sampled_from([None, "none", "minimal", "low", "high", "max"])),
        output=SCHEMA_OUTPUTS if origin == MESSAGES else OUTPUTS,
        stream=st.booleans(),
        end_user=st.none() | st.just("somebody"),
    )


# A difference that something else in the request brings about, and is named there.
CAUSES: dict[str, tuple[str, ...]] = {
    # F2: a form of the answer that the wire does not know is asked for in words.
    "instructions": ("instructions", "output"),
}

Essence: TypeAlias = dict[str, object]


def essence(request: Request) -> Essence:
    """What a request means, by the places the ledger would name."""
    told: Essence = {
        "instructions": _instructions(request),
        "messages": _turns(request),
        "tool_choice": _choice(request),
        "parallel_calls": request.parallel_calls is not False or _choice(request) == (ChoiceMode.NONE, None),
        "max_tokens": request.max_tokens,
        "sampling.temperature": request.sampling.temperature,
        "sampling.top_p": request.sampling.top_p,
        "stop": request.stop,
        "reasoning": "none" if request.reasoning.mode is ThinkingMode.DISABLED else request.reasoning.effort,
        "output": _output(request),
        "stream": request.stream,
        "end_user": request.end_user,
    }
    for index, tool in enumerate(request.tools):
        told[f"tools[{index}]"] = _tool(tool)
    return told


def _instructions(request: Request) -> str:
    texts = [text.text for text in request.instructions]
    for message in request.messages:
        if message.role not in (Role.SYSTEM, Role.DEVELOPER):
            break
        texts += [part.text for part in message.parts if isinstance(part, Text)]
    return "\n\n".join(texts)


def _turns(request: Request) -> list[tuple[str, list[object]]]:
    """The conversation without its division into units: each wire has its own."""
    turns: list[tuple[str, list[object]]] = []
    for message in request.messages:
        if message.role in (Role.SYSTEM, Role.DEVELOPER):
            continue
        if not turns or turns[-1][0] != message.role.value:
            turns.append((message.role.value, []))
        turns[-1][1].extend(_part(part) for part in message.parts)
    return turns


def _part(part: Part) -> object:
    if isinstance(part, Text | Refusal | Thinking):
        return type(part).__name__, part.text
    if isinstance(part, ToolCall):
        return "call", part.call_id, part.name, part.arguments, part.form
    if isinstance(part, ToolResult):
        return "result", part.call_id, part.is_error, [_part(inner) for inner in part.parts]
    if isinstance(part, Image):
        return "image", part.source
    return part


def _tool(tool: ToolSpec) -> object:
    if isinstance(tool, FunctionTool):
        return "function", tool.name, tool.description, tool.parameters, tool.strict or False
    if isinstance(tool, TextTool):
        return "text", tool.name, tool.description, tool.syntax, tool.definition
    return tool


def _choice(request: Request) -> object:
    choice = request.tool_choice
    if choice is None or choice.mode is ChoiceMode.AUTO:
        return "auto"
    return choice.mode, choice.tool.name if choice.tool is not None else None


def _output(request: Request) -> object:
    output = request.output
    if output is None or output.kind is OutputKind.TEXT:
        return None
    if request.origin == MESSAGES or output.schema == CLOSED:
        return output.kind, output.schema
    return output.kind, output.schema, output.name, output.strict or False


@pytest.mark.parametrize(("origin", "protocol"), PAIRS)
@given(data=st.data())
def test_what_is_written_abroad_means_the_same_or_is_in_the_ledger(
    origin: str, protocol: str, data: st.DataObject
) -> None:
    request = data.draw(requests(origin))
    codec = codec_of(protocol)
    ledger = Ledger()
    target = home(codec, "claude-opus-5" if protocol == MESSAGES else "gpt-5")
    encoded = codec.encode_request(request, target, ledger)
    back = codec.decode_request(decode_object(encode(encoded.body)))
    assert back.model == target.model
    before, after = essence(request), essence(back)
    told = [loss.at for loss in ledger.losses]
    for place in before.keys() | after.keys():
        if before.get(place) != after.get(place):
            named = any(at.startswith(CAUSES.get(place, (place.partition(".")[0],))) for at in told)
            assert named, (place, before.get(place), after.get(place), told)


@pytest.mark.parametrize(("origin", "protocol"), PAIRS)
@given(data=st.data())
def test_what_was_written_abroad_is_at_home_there(origin: str, protocol: str, data: st.DataObject) -> None:
    """Written for a provider and read as its own, a request is the identity from then on."""
    request = data.draw(requests(origin))
    codec = codec_of(protocol)
    target = home(codec, "claude-opus-5" if protocol == MESSAGES else "gpt-5")
    body = encode(codec.encode_request(request, target, Ledger()).body)
    again = translate_request(body, target=protocol, source=protocol, strict=True)
    assert again.body == body
    assert again.losses == ()
    # Nothing that a writer writes is unknown to the reader of the same room.
    extras = codec.decode_request(decode_object(body)).extras
    assert extras is None or extras.fields.keys() <= {"include"}
