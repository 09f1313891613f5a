"""The page about the mock tells what it does: every word, every model, and an example that runs."""

from __future__ import annotations

import re
from pathlib import Path

import openai

from dragoman.mock.answers.models import ECHO_MODELS
from dragoman.mock.script import WORDS, parse, script_in
from dragoman.mock.script_player import PREFIX
from tests.docs.pages import blocks
from tests.mock.asking import mock_running

PATH = Path(__file__).parents[2] / "docs/mock.md"
PAGE = PATH.read_text(encoding="utf-8")


def test_every_word_of_a_script_is_told() -> None:
    assert set(re.findall(r"^\| `([a-z]+)[^`]*` \|", PAGE, re.MULTILINE)) == WORDS


def test_every_model_is_told() -> None:
    assert set(re.findall(r"`(mock-[a-z]+)`", PAGE)) == {PREFIX + name for name in ECHO_MODELS}


def test_the_script_of_the_page_can_be_read() -> None:
    (block,) = (block for block in blocks("", [PATH]) if "Please tidy up" in block.text)
    script = script_in(block.text)
    assert script is not None and len(parse(script)) == 3


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    with mock_running() as mock:
        exec(compile(example.replace("127.0.0.1:4100", mock.address), "mock.md", "exec"), names)
        client = names["client"]
        assert isinstance(client, openai.OpenAI)
        # Its connection must not be left to the collector, which tells another test of it.
        client.close()
