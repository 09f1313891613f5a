"""History: keyed digests of what was said so far, which do not change while a client only adds to it.

Rooms say each message in a few pieces: texts without reminders, ids in place of calls and results. What clients move,
renew or leave out from turn to turn (cache marks, thinking, contents of old results) is none of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

import msgspec
from msgspec import Raw

from dragoman.model.session_hints import HintQuery, SessionHints
from dragoman.wire.peek import peeked, text_in

# Whose a message is: what is told before anything is said, what the model says, what is said to it.
INSTRUCTION, ASSISTANT, USER = "instructs", "answers", "asks"
# A call by its id, with the tool and its arguments; or what one gave, by its id, without a tool.
CallOrResult = tuple[str, str, Raw | str]
# A message as its room says it: whose it is; all of it as one text (`joined`), "" if there is nothing in it; the words
# of the user, or the instructions; the calls, or what they gave.
Turn = tuple[str, str, str, Sequence[CallOrResult]]
# How many of the latest answers the history before is digested of.
LOOKED_BACK = 4
# Bytes of a digest, and characters of instructions that belong to it: further down are dates and folders.
_SIZE = 16
_HEAD = 96
# Objects that may be small, and bytes of which one is at least, where there are more: messages have words in them.
_FEW, _SMALLEST = 2000, 16
# Bytes in which there is no room for so many.
SPARSE = _FEW * len(b"{}")
# Prompts and tasks of one turn, and characters of a result in which its session stands.
_MAX_ENTRIES = 16
_FIRST = 200
# What stands between a question and instructions that are repeated behind it; how long these are, in characters.
_PARAGRAPH = "\n\n"
_MIN_REPEATED, _MAX_REPEATED = 32, 16 * 1024
REMINDER, _CLOSE = "<system-reminder>", "</system-reminder>"
# What stands between the pieces of a message.
SEPARATOR = "\x1f"
_digits = re.compile(r"\d+").sub
# The two forms by which results name the session of an agent.
_task = re.compile(r'\s*(?:task_id: |<task id=")(ses_[0-9A-Za-z]{1,124})').match
# Types of agents are names; what a model writes there otherwise is not kept.
_is_agent = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}").fullmatch
# How a result of Codex names the thread of an agent, and the agent.
_agent = re.compile(r'\s*\{"agent_id":"([0-9a-f-]{36})"(?:,"nickname":"([A-Za-z][A-Za-z .\'-]{0,39})")?').match
_ARGUMENTS = msgspec.json.Decoder(dict[str, Raw])
_NONE: tuple[str, ...] = ()


def digest(key: bytes, kind: str, text: str) -> str:
    """A text as it may be kept; `kind` keeps equal texts of different meaning apart."""
    return blake2b(f"{kind} {text}".encode("utf-8", "surrogatepass"), digest_size=_SIZE, key=key).hexdigest()


@lru_cache(maxsize=512)
def _steady(head: str) -> str:
    """How instructions begin, without numbers, which may be dates; those of a program are the same in all requests."""
    return _digits("", head)


def joined(sign: str, pieces: list[str]) -> str:
    """A message as one text."""
    return sign + SEPARATOR.join(pieces) if pieces else ""


def is_crowded(body: bytes) -> bool:
    """Whether a request holds more objects than one that says something: to look at all of them would take too long."""
    if len(body) < SPARSE:
        return False
    count = body.count(b"{")
    return count > _FEW and count * _SMALLEST > len(body)


def without_reminders(text: str) -> str:
    """What somebody said, without what the client put in."""
    if REMINDER not in text:
        return text
    pieces, end, at = [], 0, text.find(REMINDER)
    while at >= 0:
        close = text.find(_CLOSE, at)
        if close < 0:
            break
        pieces.append(text[end:at])
        end = close + len(_CLOSE)
        at = text.find(REMINDER, end)
    pieces.append(text[end:])
    return "".join(pieces).strip()


def without_repeated(text: str, instructions: str) -> str:
    """A question without the end of the instructions, which some clients repeat behind their latest question."""
    limit = min(len(text), len(instructions), _MAX_REPEATED)
    if limit < _MIN_REPEATED:
        return text
    # The longest end that both have: if they have one, they have all that are shorter.
    length, beyond = 0, limit + 1
    while beyond - length > 1:
        middle = (length + beyond) // 2
        if instructions.endswith(text[-middle:]):
            length = middle
        else:
            beyond = middle
    if length == len(text):
        return text
    start = text.find(_PARAGRAPH, len(text) - length - 1)
    return text[:start] if start > 1 and len(text) - start >= _MIN_REPEATED else text


def session_hints_in(
    turns: Iterable[Turn],
    query: HintQuery,
    *,
    instructions: str = "",
    tools: Collection[str] = (),
    user: str = "",
    cache_key: str = "",
    metadata: bytes = b"",
    conversation: str = "",
    previous: str = "",
) -> SessionHints:
    """All that a request shows: by its messages, and by what its room found beside them; `tools` are their names."""
    history: list[str] = []
    # Where answers begin; of the latest one its calls, and what they gave.
    starts: list[int] = []
    calls: list[CallOrResult] = []
    results: list[CallOrResult] = []
    # All calls that began agents, and what they gave, by their ids.
    begun: dict[str, CallOrResult] = {}
    outputs: dict[str, Raw | str] = {}
    spawning = query.spawning
    messages, first, opened, in_response = 0, "", 0, False
    insertions, is_acknowledged = query.insertions, False
    for role, text, words, entries in turns:
        if role == USER:
            messages += 1
            if words in insertions.messages or words in insertions.after_examples:
                is_acknowledged = True
                if words in insertions.after_examples:
                    history, starts, calls, results, first = [], [], [], [], ""
                continue
            if entries:
                results += entries
                for call_id, _, content in entries if begun else ():
                    if call_id in begun:
                        outputs[call_id] = content
            if not first and words:
                first, opened = words, len(history)
            if text:
                in_response = False
                history.append(text)
        elif role == ASSISTANT:
            messages += 1
            if is_acknowledged and text[1:] == insertions.acknowledged:
                is_acknowledged = False
                continue
            if text[1:] in insertions.replies and not entries and not in_response:
                if history:
                    history.pop()
                if opened >= len(history):
                    first = ""
                continue
            if not in_response:
                in_response = True
                starts.append(len(history))
                calls, results = [], []
            if entries:
                calls += entries
                for call in entries:
                    if call[1] in spawning:
                        begun[call[0]] = call
            if text:
                history.append(text)
        elif not history:
            # Those that come after the first word are the client's, and change nothing.
            instructions += words
    if history and not in_response and len(instructions) >= _MIN_REPEATED and history[-1][-1] == instructions[-1]:
        history[-1] = without_repeated(history[-1], instructions)
    opening = head = first_prompt = first_call = ""
    before = prompts = tasks = agents = _NONE
    key = query.key
    if first:
        opening, head, before = _digests(key, instructions[:_HEAD], history, opened + 1, starts)
        if tools:
            # Who has no tools is nobody's agent.
            first_prompt = digest(key, "prompt", first.strip())
        if calls and len(history) > 1:
            first_call = digest(key, "call", calls[0][0])
            spawned = [call for call in calls if call[1] in spawning][:_MAX_ENTRIES] if begun else []
            if spawned:
                prompts, agents = _prompts(spawned, query)
                tasks = _tasks_in(results[:_MAX_ENTRIES], {call_id for call_id, _, _ in spawned})
    return SessionHints(
        len(instructions),
        len(tools),
        messages,
        _NONE if query.distinctive_tools.isdisjoint(tools) else _telling_tools(tools, query),
        user,
        cache_key,
        metadata,
        conversation,
        digest(key, "response", previous) if previous else "",
        opening,
        first_prompt,
        head,
        before,
        first_call,
        prompts,
        tasks,
        agents,
        _named(begun, outputs, query) if outputs else (),
    )


def _digests(key: bytes, head: str, history: list[str], at: int, starts: list[int]) -> tuple[str, str, tuple[str, ...]]:
    """Of how the history began, of all of it, and of it before each of its latest answers, the last one first."""
    # Up to the first words of the user; each message has a sign behind it.
    begun = "\x1e".join((f"history {_steady(head)}", *history[:at], "")).encode("utf-8", "surrogatepass")
    hasher = blake2b(begun, digest_size=_SIZE, key=key)
    opening = latest = hasher.hexdigest()
    if len(history) == 1:
        return opening, opening, _NONE
    before: list[str] = []
    for start in starts[-LOOKED_BACK:]:
        if start >= at:
            if start > at:
                hasher.update("\x1e".join((*history[at:start], "")).encode("utf-8", "surrogatepass"))
                latest, at = hasher.hexdigest(), start
            before.append(latest)
    if at < len(history):
        hasher.update("\x1e".join((*history[at:], "")).encode("utf-8", "surrogatepass"))
        latest = hasher.hexdigest()
    before.reverse()
    return opening, latest, tuple(before)


def _telling_tools(tools: Iterable[str], query: HintQuery) -> tuple[str, ...]:
    return tuple([name for name in dict.fromkeys(tools) if name in query.distinctive_tools])


def _prompts(spawned: list[CallOrResult], query: HintQuery) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Digests of the prompts that calls gave to agents, and the types of these agents."""
    given = [_members(arguments, query.spawning[tool], query.naming.get(tool, "")) for _, tool, arguments in spawned]
    prompts = tuple([digest(query.key, "prompt", prompt.strip()) for prompt, _ in given if prompt])
    agents = tuple([agent if _is_agent(agent) else "" for prompt, agent in given if prompt])
    return prompts, agents if any(agents) else _NONE


