"""Whose a listener is, and what it says of its models."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.launching.local_servers import find_local_models, foreign_user_at, models_at, port_of
from tests.gateway.harness import Reply, running, whole

# Seconds.
LONG = 60.0
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def table(tmp_path: Path, *owners: int, port: int = 11434) -> list[Path]:
    """What the system tells of a port, as its kernel writes it."""
    lines = (f"   {n}: 0100007F:{port:04X} 00000000:0000 0A 0:0 00:0 0 {uid} 0 1\n" for n, uid in enumerate(owners))
    file = tmp_path / "tcp"
    file.write_text(HEAD + "".join(lines))
    return [file]


def test_another_person_is_a_stranger(tmp_path: Path) -> None:
    other = 54321 if os.geteuid() != 54321 else 54322
    assert foreign_user_at(11434, table(tmp_path, other)) == other
    assert foreign_user_at(11434, table(tmp_path, os.geteuid(), other)) == other
    assert foreign_user_at(11435, table(tmp_path, other)) is None


def test_this_one_root_and_accounts_of_services_are_none(tmp_path: Path) -> None:
    # An installer of Ollama makes an account for it.
    assert foreign_user_at(11434, table(tmp_path, os.geteuid(), 0, 998)) is None


def test_where_the_system_does_not_tell_nobody_is(tmp_path: Path) -> None:
    assert foreign_user_at(11434, [tmp_path / "nothing"]) is None


def test_ports_of_addresses() -> None:
    assert [port_of(url) for url in ("http://a:1/v1", "http://a/v1", "https://a/v1")] == [1, 80, 443]


@pytest.mark.parametrize(
    ("reply", "models", "patience"),
    [
        (whole({"object": "list", "data": [{"id": "a"}, {"id": "b"}]}), ("a", "b"), LONG),
        (whole({"object": "list", "data": None}), (), LONG),
        (whole({"object": "list", "data": []}, 401), None, LONG),
        (whole(b"<html>"), None, LONG),
        (whole({"name": "dragoman"}), None, LONG),
        (Reply(raw=True, steps=(b"220 smtp ready\r\n",)), None, LONG),
        (Reply(steps=(LONG,)), None, 0.1),
    ],
)
def test_a_server_is_known_by_its_list(
    reply: Reply, models: tuple[str, ...] | None, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models_at, "__defaults__", (patience,))
    with running(lambda _: reply) as house:
        address = f"http://127.0.0.1:{house.provider.port}/v1"
        assert models_at(address) == models
        assert find_local_models({"x": address, "down": "http://127.0.0.1:1/v1"}) == (
            {} if models is None else {"x": models}
        )
    assert find_local_models({}) == {}
