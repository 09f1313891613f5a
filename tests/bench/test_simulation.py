"""A short run of the simulation: every policy is near its oracle, and far from chance."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.simulation import run
from bench.simulation.play import Result, play
from bench.simulation.router import Load, Planned
from bench.simulation.world import LIMITED, MINUTE, UPSTREAMS, Outcome, Trouble, ask, requests
from dragoman.routing.health_state import HEALTHY, HealthLevel
from dragoman.routing.policies import POLICIES

# Long enough for the first two spells of trouble.
MINUTES = 50.0


@pytest.fixture(scope="module")
def results() -> dict[str, list[Result]]:
    return run.simulated((3,), MINUTES)


@pytest.mark.parametrize("policy", POLICIES)
def test_everybody_is_answered_and_little_is_regretted(policy: str, results: dict[str, list[Result]]) -> None:
    assert all(result.answered_by for result in results[policy])
    came, best = run.regret(results, policy)
    measure, _ = run.goal(POLICIES[policy])
    chance = run.average(results[run.CHANCE], measure)
    assert came - best < (chance - best) / 4


def test_without_a_second_target_an_outage_is_an_outage(results: dict[str, list[Result]]) -> None:
    alone = results["the first target alone"]
    assert sum(not result.answered_by for result in alone) > len(alone) / 10


def test_an_outage_costs_few_calls(results: dict[str, list[Result]]) -> None:
    for policy in POLICIES:
        assert sum(result.attempts for result in results[policy]) < 1.02 * len(results[policy])


def test_conversations_stay_while_nothing_fails() -> None:
    came = requests(4, 10.0)

    def moved(policy: str) -> int:
        turns: dict[int, list[Result]] = {}
        for result in play(Planned(policy), came):
            turns.setdefault(result.request.conversation, []).append(result)
        # One that is not answered yet is nowhere.
        return sum(
            before.answered_by != after.answered_by and before.request.at + before.seconds <= after.request.at
            for said in turns.values()
            for before, after in pairwise(said)
        )

    assert moved("fallback") == moved("fastest") == 0
    assert moved("round-robin") > 100


def test_the_same_seed_is_the_same_day() -> None:
    came = requests(5, 5.0)
    assert came == requests(5, 5.0)
    assert play(Planned("fastest"), came) == play(Planned("fastest"), came)


def test_trouble_comes_and_goes() -> None:
    quick = UPSTREAMS[0]
    spell = quick.spells[0]
    request = requests(6, 5.0)[0]
    before, during = spell.start * MINUTE - 1, spell.start * MINUTE
    assert quick.trouble(during) is Trouble.ERRORS
    assert ask(quick, request, before, warm=False).answered
    assert not ask(quick, request, during, warm=False).answered
    assert ask(quick, request, before, warm=True).cost < ask(quick, request, before, warm=False).cost


def test_a_target_that_fails_rests_is_tried_and_comes_back() -> None:
    router, load, came = Planned("fallback", sticky=False), Load(), requests(6, 5.0)
    first, second = UPSTREAMS[0].name, UPSTREAMS[1].name

    def level(now: float) -> HealthLevel:
        return router.traffic.health.state(f"{first}/m", now).level

    # Five at the same time, of which none is answered.
    for request in came[:5]:
        assert router.choose(request, frozenset(), load, 0.0) == first
    for request in came[:5]:
        router.end(request, first, Outcome(False, 0.1), 0.1)
        assert router.choose(request, frozenset({first}), load, 0.1) == second
        router.end(request, second, Outcome(True, 1.0, 0.5), 1.1)
    assert level(1.1) is HealthLevel.COOLDOWN
    assert router.choose(came[5], frozenset(), load, 1.2) == second
    # Its rest is over: one request finds out, and everybody else is answered elsewhere.
    probing = 60.0
    assert router.choose(came[6], frozenset(), load, probing) == first
    assert level(probing) is HealthLevel.PROBING
    assert router.choose(came[7], frozenset(), load, probing) == second
    router.end(came[6], first, Outcome(True, 1.0, 0.5), probing + 1)
    assert level(probing + 1) is HealthLevel.SLOW_START
    assert level(probing + 60) is HealthLevel.HEALTHY


def test_whoever_refuses_too_many_calls_is_spared_and_lives() -> None:
    router, load, came = Planned("fallback", sticky=False), Load(), requests(6, 5.0)
    first, second = UPSTREAMS[0].name, UPSTREAMS[1].name
    assert router.choose(came[0], frozenset(), load, 0.0) == first
    router.end(came[0], first, Outcome(False, 0.1, limited=True), 0.1)
    assert router.choose(came[1], frozenset(), load, 1.0) == second
    assert router.traffic.health.state(f"{first}/m", 1.0) is HEALTHY
    assert router.choose(came[2], frozenset(), load, 0.1 + LIMITED) == first


def test_the_chart_is_a_drawing(results: dict[str, list[Result]]) -> None:
    drawing = ElementTree.fromstring(run.chart(results, MINUTES))
    assert len(drawing.findall(".//{http://www.w3.org/2000/svg}polyline")) == 12


def test_the_page_is_written_between_its_marks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, results: dict[str, list[Result]]
) -> None:
    page = run.PAGE.read_text(encoding="utf-8")
    told = run.written(page, "new\\1 figures")
    assert "<!-- figures -->\n\nnew\\1 figures\n\n<!-- end of figures -->" in told
    assert run.written(told, "") != told
    # What stands there has a row for each policy, and a chart.
    assert set(POLICIES) <= set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE))
    assert run.CHART.exists()
    monkeypatch.setattr(run, "simulated", lambda seeds, minutes: results)
    assert run.main(["--quick"]) == 0
    assert "`least-loss`" in capsys.readouterr().out


def test_the_page_tells_of_each_policy_under_its_name() -> None:
    page = (Path(__file__).parents[2] / "docs/routing.md").read_text(encoding="utf-8")
    table = page.partition("\n## Policies\n")[2].partition("\n##")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == list(POLICIES)
    examples = [tomllib.loads(example) for example in re.findall(r"```toml\n(.*?)```", page, re.DOTALL)]
    lines = [line for example in examples for line in example["models"].values() if isinstance(line, dict)]
    assert {line["policy"] for line in lines if "policy" in line} == set(POLICIES) - {"fallback"}
