"""Discovery: providers whose key is in the environment, the usual local servers, and the echo provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from dragoman.config.providers import ProblemReport, ProblemReporter, ProviderEntry, assemble
from dragoman.config.settings import RouteConfig
from dragoman.mock.answers.models import echo_models
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.providers.catalogue import CatalogueEntry
from dragoman.providers.provider import Endpoint, Provider

ECHO = "echo"
ECHO_ADDRESS = "echo:"
_ECHO_DEFAULT = "openai-chat"
# Servers that people have on their machines; other ports of the catalogue are too many other things.
LOCAL = ("ollama", "lmstudio", "llamacpp", "vllm")


def echo_provider(first: Iterable[str] = ()) -> Provider:
    """The embedded provider, with the preferred protocols first."""
    names = dict.fromkeys((*first, _ECHO_DEFAULT, *PROTOCOL_NAMES))
    return Provider(
        name=ECHO,
        endpoints=tuple(Endpoint(protocol=name, base_url=ECHO_ADDRESS) for name in names),
        auth="none",
        transport="echo",
        models=echo_models(),
        counts_tokens=True,
        stores_responses=False,
    )


def discover_providers(
    environ: Mapping[str, str], catalogue: Mapping[str, CatalogueEntry], taken: Iterable[str]
) -> tuple[dict[str, Provider], tuple[str, ...]]:
    """Providers of the catalogue whose key is in the environment, and why some of them cannot be used nevertheless."""
    providers: dict[str, Provider] = {}
    warnings: list[str] = []
    taken_names = set(taken)
    for name, listing in catalogue.items():
        variable = next((variable for variable in listing.env if environ.get(variable, "").strip()), None)
        if name in taken_names or variable is None:
            continue
        reasons: list[str] = []
        report = ProblemReporter(_reasons(reasons))
        provider = assemble(name, ProviderEntry(), listing, environ, report)
        reasons += (f"{key}: {unset.problem} ({unset.remedy})" for key, unset in report.lacks)
        if provider is not None:
            providers[name] = provider
        else:
            warnings.append(f"{variable} is set, but {name} cannot be used: {'; '.join(reasons)}")
    return providers, tuple(warnings)


def local_servers(catalogue: Mapping[str, CatalogueEntry], taken: Iterable[str]) -> dict[str, Provider]:
    """Local servers of the catalogue without a key, except for names that are taken."""
    servers: dict[str, Provider] = {}
    taken_names = set(taken)
    for name in LOCAL:
        if name in catalogue and name not in taken_names:
            provider = assemble(name, ProviderEntry(), catalogue[name], {}, ProblemReporter(_reasons([])))
            if provider is not None:
                # Such a server may disappear, so responses are stored by the gateway.
                servers[name] = replace(provider, stores_responses=False)
    return servers


def _reasons(reasons: list[str]) -> ProblemReport:
    def report(key: str, problem: str, remedy: str) -> None:
        reasons.append(f"{key} {problem} ({remedy})".strip())

    return report


def default_routes(providers: Iterable[str], catalogue: Mapping[str, CatalogueEntry]) -> tuple[RouteConfig, ...]:
    """The names that available providers serve without a prefix, by the catalogue."""
    return tuple(
        RouteConfig(pattern=pattern, targets=(f"{name}/{'*' if '*' in pattern else pattern}",))
        for name in providers
        if name in catalogue
        for pattern in catalogue[name].serves
    )
