"""Session facts of an exchange, without any content; classes are derived from them."""

from __future__ import annotations

from msgspec import Struct

# Maximum length of clients' IDs.
MAX_ID_LENGTH = 128


class Shape(Struct, frozen=True, array_like=True, gc=False):
    """The shape of a request: characters of its instructions, its tools, and its number of messages."""

    instructions: int = 0
    tools: int = 0
    messages: int = 0
    # Names of tools that distinguish main threads, as far as they are declared.
    telling: tuple[str, ...] = ()


class ExchangeFacts(Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """The facts of one exchange. New members are added at the end alone."""

    # The client's own ids, and which header or member they are from.
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
    # Keyed digests in hex: of how the history began, of all of it, of it before each of its latest answers; of the
    # first call in the latest answer that it repeats, of the previous response.
    opening: str = ""
    tip: str = ""
    before: tuple[str, ...] = ()
    call: str = ""
    previous: str = ""
    # Of the answer: its first call, its id.
    answer_call: str = ""
    answer_id: str = ""
    # Which program it is, by the name that it has here; "" if that is not known.
    client: str = ""
    # Digests of the first user message, and of the prompts that the latest response gave to other agents; session ids
    # in tool results.
    asks: str = ""
    prompts: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    # Types of the agents that the prompts went to, in their order, "" where none is named; () if none is.
    agents: tuple[str, ...] = ()
    # Threads of agents that the history names, with the type or the name of each.
    named: tuple[tuple[str, str], ...] = ()


NOTHING = ExchangeFacts()


def of_thread(facts: ExchangeFacts) -> ExchangeFacts:
    """The facts stored with a thread: the basis of its class, and of its first segment."""
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
