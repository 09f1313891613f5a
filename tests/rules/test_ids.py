import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.rules import ids
from dragoman.rules.ids import (
    ANTHROPIC,
    CHAT,
    MISTRAL_LIKE,
    RESPONSES,
    IdRule,
    call_id,
    legacy_call_id,
    object_ids,
    object_suffix,
)
from tests.rules.vectors import objects

RULES = {"A": ANTHROPIC, "C": CHAT, "R": RESPONSES, "mistral_like": MISTRAL_LIKE}


@pytest.mark.parametrize("column", RULES)
@pytest.mark.parametrize("row", objects("ids"), ids=lambda row: row["in"][:20])
def test_an_id_has_its_golden_form(row: dict[str, str], column: str) -> None:
    assert call_id(row["in"], RULES[column]) == row[column]


@given(st.text(max_size=90), st.sampled_from(sorted(RULES)))
def test_every_form_conforms_and_is_stable(value: str, column: str) -> None:
    rule = RULES[column]
    once = call_id(value, rule)
    assert rule.pattern.fullmatch(once)
    assert call_id(once, rule) == once


@given(st.lists(st.text(alphabet="ab:", max_size=80), unique=True, max_size=30), st.sampled_from(sorted(RULES)))
def test_different_ids_stay_different(values: list[str], column: str) -> None:
    assert len({call_id(value, RULES[column]) for value in values}) == len(values)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_an_empty_id_never_passes(rule: IdRule) -> None:
    assert call_id("", rule) != ""


@pytest.mark.parametrize(
    ("upstream_id", "suffix"),
    [
        ("msg_01XFDUDYJgAACzvnptvVoYEL", "01XFDUDYJgAACzvnptvVoYEL"),
        ("chatcmpl-9d5f7c1be2a84d6f", "9d5f7c1be2a84d6f"),
        ("resp_68af4030baa48193b0b43b4c2a176a1a", "68af4030baa48193b0b43b4c2a176a1a"),
        ("gen-1730000000-AbCdEfGhIjKlMnOp", "1730000000-AbCdEfGhIjKlMnOp"),
        ("0193e7d5-57d5-4d4b-9d2a-6f0fd1d7c2aa", "0193e7d5-57d5-4d4b-9d2a-6f0fd1d7c2aa"),
        ("msg_s1", None),
        ("msg_" + "a" * 15, None),
        ("msg_" + "a" * 16, "a" * 16),
        ("msg_" + "a" * 64, "a" * 64),
        ("msg_" + "a" * 65, None),
        ("resp_abcdefgh.jklmnopq", None),
        ("", None),
    ],
)
def test_the_suffix_of_an_answers_id_is_shared_if_it_has_the_right_form(upstream_id: str, suffix: str | None) -> None:
    assert object_suffix(upstream_id) == suffix


def test_an_answer_may_have_had_any_id_that_shares_the_suffix() -> None:
    shared = "68af4030baa48193b0b43b4c2a176a1a"
    for one in (f"msg_{shared}", f"chatcmpl-{shared}", f"resp_{shared}", f"gen-{shared}", shared):
        assert {f"msg_{shared}", f"chatcmpl-{shared}", f"resp_{shared}", f"gen-{shared}", shared} <= set(
            object_ids(one)
        )
        assert {object_suffix(each) for each in object_ids(one)} == {shared}
    assert object_ids("msg_s1") == ()


def test_a_legacy_call_is_named_by_its_function_and_position() -> None:
    assert legacy_call_id("f", 3) == legacy_call_id("f", 3)
    assert len({legacy_call_id("f", 3), legacy_call_id("f", 4), legacy_call_id("g", 3)}) == 3
    assert all(rule.pattern.fullmatch(legacy_call_id("f", 3)) for rule in (ANTHROPIC, CHAT, RESPONSES))


def test_long_ids_are_not_remembered() -> None:
    before = ids._remembered.cache_info().currsize
    assert len({ids.call_id("x" * 1000 + str(number), ids.CHAT) for number in range(50)}) == 50
    assert ids._remembered.cache_info().currsize == before


@pytest.mark.parametrize("digits", ["64aa8ec82efa4007b5fbf1ea885dea00", "b07c3d11e2f45a69"])
def test_item_10_mistrals_own_ids_stay(digits: str) -> None:
    own = f"chatcmpl-tool-{digits}"
    assert call_id(own, MISTRAL_LIKE) == own == call_id(own, ids.ANY)
    assert call_id(own + "0" * 20, CHAT) != own + "0" * 20
    assert call_id(own + "0", MISTRAL_LIKE) != own + "0"
