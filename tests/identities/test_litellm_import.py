"""Keys of LiteLLM become keys of this gateway with the same texts, or are refused by place, field and remedy."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from dragoman.errors import DragomanError
from dragoman.identities.key_text import digest_of
from dragoman.identities.litellm_import import ImportLine, read_litellm_keys
from dragoman.identities.members import KeyMembers

TEXT = "sk-a-key-of-litellm"
TOKEN = digest_of(TEXT).hex()
# A row as `/key/list` sends it, with all fields that say nothing.
EMPTY: dict[str, object] = {
    "token": TOKEN,
    "key_name": "sk-...tllm",
    "key_alias": "ann",
    "spend": 1.25,
    "max_budget": None,
    "expires": None,
    "models": [],
    "aliases": {},
    "config": {},
    "user_id": None,
    "team_id": None,
    "permissions": {},
    "max_parallel_requests": None,
    "metadata": {},
    "tpm_limit": None,
    "rpm_limit": None,
    "budget_duration": None,
    "budget_reset_at": None,
    "allowed_cache_controls": [],
    "allowed_routes": [],
    "model_spend": {"m": 1},
    "model_max_budget": {},
    "soft_budget_cooldown": False,
    "blocked": None,
    "litellm_budget_table": None,
    "organization_id": None,
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
    "rotation_count": 0,
    "auto_rotate": False,
}


def read(*rows: dict[str, object] | object, ignored: tuple[str, ...] = ()) -> list[ImportLine]:
    """The keys of a document with these rows."""
    return read_litellm_keys(json.dumps({"keys": rows, "total_count": len(rows)}).encode(), frozenset(ignored))


def row(**changed: object) -> dict[str, object]:
    return {**EMPTY, **changed}


def problem_of(line: ImportLine) -> str:
    assert line.key is None
    return str(line.problem)


def test_pitfall_740_a_key_keeps_its_text_lists_end_and_limit() -> None:
    (line,) = read(
        row(
            models=["gpt-4*", "openai/*"],
            expires="2027-01-31T14:30:00",
            max_parallel_requests=3,
            metadata={"app": "shop", "version": 2, "beta": True, "tags": []},
            team_id="t-1",
            user_id="ann",
        )
    )
    assert line.key is not None
    assert (line.number, line.location, line.name, line.notes) == (1, "/keys/0", "ann", ())
    assert line.key.digest == digest_of(TEXT)
    assert line.key.members == KeyMembers(
        models=("gpt-4*", "openai/*"),
        expires=datetime(2027, 1, 31, 14, 30, tzinfo=UTC),
        concurrency=3,
        tags={"app": "shop", "version": "2", "beta": "true", "team": "t-1", "user": "ann"},
    )


def test_a_row_that_says_nothing_permits_what_a_new_key_does() -> None:
    (line,) = read(EMPTY)
    assert line.key is not None
    assert line.key.members == KeyMembers()


@pytest.mark.parametrize(
    "changed",
    [{"models": ["all-proxy-models"], "team_id": "t"}, {"allowed_routes": ["llm_api_routes"]}, {"blocked": False}],
)
def test_values_that_limit_nothing_are_accepted(changed: dict[str, object]) -> None:
    (line,) = read(row(**changed))
    assert line.key is not None
    assert line.key.members.models == KeyMembers().models


@pytest.mark.parametrize(
    ("document", "locations"),
    [
        (json.dumps({"keys": [EMPTY, row(token="b" * 64, key_alias="b")]}), ["/keys/0", "/keys/1"]),
        (json.dumps([EMPTY, row(token="b" * 64, key_alias="b")], indent=1), ["/0", "/1"]),
        (f"{json.dumps(EMPTY)}\n\n{json.dumps(row(token='b' * 64, key_alias='b'))}\n", ["line 1", "line 3"]),
        (json.dumps(EMPTY), ["line 1"]),
        (
            "\n".join(
                json.dumps({"keys": [row(token=letter * 64, key_alias=letter)], "total_count": 2}) for letter in "ab"
            ),
            ["line 1 /keys/0", "line 2 /keys/0"],
        ),
        ('{"keys": []}', []),
    ],
    ids=["a page", "an array", "a row on each line", "one row", "pages", "none"],
)
def test_a_file_has_a_page_an_array_or_rows(document: str, locations: list[str]) -> None:
    lines = read_litellm_keys(document.encode(), frozenset())
    assert [line.location for line in lines] == locations
    assert all(line.key is not None for line in lines)


def test_a_file_with_some_pages_of_a_list_is_refused() -> None:
    page = {"keys": [EMPTY], "total_count": 12, "current_page": 1, "total_pages": 12}
    with pytest.raises(DragomanError, match=r"^the file has 1 of 12 keys: save the other pages, too, each on a line$"):
        read_litellm_keys(json.dumps(page).encode(), frozenset())


@pytest.mark.parametrize("document", ["", "token,alias", "{}", "3", '{"keys": 3}', "\x00"])
def test_a_file_without_keys_is_refused(document: str) -> None:
    with pytest.raises(DragomanError, match=r"^the file (is not JSON|has no list of keys)"):
        read_litellm_keys(document.encode(), frozenset())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_budget", 0),
        ("max_budget", 10.5),
        ("tpm_limit", 1000),
        ("rpm_limit", 0),
        ("budget_duration", "30d"),
        ("aliases", {"fast": "gpt-4"}),
        ("config", {"a": 1}),
        ("permissions", {"pii": False}),
        ("model_max_budget", {"gpt-4": 1}),
        ("allowed_routes", ["/chat/completions"]),
        ("allowed_cache_controls", ["no-store"]),
        ("auto_rotate", True),
        ("budget_id", "b"),
        ("object_permission", {"mcp_servers": ["x"]}),
        ("a_field_of_later_versions", "x"),
    ],
)
def test_a_field_that_would_be_lost_refuses_its_key_unless_it_is_ignored(field: str, value: object) -> None:
    (line,) = read(row(**{field: value}))
    assert problem_of(line) == (f"{field}: cannot be carried over (--ignore {field} imports the key without it)")
    (line,) = read(row(**{field: value}), ignored=(field,))
    assert line.key is not None
    assert line.key.members == KeyMembers()


def test_metadata_with_an_effect_refuses_its_key_unless_it_is_ignored() -> None:
    changed = row(metadata={"guardrails": ["pii"], "model_rpm_limit": {}})
    (line,) = read(changed)
    assert problem_of(line).startswith("metadata.guardrails: cannot be carried over")
    (line,) = read(changed, ignored=("metadata.guardrails",))
    assert line.key is not None


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"token": None}, "token: expected 64 hexadecimal digits"),
        ({"token": TEXT}, "token: expected 64 hexadecimal digits"),
        ({"token": TOKEN.upper()}, "token: expected 64 hexadecimal digits"),
        ({"key_alias": 3}, "key_alias: expected a string"),
        ({"models": "gpt-4"}, "models: expected a list of strings"),
        ({"models": ["a", None]}, "models: expected a list of strings"),
        ({"models": ["all-team-models"]}, "models: all-team-models is a list that the file does not have"),
        ({"team_id": "t"}, "models: the key may use the models of its team"),
        ({"expires": "soon"}, "expires: expected a date and time"),
        ({"expires": 3}, "expires: expected a date and time"),
        ({"max_parallel_requests": 1.5}, "max_parallel_requests: expected an integer"),
        ({"max_parallel_requests": True}, "max_parallel_requests: expected an integer"),
        ({"metadata": "x"}, "metadata: expected an object"),
        ({"blocked": True, "max_budget": 1}, "blocked: the key is blocked (leave it out)"),
    ],
)
def test_a_value_that_cannot_be_used_refuses_its_key(changed: dict[str, object], problem: str) -> None:
    (line,) = read(row(**changed), ignored=("blocked",))
    assert problem_of(line).startswith(problem)


def test_a_key_of_a_team_gets_all_models_where_that_is_asked_for() -> None:
    (line,) = read(row(team_id="t"), ignored=("team_id",))
    assert line.key is not None
    assert line.key.members == KeyMembers(tags={"team": "t"})


def test_rows_that_are_none_are_refused_by_place() -> None:
    lines = read_litellm_keys(f"{json.dumps(EMPTY)}\n{{broken\n3\n".encode(), frozenset())
    assert [(line.location, line.key is None) for line in lines] == [
        ("line 1", False),
        ("line 2", True),
        ("line 3", True),
    ]
    assert problem_of(lines[1]).startswith("is not JSON: ")
    # What `/key/list` sends without that parameter.
    (line,) = read(TOKEN)
    assert problem_of(line) == "is no object (list keys with return_full_object=true)"


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("ann@example.org", "ann-example.org"),
        ("team a / ann", "team-a-ann"),
        ("_x_", "x"),
        ("日本", "litellm-1"),
        (None, "litellm-1"),
        ("", "litellm-1"),
        ("x" * 99, "x" * 64),
    ],
)
def test_an_alias_becomes_a_name_and_the_line_says_so(alias: object, name: str) -> None:
    (line,) = read(row(key_alias=alias))
    assert line.name == name
    assert len(line.notes) == 1
    assert f"named {name}" in line.notes[0]


def test_metadata_that_cannot_be_a_tag_is_left_out_and_the_line_says_so() -> None:
    (line,) = read(row(metadata={"note": "for Ann's tests", "tags": ["a"], "empty": "", "long name": "x"}))
    assert line.key is not None
    assert line.key.members == KeyMembers()
    assert line.notes == tuple(
        f"metadata.{name} cannot be a tag and is left out" for name in ("note", "tags", "long name")
    )


def test_two_rows_with_the_same_name_or_token_are_not_both_imported() -> None:
    lines = read(EMPTY, row(key_alias="bob"), row(token="b" * 64), row(token="c" * 64, key_alias="cid"))
    assert [line.key is None for line in lines] == [False, True, True, False]
    assert problem_of(lines[1]) == "has the name or the token of the key at /keys/0 (remove one of them)"


def test_no_problem_repeats_a_key_text() -> None:
    for token in (TEXT, f" {TOKEN}", [TEXT], {"x": TEXT}):
        (line,) = read(row(token=token))
        assert TEXT not in problem_of(line)
        assert TOKEN not in problem_of(line)
