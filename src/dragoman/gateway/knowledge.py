"""Knowledge: what a configuration knows of its targets before it asks them: prices, windows, keys that rest, places.

Unknown is None, and never free, endless or good.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.admission import Admission
from dragoman.prices.book import Book, ModelFacts
from dragoman.prices.cost import estimate
from dragoman.providers.provider import Provider
from dragoman.providers.rotation import Rotation
from dragoman.routing.needs import Needs
from dragoman.routing.target import Target


class Knowledge:
    """What is known of the targets of one configuration. `wall` gives seconds since 1970."""

    def __init__(
        self,
        book: Book,
        rotation: Callable[[Provider], Rotation],
        admission: Admission,
        wall: Callable[[], float],
    ) -> None:
        self._book = book
        self._rotation = rotation
        self._admission = admission
        self._wall = wall

    def facts(self, target: Target) -> ModelFacts | None:
        """What the book says of a target."""
        provider = target.provider
        region = provider.options.get("region", "")
        return self._book.find(provider.upstream, target.model, self._wall(), name=provider.name, region=region)

    def cost(self, target: Target, needs: Needs, output: float) -> int | None:
        """What a request is estimated to cost, in nano-dollars, if it is answered with so many tokens."""
        facts = self.facts(target)
        if facts is None:
            return None
        answered = min(int(output), needs.signs.most_output or int(output))
        cached = needs.tokens if needs.warm == target.id else 0
        return estimate(facts, needs.tokens, cached, answered).total

    def window(self, target: Target) -> int | None:
        """How many tokens a target takes in."""
        facts = self.facts(target)
        return None if facts is None else facts.window

    def free(self, target: Target) -> bool:
        """Whether a call could be made at once."""
        return self._admission.free(target.provider.name)

    def wakes(self, target: Target) -> float | None:
        """When the first of its keys may be used, if all of them rest."""
        return self._rotation(target.provider).wakes(target.model)
