"""Script: the responses, written into the conversation itself, so that a prompt controls an entire run of an agent.

any words
<mock>
think I should look first.
call Bash {"command": "ls"}
---
say All done.
</mock>

The last user message with a script counts. Steps are separated by `---`. The number of assistant turns since then
selects the step. A line is a keyword and its argument, which may be `<<END` and then lines up to END."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b

from msgspec import Struct

from dragoman.mock.answers.signatures import opened
from dragoman.model.parts import Compaction, Text, ToolCall
from dragoman.model.request import Message, Request, Role
from dragoman.model.tools import FunctionTool, TextTool

WORDS = frozenset({"think", "say", "call", "json", "empty", "refuse", "fail", "overflow", "break", "pause"})
# Letters of a call ID that all calls of one turn share (see `turn`), with the prefix before them.
TURN_LETTERS = 16

# The prefix of a compaction's content, before the number of turns that it replaces.
COMPACTED = "turns: "

_tag = re.compile(r"</?mock>")
_OPENED, _CLOSED = "<mock>", "</mock>"
_BETWEEN = "---"
_heredoc = re.compile(r"(?:^|\s)<<([A-Za-z_][A-Za-z0-9_]*)$").search


class ScriptLine(Struct, frozen=True):
    """One line of a step: its keyword and its argument."""

    word: str
    rest: str = ""


class ScriptError(Exception):
    """An invalid script. The message is for its author."""


class ScriptStep(Struct, frozen=True, kw_only=True):
    """The current step of a request. `key` is unique to the conversation; `over` means that no step is left."""

    lines: tuple[ScriptLine, ...] = ()
    key: str = ""
    over: bool = False


def step_of(request: Request) -> ScriptStep | None:
    match = _find_script(request)
    if match is None:
        return None
    script, text, number = match
    steps = parse(script)
    if number >= len(steps):
        return ScriptStep(over=True)
    return ScriptStep(lines=steps[number], key=_key(request, text, number))


def turns_of(request: Request) -> int:
    match = _find_script(request)
    return match[2] if match is not None else 0


def _find_script(request: Request) -> tuple[str, str, int] | None:
    """The script that counts, the text that contains it, and the number of turns since."""
    for position in range(len(request.messages) - 1, -1, -1):
        message = request.messages[position]
        if message.role is not Role.USER:
            continue
        # Only the part with the script, because clients add parts that change between retries.
        for text in reversed([part.text for part in message.parts if isinstance(part, Text)]):
            script = script_in(text)
            if script is not None:
                return script, text, _turns(request.messages[position + 1 :])
    return None


def script_in(text: str) -> str | None:
    """The last script of a text, without its tags. A script may contain others, for subagents."""
    script: str | None = None
    depth, start = 0, 0
    for tag in _tag.finditer(text):
        if tag[0] == _OPENED:
            if depth == 0:
                start = tag.end()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                script = text[start : tag.start()]
    return script


def parse(script: str) -> list[tuple[ScriptLine, ...]]:
    steps: list[tuple[ScriptLine, ...]] = []
    lines: list[ScriptLine] = []
    for line in _lines(script):
        if line.word == _BETWEEN:
            steps.append(tuple(lines))
            lines = []
        else:
            lines.append(line)
    return [*steps, tuple(lines)]


def _lines(script: str) -> Iterator[ScriptLine]:
    rows = iter(script.splitlines())
    for row in rows:
        stripped = row.strip()
        if not stripped:
            continue
        word, _, rest = stripped.partition(" ")
        if word != _BETWEEN and word not in WORDS:
            raise ScriptError(f"{word[:40]!r} is no word of a script; known are {', '.join(sorted(WORDS))}")
        heredoc = _heredoc(rest)
        if word == "call" and not (rest if heredoc is None else rest[: heredoc.start()]).strip():
            raise ScriptError('call needs the name of a tool, for example: call get_weather {"city": "Rome"}')
        if heredoc is None:
            yield ScriptLine(word, rest.strip())
            continue
        heredoc_lines: list[str] = []
        for inner in rows:
            if inner.strip() == heredoc[1]:
                break
            heredoc_lines.append(inner)
        else:
            raise ScriptError(f"the text after <<{heredoc[1]} has no line {heredoc[1]} at its end")
        head = rest[: heredoc.start()].strip()
        text = "\n".join(heredoc_lines)
        yield ScriptLine(word, f"{head} {text}" if head else text)


def _turns(messages: tuple[Message, ...]) -> int:
    """The number of assistant turns. Consecutive messages count once, and so do calls of one turn."""
    turns, speaking = 0, False
    turn_id = ""
    for message in messages:
        compactions = [part for part in message.parts if isinstance(part, Compaction)]
        if compactions:
            turns, speaking = _compacted(compactions[-1]), False
            continue
        if message.role is not Role.ASSISTANT:
            # Instructions do not end a turn; user text or a tool result does.
            speaking = speaking and message.role is not Role.USER
            continue
        turn_ids = [_turn_id(part.call_id) for part in message.parts if isinstance(part, ToolCall)]
        if not speaking and not (turn_ids and turn_id and turn_ids[0] == turn_id):
            turns += 1
        speaking = True
        turn_id = turn_ids[-1] if turn_ids else turn_id
    return turns


def _compacted(part: Compaction) -> int:
    token = part.seal.body.get("encrypted_content") if part.seal is not None else None
    text = opened(token) if isinstance(token, str) else None
    number = (text or "").rpartition(COMPACTED)[2]
    return int(number) if number.isdecimal() else 0


def _turn_id(call_id: str) -> str:
    letters = call_id.partition("_")[2]
    return letters[:TURN_LETTERS] if len(letters) > TURN_LETTERS else ""


def _key(request: Request, text: str, number: int) -> str:
    """The key of a step. A retry has the same key; a side question with other tools has another."""
    names = "\n".join([tool.name for tool in request.tools if isinstance(tool, FunctionTool | TextTool)])
    identity = "\0".join((request.origin, request.model, str(number), names, text))
    return blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
