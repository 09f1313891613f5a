"""Short history: digests the messages of a request in one pass. Most requests have few messages, and continuing a
stored copy would cost more than it saves. `conversation_history` reads longer ones, with the same result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec
from msgspec import Raw

from dragoman.model.session_hints import HintQuery
from dragoman.wire.history_digest import (
    DIGEST_SIZE,
    HEAD,
    INSTRUCTION,
    MIN_REPEATED,
    RECORD,
    USER,
    CallOrResult,
    Turn,
    digest,
    digest_head,
    digest_with,
    hashers_of,
    without_repeated,
)
from dragoman.wire.peek import is_text, peeked, text_in

# The number of latest responses before which the history gets a digest.
LOOKED_BACK = 4
# Maximum prompts and tasks of one turn, and characters of a result in which a session ID is searched.
MAX_ENTRIES = 16
_RESULT_HEAD = 200
# The two forms in which results name the session of an agent.
_task = re.compile(r'\s*(?:task_id: |<task id=")(ses_[0-9A-Za-z]{1,124})').match
# Only names are stored as types of agents, never other model output.
_is_agent = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}").fullmatch
# The thread and name of an agent in a result of Codex.
_agent = re.compile(r'\s*\{"agent_id":"([0-9a-f-]{36})"(?:,"nickname":"([A-Za-z][A-Za-z .\'-]{0,39})")?').match
_ARGUMENTS = msgspec.json.Decoder(dict[str, Raw])
NO_NAMES: tuple[str, ...] = ()
# Digests: the conversation start, the first user text, the history, the history before each of the latest responses,
# the first call of the latest response, the prompts for agents, the sessions in results, and the types of agents.
Digests = tuple[str, str, str, tuple[str, ...], str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]
NO_DIGESTS: Digests = ("", "", "", NO_NAMES, "", NO_NAMES, NO_NAMES, NO_NAMES)
# Threads of agents, each with the type or name of its agent.
NamedThreads = tuple[tuple[str, str], ...]
# Characters of instructions, number of messages, digests, and named threads.
ReadHistory = tuple[int, int, Digests, NamedThreads]
# Texts of the messages, indexes of responses, calls of the latest response and their results, whether calls started
# agents, the first user text, and the number of texts before it.
_Reduced = tuple[list[str], list[int], list[CallOrResult], list[CallOrResult], bool, str, int]


def read_short(
    turns: Sequence[Turn], query: HintQuery, instructions: str, has_tools: bool, is_named: bool
) -> ReadHistory:
    history: list[str] = []
    starts: list[int] = []
    calls: list[CallOrResult] = []
    results: list[CallOrResult] = []
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
                    outputs.update(_outputs_in(entries, begun))
            if text:
                in_response = False
                history.append(text)
        elif role is INSTRUCTION:
            messages -= 1
            # Instructions after the first message come from the client and do not change the digests.
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
    if history and not in_response and len(instructions) >= MIN_REPEATED and history[-1][-1] == instructions[-1]:
        history[-1] = without_repeated(history[-1], instructions)
        if len(history) == 1:
            first = history[0][1:]
    digests = NO_DIGESTS
    if first:
        digests = _digests(
            (history, starts, calls, results, bool(begun), first, opened), query, instructions, has_tools, is_named
        )
    if not outputs:
        return len(instructions), messages, digests, ()
    heads = {call_id: head_of(content) for call_id, content in list(outputs.items())[-MAX_ENTRIES:]}
    return len(instructions), messages, digests, named_threads(begun, heads, query)


def _digests(reduced: _Reduced, query: HintQuery, instructions: str, has_tools: bool, is_named: bool) -> Digests:
    """The digests of a history that has user text."""
    history, starts, calls, results, has_agents, first, opened = reduced
    hashers = hashers_of(query.key)
    prompt = digest_with(hashers["prompt"], first.strip())
    opening = prompt[:DIGEST_SIZE] + digest_head(query.key, instructions[:HEAD])[:DIGEST_SIZE]
    if opened or len(history[0]) != len(first) + 1:
        opening = digest_with(hashers["history"], RECORD.join((opening, *history[: opened + 1])))
    # A request without tools is not an agent's.
    first_prompt, head, before, call = prompt if has_tools else "", opening, NO_NAMES, ""
    if len(history) > opened + 1:
        heads = _heads(hashers["history"], opening, history, opened + 1, starts)
        head, before = heads[0], heads[1:]
    if not calls or len(history) < 2:
        return opening, first_prompt, head, before, call, NO_NAMES, NO_NAMES, NO_NAMES
    if not is_named:
        call = digest_with(hashers["call"], calls[0][0])
    if not has_agents:
        return opening, first_prompt, head, before, call, NO_NAMES, NO_NAMES, NO_NAMES
    return opening, first_prompt, head, before, call, *_agents_in(calls, results, query)


def _agents_in(
    calls: list[CallOrResult], results: list[CallOrResult], query: HintQuery
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The prompts for agents in the latest response, the sessions in their results, and the types of agents."""
    spawned = [made for made in calls if made[1] in query.spawning][:MAX_ENTRIES]
    prompts, agents = digest_prompts(spawned, query)
    spawning_ids = {call_id for call_id, _, _ in spawned}
    given = [(call_id, head_of(content)) for call_id, _, content in results[:MAX_ENTRIES] if call_id in spawning_ids]
    return prompts, tasks_in(given, spawning_ids), agents


