"""Credential forms: each has a source, a fake that it finds, and a pattern that takes linear time."""

from __future__ import annotations

import pytest

from dragoman.contents.credential_forms import FORMS, CredentialForm
from tests.backtracking import backtracking_repeats
from tests.contents.fakes import FAKES


def test_each_form_has_a_fake() -> None:
    assert {form.kind for form in FORMS} == set(FAKES)


@pytest.mark.parametrize("form", FORMS, ids=[f"{form.kind}-{form.anchors[0]}" for form in FORMS])
def test_a_form_gives_nothing_back_and_names_its_source(form: CredentialForm) -> None:
    assert backtracking_repeats(form.pattern) == []
    assert form.source.startswith(("https://", "src/dragoman/"))
    assert not form.ignores_case or all(anchor == anchor.lower() for anchor in form.anchors)


def test_each_anchor_is_used_by_a_fake_of_its_form_or_is_one_of_several() -> None:
    for form in FORMS:
        texts = [text.lower() if form.ignores_case else text for text, _ in FAKES[form.kind]]
        assert any(anchor in text for anchor in form.anchors for text in texts), form.kind
