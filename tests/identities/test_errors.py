"""Errors of changes name the member, the problem and the remedy."""

from __future__ import annotations

from dragoman.identities.errors import ImportRefused, InvalidMember, KeyExists


def test_a_member_comes_first_if_there_is_one() -> None:
    assert str(InvalidMember("role", "there is no role", "use another")) == "role: there is no role (use another)"
    assert str(KeyExists("", "the key exists", "make another")) == "the key exists (make another)"


def test_each_refused_key_of_an_import_has_a_line() -> None:
    refused = ImportRefused([KeyExists("a: name", "is taken", "rename"), InvalidMember("b", "is wrong", "repair")])
    assert str(refused) == "a: name: is taken (rename)\nb: is wrong (repair)"
    assert (refused.member, refused.problem, refused.remedy) == ("a: name", "is taken", "rename")
