"""Knowledge: what a configuration knows of its targets before it asks them: prices, sizes, keys that rest, places.

Unknown is None, and never free, endless or good. Sizes are those of the configuration, else what the provider listed,
else the book's; the rules of translation know some caps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct

from dragoman.gateway.admission import Admission
from dragoman.gateway.model_list_cache import ModelListCache, facts_of_rules
from dragoman.prices.book import Book, ModelFacts
from dragoman.prices.classes import STANDARD
from dragoman.prices.cost import estimate
from dragoman.prices.money import PER_MILLION, in_units
from dragoman.protocols.registry import codec_of
from dragoman.providers import price_lookup
from dragoman.providers.key_cooldowns import KeyCooldowns
from dragoman.providers.rotation import Rotation
from dragoman.routing.model_description import Price
from dragoman.routing.model_limits import FactsOf, ModelLimits, first_known
from dragoman.routing.needs import USUAL_BYTES, Requirements
from dragoman.routing.route_summary import RouteSummary
from dragoman.routing.target import Target
from dragoman.rules.capabilities import capabilities_of

# Lines whose windows are remembered, and characters of their targets' names: some let clients name them.
_MOST = 4096
_LONGEST = 512
# Whether keys may rest.
_RESTS = attrgetter("any")


class _Line(Struct, frozen=True, kw_only=True):
    """What is known of the targets of a line; only what their providers list can change that."""

    # How many lists there were when that was found out.
    changes: int
    # How many tokens each takes in, and how many bytes of text they all have room for.
    windows: list[int | None]
    room: float
    # Which keys of its providers rest.
    rests: tuple[KeyCooldowns, ...]


class TargetInfo:
    """What is known of the targets of one configuration. `wall` gives seconds since 1970."""

    def __init__(
        self,
        book: Book,
        listed: ModelListCache,
        rotations: Mapping[str, Rotation],
        admission: Admission,
        wall: Callable[[], float],
    ) -> None:
        self._book = book
        self._listed = listed
        self._rotations = rotations
        self._admission = admission
        self._wall = wall
        # How much a target takes and says.
        self.sizes: FactsOf = first_known(self._overridden, listed.facts_of, self._printed, facts_of_rules)
        # What is known of lines, by the ids of their targets.
        self._lines: dict[tuple[str, ...], _Line] = {}

    def windows(self, outline: RouteSummary) -> Sequence[int | None]:
        """How many tokens the targets of a line take in."""
        return self._line(outline).windows

    def is_calm(self, outline: RouteSummary, size: int) -> bool:
        """Whether no key rests of any provider of a line, all are free, and all targets have room for so many bytes."""
        line = self._lines.get(outline.ids)
        if line is None or line.changes != self._listed.changes:
            line = self._line(outline)
        return size <= line.room and not any(map(_RESTS, line.rests)) and not self._admission.busy(outline.providers)

    def _line(self, outline: RouteSummary) -> _Line:
        known = self._lines.get(outline.ids)
        if known is None or known.changes != self._listed.changes:
            windows = [self.window(target) for _, target, _, _ in outline.leaves]
            known = _Line(
                changes=self._listed.changes,
                windows=windows,
                room=min((window * USUAL_BYTES for window in windows if window is not None), default=math.inf),
                rests=tuple([self._rotations[name].rests for name in outline.providers]),
            )
            if len(self._lines) >= _MOST:
                self._lines.clear()
            if max(map(len, outline.ids), default=0) <= _LONGEST:
                self._lines[outline.ids] = known
        return known

    def window(self, target: Target) -> int | None:
        """How many tokens a target takes in."""
        return self.sizes(target).window

    def _overridden(self, target: Target) -> ModelLimits:
        found = self._book.override_of(target.provider.name, target.model)
        return ModelLimits() if found is None else ModelLimits(window=found[1].window, cap=found[1].output_cap)

    def _printed(self, target: Target) -> ModelLimits:
        found = self._entry(target)
        return ModelLimits() if found is None else ModelLimits(window=found.window, cap=found.output_cap)

    def _entry(self, target: Target) -> ModelFacts | None:
        return price_lookup.facts_of(self._book, target.provider, target.model, self._wall())

    def cost(self, target: Target, needs: Requirements, output: float) -> int | None:
        """What a request is estimated to cost, in nano-dollars, if it is answered with so many tokens."""
        facts = self._entry(target)
        if facts is None:
            return None
        answered = min(int(output), needs.signs.most_output or int(output))
        cached = needs.paid if needs.warm == target.id else 0
        signs = needs.signs
        # What is said is read once, and each answer is paid.
        tier = _tier(target, facts, signs.tier) if signs.tier else STANDARD
        return estimate(facts, needs.paid, cached, answered * signs.answers, tier).total

    def price(self, target: Target) -> Price | None:
        """What a target costs, for whoever lists it."""
        facts = self._entry(target)
        rates = None if facts is None else facts.rates
        if rates is None or rates.input is None or rates.output is None:
            return None
        return Price(input=in_units(rates.input, PER_MILLION), output=in_units(rates.output, PER_MILLION))

    def busy(self, outline: RouteSummary) -> Container[str]:
        """The names of a line's providers of whom no call could be made at once."""
        return self._admission.busy(outline.providers)

    def keys_rest(self, outline: RouteSummary) -> bool:
        """Whether any key may rest of any provider of a line."""
        return any(map(_RESTS, self._line(outline).rests))

    def wakes(self, target: Target) -> float | None:
        """When the first of its keys may be used, if all of them rest."""
        return self._rotations[target.provider.name].wakes(target.model)


def _tier(target: Target, facts: ModelFacts, asked: str) -> str:
    """The tier at which a request will be paid there that asks for one, by its name in the book.

    One that has no price is unknown where the vendor itself is asked; elsewhere nobody knows the word, or is told it.
    """
    name = codec_of(target.endpoint.protocol).tiers.get(asked, STANDARD)
    if name in facts.tiers:
        return name
    known = capabilities_of(target.endpoint.protocol, target.model, target.provider.upstream, target.provider.rows)
    return name if known.official else STANDARD
