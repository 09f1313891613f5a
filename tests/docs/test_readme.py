"""The Python and the configurations of the pages run as they stand; those of the gateway against a real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anthropic
import openai
import pytest

from dragoman import TranslatedRequest
from dragoman.config.config_file import ConfigFile, FileOrigin
from dragoman.config.load import read_settings
from dragoman.config.settings import Settings
from dragoman.providers.catalogue import catalogue
from tests.docs.bare import ROOT, gateway
from tests.docs.pages import Block, blocks

README, LIBRARY = ROOT / "README.md", ROOT / "docs/library.md"
PYTHON = blocks("python", [LIBRARY])
CLIENT = blocks("python client")
# Pages that show other files, or pieces of one, which are tested together (tests/house/test_configuration_page.py).
OTHERS = ("docs/clients/codex.md", "docs/adding-a-provider.md", "docs/configuration.md")
TOML = [block for block in blocks("toml") if not block.page.startswith(OTHERS)]
ADDRESS = "127.0.0.1:8484"
# Providers that pages speak of as the reader's own.
OWN = ("a", "b", "c", "local", "both")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway as `make run` starts it, but for the port."""
    with gateway(tmp_path_factory.mktemp("home")) as found:
        yield found


def test_there_are_examples_of_every_kind() -> None:
    assert len(PYTHON) >= 2
    assert [block.page for block in CLIENT] == ["README.md"]
    assert {"README.md", "docs/local-models.md", "docs/routing.md"} <= {block.page for block in TOML}


@pytest.mark.parametrize("example", PYTHON, ids=str)
def test_python_examples_run(example: Block) -> None:
    sent: list[bytes] = []
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    names: dict[str, object] = {"upstream_bytes": [error[:20], error[20:]], "send": sent.append, "body": body}
    exec(example.text, names)
    assert "out" in names
    assert not sent or b"busy" in b"".join(sent)


@pytest.mark.parametrize("example", CLIENT, ids=str)
def test_clients_of_the_gateway_are_answered(example: Block, address: str) -> None:
    names: dict[str, object] = {}
    exec(example.text.replace(ADDRESS, address), names)
    claude, gpt = names["claude"], names["gpt"]
    assert isinstance(claude, anthropic.Anthropic)
    assert isinstance(gpt, openai.OpenAI)
    # Their connections must not be left to the collector.
    claude.close()
    gpt.close()
    assert "You said: Hello" in str(names["message"])
    assert "Hello" in str(names["answer"])


@pytest.mark.parametrize("example", TOML, ids=str)
def test_configurations_are_good(example: Block, tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    own = [f'[providers.{name}]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"' for name in OWN]
    tables = [table for name, table in zip(OWN, own, strict=True) if f"[providers.{name}" not in example.text]
    file.write_text("\n".join([example.text, *tables]), encoding="utf-8")
    known = catalogue()
    # As if every key that they speak of were there.
    named = [name for listing in known.values() for name in listing.env]
    environ = dict.fromkeys(named, "sk-0123456789abcdef")
    environ |= {"DATABASE_URL": "postgresql:///dragoman", "HOME": str(tmp_path)}
    settings = read_settings(ConfigFile(path=file, origin=FileOrigin.NAMED), environ, known)
    assert isinstance(settings, Settings)
    assert {"openai", "local", "echo"} <= set(settings.providers)


def test_the_first_example_gives_what_its_comments_say() -> None:
    names: dict[str, object] = {"upstream_bytes": [], "send": lambda _: None}
    exec(PYTHON[0].text, names)
    out = names["out"]
    assert isinstance(out, TranslatedRequest)
    assert out.headers == {"anthropic-version": "2026-10-21"}
    assert '{"anthropic-version": "2026-10-21"}' in PYTHON[0].text
    assert [(loss["fate"], loss["feature"], loss["at"]) for loss in out.losses] == [
        ("dropped", "sampling", "sampling.seed")
    ]
