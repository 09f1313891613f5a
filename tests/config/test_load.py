"""The whole file, as an operator writes it."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import file_schema
from dragoman.config.load import read_settings
from dragoman.config.settings import Limits, RouteConfig, Routing, Server, Settings, Storage, Timeouts
from dragoman.errors import ConfigError, ConfigErrors
from dragoman.identities.key_text import digest_of
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.providers.catalogue import catalogue
from dragoman.routing.policies import POLICIES
from tests.config.support import CATALOGUE, SECRET, A, C, named, problems_of, settings_of
from tests.identities.holders import holder

WHOLE = """\
# dragoman.toml
[server]
host = "127.0.0.1"
port = 8484

[providers.openai]                 # a name from the catalogue
api_key = "$OPENAI_API_KEY"

[providers.local]                  # anything else
protocol = "openai-chat"
base_url = "http://127.0.0.1:8000/v1"
api_key  = "none"

[models]
"gpt-5.1"   = "openai/gpt-5.1"
"claude-*"  = "anthropic/*"
"local/*"   = "local/*"

[keys.laptop]
key = "$LAPTOP_KEY"

[timeouts]
connect = 10
first_byte = 300
idle = "2 min"
total = 1800

[limits]
request_body = "16 MiB"
"""
ENVIRON = {"OPENAI_API_KEY": "sk-1", "LAPTOP_KEY": "dgm_0123456789abcdef", "ANTHROPIC_API_KEY": "sk-2"}


def test_a_file_as_people_write_it(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, WHOLE, ENVIRON)
    assert settings.file == str(tmp_path / "dragoman.toml")
    assert settings.server == Server()
    assert list(settings.providers) == ["openai", "local", "anthropic", "echo"]
    assert settings.routes == (
        RouteConfig(pattern="gpt-5.1", targets=("openai/gpt-5.1",)),
        RouteConfig(pattern="claude-*", targets=("anthropic/*",)),
        RouteConfig(pattern="local/*", targets=("local/*",)),
    )
    assert [route.pattern for route in settings.defaults] == ["gpt-*", "o1", "claude-*"]
    assert settings.keys == (holder("laptop", digest_of("dgm_0123456789abcdef")),)
    assert settings.timeouts == Timeouts(total=1800.0)
    assert settings.limits == Limits(request_body=16 * 1024 * 1024)
    assert settings.warnings == ()


def test_without_a_file_the_environment_speaks() -> None:
    settings = read_settings(None, {"OPENAI_API_KEY": "sk-1"}, CATALOGUE)
    assert settings.file == ""
    assert list(settings.providers) == ["openai", "echo"]
    assert list(read_settings(None, {}, CATALOGUE).providers) == ["echo"]


def test_discovery_can_be_turned_off(tmp_path: Path) -> None:
    assert list(settings_of(tmp_path, "[server]\ndiscover = false\n", ENVIRON).providers) == ["echo"]


def test_echo_speaks_the_protocol_it_is_told(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[providers.echo]\nprotocol = "anthropic-messages"\n')
    assert [endpoint.protocol for endpoint in settings.providers["echo"].endpoints][:2] == [A, C]


def test_every_member_of_every_section_can_be_set(tmp_path: Path) -> None:
    text = """
