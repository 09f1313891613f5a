"""The comparison with other gateways: pins, settings, ratios, plots, and pages that agree with the stored results."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import json, structs

from bench.gateway.cases import CASES
from bench.gateway.questions import GATEWAY_KEY, question
from bench.gateway.rounds import sample
from bench.peers import installing, report, run
from bench.peers.chart import Dot, Group, drawn
from bench.peers.peers import ALL_CASES, PEERS, Peer, Place
from bench.peers.rounds import DRAGOMAN, EXCHANGES, MEASURED, NGINX, ratio
from dragoman.model.jsonvalue import JsonObject

ROOT = Path(__file__).parents[2]
FOUND = report.read()
each_peer = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
_ADDRESS = re.compile(r"https?://([^/:\"]+)")


def place(directory: Path) -> Place:
    return Place(installed=directory / "venv", directory=directory, port=1234, provider=4321)


@each_peer
def test_pins_are_exact_and_have_no_address(peer: Peer) -> None:
    text = installing.pins(peer.name).read_text(encoding="utf-8")
    assert not re.search(r"https?://|file:|--index|--find-links|@", text)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+(\[\w+\])?==[\w.+]+", line)] == []
    assert installing.version(peer.name) in text


def test_an_environment_belongs_to_its_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "PINS", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "one.txt"
    file.write_text("one==1.0\n")
    before = installing.environment("one")
    assert before.is_relative_to(tmp_path / "dragoman/peers")
    file.write_text("one==1.1\n")
    assert installing.environment("one") != before
    assert installing.version("one") == "1.1"


def test_a_missing_pin_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "PINS", tmp_path)
    (tmp_path / "one.txt").write_text("other==1.0\n")
    with pytest.raises(installing.InstallingError, match="does not pin one"):
        installing.version("one")


def test_the_tools_of_an_environment_do_not_count(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    for name in ("pip", "pip-23.0.dist-info", "one", "one-1.0.dist-info"):
        (packages / name).mkdir(parents=True)
        (packages / name / "file").write_bytes(bytes(1000))
    assert installing.size(tmp_path) == pytest.approx(0.002)


@each_peer
def test_a_peer_speaks_with_this_machine_alone(peer: Peer, tmp_path: Path) -> None:
    config = peer.config(place(tmp_path))
    assert set(_ADDRESS.findall(config)) == {"127.0.0.1"}
    assert "127.0.0.1:4321" in config
    assert (peer.health == b"") is (peer.address is not None)
    assert peer.cases <= ALL_CASES


def test_configurations_can_be_read(tmp_path: Path) -> None:
    tensorzero, rosetta, litellm = (peer.config(place(tmp_path)) for peer in PEERS)
    gateway = tomllib.loads(tensorzero)["gateway"]
    assert gateway["disable_pseudonymous_usage_analytics"] is True
    assert gateway["observability"] == {"enabled": False}
    server: JsonObject = json.decode(rosetta)["server"]
    assert server == {"host": "127.0.0.1", "port": 1234, "open_on_no_keys": True}
    assert json.decode(litellm)["general_settings"] == {"master_key": GATEWAY_KEY}


def test_requests_differ_in_path_and_model_alone() -> None:
    case = CASES[0]
    plain, other = question(case, 1), question(case, 1, b"/openai", "one::")
    assert other.head.startswith(b"POST /openai/v1/chat/completions ")
    assert b'"model":"one::gpt-5.4"' in other.head + other.tail
    assert other.tail.replace(b"one::", b"") == plain.tail
    assert case.client == "openai-chat"


def test_the_cases_are_those_that_peers_can_do() -> None:
    assert {case.label for case in MEASURED} == set(EXCHANGES) == ALL_CASES


def test_a_ratio_is_of_the_same_round() -> None:
    taken = {("S1", DRAGOMAN): [10.0, 20.0, 30.0], ("S1", "one"): [20.0, 20.0, 90.0]}
    assert ratio(taken, "S1", "one") == sample([2.0, 1.0, 3.0])


def test_a_plot_has_each_program_and_follows_the_user_into_the_dark() -> None:
    dots = [Dot(name="a <b", median=20.0, least=10.0, most=900.0, colour=0)]
    text = drawn("CPU", "µs", [Group(title="one", dots=dots), Group(title="two", dots=dots)])
    root = ElementTree.fromstring(text)
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert names.count("circle") == 2
    assert ["".join(element.itertext()) for element in root.iter()].count("a <b") == 2
    assert "prefers-color-scheme: dark" in text


def test_the_results_have_every_program_in_every_case_that_it_can_do() -> None:
    assert [program.name for program in FOUND.programs] == [DRAGOMAN, NGINX, *(peer.name for peer in PEERS)]
    cases = {DRAGOMAN: ALL_CASES, NGINX: {"S1"}} | {peer.name: peer.cases for peer in PEERS}
    measured = {(cost.case, cost.program) for cost in FOUND.costs}
    assert measured == {(case, name) for name, labels in cases.items() for case in labels}
    assert FOUND.rounds >= 5


def test_the_results_are_of_the_pinned_versions() -> None:
    versions = {program.name: program.about.version for program in FOUND.programs}
    assert {peer.name: versions[peer.name] for peer in PEERS} == {
        peer.name: installing.version(peer.name) for peer in PEERS
    }


@pytest.mark.parametrize("path", report.sections(FOUND), ids=lambda path: path.name)
def test_pages_agree_with_the_results(path: Path) -> None:
    section = f"{report.BEGIN}\n\n{report.sections(FOUND)[path]}\n\n{report.END}"
    assert section in path.read_text(encoding="utf-8"), "run: python -m bench.peers.run --draw"


@pytest.mark.parametrize("path", report.plots(FOUND), ids=lambda path: path.name)
def test_plots_agree_with_the_results(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == report.plots(FOUND)[path], "run: python -m bench.peers.run --draw"


def test_the_readme_shows_the_plot_of_requests() -> None:
    assert f"]({report.PLOTS['request']})" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_program_that_was_not_measured_has_a_dash() -> None:
    some = [cost for cost in FOUND.costs if cost.program in (DRAGOMAN, NGINX)]
    found = structs.replace(FOUND, costs=some, programs=FOUND.programs[:2])
    rows = [line for line in report.costs(found).splitlines() if " chunk " in line]
    assert rows
    assert all(re.search(r"\| – +\|$", row) for row in rows)


def test_an_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--peer", "nobody"]) == 2
    assert "unknown: nobody; peers are tensorzero, llm-rosetta, litellm" in capsys.readouterr().err
