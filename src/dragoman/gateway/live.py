"""Live check: does every provider answer and take our key? Its list of models is asked for, which costs nothing."""

from __future__ import annotations

import asyncio
import io

from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.gateway.listing import models_at
from dragoman.gateway.logs import Log
from dragoman.gateway.metrics import Metrics
from dragoman.gateway.service import Service
from dragoman.providers.provider import Endpoint, Provider


async def check_live(settings: Settings) -> list[tuple[str, str, bool, str]]:
    """Call every endpoint of every provider: its name, its protocol, whether it is well, and in words."""
    service = Service(settings, Metrics(), Log(io.StringIO()))
    try:
        return list(
            await asyncio.gather(
                *(
                    _check(service, provider, endpoint)
                    for provider in settings.providers.values()
                    for endpoint in provider.endpoints
                )
            )
        )
    finally:
        await service.close()


async def _check(service: Service, provider: Provider, endpoint: Endpoint) -> tuple[str, str, bool, str]:
    try:
        models = await asyncio.wait_for(models_at(service, provider, endpoint), service.settings.timeouts.connect + 5.0)
    except TimeoutError:
        return provider.name, endpoint.protocol, False, "no answer in time"
    except DragomanError as error:
        return provider.name, endpoint.protocol, False, str(error)
    return provider.name, endpoint.protocol, True, f"{len(models)} model{'' if len(models) == 1 else 's'}"
