"""docs/configuration.md says what can be configured, and its examples can be used."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from dragoman.config.config_file import ConfigFile, FileOrigin
from dragoman.config.load import read_settings
from dragoman.providers.catalogue import catalogue
from tools.configuration_page import EXAMPLES, PAGE, SECTIONS, Section, comments_of, page

ENVIRON = {name: "sk-0123456789abcdef" for name in ("OPENAI_API_KEY", "OPENAI_SECOND_KEY", "BOTH_KEY", "LAPTOP_KEY")}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.heading)
def test_every_key_is_described(section: Section) -> None:
    comments = comments_of(section.struct)
    assert all(comments[name] for name in section.kinds)


def test_the_examples_are_one_good_file(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("\n".join(EXAMPLES.values()), encoding="utf-8")
    settings = read_settings(ConfigFile(path=file, origin=FileOrigin.NAMED), ENVIRON, catalogue())
    assert {"openai", "ollama", "local", "both", "echo"} <= set(settings.providers)
    assert len(settings.providers["local"].capabilities) == 1
    assert [key.name for key in settings.keys] == ["laptop", "server"]


def test_every_block_of_the_page_is_toml() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == len(SECTIONS)
    assert all(map(tomllib.loads, blocks))
