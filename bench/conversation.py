"""The conversation that every protocol tells: an agent at work, as plain values.

Conversation
├── instructions, tools
└── turns: a prompt, then steps; a step is thinking, text and calls, each call with its result
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec import Struct

from bench import prose
from bench.toolbox import Tool, tools
from dragoman.model.jsonvalue import JsonObject


class Call(Struct, frozen=True, kw_only=True):
    """A tool call and what it gave; `token` is the part of its id that the protocols share."""

    token: str
    name: str
    arguments: JsonObject
    result: str


class Step(Struct, frozen=True, kw_only=True):
    """One answer of the model; `proof` stands for a signature or encrypted reasoning."""

    token: str
    thinking: str
    proof: str
    text: str
    calls: tuple[Call, ...]


class Turn(Struct, frozen=True, kw_only=True):
    """What the user says, in one or more messages, and what the model does about it."""

    prompts: tuple[str, ...]
    picture: str | None
    steps: tuple[Step, ...]


class Conversation(Struct, frozen=True, kw_only=True):
    """A whole request, whatever the protocol; it ends with the user's side."""

    instructions: tuple[str, ...]
    tools: tuple[Tool, ...]
    turns: tuple[Turn, ...]
    reasons: bool


class Scale(Struct, frozen=True, kw_only=True):
    """How big a conversation is; sizes are means in characters."""

    seed: int
    # Steps with calls for each turn; every turn but the last also has a closing step without.
    steps: tuple[int, ...]
    instructions: tuple[int, ...]
    tools: int
    description: int
    prompts: int
    result: int
    thinking: int
    pictures: int = 0
    picture: int = 0


# 2 KB: a question, one call, its result.
SMALL = Scale(seed=1, steps=(1,), instructions=(120,), tools=1, description=200, prompts=160, result=200, thinking=0)
# 300 KB: four turns of a coding agent, 100 messages.
AGENT = Scale(
    seed=2,
    steps=(12, 12, 12, 10),
    instructions=(60, 9000, 6000),
    tools=40,
    description=620,
    prompts=500,
    result=1180,
    thinking=700,
)
# 2 MB: a long day of it, with screenshots.
LARGE = Scale(
    seed=3,
    steps=(24,) * 9,
    instructions=(60, 9000, 6000),
    tools=40,
    description=620,
    prompts=1500,
    result=2750,
    thinking=900,
    pictures=3,
    picture=120_000,
)
# 1,200 messages, most of them short: what each of them costs, not each of their characters.
HISTORY = Scale(
    seed=4,
    steps=(24,) * 24,
    instructions=(60, 9000),
    tools=60,
    description=200,
    prompts=200,
    result=200,
    thinking=200,
)


def converse(scale: Scale) -> Conversation:
    """The conversation of that scale: the same one every time."""
    random = Random(scale.seed)
    last = len(scale.steps) - 1
    turns = [
        _turn(random, scale, steps, first=number == 0, closed=number != last, pictured=number < scale.pictures)
        for number, steps in enumerate(scale.steps)
    ]
    return Conversation(
        instructions=tuple(prose.sentences(random, size) for size in scale.instructions),
        tools=tools(random, scale.tools, scale.description),
        turns=tuple(turns),
        reasons=scale.thinking > 0,
    )


def _turn(random: Random, scale: Scale, steps: int, *, first: bool, closed: bool, pictured: bool) -> Turn:
    prompts = [prose.sentences(random, random.randint(scale.prompts // 2, scale.prompts * 3 // 2))]
    if first and scale.thinking:
        # Agents open with a message of their own about the project, before the user's.
        prompts.insert(0, f"<context>\n{prose.sentences(random, 4 * scale.prompts)}\n</context>")
    taken = [_step(random, scale, calls=random.choice((1, 1, 1, 2, 3))) for _ in range(steps)]
    if closed:
        taken.append(_step(random, scale, calls=0))
    picture = prose.picture(random, scale.picture) if pictured else None
    return Turn(prompts=tuple(prompts), picture=picture, steps=tuple(taken))


def _step(random: Random, scale: Scale, *, calls: int) -> Step:
    thinking = prose.sentences(random, random.randint(scale.thinking // 3, scale.thinking * 5 // 3))
    spoken = not calls or not scale.thinking or random.random() < 0.6
    return Step(
        token=prose.token(random, 24),
        thinking=thinking if scale.thinking else "",
        proof=prose.opaque(random, random.randint(300, 900)) if scale.thinking else "",
        text=prose.sentences(random, random.randint(60, 300) if calls else random.randint(600, 2000)) if spoken else "",
        calls=tuple(_call(random, scale) for _ in range(calls)),
    )


def _call(random: Random, scale: Scale) -> Call:
    name = random.choice(_USED) if scale.tools > 1 else "read_file"
    size = random.randint(scale.result // 4, scale.result * 7 // 4)
    arguments, result = _ARGUMENTS[name](random), prose.listing(random, size)
    return Call(token=prose.token(random, 24), name=name, arguments=arguments, result=result)


def _reading(random: Random) -> JsonObject:
    return {"file_path": prose.path(random), "offset": random.randint(0, 900), "limit": 200}


def _editing(random: Random) -> JsonObject:
    before, after = prose.code(random, random.randint(100, 900)), prose.code(random, random.randint(100, 1200))
    return {"file_path": prose.path(random), "old_string": before, "new_string": after, "replace_all": False}


def _searching(random: Random) -> JsonObject:
    return {"pattern": "def \\w+_" + prose.token(random, 5), "path": prose.path(random), "mode": "content", "limit": 40}


def _running(random: Random) -> JsonObject:
    command = f'cd /srv/project && python -m pytest -q "{prose.path(random)}" 2>&1 | tail -n 40'
    return {"command": command, "description": prose.sentences(random, 50), "timeout": 120000}


def _noting(random: Random) -> JsonObject:
    body = prose.sentences(random, random.randint(200, 600))
    return {"id": prose.token(random, 8), "body": body, "weight": 0.35, "labels": ["bug", "gateway"]}


_ARGUMENTS: dict[str, Callable[[Random], JsonObject]] = {
    "read_file": _reading,
    "edit_file": _editing,
    "search_files": _searching,
    "run_command": _running,
    "mcp__tracker__update_issue": _noting,
}
# Agents mostly read.
_USED = (
    ("read_file",) * 4
    + ("edit_file",) * 3
    + ("search_files",) * 2
    + ("run_command",) * 3
    + ("mcp__tracker__update_issue",)
)
