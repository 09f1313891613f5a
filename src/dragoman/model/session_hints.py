"""Session hints of a request, without any content; `sessions` makes sense of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Insertions(Struct, frozen=True, kw_only=True):
    """Messages that a client puts into every request, moves and renews: they are no part of a conversation."""

    # Replies that the client writes itself: each is left out, with the message before it.
    replies: frozenset[str] = frozenset()
    # Messages that are left out, with the reply `acknowledged`.
    inserted: frozenset[str] = frozenset()
    # Those of them before which all is an example of the client's.
    after_examples: frozenset[str] = frozenset()
    acknowledged: str = ""


class HintQuery(Struct, frozen=True, kw_only=True):
    """The query for hints."""

    # The key of digests.
    key: bytes
    # Names of tools that distinguish threads, as far as they are declared.
    distinctive_tools: frozenset[str] = frozenset()
    # Tools that begin other agents, and the member of their arguments that holds the prompt.
    spawning: Mapping[str, str] = {}
    # The member of their arguments that names the type of agent.
    naming: Mapping[str, str] = {}
    insertions: Insertions = Insertions()


class SessionHints(Struct, frozen=True, gc=False):
    """The hints of one request."""

    # Characters of instructions, tools, messages; names of telling tools.
    instructions: int = 0
    tools: int = 0
    messages: int = 0
    distinctive_tools: tuple[str, ...] = ()
    # Stated by the client: `metadata.user_id`, the provider's cache key, JSON of `client_metadata`; the previous
    # response.
    user: str = ""
    cache_key: str = ""
    metadata: bytes = b""
    conversation: str = ""
    # Digests, as `sessions.facts.ExchangeFacts` has them.
    previous: str = ""
    conversation_start: str = ""
    first_prompt: str = ""
    head: str = ""
    before: tuple[str, ...] = ()
    call: str = ""
    prompts: tuple[str, ...] = ()
    # Ids of sessions that results of spawning tools name.
    tasks: tuple[str, ...] = ()
    # Types of the agents that the prompts went to, in their order, "" where none is named; () if none is.
    agents: tuple[str, ...] = ()
    # Threads that results of spawning tools name, from all of the history, with the type or the name of their agent.
    named: tuple[tuple[str, str], ...] = ()


NO_HINTS = SessionHints()
