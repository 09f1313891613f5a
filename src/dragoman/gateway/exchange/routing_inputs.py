"""Choice: what a line with several targets must know of a request before one of them is chosen (decision 25).

Only what the line asks for is looked at: signs for rules, prices and targets that cannot do everything; how the
conversation began, to stay where it is; what each target's translation would lose.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.gateway.exchange.client import ClientRequest
from dragoman.gateway.exchange.provider_request import able, prepare
from dragoman.gateway.json_limits import weigh_request
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences, recalled_of
from dragoman.gateway.stored_responses.reference_resolver import refers as may_be_kept
from dragoman.gateway.stored_responses.stored_state import owner_of
from dragoman.gateway.thread_offload import INLINE
from dragoman.model.losses import Strict
from dragoman.model.request_features import ConversationStart, RequestFeatures
from dragoman.protocols.registry import codec_of
from dragoman.routing.affinity_key import conversation_key, response_key
from dragoman.routing.needs import NOTHING, LossCounts, RequiredFeatures, Requirements
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from dragoman.rules.seals import from_envelope
from dragoman.sessions.classes import class_of
from dragoman.sessions.facts import ExchangeFacts

# How sealed reasoning begins that a client carries for a provider of another protocol.
_ENVELOPE = b'"rsv1'
# In what somebody says anything may stand that begins so.
_TRIES = 4

# Bytes up to which a request fits into the smallest of windows, whatever of it is media.
_FITS_ALL = 32 * 1024


_NO_SIGNS = RequestFeatures()


class Seen(Struct, frozen=True):
    """What was found in a request."""

    opening: ConversationStart | None = None
    signs: RequestFeatures = _NO_SIGNS
    # By the ids of targets: what their translation loses, and why it cannot be made.
    losses: Mapping[str, LossCounts] = NOTHING
    refused: Mapping[str, str] = NOTHING
    # Whether it refers to what some provider keeps.
    alone: bool = False
    # The id of the target that sealed the latest reasoning in it.
    issuer: str = ""
    # Bytes of what it goes on from, where that was looked up.
    before: int = 0


NOTHING_SEEN = Seen()
_NO_OPENING = ConversationStart()


def wanted(body: bytes, asked: ClientRequest, route: Route, *, pinned: bool) -> RequiredFeatures:
    """What a line asks of a request, by the bytes of that; `pinned` if any conversation is anywhere."""
    protocol, size = asked.api_path.protocol, len(body)
    # What is large is looked at beside the loop now, or never.
    usual = route.wants[pinned or size > INLINE]
    # It may refer to what a provider keeps beside responses and conversations: its signs tell.
    refers = False
    for mark in codec_of(protocol).keepsakes:
        refers = refers or mark in body
    # It may carry reasoning that a target sealed which is asked in another protocol.
    sealed = route.spoken != protocol and route.outline.sticky and _ENVELOPE in body
    if not refers and not sealed and size <= _FITS_ALL:
        return usual
    # An image is far longer in bytes than in tokens, and a window is of tokens.
    signs = usual.signs or refers or size > _FITS_ALL
    return RequiredFeatures(signs, usual.opening, usual.losses, sealed)


def says_too_little(looked: ParsedRequest, wants: RequiredFeatures) -> bool:
    """Whether a request must be looked up before it can be weighed: it goes on from what is kept here.

    Where its translations are weighed also if it runs here, which in its own words could be said to few.
    """
    said = looked.said
    if said is None or not (wants.losses or wants.signs):
        return False
    return may_be_kept(said, native=False) or (wants.losses and said.background)


def seen_in(
    body: bytes,
    asked: ClientRequest,
    looked: ParsedRequest,
    route: Route,
    wants: RequiredFeatures,
    found: ResolvedReferences | None = None,
) -> Seen:
    """What a line asks for, found in a request; `found` is what stands for its references where that is weighed."""
    codec = codec_of(asked.api_path.protocol)
    opening = codec.opening_of(looked.outline.members) if wants.opening else None
    issuer = issuer_in(body, route) if wants.issuer else ""
    if not wants.losses and not wants.signs:
        # Where it may refer to what somebody keeps, its signs are wanted.
        return Seen(opening, issuer=issuer) if issuer else Seen(opening)
    losses: dict[str, LossCounts] = {}
    refused: dict[str, str] = {}
    weighed = body
    if found is not None and looked.said is not None:
        weighed = recalled_of(body, looked.said, found).body
        weigh_request(weighed)
    if wants.losses:
        for target in route.targets:
            try:
                prepared = prepare(
                    asked,
                    weighed,
                    looked.outline,
                    able(target, looked.outline),
                    renamed=target.model != looked.model,
                    strict=False,
                    owner=owner_of(asked.key),
                )
            except RefusedError as error:
                refused[target.id] = str(error)
            else:
                ledger = prepared.translated.ledger
                losses[target.id] = LossCounts(ledger.changes, len(ledger))
    signs = codec.signs_of(weighed) if wants.signs else RequestFeatures()
    # What was said before was answered by somebody, and is told to anybody who can be told it.
    alone = signs.kept if weighed is body else wants.signs and codec.signs_of(body).kept
    return Seen(opening, signs, losses, refused, alone, issuer, max(len(weighed) - len(body), 0))


def needs_of(asked: ClientRequest, size: int, seen: Seen, program: str, key: str, strict: Strict) -> Requirements:
    """A request of so many bytes, as routing sees it; what it goes on from is said to whoever is asked."""
    losses, refused = seen.losses, seen.refused
    protocol = asked.api_path.protocol
    return Requirements(
        size + seen.before, seen.signs, protocol, program, key, strict, losses, refused, seen.alone, seen.issuer
    )


def keepers_of(route: Route, looked: ParsedRequest) -> frozenset[str]:
    """The providers of a line that may keep what a request refers to; nobody, if it refers to nothing.

    Where there is one target alone it does not matter who does.
    """
    if looked.said is None or len(route.targets) < 2 or not may_be_kept(looked.said, native=True):
        return frozenset()
    return frozenset(target.provider.name for target in route.targets if target.can_keep)


def unable_to_go_on(route: Route) -> dict[str, str]:
    """The targets of a line that keep nothing, by their ids: where nothing is kept here, they cannot go on from it."""
    return {target.id: "keeps no responses" for target in route.targets if not target.can_keep}


def kept_there(target: Target) -> Target:
    """The same target, as one that goes on from what its provider keeps, and keeps what it answers."""
    return replace(target, kept_here=False) if target.kept_here else target


def issuer_in(body: bytes, route: Route) -> str:
    """The id of the target that sealed the latest reasoning in a request; "" if none of the line did."""
    found, at = None, len(body)
    for _ in range(_TRIES):
        at = body.rfind(_ENVELOPE, 0, at)
        found = from_envelope(body[at + 1 : body.find(b'"', at + 1)].decode("latin-1")) if at >= 0 else None
        if at < 0 or found is not None:
            break
    if found is None:
        return ""
    issued = (found.origin, found.model)
    able = [target for target in route.targets if (target.endpoint.protocol, target.model) == issued]
    # Another provider of the same model may be unable to open it.
    own = (target.id for target in able if target.provider.upstream == found.upstream)
    return next(own, able[0].id if able else "")


def thread_of(route: Route, facts: ExchangeFacts) -> str:
    """What tells threads of one session apart on a line whose rules ask for them: each stays where it is."""
    return f"{class_of(facts).kind} {facts.thread}" if route.threaded else ""


def conversation_of(
    asked: ClientRequest,
    looked: ParsedRequest,
    opening: ConversationStart | None,
    line: str,
    thread: str = "",
    named: bool = True,
) -> str:
    """What the conversation of a request is known by on a line; "" if nothing tells it from others.

    `named` says whether headers may name its session.
    """
    said, found, owner = looked.said, opening or _NO_OPENING, owner_of(asked.key).hex()
    line = f"{owner} {line} {thread}" if thread else f"{owner} {line}"
    conversation = ""
    if said is not None:
        conversation = said.conversation or ""
        if said.previous and not conversation:
            # An answer is where it is, whatever the line is called.
            return response_key(owner, said.previous)
    headers = asked.headers if named else ()
    return conversation_key(line, conversation, "", found.cache_key, headers, found.instructions, found.text)
