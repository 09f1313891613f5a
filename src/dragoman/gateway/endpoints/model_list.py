"""Model list: the available models in the shape of the client's protocol, with what providers reported (mapping.md
§23)."""

from __future__ import annotations

from urllib.parse import unquote

from msgspec.structs import replace

from dragoman.gateway.advice import printable
from dragoman.gateway.claude_names import alias, needs_alias, title
from dragoman.gateway.forwarding.error_responses import JSON, id_header
from dragoman.gateway.model_list_fetch import refresh_lists
from dragoman.gateway.model_names import model_of, models_of_all, names_of, providers_of
from dragoman.gateway.model_resolver import UnknownModel
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.paths import ApiPath
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.thread_offload import offload
from dragoman.http.server import ServerRequest
from dragoman.model.listing import ListedModel
from dragoman.protocols.registry import codec_of
from dragoman.routing.target import Target
from dragoman.wire.json import encode

# To look one up takes as long as to read so many bytes.
_BYTES = 3000


async def list_models(runtime: Runtime, request: ServerRequest, builder: RecordBuilder) -> None:
    """Answer `GET /v1/models`."""
    await refresh_lists(runtime, runtime.settings.callable.values())
    protocol = builder.record.client_protocol
    names = names_of(runtime, protocol)

    def build_body() -> bytes:
        models = models_of_all(runtime, names)
        aliases = [_aliased(model) for model in models if needs_alias(model.id, builder.record.program)]
        return encode(codec_of(protocol).models.encode_all([*models, *aliases]))

    _respond(runtime, request, builder, await offload(build_body, len(names) * _BYTES, builder.record.key))


async def show_model(runtime: Runtime, request: ServerRequest, api_path: ApiPath, builder: RecordBuilder) -> None:
    """Answer `GET /v1/models/{id}`: any name that leads somewhere is a model."""
    name = unquote(api_path.rest.removeprefix("/models/"), errors="replace")
    builder.record.requested_model = name
    protocol = builder.record.client_protocol
    route = runtime.routes.route(name, protocol)
    if not any(map(_may_have, route.targets)):
        raise UnknownModel(f"the model {printable(name)} is not known here")
    await refresh_lists(runtime, providers_of([route]))
    _respond(runtime, request, builder, encode(codec_of(protocol).models.encode_one(model_of(runtime, name, route))))


def _aliased(model: ListedModel) -> ListedModel:
    """The same model under a name that Claude Code shows."""
    return replace(model, id=alias(model.id), title=model.title or title(model.id))


def _may_have(target: Target) -> bool:
    """Whether a provider may have the model: of the embedded one that is known."""
    models = target.provider.models
    return models is None or target.provider.transport != "echo" or target.model in models


def _respond(runtime: Runtime, request: ServerRequest, builder: RecordBuilder, body: bytes) -> None:
    builder.finalize(status=200)
    headers = [JSON, id_header(builder.record.client_protocol, builder.record.id), *runtime.guard.greeting(request)]
    request.respond(200, headers, body)
