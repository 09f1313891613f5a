"""History digests: keyed digests of a conversation that do not change while a client only appends to it. Each protocol
reduces a message to texts without reminders, and ids for calls and results, without what clients move, renew or drop
from turn to turn (cache breakpoints, thinking, old results)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

import msgspec
from msgspec import Raw

from dragoman.model.session_hints import HintQuery, SessionHints
from dragoman.wire.peek import is_text, peeked, text_in

# Whose a message is: what is told before anything is said, what the model says, what is said to it.
INSTRUCTION, ASSISTANT, USER = "instructs", "answers", "asks"
# A call by its id, with the tool and its arguments; or what one gave, by its id, without a tool.
CallOrResult = tuple[str, str, Raw | str]
# A message as its protocol reduces it: its role; all of it as one text (`joined`), "" if it is empty; the text of the
# user, or the instructions; the calls, or their results.
Turn = tuple[str, str, str, Sequence[CallOrResult]]
# How many tools a request offers, and those of them that are distinctive.
ToolShape = tuple[int, tuple[str, ...]]
# How many of the latest answers the history before is digested of.
LOOKED_BACK = 4
# Bytes of a digest, and characters of instructions that are digested: further down are dates and directories.
_SIZE = 16
_HEAD = 96
# Objects that may be small, and bytes of which one is at least, where there are more: messages have words in them.
_FEW, _SMALLEST = 2000, 16
# Bytes in which there is no room for so many.
_SPARSE = _FEW * len(b"{}")
# Prompts and tasks of one turn, and characters of a result in which its session stands.
_MAX_ENTRIES = 16
_FIRST = 200
# What stands between a question and instructions that are repeated behind it; how long these are, in characters.
_PARAGRAPH = "\n\n"
_MIN_REPEATED, _MAX_REPEATED = 32, 16 * 1024
REMINDER, _CLOSE = "<system-reminder>", "</system-reminder>"
# What stands between the pieces of a message.
SEPARATOR = "\x1f"
# What stands behind each message in a digest.
_RECORD = "\x1e"
_digits = re.compile(r"\d+").sub
# The two forms by which results name the session of an agent.
_task = re.compile(r'\s*(?:task_id: |<task id=")(ses_[0-9A-Za-z]{1,124})').match
# Types of agents are names; what a model writes there otherwise is not kept.
_is_agent = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}").fullmatch
# How a result of Codex names the thread of an agent, and the agent.
_agent = re.compile(r'\s*\{"agent_id":"([0-9a-f-]{36})"(?:,"nickname":"([A-Za-z][A-Za-z .\'-]{0,39})")?').match
_ARGUMENTS = msgspec.json.Decoder(dict[str, Raw])
_NONE: tuple[str, ...] = ()
_NO_TOOLS: ToolShape = (0, ())
# Shapes of tools, by a hash of their bytes: a client offers the same ones in each request.
_SHAPES: dict[tuple[int, int, frozenset[str]], ToolShape] = {}
_MAX_SHAPES = 1024
_KINDS = ("call", "history", "instructions", "prompt")
_HASHERS: dict[bytes, dict[str, blake2b]] = {}
_MAX_KEYS = 4096


def digest(key: bytes, kind: str, text: str) -> str:
    """A text as it may be stored; `kind` keeps equal texts of different meaning apart."""
    return _digested(_hashers_of(key)[kind], text)


def _digested(keyed: blake2b, text: str) -> str:
    hasher = keyed.copy()
    hasher.update(text.encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()


def _hashers_of(key: bytes) -> dict[str, blake2b]:
    """Hashers to be copied, by the kind of text: each has taken the key. To copy one is cheaper than to make one."""
    hashers = _HASHERS.get(key)
    if hashers is None:
        if len(_HASHERS) >= _MAX_KEYS:
            _HASHERS.clear()
        # A prefix is as good a key for BLAKE2, and takes less than the block that BLAKE2 takes for one.
        hashers = {kind: blake2b(key + f"{kind} ".encode(), digest_size=_SIZE) for kind in _KINDS}
        # Records are searched by these, older ones too.
        hashers["response"] = blake2b(b"response ", digest_size=_SIZE, key=key)
        _HASHERS[key] = hashers
    return hashers


def tool_shape(tools: Raw, query: HintQuery, names_in: Callable[[Raw], Collection[str]]) -> ToolShape:
    """The shape of the tools that a request offers; `names_in` reads their names."""
    written, distinctive = bytes(tools), query.distinctive_tools
    # The hash is keyed by the interpreter; of the bytes themselves nothing is cached.
    key = hash(written), len(written), distinctive
    shape = _SHAPES.get(key)
    if shape is None:
        names = names_in(tools)
        if len(_SHAPES) >= _MAX_SHAPES:
            _SHAPES.clear()
        shape = _SHAPES[key] = len(names), tuple([name for name in dict.fromkeys(names) if name in distinctive])
    return shape


@lru_cache(maxsize=512)
def _head_digest(key: bytes, head: str) -> str:
    """How instructions begin, without numbers, which may be dates; those of a program are the same in all requests."""
    return digest(key, "instructions", _digits("", head))


def joined(sign: str, pieces: list[str]) -> str:
    """A message as one text."""
    return sign + SEPARATOR.join(pieces) if pieces else ""


def is_crowded(body: bytes) -> bool:
    """Whether a request holds more objects than one with content has: to look at all of them would take too long."""
    # To leave them out is many times faster than to count them.
    if len(body) < _SPARSE or len(body) - len(body.replace(b"{", b"", _FEW + 1)) <= _FEW:
        return False
    return body.count(b"{") * _SMALLEST > len(body)


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
    turns: Sequence[Turn],
    query: HintQuery,
    *,
    instructions: str = "",
    tools: ToolShape = _NO_TOOLS,
    user: str = "",
    cache_key: str = "",
    metadata: bytes = b"",
    conversation: str = "",
    previous: str = "",
    is_named: bool = False,
) -> SessionHints:
    """The hints of a request's messages and members; one that `is_named` is found without the ids of its calls."""
    history: list[str] = []
    # Where answers begin; of the latest one its calls, and what they gave.
    starts: list[int] = []
    calls: list[CallOrResult] = []
    results: list[CallOrResult] = []
    # All calls that began agents, and what they gave, by their ids.
    begun: dict[str, CallOrResult] = {}
    outputs: dict[str, Raw | str] = {}
    spawning, insertions = query.spawning, query.insertions
    messages, first, opened, in_response, is_acknowledged = len(turns), "", 0, False, False
    for role, text, words, entries in turns:
        if role is USER:
            if words:
                if words in insertions.inserted:
                    is_acknowledged = True
                    if words in insertions.after_examples:
                        history, starts, calls, results, first = [], [], [], [], ""
                    continue
                if not first:
                    first, opened = words, len(history)
            if entries:
                results += entries
                if begun:
                    for call_id, _, content in entries:
                        if call_id in begun:
                            outputs[call_id] = content
            if text:
                in_response = False
                history.append(text)
        elif role is INSTRUCTION:
            messages -= 1
            # Those that come after the first message are the client's, and change nothing.
            if not history:
                instructions += words
        elif is_acknowledged and text[1:] == insertions.acknowledged:
            is_acknowledged = False
        else:
            if not in_response:
                if not entries and text[1:] in insertions.replies:
                    if history:
                        history.pop()
                    if opened >= len(history):
                        first = ""
                    continue
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
    if history and not in_response and len(instructions) >= _MIN_REPEATED and history[-1][-1] == instructions[-1]:
        history[-1] = without_repeated(history[-1], instructions)
        if len(history) == 1:
            first = history[0][1:]
    count, telling = tools
    hashers = _HASHERS.get(query.key) or _hashers_of(query.key)
    opening = head = first_prompt = first_call = ""
    before = prompts = tasks = agents = _NONE
    if first:
        asked = _digested(hashers["prompt"], first.strip())
        if count:
            # A request without tools is of no agent.
            first_prompt = asked
        opening = head = asked[:_SIZE] + _head_digest(query.key, instructions[:_HEAD])[:_SIZE]
        at = opened + 1
        if opened or len(history[0]) != len(first) + 1:
            # It begins with more than one text of the user.
            opening = head = _digested(hashers["history"], _RECORD.join((opening, *history[:at])))
        if len(history) > at:
            heads = _digests(hashers["history"], opening, history, at, starts)
            head, before = heads[0], heads[1:]
        if calls and len(history) > 1:
            if not is_named:
                first_call = _digested(hashers["call"], calls[0][0])
            if begun:
                spawned = [call for call in calls if call[1] in spawning][:_MAX_ENTRIES]
                if spawned:
                    prompts, agents = _prompts(spawned, query)
                    tasks = _tasks_in(results[:_MAX_ENTRIES], {call_id for call_id, _, _ in spawned})
    return SessionHints(
        len(instructions),
        count,
        messages,
        telling,
        user,
        cache_key,
        metadata,
        conversation,
        _digested(hashers["response"], previous) if previous else "",
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


def _digests(keyed: blake2b, opening: str, history: list[str], at: int, starts: list[int]) -> tuple[str, ...]:
    """Digests of a history and of it before each of its latest responses, the last first. `opening` is the digest of
    the messages before `at`. A separator follows each message."""
    hasher, latest, pieces = keyed.copy(), opening, [opening]
    heads: list[str] = []
    for start in (*starts[-LOOKED_BACK:], len(history)):
        if start < at:
            continue
        if start > at:
            pieces += history[at:start]
            pieces.append("")
            text = _RECORD.join(pieces)
            # One message that is wide makes all of them slow to encode together.
            hasher.update(text.encode() if text.isascii() else _RECORD.encode().join([*map(str.encode, pieces)]))
            latest, at, pieces = hasher.hexdigest(), start, []
        heads.append(latest)
    heads.reverse()
    return tuple(heads)


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
    """The prompt and the type of agent in the arguments of a call, an object or a string with one; else ""."""
    if isinstance(arguments, Raw) and is_text(arguments):
        arguments = text_in(arguments)
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
