"""What is known of a name, told from one process to another."""

from __future__ import annotations

import msgspec

from dragoman.routing.model_description import CAPABILITIES, DescribedName, DescribedTarget, Price


def test_what_is_told_comes_back_as_it_was() -> None:
    name = DescribedName(
        name="smart",
        policy="cheapest",
        targets=(
            DescribedTarget(
                target="a/m", provider_protocol="d", window=9, price=Price(input="3", output="15"), health="healthy"
            ),
        ),
        window=9,
        capabilities=dict.fromkeys(CAPABILITIES),
    )
    assert msgspec.json.decode(msgspec.json.encode(name), type=DescribedName) == name


def test_what_a_newer_gateway_says_beside_it_does_no_harm() -> None:
    said = b'{"name": "smart", "targets": [{"target": "a/m", "moon": 1}], "moon": "full"}'
    assert msgspec.json.decode(said, type=DescribedName) == DescribedName(
        name="smart", targets=(DescribedTarget(target="a/m"),)
    )
