"""`--gateway` selects an admin API and its key; without it a command reads the file of its machine."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from dragoman.cli.admin_option import add_admin_gateway, admin_client
from dragoman.errors import DragomanError, UsageError


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_admin_gateway(parser)
    return parser.parse_args(words)


def test_without_a_gateway_there_is_no_client() -> None:
    assert admin_client(options()) is None


def test_an_address_gets_the_key_of_the_environment_or_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRAGOMAN_KEY", "a key of the environment")
    file = tmp_path / "key"
    file.write_text("a key of a file\n", encoding="utf-8")
    for words, key in (((), "a key of the environment"), (("--key-file", str(file)), "a key of a file")):
        client = admin_client(options("--gateway", "https://llm.example.org/x/", *words))
        assert client is not None
        assert (client.address, client._headers) == ("https://llm.example.org/x", {"authorization": f"Bearer {key}"})
    assert capfd.readouterr().err == ""


def test_a_key_in_clear_text_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRAGOMAN_KEY", "a key of the environment")
    assert admin_client(options("--gateway", "http://llm.example.org")) is not None
    assert "in clear text" in capfd.readouterr().err


def test_a_gateway_without_keys_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGOMAN_KEY", raising=False)
    client = admin_client(options("--gateway", "http://127.0.0.1:1"))
    assert client is not None
    assert client._headers == {}


def test_what_is_no_address_and_no_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--gateway: "):
        admin_client(options("--gateway", "nowhere"))
    with pytest.raises((OSError, DragomanError)):
        admin_client(options("--gateway", "http://127.0.0.1:1", "--key-file", "nowhere"))
