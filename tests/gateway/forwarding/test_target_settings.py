"""Settings that all calls to one target share."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.gateway.runtime import Runtime
from dragoman.routing.target import Target
from tests.gateway.exchange.played import played_by
from tests.gateway.harness import CHAT
from tests.gateway.routed import target_of


def test_settings_are_computed_once_for_each_target() -> None:
    async def story(service: Runtime) -> None:
        target = target_of(service.routes, "chat/served", CHAT)
        settings = service.target_settings(target)
        assert settings is service.target_settings(target) and settings.target is target
        assert settings.rotation is service.rotation(target.provider)
        assert settings.redactor is service.redactor(target.provider)
        assert settings.route_header == (b"x-dragoman-route", b"chat/served; protocol=openai-chat")
        assert service.target_settings(replace(target)) is not settings

    played_by(story)


def test_a_target_whose_model_has_a_very_long_name_is_not_held() -> None:
    async def story(service: Runtime) -> None:
        target = target_of(service.routes, f"chat/{'m' * 100_000}", CHAT)
        settings = service.target_settings(target)
        assert settings.target is target and service.target_settings(target) is not settings

    played_by(story)


@pytest.mark.parametrize(("transport", "has_framing"), [("http", False), ("echo", False), ("bedrock", True)])
def test_only_a_cloud_frames_streams_in_its_own_way(transport: str, has_framing: bool) -> None:
    async def story(service: Runtime) -> None:
        target = _called_by(target_of(service.routes, "chat/served", CHAT), transport)
        assert (service.target_settings(target).unframe is not None) is has_framing

    played_by(story)


def _called_by(target: Target, transport: str) -> Target:
    return replace(target, provider=replace(target.provider, transport=transport))


@pytest.mark.parametrize(("keys", "pooled", "returns"), [(1, False, True), (2, False, False), (2, True, True)])
def test_rate_limits_of_one_of_several_keys_are_returned_only_if_configured(
    keys: int, pooled: bool, returns: bool
) -> None:
    async def story(service: Runtime) -> None:
        server = replace(service.settings.server, forward_pooled_rate_limits=pooled)
        service.settings = replace(service.settings, server=server)
        target = target_of(service.routes, "chat/served", CHAT)
        provider = replace(target.provider, keys=tuple(f"key-{number}" for number in range(keys)))
        assert service.target_settings(replace(target, provider=provider)).returns_limits is returns

    played_by(story)
