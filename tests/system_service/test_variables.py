"""Which variables of a shell a service needs."""

from __future__ import annotations

from pathlib import Path

from dragoman.config.config_file import ConfigFile, FileOrigin
from dragoman.providers.catalogue import catalogue
from dragoman.system_service.variables import named_variables, variables_for

TEXT = """
[providers.box]
protocol = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
api_key = ["$BOX_KEY", "${SPARE_KEY}", "$$NO_NAME", "plain"]
headers = { x-team = "$TEAM" }

[keys.laptop]
key = "$LAPTOP_KEY"
"""


def test_pitfall_625_what_the_configuration_names_is_known(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TEXT)
    assert named_variables(ConfigFile(path=file, origin=FileOrigin.NAMED)) == (
        "BOX_KEY",
        "SPARE_KEY",
        "TEAM",
        "LAPTOP_KEY",
    )
    assert named_variables(None) == ()


def test_pitfall_625_what_counts_without_being_named_is_taken_along_if_it_is_set() -> None:
    environ = {
        "BOX_KEY": "1",
        "OPENAI_API_KEY": "2",
        "ANTHROPIC_API_KEY": " ",
        "https_proxy": "3",
        "NO_PROXY": "4",
        "SSL_CERT_FILE": "5",
        "AWS_PROFILE": "6",
        "GOOGLE_APPLICATION_CREDENTIALS": "7",
        "CLOUD_ML_REGION": "8",
        "XDG_STATE_HOME": "9",
        "REQUESTS_CA_BUNDLE": "A",
        "CURL_CA_BUNDLE": "B",
        "HOME": "no",
        "PATH": "no",
        "DRAGOMAN_KEY": "no",
        "GITHUB_TOKEN_OF_SOMETHING": "no",
    }
    found = variables_for(("BOX_KEY", "SPARE_KEY"), environ, catalogue())
    assert "".join(sorted(found.values())) == "123456789AB"
    assert found == {name: environ[name] for name in found}
