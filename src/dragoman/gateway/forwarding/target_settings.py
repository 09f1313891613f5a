"""Target settings: what all calls to one target have in common, computed once for each configuration."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.gateway.forwarding.error_responses import route_header
from dragoman.gateway.forwarding.redaction import Redactor
from dragoman.providers.transport import transport_of
from dragoman.providers.transport_interface import Unframer
from dragoman.routing.rotation import Rotation
from dragoman.routing.target import Target


class TargetSettings(Struct, frozen=True, eq=False):
    """The parts of a configuration that serve one target."""

    target: Target
    # The provider's keys, and what must not leave of it.
    rotation: Rotation
    redactor: Redactor
    # Takes the provider's own framing off a stream; None where it has none.
    unframe: Callable[[], Unframer] | None
    # The response header that names the target, where no policy chose it.
    route_header: tuple[bytes, bytes]
    # Whether a client gets the rate limits that the provider reports.
    returns_limits: bool


def compute_settings(target: Target, rotation: Rotation, redactor: Redactor, *, pooled_limits: bool) -> TargetSettings:
    """Compute the settings of a target; `pooled_limits` forwards the rate limits of one key of several."""
    provider = target.provider
    return TargetSettings(
        target,
        rotation,
        redactor,
        None if provider.transport == "echo" else transport_of(provider.transport).unframe,
        route_header(provider.name, target.printable_model, target.endpoint.protocol),
        # If keys rotate, the limits of one of them do not apply to the next call.
        len(provider.keys) <= 1 or pooled_limits,
    )
