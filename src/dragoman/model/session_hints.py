"""Session hints: digests and ids of a request from which `sessions` recognises its session. They hold no content."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Insertions(Struct, frozen=True, kw_only=True):
    """Messages that a client inserts into every request, moves and renews. They do not belong to the conversation."""

    # Responses that the client writes itself. Each is skipped, together with the message before it.
    replies: frozenset[str] = frozenset()
    # Messages that are skipped together with the response `acknowledged`.
    inserted: frozenset[str] = frozenset()
    # The inserted messages that end a list of the client's examples.
    after_examples: frozenset[str] = frozenset()
    acknowledged: str = ""


class HintQuery(Struct, frozen=True, kw_only=True):
    """The digest key and the tools whose calls and results carry hints."""

    key: bytes
    # Names of declared tools that distinguish threads.
    distinctive_tools: frozenset[str] = frozenset()
    # Tools that start agents, each with the argument that holds the prompt.
    spawning: Mapping[str, str] = {}
    # Tools that start agents, each with the argument that names the type of agent.
    naming: Mapping[str, str] = {}
    insertions: Insertions = Insertions()


class SessionHints(Struct, frozen=True, gc=False):
    # Sizes of instructions and tools in characters, the number of messages, and names of distinctive tools.
    instructions: int = 0
    tools: int = 0
    messages: int = 0
    distinctive_tools: tuple[str, ...] = ()
    # Stated by the client: `metadata.user_id`, the prompt cache key, JSON of `client_metadata`, the previous response.
    user: str = ""
    cache_key: str = ""
    metadata: bytes = b""
    conversation: str = ""
    # Digests, as in `sessions.facts.ExchangeFacts`.
    previous: str = ""
    conversation_start: str = ""
    first_prompt: str = ""
    head: str = ""
    before: tuple[str, ...] = ()
    call: str = ""
    prompts: tuple[str, ...] = ()
    # Session IDs in the results of tools that start agents.
    tasks: tuple[str, ...] = ()
    # The types of the started agents, in the order of their prompts; "" for an unnamed one, () if none is named.
    agents: tuple[str, ...] = ()
    # Threads named in the results of tools that start agents, with the type or name of the agent; from the full
    # history.
    named: tuple[tuple[str, str], ...] = ()


NO_HINTS = SessionHints()