def _outputs_in(entries: Sequence[CallOrResult], begun: Mapping[str, CallOrResult]) -> dict[str, Raw | str]:
    return {call_id: content for call_id, _, content in entries if call_id in begun}


def _heads(keyed: blake2b, opening: str, history: list[str], at: int, starts: list[int]) -> tuple[str, ...]:
    """Digests of a history, and of the history before each of its latest responses, the last first. `opening` is the
    digest of the messages before `at`."""
    hasher, latest, pieces = keyed.copy(), opening, [opening]
    heads: list[str] = []
    for start in (*starts[-LOOKED_BACK:], len(history)):
        if start < at:
            continue
        if start > at:
            pieces += history[at:start]
            pieces.append("")
            text = RECORD.join(pieces)
            # One non-ASCII message would make encoding the joined texts slow.
            hasher.update(text.encode() if text.isascii() else RECORD.encode().join([*map(str.encode, pieces)]))
            latest, at, pieces = hasher.hexdigest(), start, []
        heads.append(latest)
    heads.reverse()
    return tuple(heads)


def opening_of(query: HintQuery, texts: Sequence[str], first: str, opened: int, instructed: str) -> tuple[str, str]:
    """The digests of the first user text and of the conversation start, which includes the text after the first
    `opened`."""
    hashers = hashers_of(query.key)
    prompt = digest_with(hashers["prompt"], first.strip())
    opening = prompt[:DIGEST_SIZE] + instructed[:DIGEST_SIZE]
    if opened or len(texts[0]) != len(first) + 1:
        # The conversation begins with more than one user text.
        opening = digest_with(hashers["history"], RECORD.join((opening, *texts[: opened + 1])))
    return prompt, opening


def head_of(content: Raw | str) -> str:
    """The start of a result, where it names a session or thread."""
    return (content if isinstance(content, str) else text_in(content))[:_RESULT_HEAD]


def digest_texts(hasher: blake2b, texts: Sequence[str]) -> None:
    """Digest texts, each with a separator after it."""
    if texts:
        text = RECORD.join((*texts, ""))
        # One non-ASCII message would make encoding the joined texts slow.
        hasher.update(text.encode() if text.isascii() else b"".join([one.encode() + RECORD.encode() for one in texts]))


def digest_prompts(spawned: Sequence[CallOrResult], query: HintQuery) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Digests of the prompts that calls gave to agents, and the types of these agents."""
    given = [_members(arguments, query.spawning[tool], query.naming.get(tool, "")) for _, tool, arguments in spawned]
    prompts = tuple([digest(query.key, "prompt", prompt.strip()) for prompt, _ in given if prompt])
    agents = tuple([agent if _is_agent(agent) else "" for prompt, agent in given if prompt])
    return prompts, agents if any(agents) else NO_NAMES


def named_threads(begun: Mapping[str, CallOrResult], outputs: Mapping[str, str], query: HintQuery) -> NamedThreads:
    """The threads named in the latest of these results, each with the type of its agent, otherwise the name."""
    threads: list[tuple[str, str]] = []
    for call_id, output in list(outputs.items())[-MAX_ENTRIES:]:
        match = _agent(output)
        if match is not None:
            _, tool, arguments = begun[call_id]
            agent = _members(arguments, query.spawning[tool], query.naming.get(tool, ""))[1]
            threads.append((match[1], agent if _is_agent(agent) else match[2] or ""))
    return tuple([(thread, label) for thread, label in threads if label])


def _members(arguments: Raw | str, prompt: str, agent: str) -> tuple[str, str]:
    """The prompt and the type of agent in the arguments of a call: an object, or a string that contains one."""
    if isinstance(arguments, Raw) and is_text(arguments):
        arguments = text_in(arguments)
    members = peeked(
        arguments.encode("utf-8", "surrogatepass") if isinstance(arguments, str) else arguments, _ARGUMENTS
    )
    if members is None:
        return "", ""
    return text_in(members[prompt]) if prompt in members else "", text_in(members[agent]) if agent in members else ""


def tasks_in(results: Sequence[tuple[str, str]], calls: set[str]) -> tuple[str, ...]:
    """The sessions named at the start of these calls' results. The rest of a result is output of an agent."""
    matches = [_task(output) for call_id, output in results if call_id in calls]
    return tuple(dict.fromkeys([match[1] for match in matches if match is not None]))
