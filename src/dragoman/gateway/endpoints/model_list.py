"""Model list: the models in the form of the client's protocol, with metadata from providers (mapping.md §23)."""

from __future__ import annotations

from urllib.parse import unquote

from msgspec.structs import replace

from dragoman.gateway.advice import printable
from dragoman.gateway.claude_names import alias, needs_alias, title
from dragoman.gateway.model_list_fetch import refresh_lists
from dragoman.gateway.model_names import model_of, models_of_all, names_of, providers_of
from dragoman.gateway.model_resolver import UnknownModel
from dragoman.gateway.runtime import Incoming
from dragoman.gateway.thread_offload import offload
from dragoman.identities.identity import reading_rights_of
from dragoman.identities.permissions import permits_provider
from dragoman.protocols.registry import codec_of
from dragoman.routing.target import Target
from dragoman.wire.json import encode

# Looking up one model takes as long as reading this many bytes.
_BYTES = 3000


async def list_models(incoming: Incoming) -> None:
    """Respond to `GET /v1/models`."""
    runtime, builder = incoming.runtime, incoming.builder
    rights = reading_rights_of(incoming.key)
    providers = runtime.settings.callable.values()
    await refresh_lists(runtime, [each for each in providers if permits_provider(rights, each.name)])
    protocol = builder.record.client_protocol
    names = names_of(runtime, protocol, rights)

    def build_body() -> bytes:
        models = models_of_all(runtime, names)
        # The same models under names that Claude Code displays.
        aliases = [
            replace(model, id=alias(model.id), title=model.title or title(model.id))
            for model in models
            if needs_alias(model.id, builder.record.program)
        ]
        return encode(codec_of(protocol).models.encode_all([*models, *aliases]))

    incoming.send(await offload(build_body, len(names) * _BYTES, builder.record.key))


async def show_model(incoming: Incoming) -> None:
    """Respond to `GET /v1/models/{id}`: any name that leads to a target is a model."""
    runtime, builder = incoming.runtime, incoming.builder
    name = unquote(incoming.api_path.rest.removeprefix("/models/"), errors="replace")
    builder.record.requested_model = name
    protocol = builder.record.client_protocol
    route = runtime.routes.route(name, protocol, reading_rights_of(incoming.key))
    if not any(map(_may_have, route.targets)):
        raise UnknownModel(f"the model {printable(name)} is not known here")
    await refresh_lists(runtime, providers_of([route]))
    incoming.send(encode(codec_of(protocol).models.encode_one(model_of(runtime, name, route))))


def _may_have(target: Target) -> bool:
    """Whether a provider may have the model. Only the embedded provider's models are known for certain."""
    models = target.provider.models
    return models is None or target.provider.transport != "echo" or target.model in models
