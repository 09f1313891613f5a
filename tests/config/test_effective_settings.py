"""Which settings are not default, and from where each is."""

from __future__ import annotations

from pathlib import Path

from dragoman.config.config_file import ConfigFile, FileOrigin
from dragoman.config.effective_settings import list_effective_settings
from dragoman.config.load import read_settings
from dragoman.providers.catalogue import catalogue

SECRET = "sk-0123456789abcdef-secret"
TEXT = f"""\
[server]
port = 9000
strict = false
allowed_hosts = ["a.example.org", "b.example.org"]

[timeouts]
connect = "5 s"
idle = 120

[providers.box]
protocol = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
api_key = "{SECRET}"

[models]
"mine-*" = "box/*"

[keys.me]
key = "{SECRET}"

[telemetry]
endpoint = "http://127.0.0.1:4318"
headers = {{ authorization = "{SECRET}" }}
"""


def told(tmp_path: Path, text: str, environ: dict[str, str], *said: str) -> list[str]:
    """The settings of a file, in words."""
    path = tmp_path / "x.toml"
    path.write_text(text)
    path.chmod(0o600)
    file = ConfigFile(path=path, origin=FileOrigin.NAMED)
    settings = read_settings(file, environ, catalogue())
    found = list_effective_settings(settings, file, environ, catalogue(), said)
    return [str(setting).replace(str(path), "x.toml") for setting in found]


def test_pitfall_633_every_setting_that_is_not_default_is_told_with_its_source(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": SECRET, "HOME": str(tmp_path)}
    assert told(tmp_path, TEXT, environ) == [
        "server.port = 9000 (x.toml:2)",
        "server.allowed_hosts = a.example.org, b.example.org (x.toml:4)",
        "timeouts.connect = 5 (x.toml:7)",
        "providers.box.protocol (x.toml:11)",
        "providers.box.base_url (x.toml:12)",
        "providers.box.api_key (x.toml:13)",
        'models."mine-*" (x.toml:16)',
        "keys.me (x.toml:18)",
        "telemetry.endpoint (x.toml:22)",
        "telemetry.headers (x.toml:23)",
        "providers.openai (the variable OPENAI_API_KEY)",
    ]


def test_pitfall_633_a_flag_is_a_source_whatever_the_file_says(tmp_path: Path) -> None:
    assert told(tmp_path, "[server]\nport = 9000\nworkers = 2\n", {}, "port") == [
        "server.port = 9000 (--port)",
        "server.workers = 2 (x.toml:3)",
    ]


def test_nothing_is_told_of_what_is_as_ever(tmp_path: Path) -> None:
    assert told(tmp_path, "[server]\nport = 8484\n", {}) == []
    assert list_effective_settings(read_settings(None, {}, catalogue()), None, {}, catalogue()) == []
