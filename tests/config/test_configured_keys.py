"""What the configuration uses of names and keys is known to those who make new keys."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.config.configured_keys import configured_names
from dragoman.config.settings import RouteConfig, RouteRule, Settings
from dragoman.identities.identity import AcceptedDigest
from dragoman.routing.route import RuleCondition
from tests.identities.holders import holder


def test_names_digests_and_names_in_rules_are_the_configurations() -> None:
    rotated = replace(
        holder("ci", b"new", owner=b"first"), digests=(AcceptedDigest(digest=b"new"), AcceptedDigest(digest=b"old"))
    )
    rule = RouteRule(when=RuleCondition(key="batch"), targets=("echo/text",))
    routes = (RouteConfig(pattern="fast", targets=("echo/text",), rules=(rule,)),)
    names = configured_names(Settings(keys=(rotated, holder("ann", b"a")), routes=routes))
    assert names.owners == {"ci": b"first", "ann": b"a"}
    assert names.digests == {b"new": "ci", b"old": "ci", b"a": "ann"}
    assert names.rule_names == {"batch"}