[server]
host = "::1"
port = 0
workers = 3
allowed_hosts = ["a.example"]
allowed_origins = ["https://a.example"]
strict = true
forward_pooled_rate_limits = true
discover = false
[timeouts]
connect = 1
first_byte = 2
idle = 3
total = 4
heartbeat = 5
client_headers = 6
client_body = 7
drain = 0
[routing]
max_attempts = 2
max_billed_retries = 0
heartbeat_after = "500 ms"
exploration_rate = 1
[limits]
request_body = 1
header_bytes = 2
header_count = 3
response_body = 4
stream_event = 5
connections_per_host = 6
[storage]
store_responses = false
path = "/somewhere/state.db"
response_days = 7
max_background_responses = 8
"""
    settings = settings_of(tmp_path, text)
    assert settings.server == Server(
        host="::1",
        port=0,
        workers=3,
        allowed_hosts=("a.example",),
        allowed_origins=("https://a.example",),
        strict=True,
        forward_pooled_rate_limits=True,
        discover=False,
    )
    assert settings.routing == Routing(max_attempts=2, max_billed_retries=0, heartbeat_after=0.5, exploration_rate=1.0)
    assert settings.timeouts == Timeouts(
        connect=1, first_byte=2, idle=3, total=4, heartbeat=5, client_headers=6, client_body=7, drain=0
    )
    assert settings.limits == Limits(
        request_body=1, header_bytes=2, header_count=3, response_body=4, stream_event=5, connections_per_host=6
    )
    assert settings.storage == Storage(
        store_responses=False, path="/somewhere/state.db", response_days=7, max_background_responses=8
    )


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = f"""\
[servr]
[server]
port = "8484"
[providers.openai]
api_key = "{SECRET} "
[models]
a = "opnai/x"
[keys.k]
hash = "x"
[timeouts]
idle = "long"
[limits]
boddy = 1
"""
    assert [line.split(": ")[:2] for line in problems_of(tmp_path, text)] == [
        ["1", "servr"],
        ["3", "server.port"],
        ["5", "providers.openai.api_key"],
        ["7", "models.a"],
        ["9", "keys.k.hash"],
        ["11", "timeouts.idle"],
        ["13", "limits.boddy"],
    ]


def test_one_error_stands_for_all_of_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        settings_of(tmp_path, "[server]\nport = -1\n[limits]\nrequest_body = -1\n")
    assert (refused.value.key, refused.value.line) == ("server.port", 2)
    assert isinstance(refused.value, ConfigErrors)
    assert [problem.key for problem in refused.value.problems] == ["server.port", "limits.request_body"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"[providers.openai]\napi_key = {SECRET}\n", "2: is not TOML: Invalid value"),
        (f'[server]\nport = 1\nport = 2\nx = "{SECRET}"\n', "3: is not TOML: Cannot overwrite a value"),
        (f'[keys.a]\nkey = "{SECRET}\n', "2: is not TOML: "),
        (f'[keys.a]\nkey = """{SECRET}\n', "3: is not TOML: "),
        ("[models]\nclaude-* = 'x'\n", "2: is not TOML: Expected '=' after a key"),
        (f"[a]\nb = {'[' * 3000}\n", " is nested too deeply"),
    ],
)
def test_broken_toml_has_its_line_and_shows_no_secret(tmp_path: Path, text: str, line: str) -> None:
    (told,) = problems_of(tmp_path, text)
    assert told.startswith(line)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("[server]\nport = 8484,\n", "(take the comma away: lines have none at their ends)"),
        ("[server]\nport = 8484,  # the port\n", "(take the comma away: lines have none at their ends)"),
        ("[server]\n[server]\n", "(keep one of the two)"),
        ("[server]\nport = 1\nport = 2\n", "(keep one of the two)"),
        ('{"server": {"port": 8484}}\n', "(this looks like JSON: write [server] above port = 8484 instead)"),
        ('[server]\nallowed_hosts = [\n  "a" "b",\n]\n', "names with dots or * need quotes)"),
    ],
)
def test_a_slip_that_is_made_often_has_a_remedy_of_its_own(tmp_path: Path, text: str, remedy: str) -> None:
    (told,) = problems_of(tmp_path, text)
    assert told.endswith(remedy)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors, match=r"none\.toml: cannot be read: No such file or directory \(name another"):
        read_settings(named(tmp_path / "none.toml"), {}, CATALOGUE)
    file = tmp_path / "latin.toml"
    file.write_bytes(b'a = "\xe4"\n')
    with pytest.raises(ConfigErrors, match="is not text in UTF-8"):
        read_settings(named(file), {}, CATALOGUE)


