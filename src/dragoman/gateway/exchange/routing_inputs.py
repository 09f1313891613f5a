"""Routing inputs: what a route with several targets needs of a request (decision 25). Only what the route uses is read:
features for rules, prices and capabilities; the conversation start for affinity; the losses of each translation."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.forwarding.provider_request import able, glance_again, prepare
from dragoman.gateway.json_limits import check_request_values
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences, resolve_request
from dragoman.gateway.stored_responses.reference_resolver import refers as may_be_stored
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

# The prefix of sealed reasoning that a client carries for a provider of another protocol.
_ENVELOPE = b'"rsv1'
# A prompt may contain text that looks like such a reference.
_TRIES = 4

# Bytes up to which a request fits into the smallest of windows, whatever of it is media.
FITS_ALL = 32 * 1024


_NO_FEATURES = RequestFeatures()


class Seen(Struct, frozen=True):
    """What was found in a request."""

    conversation_start: ConversationStart | None = None
    request_features: RequestFeatures = _NO_FEATURES
    # By the ids of targets: what their translation loses, and why it cannot be made.
    losses: Mapping[str, LossCounts] = NOTHING
    refused: Mapping[str, str] = NOTHING
    # Whether it references items that some provider stores.
    alone: bool = False
    # The ID of the target that signed its latest reasoning.
    issuer: str = ""
    # Bytes of the referenced history, if it was looked up.
    before: int = 0


NOTHING_SEEN = Seen()
_NO_START = ConversationStart()


def required_features(
    body: bytes, client_request: ClientRequest, route: Route, *, has_affinities: bool
) -> RequiredFeatures:
    """The features that a route needs to know of a request, searched in its bytes; `has_affinities` if any conversation
    is anywhere."""
    size = len(body)
    # A large body is searched in a thread now, or not at all.
    usual = route.required_features[has_affinities or size > INLINE]
    refers, sealed = markers_in(body, client_request.api_path.protocol, route)
    if not refers and not sealed and size <= FITS_ALL:
        return usual
    # An image is far longer in bytes than in tokens, and a window is of tokens.
    needs_features = usual.request_features or refers or size > FITS_ALL
    return RequiredFeatures(needs_features, usual.conversation_start, usual.losses, sealed)


def markers_in(body: bytes, protocol: str, route: Route) -> tuple[bool, bool]:
    """Whether a request may reference items that a provider stores, other than responses and conversations, and whether
    it may carry reasoning that a target of the route sealed for a client of another protocol."""
    refers = False
    for marker in codec_of(protocol).reference_keys:
        refers = refers or body.find(marker) >= 0
    return refers, route.common_protocol != protocol and route.summary.sticky and _ENVELOPE in body


def needs_references(parsed: ParsedRequest, required: RequiredFeatures) -> bool:
    """Whether stored input must be looked up before routing. Routes that weigh translations need it also if the request
    runs here: in its own words it could lose too little."""
    references = parsed.references
    if references is None or not (required.losses or required.request_features):
        return False
    return may_be_stored(references, native=False) or (required.losses and references.background)


def seen_in(
    body: bytes,
    client_request: ClientRequest,
    parsed: ParsedRequest,
    route: Route,
    required: RequiredFeatures,
    references: ResolvedReferences | None = None,
) -> Seen:
    """The request features that a route needs; `references` replaces stored input if routing weighs it."""
    glance = parsed.glance
    start = glance.conversation_start() if required.conversation_start else None
    issuer = issuer_in(body, route) if required.issuer else ""
    if not required.losses and not required.request_features:
        # If it may reference stored items, its features are needed.
        return Seen(start, issuer=issuer) if issuer else Seen(start)
    losses: dict[str, LossCounts] = {}
    refused: dict[str, str] = {}
    weighed = body
    if references is not None and parsed.references is not None:
        weighed = resolve_request(body, parsed.references, references).body
        check_request_values(weighed)
        glance = glance_again(weighed, glance.protocol)
    if required.losses:
        for target in route.targets:
            try:
                prepared = prepare(
                    client_request,
                    weighed,
                    glance,
                    able(target, glance.members),
                    renamed=target.model != parsed.model,
                    strict=False,
                    owner=owner_of(client_request.key),
                )
            except RefusedError as error:
                refused[target.id] = str(error)
            else:
                ledger = prepared.translated.ledger
                losses[target.id] = LossCounts(ledger.changes, len(ledger))
    features = glance.request_features() if required.request_features else RequestFeatures()
    # Earlier turns were answered by some target, and can be sent to any target that can express them.
    alone = (
        features.references_stored
        if weighed is body
        else required.request_features and parsed.glance.request_features().references_stored
    )
    return Seen(start, features, losses, refused, alone, issuer, max(len(weighed) - len(body), 0))


def requirements_of(
    client_request: ClientRequest, size: int, seen: Seen, program: str, key: str, strict: Strict
) -> Requirements:
    """The requirements of a request of this size; the referenced history is sent to every target."""
    losses, refused = seen.losses, seen.refused
    protocol = client_request.api_path.protocol
    return Requirements(
        size + seen.before,
        seen.request_features,
        protocol,
        program,
        key,
        strict,
        losses,
        refused,
        seen.alone,
        seen.issuer,
    )


def storing_providers(route: Route, parsed: ParsedRequest) -> frozenset[str]:
    """The providers of a route that may store what a request refers to; of no interest with a single target."""
    if parsed.references is None or len(route.targets) < 2 or not may_be_stored(parsed.references, native=True):
        return frozenset()
    return frozenset(target.provider.name for target in route.targets if target.can_store)


def unable_to_go_on(route: Route) -> dict[str, str]:
    """The targets of a route without storage, by ID: without storage here, they cannot continue stored responses."""
    return {target.id: "keeps no responses" for target in route.targets if not target.can_store}


def with_provider_storage(target: Target) -> Target:
    """The same target, with the provider's own storage for its responses."""
    return replace(target, stored_here=False) if target.stored_here else target