def _named(
    begun: Mapping[str, CallOrResult], outputs: Mapping[str, Raw | str], query: HintQuery
) -> tuple[tuple[str, str], ...]:
    """The threads that the latest of these results name, each with the type of its agent, else with its name."""
    threads: list[tuple[str, str]] = []
    for call_id, content in list(outputs.items())[-_MAX_ENTRIES:]:
        match = _agent((content if isinstance(content, str) else text_in(content))[:_FIRST])
        if match is not None:
            _, tool, arguments = begun[call_id]
            agent = _members(arguments, query.spawning[tool], query.naming.get(tool, ""))[1]
            threads.append((match[1], agent if _is_agent(agent) else match[2] or ""))
    return tuple([(thread, label) for thread, label in threads if label])


def _members(arguments: Raw | str, prompt: str, agent: str) -> tuple[str, str]:
    """The prompt and the type of agent in the arguments of a call; "" for what is not there."""
    members = peeked(
        arguments.encode("utf-8", "surrogatepass") if isinstance(arguments, str) else arguments, _ARGUMENTS
    )
    if members is None:
        return "", ""
    return text_in(members[prompt]) if prompt in members else "", text_in(members[agent]) if agent in members else ""


def _tasks_in(results: list[CallOrResult], calls: set[str]) -> tuple[str, ...]:
    """The sessions that results of these calls name, at their beginning alone: what follows is what an agent said."""
    texts = [
        content if isinstance(content, str) else text_in(content) for call_id, _, content in results if call_id in calls
    ]
    matches = [_task(text[:_FIRST]) for text in texts]
    return tuple(dict.fromkeys([match[1] for match in matches if match is not None]))
