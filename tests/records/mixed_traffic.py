"""Random traffic of several clients at once: conversations that grow, fork, are retried, begin agents and end."""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonObject
from dragoman.records.journal_entry import ANSWERED, CANCELLED, COUNT, FAILED, REFUSED, JournalEntry
from dragoman.sessions.facts import NOTHING, ExchangeFacts
from dragoman.wire.history_digest import digest
from tests.records.invented import NOON, entry
from tests.sessions.invented import (
    AGENT_PROMPT,
    AGENT_TOOLS,
    MAIN_PROMPT,
    SOUGHT,
    TITLE_PROMPT,
    Asked,
    assistant,
    call,
    claude,
    codex,
    facts_of,
    older_claude,
    older_opencode,
    opencode,
    plain,
    result,
    user,
)

# Few words, so that histories of different conversations begin alike.
_WORDS = ("look", "find it", "go on", "why")
_KEYS = ("laptop", "server")


class _Talk:
    """One conversation: how its client asks, and what was said so far."""

    def __init__(self, key: str, ask: Callable[[list[JsonObject]], Asked], *, has_tools: bool) -> None:
        self.key = key
        self.ask = ask
        self.has_tools = has_tools
        self.said: list[JsonObject] = []
        self.calls = 0


def traffic(seed: int, count: int) -> list[JournalEntry]:
    """Exchanges in the order in which they were settled."""
    dice = random.Random(seed)
    talks: list[_Talk] = []
    entries: list[JournalEntry] = []
    while len(entries) < count:
        if not talks or dice.random() < 0.25:
            talks.append(_begun(dice, dice.choice(_KEYS), len(entries)))
        talk = dice.choice(talks)
        facts, answer = _turn(dice, talk, talks, len(entries))
        number = len(entries)
        outcome = dice.choice((ANSWERED,) * 8 + (FAILED, CANCELLED, REFUSED))
        moment = NOON + number * 60_000_000 + dice.randrange(-120_000_000, 120_000_000)
        made = entry(number, key=talk.key, outcome=outcome, time=moment, model=dice.choice(("large", "small")))
        if answer and outcome == ANSWERED:
            facts = replace(facts, answer_call=digest(_secret(talk.key), "call", answer))
        if dice.random() < 0.05:
            made = replace(made, kind=COUNT)
        elif dice.random() < 0.03:
            made, facts = replace(made, requested_model="", outcome=REFUSED), replace(facts, shape=None)
        entries.append(replace(made, facts=NOTHING if dice.random() < 0.02 else facts))
    return entries


def _secret(key: str) -> bytes:
    return f"{key:*<32}".encode()


def _turn(dice: random.Random, talk: _Talk, talks: list[_Talk], number: int) -> tuple[ExchangeFacts, str]:
    """The next request of a conversation, and the id of the first call in its answer."""
    if talk.said and dice.random() < 0.15:
        # The same once more.
        return _facts(talk), ""
    if talk.said and dice.random() < 0.1:
        # What came last is said anew.
        talk.said = talk.said[: dice.randrange(len(talk.said))]
    if dice.random() < 0.05:
        talk.said = []
    if not talk.said or talk.said[-1]["role"] == "assistant":
        talk.said.append(user(dice.choice(_WORDS)))
    facts, answer = _facts(talk), ""
    if talk.has_tools and dice.random() < 0.5:
        answer = f"call-{number}"
        if dice.random() < 0.4:
            # Of threads that give the same prompt, the one with the lowest number is taken for the parent.
            prompt = f"{dice.choice(_WORDS)} {number}"
            talk.said += [
                call(answer, "Agent", prompt=prompt, subagent_type=dice.choice(("Explore", ""))),
                result(answer),
            ]
            talks.append(_agent(dice, talk.key, prompt))
        else:
            talk.said += [call(answer), result(answer)]
    else:
        talk.said.append(assistant(dice.choice(_WORDS)))
    return facts, answer


def _facts(talk: _Talk) -> ExchangeFacts:
    return facts_of(talk.ask([*talk.said]), replace(SOUGHT, key=_secret(talk.key)))


def _agent(dice: random.Random, key: str, prompt: str) -> _Talk:
    """An agent of a client that does not say whose it is."""
    talk = _Talk(
        key, lambda said: older_claude(said, session="", system=AGENT_PROMPT, tools=AGENT_TOOLS), has_tools=True
    )
    if dice.random() < 0.5:
        talk = _Talk(key, lambda said: plain(said, tools=("read",)), has_tools=False)
    talk.said.append(user(prompt))
    return talk


def _begun(dice: random.Random, key: str, number: int) -> _Talk:
    session, agent = f"s{dice.randrange(3)}", f"a{dice.randrange(4)}"
    system = dice.choice((MAIN_PROMPT, MAIN_PROMPT, AGENT_PROMPT, TITLE_PROMPT))
    parent = dice.choice(("", f"a{dice.randrange(4)}"))
    child = f"ses_{dice.randrange(3)}"
    of = dice.choice(("", f"ses_{dice.randrange(3)}"))
    asks: tuple[tuple[Callable[[list[JsonObject]], Asked], bool], ...] = (
        (plain, False),
        (lambda said: plain(said, agent="aider/0.86", tools=("edit",)), False),
        (lambda said: claude(said, session=session, system=system), True),
        (lambda said: claude(said, session=session, agent_id=agent, parent_agent_id=parent, system=AGENT_PROMPT), True),
        (lambda said: older_claude(said, session=session, system=system), True),
        # What names no session has another beginning than what does: see decision 44.
        (lambda said: older_claude(said, session="", system=f"Unnamed. {system}"), True),
        (lambda said: codex(said, session=session, thread=agent, parent=parent), False),
        (lambda said: opencode(said, session=child, parent=of), False),
        (lambda said: older_opencode(said, session=child), False),
    )
    ask, has_tools = dice.choice(asks)
    return _Talk(key, ask, has_tools=has_tools)
