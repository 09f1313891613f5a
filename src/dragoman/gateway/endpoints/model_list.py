"""Model list: the models that can be asked for, in the shape that the caller's SDK expects (mapping.md §23).

What a provider said of its models is told as far as the caller's dialect has a member for it.
"""

from __future__ import annotations

from urllib.parse import unquote

from msgspec.structs import replace

from dragoman.gateway.advice import shown
from dragoman.gateway.claude_names import alias, needs_alias, title
from dragoman.gateway.exchange.error_responses import JSON, id_header
from dragoman.gateway.model_list_fetch import ask_providers
from dragoman.gateway.model_names import model_of, models_of_all, names_of, providers_of
from dragoman.gateway.model_resolver import UnknownModel
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.paths import ApiPath
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.thread_offload import beside_loop
from dragoman.http.server import ServerRequest
from dragoman.model.listing import ListedModel
from dragoman.protocols.registry import codec_of
from dragoman.routing.target import Target
from dragoman.wire.json import encode

# To look one up takes as long as to read so many bytes.
_BYTES = 3000


async def list_models(service: Runtime, request: ServerRequest, account: RecordBuilder) -> None:
    """Answer `GET /v1/models`."""
    await ask_providers(service, service.settings.callable.values())
    protocol = account.record.dialect
    names = names_of(service, protocol)

    def told() -> bytes:
        models = models_of_all(service, names)
        aliases = [_aliased(model) for model in models if needs_alias(model.id, account.record.program)]
        return encode(codec_of(protocol).models.encode_all([*models, *aliases]))

    _respond(service, request, account, await beside_loop(told, len(names) * _BYTES, account.record.key))


async def show_model(service: Runtime, request: ServerRequest, api_path: ApiPath, account: RecordBuilder) -> None:
    """Answer `GET /v1/models/{id}`: any name that leads somewhere is a model."""
    name = unquote(api_path.rest.removeprefix("/models/"), errors="replace")
    account.update(asked=name)
    protocol = account.record.dialect
    route = service.routes.route(name, protocol)
    if not any(map(_may_have, route.targets)):
        raise UnknownModel(f"the model {shown(name)} is not known here")
    await ask_providers(service, providers_of([route]))
    _respond(service, request, account, encode(codec_of(protocol).models.encode_one(model_of(service, name, route))))


def _aliased(model: ListedModel) -> ListedModel:
    """The same model under a name that Claude Code shows."""
    return replace(model, id=alias(model.id), title=model.title or title(model.id))


def _may_have(target: Target) -> bool:
    """Whether a provider may have the model: of the embedded one that is known."""
    models = target.provider.models
    return models is None or target.provider.transport != "echo" or target.model in models


def _respond(service: Runtime, request: ServerRequest, account: RecordBuilder, body: bytes) -> None:
    account.finalize(status=200)
    headers = [JSON, id_header(account.record.dialect, account.record.id), *service.guard.greeting(request)]
    request.respond(200, headers, body)