def issuer_in(body: bytes, route: Route) -> str:
    """The ID of the target that signed the latest reasoning in a request; "" if it was no target of the route."""
    seal, at = None, len(body)
    for _ in range(_TRIES):
        at = body.rfind(_ENVELOPE, 0, at)
        seal = from_envelope(body[at + 1 : body.find(b'"', at + 1)].decode("latin-1")) if at >= 0 else None
        if at < 0 or seal is not None:
            break
    if seal is None:
        return ""
    issued = (seal.origin, seal.model)
    able = [target for target in route.targets if (target.endpoint.protocol, target.model) == issued]
    # Another provider of the same model may be unable to open it.
    own = (target.id for target in able if target.provider.vendor_or_name == seal.vendor)
    return next(own, able[0].id if able else "")


def thread_of(route: Route, facts: ExchangeFacts) -> str:
    """What distinguishes threads of one session if the route's rules need it: each thread has an affinity of its
    own."""
    return f"{class_of(facts).kind} {facts.thread}" if route.threaded else ""


def conversation_of(
    client_request: ClientRequest,
    parsed: ParsedRequest,
    conversation_start: ConversationStart | None,
    route_name: str,
    thread: str = "",
    named: bool = True,
) -> str:
    """The affinity key of a request's conversation, or ""; `named`: headers may name its session."""
    references, start, owner = parsed.references, conversation_start or _NO_START, owner_of(client_request.key).hex()
    route_name = f"{owner} {route_name} {thread}" if thread else f"{owner} {route_name}"
    conversation = ""
    if references is not None:
        conversation = references.conversation or ""
        if references.previous and not conversation:
            # A stored response has a fixed location, whatever the route's name.
            return response_key(owner, references.previous)
    headers = client_request.headers if named else ()
    return conversation_key(route_name, conversation, "", start.cache_key, headers, start.instructions, start.text)
