"""The writer of a worker is made by the settings, and knows the keys of providers."""

from __future__ import annotations

import io
from pathlib import Path

from msgspec.structs import replace

from dragoman.config.settings import Contents, Settings, Storage
from dragoman.contents.archive import open_archive
from dragoman.contents.exchange_contents import BodySide, ExchangeContents
from dragoman.contents.redaction import ContentsRedactor
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.processes.contents_recording import contents_retention, contents_writer, redactor_of
from dragoman.providers.provider import Endpoint, Provider
from tests.gateway.harness import CHAT
from tests.waiting import wait_until

KEY = "a provider's key: one"


def settings(place: Path, record: str) -> Settings:
    provider = Provider(
        name="p",
        endpoints=(Endpoint(protocol=CHAT, base_url="http://127.0.0.1:9"),),
        keys=(KEY,),
        headers={"x-team-token": "Custom header-secret", "x-team": "team-of-everyone"},
    )
    storage = Storage(path=str(place / "state.db"))
    contents = Contents(record=record, redact=("ACME-[0-9]{4}",))
    return Settings(file="", providers={"p": provider}, storage=storage, contents=contents)


def test_without_the_setting_there_is_no_writer_and_no_file(tmp_path: Path) -> None:
    log = Log(io.StringIO())
    assert contents_writer(settings(tmp_path, "off"), log) is None
    assert contents_writer(replace(settings(tmp_path, "on"), storage=Storage(path=":memory:")), log) is None
    assert list(tmp_path.iterdir()) == []


def test_keys_of_providers_and_patterns_are_redacted(tmp_path: Path) -> None:
    cleaned = redactor_of(settings(tmp_path, "on")).clean(f"{KEY} header-secret team-of-everyone ACME-1234".encode())
    assert cleaned == b"[redacted:secret:21] [redacted:secret:13] team-of-everyone [redacted:pattern:9]"


def test_the_writer_writes(tmp_path: Path) -> None:
    writer = contents_writer(settings(tmp_path, "on"), Log(io.StringIO()))
    assert writer is not None
    capture = writer.begin("req_1", 10**15 * 2, "ann")
    capture.add(BodySide.CLIENT_REQUEST, KEY.encode())
    writer.submit(capture)
    assert writer.close(60.0)
    assert (writer.written, writer.problem) == (1, "")
    assert not any(KEY.encode() in path.read_bytes() for path in tmp_path.iterdir())


def test_a_file_with_old_contents_has_retention_while_none_are_stored(tmp_path: Path) -> None:
    log = Log(io.StringIO())
    assert contents_retention(settings(tmp_path, "off"), log) is None
    place = str(tmp_path / "state.db")
    archive = open_archive(place, ContentsRedactor(), key="a key of the former settings")
    for name, time in (("old", 0), ("new", 1 << 60)):
        archive.write(ExchangeContents(id=name, time=time, key="ann", reason="too large"))
    assert contents_retention(settings(tmp_path, "on"), log) is None
    retention = contents_retention(settings(tmp_path, "off"), log)
    assert retention is not None
    retention.start()
    wait_until(lambda: archive.tables.oldest(9) == ["new"], "the retention")
    assert retention.close(60.0)
    archive.close()
