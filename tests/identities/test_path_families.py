"""Path families have actions, of which some are open to every key."""

from __future__ import annotations

from dragoman.identities.path_families import ACTIONS, OPEN_ACTIONS, is_path_right


def test_families_open_only_actions_that_exist() -> None:
    assert all({*actions} <= {*ACTIONS} for actions in OPEN_ACTIONS.values())


def test_a_path_right_is_a_family_with_or_without_an_action() -> None:
    assert all(is_path_right(family) and is_path_right(f"{family}:{ACTIONS[0]}") for family in OPEN_ACTIONS)
    assert not any(map(is_path_right, ("", ":", "files:", "files:write", "nothing", "nothing:read", "files:read:x")))
