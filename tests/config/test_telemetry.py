"""`[telemetry]`: a collector with its headers, or everything that is wrong with it; what it lacks leaves it out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman.config.settings import Telemetry
from dragoman.config.telemetry import sends_in_clear
from tests.config.support import SECRET, problems_of, settings_of

WHOLE = """
[telemetry]
endpoint = "https://collector.example.org/otlp/"
headers = { Authorization = "$COLLECTOR", x-team = "blue" }
sample_ratio = 0.25
service_name = "gateway-1"
attributes = { "deployment.environment.name" = "production" }
"""


def test_everything_can_be_said(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, WHOLE, {"COLLECTOR": f"Bearer {SECRET}"})
    assert settings.telemetry == Telemetry(
        endpoint="https://collector.example.org/otlp",
        headers={"authorization": f"Bearer {SECRET}", "x-team": "blue"},
        sample_ratio=0.25,
        service_name="gateway-1",
        attributes={"deployment.environment.name": "production"},
    )
    assert settings.missing == ()
    assert SECRET not in repr(settings.telemetry)


@pytest.mark.parametrize("text", ["", "[telemetry]\n"], ids=["no table", "an empty one"])
def test_nobody_is_told_anything_by_default(tmp_path: Path, text: str) -> None:
    # Other programs on the machine have a telemetry of their own.
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "otlp"}
    assert settings_of(tmp_path, text, environ).telemetry == Telemetry()


def test_an_address_may_be_in_the_environment(tmp_path: Path) -> None:
    text = '[telemetry]\nendpoint = "$OTEL_EXPORTER_OTLP_ENDPOINT"\n'
    settings = settings_of(tmp_path, text, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
    assert settings.telemetry.endpoint == "http://127.0.0.1:4318"


@pytest.mark.parametrize(
    ("text", "key", "variable"),
    [
        ('endpoint = "$COLLECTOR"', "telemetry.endpoint", "COLLECTOR"),
        ('endpoint = "http://a"\nheaders = { authorization = "$TOKEN" }', "telemetry.headers", "TOKEN"),
    ],
)
def test_without_its_variable_it_is_left_out_and_the_rest_is_served(
    tmp_path: Path, text: str, key: str, variable: str
) -> None:
    settings = settings_of(tmp_path, f"[telemetry]\n{text}\n")
    assert settings.telemetry == Telemetry()
    (missing,) = settings.missing
    assert (missing.key, missing.variable) == (key, variable)
    assert missing.line > 1
    assert f"telemetry is left out: the environment variable {variable} is not set" in settings.warnings[0]


def test_without_the_extra_it_is_left_out_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    settings = settings_of(tmp_path, '[telemetry]\nendpoint = "http://127.0.0.1:4318"\n')
    assert settings.telemetry == Telemetry()
    assert settings.warnings[:1] == (
        "telemetry is left out: sending spans needs OpenTelemetry's SDK, which is not installed "
        "(install dragoman from its clone with that extra: '.[otel]' in place of .)",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('service_name = "x"', "telemetry.endpoint is missing"),
        ('endpoint = "collector:4318"', "telemetry.endpoint expected an address with http:// or https://"),
        ('endpoint = "https://me:secret@collector"', "telemetry.endpoint expected an address without credentials"),
        ('endpoint = "$UNFIT"', "telemetry.endpoint expected an address with http:// or https://"),
        ("endpoint = 4318", "telemetry.endpoint expected a string, got an integer"),
        ('endpoint = "http://a"\nsample_ratio = 2', "telemetry.sample_ratio expected a number from 0 to 1"),
        ('endpoint = "http://a"\nheaders = { "a b" = "c" }', "telemetry.headers expected a header name"),
        ('endpoint = "http://a"\nheaders = { a = "$BROKEN" }', "telemetry.headers a holds a character that no header"),
        ('endpoint = "http://a"\nattributes = ["a"]', "telemetry.attributes expected a table of names and strings"),
        ('endpoint = "http://a"\nattributes = { a = 1 }', "telemetry.attributes expected a string"),
        ('endpoint = "http://a"\nratio = 1', "telemetry.ratio is not a known key"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(tmp_path: Path, text: str, problem: str) -> None:
    told = problems_of(tmp_path, f"[telemetry]\n{text}\n", {"UNFIT": SECRET, "BROKEN": "a\nb"})
    assert len(told) == 1
    assert problem in str(told[0]).replace(": ", " ")
    assert SECRET not in str(told[0])


def test_credentials_of_an_address_belong_into_headers(tmp_path: Path) -> None:
    (told,) = problems_of(tmp_path, '[telemetry]\nendpoint = "https://me:secret@collector"\n')
    assert "put them into headers" in str(told)
    assert "secret" not in str(told)


@pytest.mark.parametrize(
    ("endpoint", "headers", "clear"),
    [
        ("http://collector.example.org", {"authorization": "x"}, True),
        ("http://collector.example.org", {}, False),
        ("http://127.0.0.1:4318", {"authorization": "x"}, False),
        ("https://collector.example.org", {"authorization": "x"}, False),
    ],
)
def test_headers_in_clear_text_are_warned_of(endpoint: str, headers: dict[str, str], clear: bool) -> None:
    assert sends_in_clear(Telemetry(endpoint=endpoint, headers=headers)) is clear


def test_a_warning_says_so(tmp_path: Path) -> None:
    text = '[telemetry]\nendpoint = "http://collector.example.org"\nheaders = { x-key = "$K" }\n'
    assert (
        "telemetry.endpoint gets its headers in clear text: use https://"
        in settings_of(tmp_path, text, {"K": "1"}).warnings
    )


@pytest.mark.parametrize("storage", ["record_requests = false", 'path = ":memory:"'])
def test_without_records_there_is_nothing_to_tell(tmp_path: Path, storage: str) -> None:
    text = f'[telemetry]\nendpoint = "http://127.0.0.1:4318"\n[storage]\n{storage}\n'
    told = "telemetry exports request records, and there are none: [storage] has record_requests = false or no file"
    assert told in settings_of(tmp_path, text, {"HOME": str(tmp_path)}).warnings
    assert told not in settings_of(tmp_path, text.partition("[storage]")[0], {"HOME": str(tmp_path)}).warnings