def test_a_byte_order_mark_and_carriage_returns_are_no_problem(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbf[server]\r\nport = 1\r\n")
    assert read_settings(named(file), {}, CATALOGUE).server.port == 1


def warnings_of(tmp_path: Path, text: str, mode: int = 0o600) -> tuple[str, ...]:
    """The warnings of a text in a file with this mode."""
    settings_of(tmp_path, text)
    (tmp_path / "dragoman.toml").chmod(mode)
    return read_settings(named(tmp_path / "dragoman.toml"), {}, CATALOGUE).warnings


@pytest.mark.parametrize(
    "text",
    [
        f'[providers.openai]\napi_key = "{SECRET}"\n',
        f'[providers.openai]\napi_key = ["{SECRET}"]\n',
        f'[keys.a]\nkey = "{SECRET}"\n',
        f'[providers.ollama]\nheaders = {{ authorization = "Bearer {SECRET}" }}\n',
    ],
)
def test_keys_that_others_can_read_are_warned_of(tmp_path: Path, text: str) -> None:
    assert warnings_of(tmp_path, text) == ()
    (warning,) = warnings_of(tmp_path, text, 0o644)
    assert "can be read by others" in warning
    assert SECRET not in warning


def test_a_file_without_keys_may_be_read_by_all(tmp_path: Path) -> None:
    assert warnings_of(tmp_path, '[providers.ollama]\napi_key = "none"\n', 0o644) == ()


def test_what_is_allowed_but_should_be_known(tmp_path: Path) -> None:
    text = """
[server]
host = "0.0.0.0"
[providers.x]
protocol = "openai-chat"
base_url = "http://10.0.0.1/v1"
api_key = "k"
allow_plaintext_key = true
"""
    opened, clear = warnings_of(tmp_path, text)
    assert opened == "server.host is 0.0.0.0, and there are no [keys]: serve refuses that without --no-auth"
    assert clear == "providers.x may send its key in clear text (allow_plaintext_key = true)"
    (short,) = warnings_of(tmp_path, '[keys.a]\nkey = "short"\n')
    assert short == "keys.a is shorter than 16 characters and can be guessed: dragoman key new"


NAMES = st.sampled_from(
    [
        "openai",
        "azure",
        "bedrock",
        "echo",
        "x",
        "a/b",
        *file_schema.PROVIDER,
        *file_schema.KEY,
        *file_schema.ROUTE,
        *file_schema.RULE,
        *file_schema.WHEN,
        "capabilities",
        "rules",
        "port",
    ]
)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        [
            *PROTOCOL_NAMES,
            *file_schema.AUTHS,
            *file_schema.TRANSPORTS,
            "http://x/v1",
            "$A",
            "${A}",
            "openai/*",
            "echo/text",
            *POLICIES,
        ]
    ),
    st.just(datetime.date(2026, 1, 1)),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=12
)


def toml(value: object) -> str:
    """A value as TOML writes it on one line."""
    match value:
        case dict():
            return "{" + ", ".join(f"{toml(name)} = {toml(member)}" for name, member in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case bool():
            return str(value).lower()
        case str():
            return '"' + "".join(f"\\U{ord(char):08X}" for char in value) + '"'
        case _:
            return str(value)


@given(st.dictionaries(st.sampled_from([*file_schema.SECTIONS, "other"]), VALUES | st.dictionaries(NAMES, VALUES)))
def test_whatever_is_written_gives_settings_or_problems(document: dict[str, object]) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        lines = [f"{toml(name)} = {toml(value)}\n" for name, value in document.items()]
        Path(file.name).write_text("".join(lines), encoding="utf-8")
        try:
            settings = read_settings(named(Path(file.name)), {"A": "a"}, CATALOGUE)
        except ConfigErrors as refused:
            assert all(problem.key and problem.remedy for problem in refused.problems)
        else:
            assert "echo" in settings.providers


def test_settings_are_values(tmp_path: Path) -> None:
    assert settings_of(tmp_path, WHOLE, ENVIRON) == settings_of(tmp_path, WHOLE, ENVIRON)
    assert Settings() == Settings()


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/a"}, "/state/dragoman/state.db"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/home/a"}, "/home/a/.local/state/dragoman/state.db"),
        ({"XDG_STATE_HOME": "", "USERPROFILE": "/users/a"}, "/users/a/.local/state/dragoman/state.db"),
        ({}, ""),
    ],
)
def test_what_is_kept_is_kept_in_the_users_state_directory(environ: dict[str, str], path: str) -> None:
    assert read_settings(None, environ, CATALOGUE).storage.path == path


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("state.db", "{folder}/state.db"),
        ("a/state.db", "{folder}/a/state.db"),
        ("/a/b.db", "/a/b.db"),
        (":memory:", ":memory:"),
    ],
)
def test_a_path_is_taken_from_where_the_file_is_and_not_from_where_one_happens_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kept: str
) -> None:
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    settings = settings_of(tmp_path, f'[storage]\npath = "{path}"\n')
    assert settings.storage.path == kept.format(folder=tmp_path)
    assert read_settings(named(Path("../dragoman.toml")), {}, CATALOGUE).storage.store_responses


