"""Configuration: the file is read when it has changed and rests; what may not be applied is told, and nothing more."""

from __future__ import annotations

import io
import json
from pathlib import Path

from msgspec.structs import replace

from dragoman.config.config_file import fingerprint
from dragoman.config.settings import Server, Settings
from dragoman.errors import ConfigError
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.processes.config_reload import Configuration, WorkerSettings
from dragoman.gateway.workers.protection import protection_of
from dragoman.gateway.workers.shared_memory import SharedMemory
from tests.identities.holders import holder

NONE = Settings(file="dragoman.toml")
KEYED = replace(NONE, keys_table=True, keys=(holder("a", b"a"),))
OTHER = replace(NONE, keys_table=True, keys=(holder("b", b"b"),))


class Followed:
    """A file, what is read from it, and how often."""

    def __init__(self, directory: Path, settings: Settings = NONE) -> None:
        self.file = directory / "dragoman.toml"
        self.file.write_text("a")
        self.settings = settings
        self.out = io.StringIO()
        self.page = SharedMemory(2)
        self.readings = 0

    def duty(self) -> WorkerSettings:
        return WorkerSettings(
            read=self.read,
            log=Log(self.out, json=True),
            protection=protection_of(self.settings),
            fingerprint=lambda: fingerprint(self.file),
            page=self.page,
        )

    def read(self) -> Settings:
        self.readings += 1
        if self.file.read_text() == "bad":
            raise ConfigError(file="dragoman.toml", line=1, key="", problem="is not TOML", remedy="write TOML")
        return self.settings

    def events(self) -> list[str]:
        return [str(json.loads(line)["event"]) for line in self.out.getvalue().splitlines()]


def test_a_file_is_read_once_it_rests_and_not_again(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    followed_by = Configuration(followed.duty(), NONE)
    assert [followed_by.poll() for _ in range(3)] == [False] * 3
    followed.file.write_text("half")
    assert not followed_by.poll()
    followed.file.write_text("the whole")
    assert not followed_by.poll()
    assert followed.readings == 0
    assert followed_by.poll()
    assert not followed_by.poll()
    assert followed.readings == 1
    assert followed_by.seen == fingerprint(followed.file)


def test_a_bad_file_is_told_once_and_read_again_when_it_is_another(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    followed_by = Configuration(followed.duty(), NONE)
    followed.file.write_text("bad")
    assert not any(followed_by.poll() for _ in range(4))
    assert followed.events() == ["cannot reload configuration: it has errors"]
    assert followed_by.settings == NONE
    followed.file.write_text("good")
    assert [followed_by.poll() for _ in range(2)] == [False, True]


def test_what_changed_before_it_was_followed_is_caught_up_with(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    duty = replace(followed.duty(), seen=fingerprint(followed.file))
    assert not Configuration(duty, NONE).catch_up()
    followed.file.write_text("another")
    assert Configuration(duty, NONE).catch_up()


def test_without_a_file_only_a_signal_makes_it_read(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    followed_by = Configuration(replace(followed.duty(), fingerprint=None), NONE)
    followed.file.write_text("another")
    assert not any((followed_by.catch_up(), followed_by.poll(), followed_by.poll()))
    assert followed_by.reload()


def test_whoever_is_quiet_follows_and_says_nothing(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    quiet = Configuration(followed.duty(), NONE, quiet=True)
    followed.settings = replace(KEYED, server=Server(port=1), warnings=("this should be known",))
    assert quiet.reload()
    assert quiet.protection.requires_keys
    assert quiet.settings.server.port == Server().port
    followed.file.write_text("bad")
    assert not quiet.reload()
    assert followed.events() == []


def test_what_one_process_has_come_to_the_others_keep_to(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    one, other = (Configuration(followed.duty(), NONE) for _ in range(2))
    followed.settings = KEYED
    assert one.reload()
    # The other one never saw the keys: by the time that it reads, they are gone.
    followed.settings = NONE
    assert not one.reload()
    assert not other.reload()
    assert one.protection.requires_keys
    assert other.protection.requires_keys
    assert Configuration(followed.duty(), NONE).protection.requires_keys


def test_owners_that_one_process_knew_are_told_apart_by_the_others(tmp_path: Path) -> None:
    followed = Followed(tmp_path, KEYED)
    one, other = (Configuration(followed.duty(), KEYED) for _ in range(2))
    followed.settings = OTHER
    assert one.reload()
    assert one.protection.several_owners
    followed.settings = KEYED
    assert other.reload()
    assert other.protection.several_owners
    assert Configuration(followed.duty(), KEYED).protection.several_owners
