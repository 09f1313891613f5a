"""Route: the targets of a name, the policy that orders them, and the rules that replace them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from hashlib import blake2s

from msgspec import Struct

from dragoman.model.losses import Strict
from dragoman.routing.needs import RequiredFeatures
from dragoman.routing.policies import POLICIES
from dragoman.routing.route_summary import RouteSummary, summarize_route
from dragoman.routing.target import Target

FALLBACK = "fallback"


class RuleCondition(Struct, frozen=True, kw_only=True):
    """Conditions of a rule, all of which must hold. None and "" mean no condition."""

    # The estimated input, with the stored history that the request references, exceeds this number of tokens.
    input_tokens_over: int | None = None
    # Whether the request enables reasoning.
    thinking: bool | None = None
    # Whether the request contains images.
    images: bool | None = None
    # Whether the request contains documents.
    documents: bool | None = None
    # Whether the request declares tools.
    tools: bool | None = None
    # Whether the request requires structured output.
    structured_output: bool | None = None
    # The client, by its name in Dragoman or by the start of its user agent.
    client: str = ""
    # The name of the gateway key.
    key: str = ""
    # The class of the thread (decision 33). Clients state it themselves, so use it for cost, never for permissions.
    thread: str = ""


class RoutingRule(Struct, frozen=True, kw_only=True, dict=True):
    when: RuleCondition
    to: Route

    @cached_property
    def digest(self) -> str:
        """The rule's ID in affinities. It is the same at every position, and changes with the rule."""
        content = "\n".join([repr(self.when), *(target.id for target in self.to.targets)])
        return blake2s(content.encode(), digest_size=8).hexdigest()


class Route(Struct, frozen=True, kw_only=True, dict=True):
    """A name's targets. `weights` belong to the members; None means inherited."""

    name: str
    members: tuple[Target | Route, ...]
    policy: str = FALLBACK
    weights: tuple[int, ...] = ()
    rules: tuple[RoutingRule, ...] = ()
    strict: Strict = False
    # Whether conversations have affinity.
    sticky: bool = True
    # Retries on the same target before the next one.
    retries: int = 0
    # The timeout of the first content, in seconds.
    first_byte: float | None = None
    # The maximum estimated cost of a request, in nano-dollars.
    max_cost: int | None = None
    # Whether another target is called if one refuses the content.
    fallback_on_refusal: bool = False
    # Targets in the configuration whose provider is missing, as `provider/model`.
    absent: tuple[str, ...] = ()

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """All possible targets, each once, including those of rules."""
        by_id: dict[str, Target] = {}
        for target in self._all():
            by_id.setdefault(target.id, target)
        return tuple(by_id.values())

    @cached_property
    def missed(self) -> tuple[str, ...]:
        """All missing targets, each once, including those of rules."""
        routes = [member for member in self.members if isinstance(member, Route)]
        routes += [rule.to for rule in self.rules]
        return tuple(dict.fromkeys((*self.absent, *(name for route in routes for name in route.missed))))

    @cached_property
    def only(self) -> Target | None:
        """The single target of a route without a choice."""
        if len(self.members) != 1 or self.rules or self.max_cost is not None:
            return None
        first = self.members[0]
        return first if isinstance(first, Target) else first.only

    @cached_property
    def common_protocol(self) -> str:
        """The protocol of all its targets, or "" if they have several."""
        protocols = {target.endpoint.protocol for target in self.targets}
        return protocols.pop() if len(protocols) == 1 else ""

    @cached_property
    def required_features(self) -> tuple[RequiredFeatures, RequiredFeatures]:
        """The features that it needs of every request: without affinity, and with one."""
        summary = self.summary
        request_features = summary.denies or summary.prices or self.ruled
        # If the order is fixed, the first target has the affinity, unless the conversation moved or the key may differ.
        moves = summary.keys or self.ruled or not summary.policy.as_written
        return (
            RequiredFeatures(request_features, summary.follows and moves, summary.losses),
            RequiredFeatures(request_features, summary.follows, summary.losses),
        )

    @cached_property
    def leads(self) -> bool:
        """Whether most requests need no plan while all targets are healthy, free and large enough, because only the
        conversation decides."""
        summary = self.summary
        return not (self.ruled or summary.weighs) and (summary.leader is not None or summary.soonest)

    @cached_property
    def plain(self) -> bool:
        return not self.rules and all(isinstance(member, Target) for member in self.members)

    @cached_property
    def ruled(self) -> bool:
        return bool(self.rules) or any(isinstance(member, Route) and member.ruled for member in self.members)

    @cached_property
    def threaded(self) -> bool:
        """Whether a rule of it, or of a nested route, needs the class of a thread."""
        inner = [member for member in self.members if isinstance(member, Route)]
        has_thread_rule = any(rule.when.thread or rule.to.threaded for rule in self.rules)
        return has_thread_rule or any(member.threaded for member in inner)

    @cached_property
    def priced(self) -> bool:
        """Whether cost may decide, in it or in a nested route."""
        inner = [member for member in (*self.members, *(rule.to for rule in self.rules)) if isinstance(member, Route)]
        return POLICIES[self.policy].prices or self.max_cost is not None or any(route.priced for route in inner)

    @cached_property
    def timed(self) -> bool:
        """Whether speed may decide, in it or in a nested route."""
        inner = [member for member in (*self.members, *(rule.to for rule in self.rules)) if isinstance(member, Route)]
        return POLICIES[self.policy].speed or any(route.timed for route in inner)

    @cached_property
    def summary(self) -> RouteSummary:
        """The route's properties for plans, without its rules."""
        return summarize_route(self)

    @cached_property
    def decided(self) -> dict[tuple[int, ...], tuple[Route, str, str]]:
        """Cached routes after the application of rules, by the choices of rules; see `decide`."""
        return {}

    def around(self, target: Target) -> Route:
        """The innermost route of a target. Its retries, timeouts and `fallback_on_refusal` apply."""
        for member in (*self.members, *(rule.to for rule in self.rules)):
            if isinstance(member, Target):
                if member.id == target.id:
                    return self
            elif any(each.id == target.id for each in member.targets):
                return member.around(target)
        return self

    def _all(self) -> Iterator[Target]:
        for member in (*self.members, *(rule.to for rule in self.rules)):
            if isinstance(member, Target):
                yield member
            else:
                yield from member._all()