def test_credentials_are_not_those_of_the_folder_that_one_happens_to_be_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    file = tmp_path / "dragoman.toml"
    file.write_text('[providers.vertex]\nregion = "global"\nproject = "p"\ncredentials = "account.json"\n')
    settings = read_settings(named(Path("../dragoman.toml")), {}, catalogue())
    assert Path(settings.providers["vertex"].options["credentials"]).resolve() == tmp_path / "account.json"


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ("workers = 2\n[storage]\npath = ':memory:'", True),
        ("workers = 2\n[storage]\npath = ':memory:'\nstore_responses = false", False),
        ("workers = 2\n[storage]\npath = '/a/state.db'", False),
        ("workers = 1\n[storage]\npath = ':memory:'", False),
    ],
)
def test_workers_that_share_no_file_are_warned_of(tmp_path: Path, more: str, warned: bool) -> None:
    settings = settings_of(tmp_path, f"[server]\n{more}\n")
    assert any("each worker stores only its own responses" in warning for warning in settings.warnings) is warned


def test_records_without_a_file_are_warned_of(tmp_path: Path) -> None:
    """In memory nothing is written down, which somebody may not expect; who says that it is meant hears nothing."""
    kept = settings_of(tmp_path, "[storage]\npath = ':memory:'\n")
    assert any("no request is recorded" in warning for warning in kept.warnings)
    meant = settings_of(tmp_path, "[storage]\npath = ':memory:'\nrecord_requests = false\n")
    assert not any("storage.path" in warning for warning in meant.warnings)


def test_a_time_zone_is_one_that_is_known(tmp_path: Path) -> None:
    assert settings_of(tmp_path, '[storage]\ntime_zone = "Asia/Kolkata"\n').storage.time_zone == "Asia/Kolkata"
    for name in ("Asia/Nowhere", "../etc/passwd", "Asia"):
        with pytest.raises(ConfigError, match=r"storage\.time_zone: expected the name of a time zone"):
            settings_of(tmp_path, f'[storage]\ntime_zone = "{name}"\n')


@pytest.mark.parametrize(
    ("text", "keys_table", "empty"),
    [
        ("", False, True),
        ("# nothing yet\n", False, True),
        ("[server]\n", False, False),
        ("[keys]\n", True, False),
        (f'[keys.a]\nkey = "{SECRET}"\n', True, False),
    ],
)
def test_a_file_says_whether_it_speaks_of_keys_and_whether_it_speaks_at_all(
    tmp_path: Path, text: str, keys_table: bool, empty: bool
) -> None:
    settings = settings_of(tmp_path, text)
    assert (settings.keys_table, settings.empty) == (keys_table, empty)
    assert any("is empty" in warning for warning in settings.warnings) is empty


def test_without_a_file_none_is_empty() -> None:
    settings = read_settings(None, {}, CATALOGUE)
    assert not settings.empty
    assert not settings.keys_table
