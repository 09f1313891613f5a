"""Named models: names deeper in a body are compared with what a key may request."""

from __future__ import annotations

import pytest

from dragoman.config.settings import RouteConfig, Settings
from dragoman.errors import ClientError, NotPermitted
from dragoman.gateway.forwarding.named_models import (
    _HARMLESS_TOOLS,
    _MAX_SEEN,
    _MAX_TOOLS_BYTES,
    _OTHER_TOOLS,
    _SEARCHED,
    check_deeper_names,
    check_names_of_body,
    may_name_models,
)
from dragoman.gateway.forwarding.provider_request import DECISIVE, glance_at
from dragoman.gateway.model_resolver import ModelResolver
from dragoman.gateway.paths import conversation_path
from dragoman.identities.identity import ALL_RIGHTS, Rights
from dragoman.protocols.registry import PROTOCOL_NAMES, codec_of
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.target import Target

MESSAGES, CHAT = "anthropic-messages", "openai-chat"
PROVIDERS = {
    name: Provider(name=name, endpoints=(Endpoint(protocol=protocol, base_url="http://127.0.0.1:9"),), auth="none")
    for name, protocol in {"a": MESSAGES, "b": CHAT}.items()
}
RESOLVER = ModelResolver(
    Settings(
        providers=PROVIDERS,
        routes=(
            RouteConfig(pattern="own", targets=("a/large",)),
            RouteConfig(pattern="other", targets=("a/medium",)),
            RouteConfig(pattern="both", targets=("b/small", "a/small")),
            RouteConfig(pattern="large", targets=("b/small",)),
            RouteConfig(pattern="a/medium", targets=("a/small",)),
        ),
    )
)


def _checked(rights: Rights, model: str, members: bytes) -> None:
    api_path = conversation_path(MESSAGES)
    assert api_path is not None
    body = b'{"model":"%b","messages":[],"max_tokens":9%b}' % (model.encode(), members)
    route = RESOLVER.route(model, MESSAGES, ALL_RIGHTS)
    check_deeper_names(RESOLVER, rights, glance_at(body, api_path)[0], route.targets)


ADVISOR = b',"tools":[{"type":"advisor","model":"%b"}]'


@pytest.mark.parametrize(
    ("models", "model", "name", "is_permitted"),
    [
        (("a/small", "a/large"), "a/small", b"large", True),
        (("a/*",), "a/small", b"large", True),
        (("a/small",), "a/small", b"large", False),
        # A name of the key's that leads to another model than the provider's of this name.
        (("a/small", "large"), "a/small", b"large", False),
        (("a/*",), "a/small", b"medium", False),
        # Where the body is translated, the name goes nowhere.
        (("b/small",), "b/small", b"large", True),
        (("both",), "both", b"large", False),
        (("a/*",), "a/small", b"large@openai-chat", False),
        (("a/*",), "a/small", b"large[1m]", False),
    ],
)
def test_a_name_means_the_providers_model(models: tuple[str, ...], model: str, name: bytes, is_permitted: bool) -> None:
    rights = Rights(models=models)
    if is_permitted:
        _checked(rights, model, ADVISOR % name)
    else:
        with pytest.raises(NotPermitted):
            _checked(rights, model, ADVISOR % name)


@pytest.mark.parametrize(
    ("members", "may_name"),
    [
        (b"", False),
        (b',"tools":[{"name":"model","description":"the model"}]', True),
        (b',"tools":[{"name":"x","description":"the model"}]', False),
        (b',"tools":[{"Model":"x"}]', True),
        (b',"tools":[{"m\\u006fdel":"x"}]', True),
        (b',"fallbacks":[]', True),
        (b',"plugins":[{"id":"x"}]', False),
        (b',"plugins":[{"id":"x","model":"y"}]', True),
        (b',"plugins":[{"id":"x","analysis_models":["y"]}],"tools":[]', True),
    ],
)
def test_what_may_name_models_is_read(members: bytes, may_name: bool) -> None:
    api_path = conversation_path(MESSAGES)
    assert api_path is not None
    body = b'{"model":"a/small","messages":[],"max_tokens":9%b}' % members
    glance = glance_at(body, api_path)[0]
    for _ in range(2):
        assert may_name_models(glance) is may_name


def test_tools_name_models_where_they_are_searched_alone_and_few_are_remembered() -> None:
    paths = [path for protocol in PROTOCOL_NAMES for path in codec_of(protocol).model_members]
    assert all(path.endswith(_SEARCHED) for path in paths if path.startswith("tools/"))
    api_path = conversation_path(MESSAGES)
    assert api_path is not None
    sizes = [0, *range(2 * _MAX_SEEN), _MAX_TOOLS_BYTES]
    for name in (b"model", b"other"):
        for size in sizes:
            body = b'{"model":"a","messages":[],"tools":[{"%b":"%b"}]}' % (name, b"x" * size)
            assert may_name_models(glance_at(body, api_path)[0]) is (name == b"model")
    assert {len(_HARMLESS_TOOLS), len(_OTHER_TOOLS)} == {_MAX_SEEN}
    assert max(map(len, map(bytes, (*_HARMLESS_TOOLS, *_OTHER_TOOLS)))) <= _MAX_TOOLS_BYTES


def test_a_key_without_a_list_names_what_it_likes() -> None:
    _checked(Rights(), "a/small", ADVISOR % b"large")


def test_a_body_names_a_bounded_number_of_models() -> None:
    names = b",".join(b'"m%d"' % count for count in range(65))
    with pytest.raises(ClientError, match="names more than 64 models"):
        _checked(Rights(models=("a/*",)), "a/small", b',"fallbacks":[%b]' % names)


def test_the_roots_of_all_places_are_read_alike_by_all_readers() -> None:
    for protocol in PROTOCOL_NAMES:
        assert {member.partition("/")[0] for member in codec_of(protocol).model_members} <= DECISIVE


def test_each_request_of_a_batch_names_its_model() -> None:
    target = Target(provider=PROVIDERS["a"], endpoint=PROVIDERS["a"].endpoints[0], model="", strict=False)

    def check(body: bytes) -> None:
        rights = Rights(models=("a/small",))
        check_names_of_body(RESOLVER, rights, body, target, (MESSAGES,), is_batch=True)

    check(b'{"requests":[{"params":{"model":"small"}}]}')
    check(b'{"requests":[]}')
    for body in (
        b'{"requests":[{"params":{"model":"large"}}]}',
        b'{"requests":[{"params":{}}]}',
        b'{"requests":[{}]}',
        b'{"requests":[{"params":{"model":null}}]}',
        b'{"requests":[{"params":{"model":"small","tools":[{"model":"large"}]}}]}',
    ):
        with pytest.raises(NotPermitted):
            check(body)
    for body in (b'{"requests":{}}', b"[]", b'{"requests":[7]}', b"\xff"):
        with pytest.raises(ClientError):
            check(body)
