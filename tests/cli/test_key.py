"""`dragoman key` as a user runs it on the gateway's machine."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from msgspec import Struct

from dragoman.identities.key_text import hash_text, is_mistyped
from dragoman.store import identity_file
from tests.cli.recorded_file import config, records_on_screen, records_piped
from tests.config.test_keys import read
from tests.store.opened import opened

# `NOW` is 2027-01-15 08:00 UTC.
IN_90_DAYS = "2027-04-15T08:00:00Z"


class Ended(Struct, frozen=True, kw_only=True):
    """What came of a command."""

    status: int
    out: str
    err: str


def key(place: Path, *words: str) -> Ended:
    """Call `dragoman key` without a terminal, for the gateway of a folder."""
    named = words if "--config" in words else (*words, "--config", "gateway.toml")
    status, out, err = records_piped(("key", *named), place)
    return Ended(status=status, out=out, err=err)


def written(place: Path) -> bytes:
    """All bytes of the files in a folder."""
    return b"".join(path.read_bytes() for path in place.iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    config(tmp_path)
    return tmp_path


def test_a_key_is_made_with_all_that_it_permits_and_printed_once(place: Path) -> None:
    words = ("--models", "claude-*, gpt-5", "--providers", "anthropic", "--tag", "team=web", "--expires", "90d")
    made = key(place, "new", "ann", *words, "--role", "client", "--paths", "chat,files:read", "--concurrency", "4")
    assert made.status == 0
    text, blank, *lines = made.out.splitlines()
    assert (len(text), is_mistyped(text.encode()), blank) == (53, False, "")
    assert lines == [
        "KEY\tann",
        "state\tactive",
        "role\tclient",
        "models\tclaude-*, gpt-5",
        "providers\tanthropic",
        "addresses\tall",
        "paths\tchat, files:read",
        "tags\tteam=web",
        f"expires\t{IN_90_DAYS}",
        "concurrency\t4",
        "created\t2027-01-15T08:00:00Z by dragoman key",
        "source\tdatabase",
    ]
    assert made.err.splitlines() == [
        f"dragoman: ann is stored in {place / 'state.db'}; the key is shown only now",
        "dragoman: note: without this database the gateway needs no key; "
        "an empty [keys] in the configuration prevents that",
    ]
    assert key(place, "show", "ann").out.splitlines() == lines
    listed = key(place, "list").out.splitlines()
    assert listed == [
        "NAME\tSTATE\tROLE\tMODELS\tPROVIDERS\tEXPIRES\tTAGS\tSOURCE",
        f"ann\tactive\tclient\tclaude-*, gpt-5\tanthropic\t{IN_90_DAYS}\tteam=web\tdatabase",
    ]


def test_the_list_of_a_gateway_without_keys_is_a_header_and_makes_no_file(place: Path) -> None:
    listed = key(place, "list")
    assert listed.out == "NAME\tSTATE\tROLE\tMODELS\tPROVIDERS\tEXPIRES\tTAGS\tSOURCE\n"
    assert listed.err == f"dragoman: there are no keys in {place / 'state.db'}\n"
    assert json.loads(key(place, "list", "--json").out) == {"keys": [], "next": None}
    assert [path.name for path in place.iterdir()] == ["gateway.toml"]


def test_every_command_prints_the_same_document(place: Path) -> None:
    issued = json.loads(key(place, "new", "ann", "--strict", "--json").out)
    view = issued["identity"]
    assert (view["name"], view["strict"], view["models"], view["generation"]) == ("ann", True, None, 1)
    assert json.loads(key(place, "show", "ann", "--json").out) == view
    assert json.loads(key(place, "list", "--json").out) == {"keys": [view], "next": None}
    changed = json.loads(key(place, "set", "ann", "--models", "*", "--strict=all", "--json").out)
    assert changed == {**view, "models": ["*"], "strict": "all", "generation": 2}
    rotated = json.loads(key(place, "rotate", "ann", "--json").out)
    until = "2027-01-16T08:00:00Z"
    assert rotated["identity"] == {**changed, "state": "rotated", "former_until": until, "generation": 3}
    assert rotated["key"] != issued["key"]
    revoked = json.loads(key(place, "revoke", "ann", "--json").out)
    assert (revoked["state"], revoked["revoked"], revoked["models"]) == ("revoked", "2027-01-15T08:00:00Z", [])


def test_pitfall_737_what_is_set_is_stored_what_is_removed_is_gone_and_the_rest_stays(place: Path) -> None:
    members: dict[str, tuple[object, object]] = {
        "role": ("viewer", "client"),
        "models": (["a/*", "b"], None),
        "providers": (["openai"], None),
        "addresses": (["10.0.0.0/8"], None),
        "paths": (["chat"], None),
        "tags": ({"team": "web"}, {}),
        "expires": (IN_90_DAYS, None),
        "strict": (True, False),
        "concurrency": (3, None),
    }
    options = ("--role=viewer", "--models=a/*,b", "--providers=openai", "--addresses=10.0.0.0/8", "--paths=chat")
    key(place, "new", "ann", *options, "--tag=team=web", "--expires=90d", "--strict", "--concurrency=3")
    for at, removed in enumerate(("", *members)):
        view = json.loads(key(place, *(("set", "ann", "--remove", removed) if at else ("show", "ann")), "--json").out)
        expected = {name: values[number < at] for number, (name, values) in enumerate(members.items())}
        assert {name: view[name] for name in members} == expected


def test_a_rotation_says_until_when_the_former_key_is_accepted(place: Path) -> None:
    key(place, "new", "ann")
    rotated = key(place, "rotate", "ann", "--grace", "90m")
    issued = f"dragoman: ann was rotated in {place / 'state.db'}; the key is shown only now, the former one"
    assert rotated.err == f"{issued} is accepted until 2027-01-15T09:30:00Z\n"
    assert "former key until\t2027-01-15T09:30:00Z" in rotated.out
    ended = key(place, "rotate", "ann", "--grace", "0")
    assert ended.err == f"{issued} ends now\n"
    assert "former key until" not in ended.out


def test_a_revoked_key_is_listed_and_its_name_is_not_used_again(place: Path) -> None:
    key(place, "new", "ann", "--models", "fast")
    done = key(place, "revoke", "ann")
    assert "state\trevoked\nrevoked\t2027-01-15T08:00:00Z\n" in done.out
    assert done.err == f"dragoman: ann was revoked in {place / 'state.db'}, for ever\n"
    assert "ann\trevoked\tclient\tnone\tnone\tnever" in key(place, "list").out
    for words, problem in {
        ("new", "ann"): "name: there is or was a key ann; a name is never given again (choose another name)",
        ("set", "ann", "--models", "x"): "the key ann is revoked, which is final (create another key)",
        ("rotate", "ann"): "the key ann is revoked, which is final (create another key)",
        ("revoke", "ann"): "the key ann is revoked, which is final (create another key)",
    }.items():
        assert key(place, *words) == Ended(status=1, out="", err=f"dragoman: {problem}\n")


def test_keys_of_the_configuration_are_shown_and_not_changed(place: Path) -> None:
    hashed = hash_text("a key of the configuration")
    with (place / "gateway.toml").open("a", encoding="utf-8") as file:
        file.write(f'[keys.ci]\nhash = "{hashed}"\nrole = "viewer"\nexpires = 2026-11-15\n')
    made = key(place, "new", "zoe")
    assert "note:" not in made.err
    key(place, "new", "ann")
    assert [line.split("\t")[::7] for line in key(place, "list").out.splitlines()[1:]] == [
        ["ann", "database"],
        ["ci", "file"],
        ["zoe", "database"],
    ]
    assert key(place, "show", "ci").out.startswith("KEY\tci\nstate\texpired\nrole\tviewer\n")
    for words in (("set", "ci", "--models", "x"), ("rotate", "ci"), ("revoke", "ci")):
        refused = key(place, *words)
        assert (refused.status, refused.err) == (
            1,
            "dragoman: ci is a key of the configuration (change it in gateway.toml)\n",
        )
    assert "the configuration has a key ci" in key(place, "new", "ci").err
    assert hashed.removeprefix("sha256:") not in key(place, "list", "--json").out


@pytest.mark.parametrize("words", [("show",), ("set", "--models", "x"), ("rotate",), ("revoke",)])
@pytest.mark.parametrize(
    "name", ["nope", "' OR '1'='1", "pg_sleep(9)--", "x" * 1_000_000, "nul\udc00", "dgm_" + "0" * 49]
)
def test_pitfall_439_a_name_is_never_a_part_of_a_statement(place: Path, words: Sequence[str], name: str) -> None:
    key(place, "new", "ann")
    before = key(place, "list", "--json").out
    ended = key(place, words[0], name, *words[1:])
    assert (ended.status, ended.out) == (1, "")
    which = f"key {name}" if name == "nope" else "such key"
    assert ended.err == f"dragoman: there is no {which} (dragoman key list shows all keys)\n"
    assert key(place, "list", "--json").out == before


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("new", "dgm_" + "0" * 49), "name: a name does not begin with dgm_, as keys do (choose another name)"),
        (("new", "a b"), 'name: "a b" cannot name a key'),
        (("new", "x", "--role", "boss"), 'role: there is no role "boss" (use one of client, viewer, admin)'),
        (("new", "x", "--models", "**"), 'models: "**" cannot be used'),
        (("new", "x", "--models", ","), "models: the list is empty"),
        (("new", "x", "--providers", "a b"), 'providers: "a b" cannot be used (use the name of a provider)'),
        (("new", "x", "--addresses", "10.0.0.1/8"), 'addresses: "10.0.0.1/8" cannot be used (write "10.0.0.0/8")'),
        (("new", "x", "--paths", "nope"), 'paths: "nope" cannot be used (use one of the families messages, '),
        (("new", "x", "--paths", "files:nope"), "(use one of the actions create, read, delete, cancel)"),
        (("new", "x", "--tag", "a"), "--tag: expected NAME=VALUE, got 'a'"),
        (("new", "x", "--tag", "a=b", "--tag", "a=c"), "--tag: 'a' is given twice"),
        (("new", "x", "--tag", "a b=c"), 'tags: the tag "a b" cannot be used with "c"'),
        (("new", "x", "--expires", "2026-11-15"), "expires: the time is in the past"),
        (("new", "x", "--expires", "soon"), "--expires: 'soon' is no end; it may be 90d"),
        (("new", "x", "--concurrency", "0"), "concurrency: expected an integer from 1 to 100000, got 0"),
        (("new", "x", "--concurrency", "many"), "argument --concurrency: invalid int value: 'many'"),
        (("new", "x", "--nope"), "unrecognized arguments: --nope"),
        (("set", "ann", "--remove", "nope"), "'nope' is unknown; there are role, models"),
        (("set", "ann", "--remove", "models", "--models", "x"), "models is both set and removed"),
        (("set", "ann"), "nothing to set"),
        (("rotate", "ann", "--grace", "soon"), "--grace: 'soon' is no duration; it may be 0, 90m, 24h"),
        (("audit", "-n", "0"), "-n: 0 is not a number of changes"),
        (("nope",), "there is no command nope"),
    ],
)
def test_wrong_usage_is_refused_with_a_remedy_and_nothing_is_done(
    place: Path, words: Sequence[str], problem: str
) -> None:
    key(place, "new", "ann")
    before = written(place)
    status, out, err = records_piped(("key", *words, *(("--config", "gateway.toml") if len(words) > 1 else ())), place)
    assert (status, out) == (2, "")
    assert problem in err
    assert written(place) == before


def test_every_problem_is_reported_at_once(place: Path) -> None:
    ended = key(place, "new", "ann", "--role", "boss", "--models", "**", "--concurrency", "0")
    assert [line.split(": ")[1] for line in ended.err.splitlines()] == ["role", "models", "concurrency"]


@pytest.mark.parametrize("words", [("new", "bob"), ("set", "ann", "--strict"), ("rotate", "ann"), ("revoke", "ann")])
def test_a_database_that_is_locked_is_named_and_nothing_is_done(
    place: Path, words: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key(place, "new", "ann")
    monkeypatch.setattr(identity_file, "open_identity_file", partial(identity_file.open_identity_file, timeout=0.01))
    with opened(place / "state.db") as tables, tables.transaction():
        ended = key(place, *words)
    problem = "is locked by another process; nothing was changed: try again"
    assert ended == Ended(status=1, out="", err=f"dragoman: {place / 'state.db'} {problem}\n")
    assert len(json.loads(key(place, "audit", "--json").out)["changes"]) == 1


def test_a_grace_period_has_a_limit(place: Path) -> None:
    key(place, "new", "ann")
    ended = key(place, "rotate", "ann", "--grace", "91d")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == "dragoman: grace: expected 0 to 90 days (choose another duration)\n"


def test_a_gateway_whose_database_is_in_memory_has_no_keys_of_a_database(place: Path) -> None:
    config(place, ":memory:")
    for words in (("new",), ("list",), ("show", "x"), ("revoke", "x")):
        ended = key(place, *words)
        assert (ended.status, ended.out) == (1, "")
        assert "storage.path names no file" in ended.err
        assert "dragoman key new NAME --print" in ended.err
    assert key(place, "new", "--print").status == 0


def test_lines_for_the_configuration_hold_the_hash_alone_and_nothing_is_stored(place: Path) -> None:
    words = ("--models", "claude-*", "--role", "viewer", "--expires", "2027-01-31", "--strict=all")
    text, rest = key(place, "new", "laptop", *words, "--print").out.split("\n", 1)
    assert text.startswith("dgm_")
    assert text not in rest
    assert tomllib.loads(rest)["keys"]["laptop"]["hash"] == hash_text(text)
    (identity,), _ = read(rest)
    assert (identity.rights.models, identity.rights.role, identity.rights.strict) == (("claude-*",), "viewer", "all")
    assert [path.name for path in place.iterdir()] == ["gateway.toml"]


def test_lines_for_the_configuration_as_json(place: Path) -> None:
    told = json.loads(key(place, "new", "a.b", "--print", "--json").out)
    hashed = hash_text(told["key"])
    assert told == {"name": "a.b", "key": told["key"], "hash": hashed, "lines": f'[keys."a.b"]\nhash = "{hashed}"'}


def test_pitfall_733_no_key_text_is_in_a_file_or_a_later_output(place: Path) -> None:
    texts = [key(place, *words).out.split("\n")[0] for words in (("new", "ann"), ("rotate", "ann"), ("new", "bob"))]
    key(place, "revoke", "ann")
    shown = "".join(
        key(place, *words).out for words in (("list", "--json"), ("show", "ann"), ("show", "bob", "--json"))
    )
    stored = written(place)
    for text in texts:
        assert text not in shown
        assert text.encode() not in stored
        # Neither are the random characters alone.
        assert text[4:47].encode() not in stored
        assert hash_text(text).removeprefix("sha256:") not in shown


def test_pitfall_739_a_long_list_is_read_in_pages(place: Path) -> None:
    rights = '{"role":"client"}'
    with opened(place / "state.db") as tables, tables.transaction():
        tables.connection.many(
            "INSERT INTO identities (name, owner, rights, tags, created, created_by, generation)"
            " VALUES (?, ?, ?, '{}', 1, 'x', 1)",
            [(f"key-{number:04}", number.to_bytes(32, "big"), rights) for number in range(2500)],
        )
    names = [view["name"] for view in json.loads(key(place, "list", "--json").out)["keys"]]
    assert names == [f"key-{number:04}" for number in range(2500)]


def test_pitfall_736_entries_that_match_no_name_are_reported(place: Path) -> None:
    with (place / "gateway.toml").open("a", encoding="utf-8") as file:
        file.write('[server]\ndiscover = false\n[models]\n"fast" = "echo/text"\n')
    model = "warning: the key ann may use fsat, which matches no model name; did you mean fast?"
    provider = "warning: the key ann may use the provider x, which does not exist"
    words = ("--models", "fsat,fast,echo/*", "--providers", "x,echo")
    for made in (key(place, "new", "ann", *words), key(place, "new", "ann", *words, "--print")):
        assert [line for line in made.err.splitlines() if "warning" in line] == [
            f"dragoman: {model}",
            f"dragoman: {provider}",
        ]
    assert key(place, "list").err == f"dragoman: {model}\ndragoman: {provider}\n"
    done = f"dragoman: ann was changed in {place / 'state.db'}\n"
    assert key(place, "set", "ann", "--models", "fast").err == f"{done}dragoman: {provider}\n"
    assert key(place, "set", "ann", "--remove", "providers").err == done
    key(place, "set", "ann", "--models", ",".join(f"x{number}" for number in range(30)))
    assert key(place, "list").err.splitlines()[20:] == ["dragoman: warning: 10 more of these"]


def test_the_audit_log_has_every_change_the_latest_first(place: Path) -> None:
    key(place, "new", "ann", "--models", "fast", "--tag", "team=web", "--strict", "--concurrency", "2")
    key(place, "set", "ann", "--models", "*", "--expires", "24h", "--remove", "tags")
    key(place, "rotate", "ann")
    key(place, "revoke", "ann")
    # A refused change has no row.
    key(place, "rotate", "ann")
    time, tomorrow = "2027-01-15T08:00:00Z", "2027-01-16T08:00:00Z"
    rows = [
        ("revoke", ""),
        ("rotate", f"former key until: - → {tomorrow}"),
        ("change", f"models: fast → *; tags: team=web → -; expires: - → {tomorrow}"),
        ("create", "role: client; models: fast; tags: team=web; strict: true; concurrency: 2"),
    ]
    assert key(place, "audit").out.splitlines() == [
        "TIME\tBY\tACTION\tKEY\tCHANGE",
        *(f"{time}\tdragoman key\t{action}\tann\t{change}" for action, change in rows),
    ]
    view = json.loads(key(place, "audit", "-n", "2", "--json").out)
    assert ([each["action"] for each in view["changes"]], view["next"]) == (["revoke", "rotate"], 3)
    assert len(key(place, "audit", "-n", "9" * 30).out.splitlines()) == 5


def test_a_terminal_gets_a_table_of_its_width(place: Path) -> None:
    key(place, "new", "ann", "--models", ",".join(f"provider/model-{number}" for number in range(9)))
    seen = records_on_screen(["key", "list", "--config", "gateway.toml"], place, columns=80)
    assert seen.plain.startswith("NAME ")
    assert max(map(len, seen.plain.splitlines())) <= 80
    assert seen.coloured
