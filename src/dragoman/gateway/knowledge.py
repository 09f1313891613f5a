"""Knowledge: what a configuration knows of its targets before it asks them: prices, sizes, keys that rest, places.

Unknown is None, and never free, endless or good. Sizes are those of the configuration, else what the provider listed,
else the book's; the rules of translation know some caps.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.admission import Admission
from dragoman.gateway.kept_lists import facts_of_rules
from dragoman.prices.book import Book, ModelFacts
from dragoman.prices.classes import STANDARD
from dragoman.prices.cost import estimate
from dragoman.prices.money import PER_MILLION, in_units
from dragoman.protocols.registry import codec_of
from dragoman.providers import model_facts
from dragoman.providers.provider import Provider
from dragoman.providers.rotation import Rotation
from dragoman.routing.described import Price
from dragoman.routing.facts import Facts, FactsOf, first_known, first_window
from dragoman.routing.needs import Needs
from dragoman.routing.target import Target
from dragoman.rules.abilities import abilities_of


class Knowledge:
    """What is known of the targets of one configuration. `wall` gives seconds since 1970."""

    def __init__(
        self,
        book: Book,
        listed: FactsOf,
        rotation: Callable[[Provider], Rotation],
        admission: Admission,
        wall: Callable[[], float],
    ) -> None:
        self._book = book
        self._rotation = rotation
        self._admission = admission
        self._wall = wall
        sources: tuple[FactsOf, ...] = (self._overridden, listed, self._printed)
        # How much a target takes and says; and how much it takes alone, which is asked for with every plan.
        self.sizes: FactsOf = first_known(*sources, facts_of_rules)
        self.window: Callable[[Target], int | None] = first_window(*sources)

    def _overridden(self, target: Target) -> Facts:
        found = self._book.override_of(target.provider.name, target.model)
        return Facts() if found is None else Facts(window=found[1].window, cap=found[1].output_cap)

    def _printed(self, target: Target) -> Facts:
        found = self._entry(target)
        return Facts() if found is None else Facts(window=found.window, cap=found.output_cap)

    def _entry(self, target: Target) -> ModelFacts | None:
        return model_facts.facts_of(self._book, target.provider, target.model, self._wall())

    def cost(self, target: Target, needs: Needs, output: float) -> int | None:
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

    def free(self, target: Target) -> bool:
        """Whether a call could be made at once."""
        return self._admission.free(target.provider.name)

    def wakes(self, target: Target) -> float | None:
        """When the first of its keys may be used, if all of them rest."""
        return self._rotation(target.provider).wakes(target.model)


def _tier(target: Target, facts: ModelFacts, asked: str) -> str:
    """The tier at which a request will be paid there that asks for one, by its name in the book.

    One that has no price is unknown where the vendor itself is asked; elsewhere nobody knows the word, or is told it.
    """
    name = codec_of(target.endpoint.protocol).tiers.get(asked, STANDARD)
    if name in facts.tiers:
        return name
    known = abilities_of(target.endpoint.protocol, target.model, target.provider.upstream, target.provider.rows)
    return name if known.official else STANDARD
