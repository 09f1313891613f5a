"""`dragoman models` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.cli import main
from dragoman.cli.models import as_table, size_of
from dragoman.cli.terminal import OutputScreen
from dragoman.routing.model_description import DescribedName, DescribedTarget, Price
from tests.cli.machine import SECRET, clean, put_trusted
from tests.cli.screens import on_screen
from tests.gateway.harness import Received, Reply, running, settings_for, whole
from tests.gateway.says import with_provider
from tests.ports import free_port

HEADINGS = ["NAME", "WINDOW", "OUTPUT", "PRICE", "HEALTH", "CAPABILITIES"]
SCREEN = OutputScreen(terminal=True)
LONG = "a-box/a-name-that-is-longer-than-what-is-left-of-a-line-and-goes-on-below-it-of-480b-parameters"


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)
    configure(free_port())


def configure(port: int, more: str = "") -> None:
    """A configuration whose gateway would be at a port."""
    put_trusted(
        Path(),
        f'[server]\nport = {port}\n[providers.a-box]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\n'
        f'models = ["{LONG.removeprefix("a-box/")}"]\n[models]\n"mine" = ["echo/text", "a-box/other"]\n'
        f'"claude-*" = "a-box/*"\n{more}',
    )


@pytest.mark.parametrize("columns", [80, 140])
def test_the_table_fits_a_terminal_and_starts_with_names_of_the_configuration(tmp_path: Path, columns: int) -> None:
    seen = on_screen(["models"], tmp_path, columns=columns)
    lines = seen.plain.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0].split() == HEADINGS
    assert [line.split()[0] for line in lines[1:4]] == ["mine", "echo/text", "a-box/other"]
    assert lines[1].split() == ["mine", "-", "-", "-", "-", "tools", "images", "structured"]
    assert any(line.startswith("claude-* ") for line in lines)
    assert (seen.status, seen.other) == (0, "")


def test_a_part_of_a_name_chooses(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "MIN", "--json"]) == 0
    (told,) = json.loads(capfd.readouterr().out)
    assert (told["name"], told["policy"], told["window"]) == ("mine", "fallback", None)
    assert [target["target"] for target in told["targets"]] == ["echo/text", "a-box/other"]
    assert told["capabilities"]["tools"] is True


def test_a_pattern_that_nothing_fits_is_said_to(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "nobody-*"]) == 1
    captured = capfd.readouterr()
    assert (captured.out, captured.err.splitlines()[-1]) == (
        "",
        "dragoman: no name matches 'nobody-*'; without a pattern, all names are listed",
    )
    assert main(["models", "nobody-*", "--json"]) == 1
    assert json.loads(capfd.readouterr().out) == []


def listing(received: Received) -> Reply:
    """A provider that lists one model."""
    return whole({"data": [{"id": "m", "context_length": 131072, "max_output_tokens": 8192}]})


def test_the_gateway_that_runs_is_asked(capfd: pytest.CaptureFixture[str]) -> None:
    with running(listing, with_provider(models=None)) as house:
        configure(house.port)
        assert main(["models", "chat/m"]) == 0
        here = capfd.readouterr()
        assert main(["models", "chat/m", "--gateway", house.url]) == 0
        named = capfd.readouterr()
    assert here.out == named.out
    header, row, target = (line.split("\t") for line in here.out.splitlines())
    assert header == ["NAME", "TARGET", *HEADINGS[1:]]
    assert row == ["chat/m", "-", "131072", "8192", "-", "-", "tools images structured"]
    assert target == ["chat/m", "chat/m", "131072", "8192", "-", "-", "-"]
    assert here.err == named.err == ""


def test_a_gateway_that_does_not_let_in_is_told_and_the_configuration_read(capfd: pytest.CaptureFixture[str]) -> None:
    with running((), lambda port: settings_for(port, keys=[SECRET])) as house:
        configure(house.port, '[providers.b]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\n')
        assert main(["models", "mine"]) == 0
        captured = capfd.readouterr()
        assert captured.out.splitlines()[1].startswith("mine\t")
        # One note, which does not say that no gateway is running.
        (note,) = captured.err.splitlines()
        assert note.startswith("dragoman: note: these names are from the configuration: the gateway at ")
        assert note.endswith("; --live shows the models that the providers list")
        assert "no gateway is running" not in note
        assert main(["models", "--gateway", house.url]) == 1
        assert capfd.readouterr().out == ""


def test_the_providers_are_asked_themselves_if_that_is_wished(capfd: pytest.CaptureFixture[str]) -> None:
    with running(listing) as house:
        address = f"http://127.0.0.1:{house.provider.port}/v1"
        more = f'[providers.b]\nprotocol = "openai-chat"\nbase_url = "{address}"\n'
        configure(free_port(), more + '[providers.c]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\n')
        assert main(["models", "b/*"]) == 1
        assert "--live shows the models that the providers list" in capfd.readouterr().err
        assert main(["models", "b/*", "--live"]) == 0
        captured = capfd.readouterr()
    assert captured.out.splitlines()[1].split()[:4] == ["b/m", "-", "131072", "8192"]
    assert captured.err.startswith("dragoman: note: cannot list the models of c: ")


def test_names_alone_are_one_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "MIN", "--names"]) == 0
    assert capfd.readouterr().out == "mine\n"


def test_everything_has_its_column_and_a_name_of_several_targets_shows_theirs() -> None:
    targets = (
        DescribedTarget(target="a/m", window=200_000, output_cap=64_000, price=Price(input="3", output="15")),
        DescribedTarget(target="b/m", window=1_048_576, health="cooldown"),
    )
    names = [
        DescribedName(name="both", targets=targets, window=200_000, output_cap=64_000, capabilities={"tools": True}),
        DescribedName(name="one", targets=targets[:1], window=200_000, output_cap=64_000),
        DescribedName(name="nowhere"),
    ]
    assert [line.split() for line in as_table(names, SCREEN)][1:7] == [
        ["both", "200k", "64k", "-", "-", "tools"],
        ["a/m", "200k", "64k", "3/15", "-"],
        ["b/m", "1.05M", "-", "-", "cooldown"],
        ["one", "200k", "64k", "3/15", "-", "-"],
        ["a/m", "200k", "64k", "3/15", "-"],
        ["nowhere", "-", "-", "-", "-", "-"],
    ]
    assert max(map(len, list(as_table(names, replace(SCREEN, width=70)))[:7])) <= 70


@pytest.mark.parametrize(
    ("tokens", "text"),
    [(None, "-"), (512, "512"), (1000, "1k"), (32768, "32.8k"), (999_499, "999k"), (999_500, "1M"), (2_000_000, "2M")],
)
def test_sizes_are_told_in_three_digits(tokens: int | None, text: str) -> None:
    assert size_of(tokens) == text
