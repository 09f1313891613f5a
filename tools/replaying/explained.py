"""Differences that are meant: what one protocol cannot say to another, each with its reason.

A rule explains a difference if all its patterns are found. What no rule explains makes the replay fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from tools.replaying.journey import Difference


class Rule(Struct, frozen=True, kw_only=True):
    """One kind of difference and why it is right. Patterns are searched for; `holds` sees both sides.

    `calling` explains it only in answers that call tools, `mute` in those without calls and text.
    """

    kind: str
    why: str
    pair: str = ""
    said: str = ""
    came: str = ""
    calling: bool = False
    mute: bool = False
    holds: Callable[[str, str], bool] | None = None


def _blank_at_the_end(said: str, came: str) -> bool:
    return said.rstrip() == came.rstrip()


def _blank_around(said: str, came: str) -> bool:
    return said.strip() == came.strip()


def _ended_by_a_blank_line(said: str, came: str) -> bool:
    # Both are the last bytes of their streams, in the spelling of Python.
    return said.endswith("[DONE]\\n'") and came.endswith("\\n'") and said[2:-1].endswith(came[2:-3])


def _more_cached_than_asked(said: str, came: str) -> bool:
    asked, told = (list(map(int, re.findall(r"=(\d+)", side))) for side in (said, came))
    return len(asked) == len(told) == 3 and asked[2] > asked[0] and told == [asked[0] + asked[2], *asked[1:]]


RULES: tuple[Rule, ...] = (
    Rule(
        kind="refused requests",
        came=r"tools(\[\d+\])?: (no |this provider (can run none|has no tool|cannot call))",
        why="a tool that only its vendor can run, and no other is left: refused, because the answer would be made up",
    ),
    Rule(
        kind="refused requests",
        came=r"(background|conversation|container|previous_response_id|prompt|moderation): ",
        why="state and policies that the provider keeps are nothing that another could look up",
    ),
    Rule(
        kind="refused requests",
        came=r"compacted|only its issuer|container_upload|is kept (by|elsewhere)",
        why="files and sealed history that only their keeper can open, without which the conversation would be another",
    ),
    Rule(
        kind="refused requests",
        came=r"takes no (audio|files of type)|documents by URL cannot be sent|'(video_url|file_url)' of",
        why="media that the other protocol has no place for: refused, because the question is about them",
    ),
    Rule(
        kind="refused requests",
        came=r"n: only one choice",
        why="the other protocols answer once",
    ),
    Rule(
        kind="refused requests",
        came=r"modalities: answers in sound|excludes calls by the model itself|may not be called directly",
        why="what was asked for would not be what is answered",
    ),
    Rule(
        kind="ids",
        pair="> anthropic-messages",
        said=r"[^\w\-', \[\]]",
        why="Messages takes letters, digits, `_` and `-` alone; the id is restored on the way back",
    ),
    Rule(
        kind="ends",
        said=r"^pause$",
        came=r"^length$",
        why="a pause that the caller does not resume (`resume` says how) is an answer cut short",
    ),
    Rule(
        kind="texts",
        calling=True,
        holds=_blank_at_the_end,
        why="blank text beside a call is no text, and Messages would refuse it in the next turn",
    ),
    Rule(
        kind="texts",
        pair="anthropic-messages > (anthropic-messages|openai-responses)",
        holds=_blank_around,
        why="white space before reasoning or a call is no block or item of its own (mapping.md T7); it is reported",
    ),
    Rule(
        kind="relays",
        holds=_ended_by_a_blank_line,
        why="a last frame without its blank line is dropped by official SDKs (mapping.md §1, rule 1)",
    ),
    Rule(
        kind="relays",
        came=r"another message began inside the stream",
        why="two answers in one stream are none: the client is told, on the relay too",
    ),
    Rule(
        kind="errors",
        said=r"^a second message began$",
        came=r"another message began inside the stream",
        why="the same, in the words of the library",
    ),
    Rule(
        kind="second seals",
        pair="openai-responses > anthropic-messages",
        came=r"^\[\]$",
        mute=True,
        why="all that the reasoning led to is an item that only its provider knows (an image, an approval); alone it "
        "would be refused, so it is dropped with its outcome and reported",
    ),
    Rule(
        kind="usages",
        holds=_more_cached_than_asked,
        why="more came from the cache than the prompt counts: it cannot include it",
    ),
    Rule(
        kind="calls",
        came=r"_raw_arguments",
        why="arguments that are no JSON object reach a client of objects under this name (mapping.md N3)",
    ),
    Rule(
        kind="second calls",
        pair="openai-chat > openai-chat",
        said=r"arguments='",
        came=r"arguments=\{'input': ",
        why="a stream of Chat has functions only; the client gives back what it was told",
    ),
    Rule(
        kind="calls",
        pair="openai-(responses|chat) > ",
        came=r"arguments=\{'input': ",
        why="a call of a plain-text tool, for a client or a stream that knows only functions (mapping.md §7)",
    ),
    Rule(
        kind="second calls",
        pair="openai-responses > anthropic-messages",
        said=r"arguments='\{",
        came=r"arguments=\{",
        why="text that is JSON, given back by a client that knows objects only",
    ),
    Rule(
        kind="calls",
        pair="openai-responses > anthropic-messages",
        said=r"arguments='\{",
        came=r"arguments=\{",
        why="the text of such a call happens to be JSON; Messages has objects only",
    ),
)


def explained(difference: Difference) -> Rule | None:
    """The rule that explains a difference, if there is one."""
    for rule in RULES:
        if (
            rule.kind == difference.kind
            and (difference.calling or not rule.calling)
            and (difference.mute or not rule.mute)
            and re.search(rule.pair, difference.pair)
            and re.search(rule.said, difference.said)
            and re.search(rule.came, difference.came)
            and (rule.holds is None or rule.holds(difference.said, difference.came))
        ):
            return rule
    return None
