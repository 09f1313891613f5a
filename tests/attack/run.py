"""Every attack against a gateway process of its own; a table of what it cost the attacker, the gateway and others.

`make attack` runs all of them, `make attack ARGUMENTS=outages` the section or the attacks with that word in their name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from tests.attack import (
    crashes,
    exposures,
    greedy_keys,
    hostile_providers,
    hostile_requests,
    many_keys,
    partial_outages,
    translations,
)
from tests.attack.measuring import Attack, Cost

SECTIONS: Mapping[str, Sequence[Attack]] = {
    "hostile requests": hostile_requests.ATTACKS,
    "hostile providers": hostile_providers.ATTACKS,
    "greedy keys": greedy_keys.ATTACKS,
    "many keys": many_keys.ATTACKS,
    "exposures": exposures.ATTACKS,
    "partial outages": partial_outages.ATTACKS,
    "crashes": crashes.ATTACKS,
}


def main(only: str = "") -> int:
    """Run all attacks, or those with a word in the name of their section or in their own."""
    for section, attacks in SECTIONS.items():
        chosen = [attack for attack in attacks if only in section or only in attack.name]
        if chosen:
            print(
                f"\n{section:46} {'sent':>11} {'seconds':>8} {'CPU s':>7} {'MB':>6} {'late, ms':>9}  result", flush=True
            )
        for attack in chosen:
            _print(attack.run(attack.name))
    if only in "translations":
        print(flush=True)
        translations.main()
    return 0


def _print(cost: Cost) -> None:
    print(
        f"{cost.name:46} {cost.sent:11,} {cost.seconds:8.2f} {cost.cpu:7.2f} {cost.memory:6.0f} "
        f"{1000 * cost.late:9.0f}  {cost.result}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
