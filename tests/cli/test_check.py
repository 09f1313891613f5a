"""`dragoman check` as a user runs it."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.config.settings import Settings
from dragoman.identities.changes import LOCAL_MAKER, ConfiguredNames
from dragoman.identities.key_text import digest_of
from dragoman.identities.members import KeyMembers
from tests.cli.machine import SECRET, clean, put_trusted
from tests.cli.screens import on_screen
from tests.server.process import clean_environment
from tests.store.opened import opened

FILE = f"""\
[server]
strict = "all"
[providers.openai]
api_key = ["{SECRET}", "sk-2"]
[providers.local]
protocol = ["openai-chat", "anthropic-messages"]
base_url = "http://127.0.0.1:8000/v1"
[models]
"mine-*" = {{ to = "local/*", strict = true }}
[keys.laptop]
hash = "sha256:{"0" * 64}"
"""


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)


def put(text: str, mode: int = 0o600) -> None:
    """Write the file that will be found."""
    put_trusted(Path(), text, mode=mode)


def test_pitfall_736_lists_of_keys_with_names_that_do_not_exist_are_warned_about(
    capfd: pytest.CaptureFixture[str],
) -> None:
    put(FILE + 'models = ["mine-a", "yours"]\nproviders = ["locl"]\n')
    assert main(["check"]) == 0
    assert capfd.readouterr().err.splitlines() == [
        "dragoman: warning: the key laptop may use yours, which matches no model name",
        "dragoman: warning: the key laptop may use the provider locl, which does not exist; did you mean local?",
    ]


def test_a_good_file_is_summed_up(capfd: pytest.CaptureFixture[str]) -> None:
    put(FILE)
    assert main(["check"]) == 0
    captured = capfd.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "file\tdragoman.toml"
    assert lines[1] == 'address\thttp://127.0.0.1:8484 strict = "all"'
    assert lines[2] == "keys\t1"
    assert lines[3].startswith("providers\topenai\t")
    assert lines[3].endswith("; 2 keys")
    assert lines[4] == "providers\tlocal\topenai-chat, anthropic-messages; no key"
    assert lines[5] == "models\tmine-*\tlocal/* strict"
    assert SECRET not in captured.out + captured.err
    assert captured.err == ""


def test_pitfall_392_a_price_that_is_far_from_the_book_is_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    put(f'{FILE}[prices."openai/gpt-5.1"]\ninput = 0.00000125\noutput = 9\n')
    assert main(["check"]) == 1
    assert "at most 6 decimals" in capfd.readouterr().err
    put(f'{FILE}[prices."openai/gpt-5.1"]\ninput = 0.000002\noutput = 9\n[prices."anthropic/x"]\ninput = 1\n')
    assert main(["check"]) == 0
    first, second = capfd.readouterr().err.splitlines()
    assert first == (
        'dragoman: warning: prices."openai/gpt-5.1".input is 0.000002, and 1.25 in the price book: '
        "prices are US dollars for a million tokens, and for one request or search"
    )
    assert second == 'dragoman: warning: prices."anthropic/x" is of the provider "anthropic", which is not set up'


@pytest.mark.parametrize("columns", [80, 140])
def test_the_summary_fits_a_terminal(columns: int, tmp_path: Path) -> None:
    put_trusted(tmp_path, FILE, clean_environment(tmp_path))
    seen = on_screen(["check"], tmp_path, columns=columns)
    lines = seen.plain.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[:3] == ["file       dragoman.toml", 'address    http://127.0.0.1:8484 strict = "all"', "keys       1"]
    assert lines[3].startswith("providers  openai  ")
    assert "           local   openai-chat, anthropic-messages; no key" in lines
    assert "models     mine-*  local/* strict" in lines


def test_keys_that_are_all_revoked_let_nobody_in(capfd: pytest.CaptureFixture[str]) -> None:
    put("[keys]\n")
    assert main(["check"]) == 0
    assert "keys\tnone, but [keys] exists: every request is rejected" in capfd.readouterr().out


def test_no_file_is_no_problem(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    out = capfd.readouterr().out
    assert "none: environment variables only" in out
    assert "echo" in out


def test_keys_that_others_can_read_are_warned_of(capfd: pytest.CaptureFixture[str]) -> None:
    put(FILE, 0o644)
    assert main(["check"]) == 0
    err = capfd.readouterr().err
    assert err.startswith("dragoman: warning: dragoman.toml holds keys and can be read by others")


def test_every_problem_has_a_line_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    put(f'[server]\nprot = 1\n[providers.openai]\napi_key = "{SECRET} "\n[timeouts]\nidle = "long"\n')
    assert main(["check"]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert [line.split(": ")[:3] for line in captured.err.splitlines()] == [
        ["dragoman", "dragoman.toml:2", "server.prot"],
        ["dragoman", "dragoman.toml:4", "providers.openai.api_key"],
        ["dragoman", "dragoman.toml:6", "timeouts.idle"],
    ]
    assert SECRET not in captured.err


def test_what_is_missing_is_an_error_for_who_asks(capfd: pytest.CaptureFixture[str]) -> None:
    put(
        '[providers.openai]\n[providers.anthropic]\napi_key = ["$ONE", "sk-2"]\n'
        '[models]\ncheap = { policy = "cheapest", targets = ["openai/gpt-5.1"] }\n'
    )
    assert main(["check"]) == 1
    captured = capfd.readouterr()
    assert "left out\topenai\tthe environment variable OPENAI_API_KEY is not set\n" in captured.out
    assert "gpt-*" not in captured.out
    assert captured.err.splitlines()[-2:] == [
        "dragoman: dragoman.toml:1: providers.openai.api_key: the environment variable OPENAI_API_KEY is not set "
        "(export OPENAI_API_KEY=…)",
        "dragoman: dragoman.toml:3: providers.anthropic.api_key: the environment variable ONE is not set "
        "(export ONE=…)",
    ]
    assert "is left out" not in captured.err


def test_a_named_file_must_be_there(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--config", "other.toml"]) == 1
    assert "other.toml: cannot be read: No such file" in capfd.readouterr().err


@pytest.mark.parametrize(("ok", "status"), [(True, 0), (False, 1)])
def test_live_tells_how_each_provider_answers(
    ok: bool, status: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def check_live(settings: Settings) -> list[tuple[str, str, bool, str]]:
        assert "echo" in settings.providers
        return [("echo", "openai-chat", True, "answers"), ("local", "anthropic-messages", ok, "said \x1b[2J")]

    live = types.ModuleType("dragoman.gateway.provider_probe")
    vars(live)["check_live"] = check_live
    monkeypatch.setitem(sys.modules, "dragoman.gateway.provider_probe", live)
    assert main(["check", "--live"]) == status
    lines = capfd.readouterr().out.splitlines()
    assert lines[-2] == "ok\techo\topenai-chat\tanswers"
    assert lines[-1] == f"{'ok' if ok else 'failed'}\tlocal\tanthropic-messages\tsaid \\x1b[2J"


PRICED = """\
[providers.local]
protocol = "openai-chat"
base_url = "http://127.0.0.1:8000/v1"
[providers.openai]
api_key = "sk-1"
[models]
"order" = ["local/a@openai-chat", "openai/gpt-5.1"]
"mine-*" = { policy = "cheapest", targets = ["local/*", "openai/gpt-5.1"] }
"cheap" = { policy = "cheapest", targets = ["local/a", "openai/gpt-5.1", "local/said"] }
"faithful" = { policy = "least-loss", targets = ["local/b", "openai/gpt-5.1"] }
"limited" = { targets = ["openai/gpt-5.1", "order"], max_cost = 0.05 }
[prices."local/said"]
input = 0
output = 0
"""


def test_pitfall_416_targets_without_a_price_are_listed_where_a_line_goes_by_prices(
    capfd: pytest.CaptureFixture[str],
) -> None:
    put(PRICED)
    assert main(["check"]) == 0
    assert capfd.readouterr().err.splitlines() == [
        'dragoman: warning: models.cheap: the price of local/a is unknown: it comes last; set it in [prices."local/a"]',
        "dragoman: warning: models.faithful: the price of local/b is unknown: it comes last; "
        'set it in [prices."local/b"]',
        "dragoman: warning: models.limited: the price of local/a is unknown: it does not pass max_cost; "
        'set it in [prices."local/a"]',
    ]


def test_pitfall_416_every_target_that_is_named_and_has_no_price_is_listed(capfd: pytest.CaptureFixture[str]) -> None:
    put(PRICED)
    assert main(["check"]) == 0
    rows = [line.split("\t") for line in capfd.readouterr().out.splitlines()]
    assert [row[1] for row in rows if row[0] == "no price"] == ["local/a", "local/b"]
    assert 'set it in [prices."local/a"]' in next(row[2] for row in rows if row[0] == "no price")


def test_pitfall_369_what_rules_lead_to_must_have_a_price_where_there_is_a_limit(
    capfd: pytest.CaptureFixture[str],
) -> None:
    rule = '[[models."ruled".rules]]\nwhen = { tools = true }\nto = "local/c"\n'
    put(PRICED.partition("[models]")[0] + f'[models."ruled"]\nto = "openai/gpt-5.1"\nmax_cost = 1\n{rule}')
    assert main(["check"]) == 0
    assert "models.ruled: the price of local/c is unknown: it does not pass max_cost" in capfd.readouterr().err


def test_a_window_that_nobody_knows_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    put(PRICED.partition('"mine-*"')[0])
    assert main(["check"]) == 0
    assert capfd.readouterr().err == ""


COLLECTOR = '[telemetry]\nendpoint = "http://127.0.0.1:4318"\nsample_ratio = 0.1\n'


def test_a_collector_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    put(FILE + COLLECTOR)
    assert main(["check"]) == 0
    captured = capfd.readouterr()
    assert "telemetry\t0.1 of all requests to http://127.0.0.1:4318" in captured.out.splitlines()
    assert captured.err == ""


def test_a_collector_without_the_extra_is_an_error_with_the_remedy(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    put(FILE + COLLECTOR)
    assert main(["check"]) == 1
    captured = capfd.readouterr()
    assert captured.err == (
        "dragoman: dragoman.toml:13: telemetry.endpoint: "
        "sending spans needs OpenTelemetry's SDK, which is not installed "
        "(install dragoman from its clone with that extra: '.[otel]' in place of .)\n"
    )
    assert "telemetry" not in captured.out


def test_a_key_of_the_file_that_the_database_has_too_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    put(f'[storage]\npath = "state.db"\n{FILE}')
    with opened("state.db") as tables:
        for name, text in (("laptop", "text of laptop"), ("free", "text of free")):
            tables.identity_changes.create(
                name, KeyMembers(), digest_of(text), maker=LOCAL_MAKER, configured=ConfiguredNames()
            )
    assert main(["check"]) == 1
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("dragoman: dragoman.toml: keys.laptop: the database has a key with the same name")
    assert line.endswith("revoke the other: dragoman key revoke laptop)")
    with opened("state.db") as tables:
        tables.identity_changes.revoke("laptop", maker=LOCAL_MAKER)
    assert main(["check"]) == 0
    assert capfd.readouterr().err == ""


def test_keys_of_the_database_are_counted(capfd: pytest.CaptureFixture[str]) -> None:
    def keys() -> str:
        assert main(["check"]) == 0
        captured = capfd.readouterr()
        assert captured.err == ""
        (line,) = (line for line in captured.out.splitlines() if line.startswith("keys\t"))
        return line.removeprefix("keys\t")

    put('[storage]\npath = "state.db"\n')
    assert keys() == "none: every client that reaches the gateway may use it"
    assert not Path("state.db").exists()
    with opened("state.db") as tables:
        assert keys() == "none: every client that reaches the gateway may use it"
        for name in ("one", "two"):
            tables.identity_changes.create(
                name, KeyMembers(), digest_of(name), maker=LOCAL_MAKER, configured=ConfiguredNames()
            )
    assert keys() == "2 in the database"
    put(f'[storage]\npath = "state.db"\n{FILE}')
    assert keys() == "1 in the configuration, 2 in the database"
    put('[storage]\npath = "state.db"\n')
    with opened("state.db") as tables:
        tables.identity_changes.revoke("one", maker=LOCAL_MAKER)
    assert keys() == "1 in the database"
    with opened("state.db") as tables:
        tables.identity_changes.revoke("two", maker=LOCAL_MAKER)
    assert keys() == "none, but the database has revoked or expired ones: every request is rejected"


@pytest.mark.parametrize(("text", "count"), [(FILE, "1"), ("", "none")])
def test_keys_of_a_database_that_cannot_be_read_are_a_warning(
    text: str, count: str, capfd: pytest.CaptureFixture[str]
) -> None:
    put(f'[storage]\npath = "state.db"\n{text}')
    Path("state.db").write_bytes(b"no database" * 100)
    assert main(["check"]) == 0
    captured = capfd.readouterr()
    assert f"keys\t{count} in the configuration; cannot read those of the database" in captured.out.splitlines()
    (warning,) = captured.err.splitlines()
    assert warning.startswith("dragoman: warning: cannot read gateway keys from ")
