"""Session facts of an exchange, without content. Classes and assignments are derived from them."""

from __future__ import annotations

from msgspec import Struct

MAX_ID_LENGTH = 128


class Shape(Struct, frozen=True, array_like=True, gc=False):
    """The shape of a request: characters of its instructions, its tools, and its number of messages."""

    instructions: int = 0
    tools: int = 0
    messages: int = 0
    # Names of declared tools that distinguish main threads.
    telling: tuple[str, ...] = ()


class ExchangeFacts(Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """The facts of one exchange. Entries are positional on disk: add new members at the end."""

    # The client's own IDs, and the header or member with the session.
    session: str = ""
    source: str = ""
    thread: str = ""
    parent: str = ""
    # Stated by the client: class, type of agent, segment, prompt.
    said_class: str = ""
    agent: str = ""
    window: str = ""
    prompt: str = ""
    shape: Shape | None = None
    # Keyed digests in hex: of the start of the history, of the full history, of the history before each of its latest
    # responses, of the first call in its latest response, and of the previous response.
    opening: str = ""
    tip: str = ""
    before: tuple[str, ...] = ()
    call: str = ""
    previous: str = ""
    answer_call: str = ""
    answer_id: str = ""
    # The name of the client program, or "".
    client: str = ""
    # Digests of the first user message, and of the prompts that the latest response gave to other agents; session IDs
    # in tool results.
    asks: str = ""
    prompts: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    # Types of the agents that got the prompts, in order; "" for an unnamed one, () if none is named.
    agents: tuple[str, ...] = ()
    # Threads of agents that the history names, with the type or the name of each.
    named: tuple[tuple[str, str], ...] = ()


NOTHING = ExchangeFacts()


def of_thread(facts: ExchangeFacts) -> ExchangeFacts:
    """The facts that are stored with a thread, for its class and its first segment."""
    return ExchangeFacts(
        session=facts.session,
        source=facts.source,
        thread=facts.thread,
        parent=facts.parent,
        said_class=facts.said_class,
        agent=facts.agent,
        window=facts.window,
        prompt=facts.prompt,
        shape=facts.shape,
        opening=facts.opening,
        answer_id=facts.answer_id,
        client=facts.client,
    )
