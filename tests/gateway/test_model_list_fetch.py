"""Lists of providers: when they are asked for, and what is made of those that fail."""

from __future__ import annotations

from dragoman.gateway.model_list_fetch import models_of, refresh_lists
from tests.gateway.harness import House, Received, Reply, running, whole
from tests.gateway.says import log_lines, with_provider


def asked(house: House) -> list[str]:
    """The names that are known of one provider after it was asked for, unless that was done before."""
    service = house.app.runtime
    provider = service.settings.providers["chat"]
    house.run(refresh_lists(service, [provider]))
    return list(models_of(service, provider))


def test_what_was_listed_once_outlives_a_list_that_fails() -> None:
    replies = [whole({"data": [{"id": "m", "context_length": 9}]}), whole({}, 500), whole({"data": [{"id": "n"}]})]

    def script(received: Received) -> Reply:
        return replies[len(house.provider.received) - 1]

    with running(script, with_provider(models=None)) as house:
        now = [0.0]
        house.app.runtime.clock = lambda: now[0]
        told = []
        for moment in (0.0, 299.0, 301.0, 330.0, 332.0):
            now[0] = moment
            told.append((asked(house), len(house.provider.received)))
    assert told == [(["m"], 1), (["m"], 1), (["m"], 2), (["m"], 2), (["n"], 3)]
    assert len(log_lines(house, "cannot list models of provider")) == 1


def test_models_of_the_configuration_are_not_asked_for() -> None:
    with running((), with_provider(models=("mine",))) as house:
        assert asked(house) == ["mine"]
        assert house.provider.received == []


def test_a_list_without_an_object_around_it_is_read() -> None:
    with running(lambda received: whole([{"id": "m"}]), with_provider(models=None)) as house:
        assert asked(house) == ["m"]
