"""The table of names: what the conventions and what we call things, each once."""

from __future__ import annotations

from dragoman.providers.catalogue import catalogue
from dragoman.telemetry import genai_attributes

NAMES = {
    name: value
    for name, value in vars(genai_attributes).items()
    if name.isupper() and isinstance(value, str) and "." in value
}


def test_no_name_stands_for_two_things() -> None:
    assert len(set(NAMES.values())) == len(NAMES)


def test_names_are_of_the_conventions_or_ours() -> None:
    rooms = ("gen_ai.", "dragoman.", "error.", "server.", "http.", "service.")
    assert [name for name in NAMES.values() if not name.startswith(rooms)] == []
    assert [name for name in NAMES.values() if not name.islower()] == []


def test_every_provider_that_has_another_name_is_known() -> None:
    assert set(genai_attributes.PROVIDERS) <= set(catalogue())
    assert not set(genai_attributes.PROVIDERS.values()) & set(catalogue())
