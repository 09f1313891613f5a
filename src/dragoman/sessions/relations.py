"""Relations: numbers shared by exchanges that can influence each other's assignment (decision 44). Exchanges without a
chain of relations are assigned independently. A collision only connects more exchanges than necessary."""

from __future__ import annotations

from zlib import crc32

from dragoman.sessions.facts import ExchangeFacts

# Numbers take four bytes in a row.
_MASK = 0x7FFFFFFF
_SESSION, _BEGINNING, _CALL, _RESPONSE = 0x9E3779B9, 0x3C6EF372, 0xDAA66D2B, 0x78DDE6E4
# The part of the conversation start's digest that is the first prompt's digest.
_PROMPT = slice(16)


def session_relation(name: str) -> int:
    """The relation of all exchanges that name a session."""
    return _number(name, _SESSION)


def response_relation(digest: str) -> int:
    """The relation of the exchange whose response ID has this digest."""
    return _number(digest, _RESPONSE)


def relations_of(facts: ExchangeFacts) -> tuple[int, ...]:
    """The relations that an exchange can be found by; () if it has no session facts."""
    # Continued histories share their start, and an agent's history shares the prompt that another agent sent. Most
    # requests show no more.
    beginning, asked = (facts.opening or facts.tip)[_PROMPT], facts.asks[_PROMPT]
    numbers = (_number(beginning, _BEGINNING),) if beginning else ()
    if not (facts.session or facts.answer_call or facts.answer_id or facts.prompts or facts.tasks or facts.parent):
        return numbers if asked == beginning or not asked else (*numbers, _number(asked, _BEGINNING))
    prompts = [asked, *[prompt[_PROMPT] for prompt in facts.prompts]]
    others = [session_relation(name) for name in (facts.session, facts.parent, *facts.tasks) if name]
    others += [_number(prompt, _BEGINNING) for prompt in prompts if prompt]
    if facts.answer_call:
        others.append(_number(facts.answer_call, _CALL))
    if facts.answer_id:
        others.append(response_relation(facts.answer_id))
    return tuple(dict.fromkeys((*numbers, *others)))


def sought_relations(facts: ExchangeFacts) -> tuple[int, ...]:
    """The relations of the exchanges that must be assigned with this one: its own, and those of the earlier responses
    that it continues."""
    given = [_number(facts.call, _CALL)] if facts.call else []
    if facts.previous:
        given.append(response_relation(facts.previous))
    return (*relations_of(facts), *given)


def _number(text: str, kind: int) -> int:
    return crc32(text.encode("utf-8", "replace"), kind) & _MASK
