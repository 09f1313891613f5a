"""The admin API reads parameters into structs; what they do not know is refused."""

from __future__ import annotations

from typing import Annotated

import pytest
from msgspec import UNSET, Meta, Struct, UnsetType

from dragoman.gateway.admin.framework import AdminError, read_parameters


class _Parameters(Struct, frozen=True, kw_only=True):
    text: str = ""
    n: Annotated[int, Meta(ge=1, le=5)] = 3
    all: bool = False
    other: str | UnsetType = UNSET


def test_parameters_are_read_into_a_struct() -> None:
    assert read_parameters("text=a%20b&n=5&all=true", _Parameters) == _Parameters(text="a b", n=5, all=True)
    assert read_parameters("", _Parameters).other is UNSET


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("texts=a", "known parameters: text, n, all, other"),
        ("text=a&text=b", "text is given twice"),
        ("n=6", "at /n: expected an integer <= 5"),
        ("n=secret", "at /n: expected an integer, got a string"),
        ("all=maybe", "at /all: expected a boolean, got a string"),
        ("text", "name=value"),
    ],
)
def test_a_parameter_that_is_not_known_or_not_valid_is_refused(query: str, names: str) -> None:
    with pytest.raises(AdminError) as raised:
        read_parameters(query, _Parameters)
    assert names in f"{raised.value.message} {raised.value.remedy}"
    assert "secret" not in raised.value.message
    assert raised.value.status == 400
