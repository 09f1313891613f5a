"""Every transport is found by its name, and says what is missing."""

from __future__ import annotations

import sys

import pytest

from dragoman.errors import ConfigError
from dragoman.providers.provider import Provider
from dragoman.providers.transport import TRANSPORTS, has_list, transport_of
from tests.providers.orders import provider_of


def test_the_transports_are_these() -> None:
    assert list(TRANSPORTS) == ["http", "azure", "bedrock", "vertex"]
    assert all(transport_of(name) is transport for name, transport in TRANSPORTS.items())


def test_only_bedrock_frames_streams_in_its_own_way() -> None:
    assert [name for name, transport in TRANSPORTS.items() if transport.unframe is not None] == ["bedrock"]


def test_only_the_clouds_around_a_model_have_no_other_paths() -> None:
    found = {name: transport.paths for name, transport in TRANSPORTS.items() if transport.paths is not None}
    assert found == {"bedrock": frozenset(), "vertex": frozenset({"/v1/messages/count_tokens"})}


def test_only_the_clouds_around_a_model_have_no_list_of_models() -> None:
    found = {name: has_list(Provider(name="x", endpoints=(), transport=name)) for name in (*TRANSPORTS, "echo")}
    assert found == {"http": True, "azure": True, "bedrock": False, "vertex": False, "echo": True}


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match="http, azure, bedrock, vertex"):
        transport_of("pigeon")


@pytest.mark.parametrize(
    ("transport", "module", "remedy"),
    [
        ("bedrock", "botocore", r"'\.\[bedrock\]'"),
        ("vertex", "google.auth", r"'\.\[vertex\]'"),
    ],
)
def test_a_missing_extra_is_named_with_the_remedy(
    transport: str, module: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name == module or name.startswith(module + ".")]:
        monkeypatch.delitem(sys.modules, name)
    # None in this table is how Python itself says that a module cannot be imported.
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    provider = provider_of("", protocol="anthropic-messages", transport=transport, options={"region": "eu-west-1"})
    with pytest.raises(ConfigError, match=remedy):
        transport_of(transport).check(provider)
