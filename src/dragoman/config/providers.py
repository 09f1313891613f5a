"""Providers: the file, the catalogue and the environment combined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from dragoman.config import file_schema
from dragoman.config.capability_overrides import read_capability_rows
from dragoman.config.environment import Unset, header_value, resolved, secret, visible
from dragoman.config.file_schema import NO_KEY, ProviderTable
from dragoman.config.key_names import key_names
from dragoman.config.nearest_name import nearest
from dragoman.config.settings import Missing
from dragoman.config.tables import ConfigTable
from dragoman.config.toml_lines import KeyPath, dotted
from dragoman.config.values import ValueType, is_loopback, is_name, read_string
from dragoman.errors import ConfigError
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.providers.catalogue import CatalogueEntry
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport import has_list, transport_of
from dragoman.rules.capabilities import CapabilityRow

# Key, problem and remedy of something that cannot be used.
ProblemReport: TypeAlias = Callable[[str, str, str], None]

MESSAGES = "anthropic-messages"
# These find their credentials by themselves, or need none.
_KEYLESS = frozenset({"none", "aws", "google"})
# Headers that carry a key, independently of `api_key`.
_CREDENTIALS = frozenset({"authorization", "x-api-key", "api-key"})
# Members that a provider's catalogue entry has, and members that its table may have.
_LISTED = (
    *("endpoints", "auth", "transport", "streaming", "capabilities", "anthropic", "counts_tokens", "stores_responses"),
)
_GIVEN = (
    *("transport", "streaming", "vendor", "models", "counts_tokens", "stores_responses"),
    *("concurrency", "queue_size", "queue_timeout", "health_check_interval"),
)
# Options of transports beyond those in their catalogue entries.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "azure": ("api_version", "resource"),
    "bedrock": ("region", "profile", "anthropic_version"),
    "vertex": ("project", "region", "credentials", "anthropic_version"),
}
_OPTION = ValueType(type_name="string", example='"…"', read=read_string)


class ProviderEntry(Struct, frozen=True, kw_only=True):
    """The file's entry of one provider; empty for one from the environment alone."""

    table: ProviderTable = ProviderTable()
    options: Mapping[str, str] = {}
    capabilities: tuple[CapabilityRow, ...] = ()


class ProblemReporter:
    """Reports problems of a provider, and missing values that belong to the environment."""

    def __init__(self, report: ProblemReport) -> None:
        self._report = report
        self.has_failed = False
        # Whether it cannot be called without the missing value.
        self.is_absent = False
        # Settings that name a missing value, and the value.
        self.lacks: list[tuple[str, Unset]] = []

    def __call__(self, key: str, problem: str, remedy: str) -> None:
        """Note a setting that cannot be used."""
        self.has_failed = True
        self._report(key, problem, remedy)

    def lack(self, key: str, unset: Unset, *, needed: bool = True) -> None:
        """Note a variable that is not set."""
        self.is_absent = self.is_absent or needed
        self.lacks.append((key, unset))


class ReadProvider(Struct, frozen=True, kw_only=True):
    """The result of one table: without a provider and with something missing, it is absent; with neither, invalid."""

    provider: Provider | None
    missing: tuple[Missing, ...] = ()


def read_provider(
    name: str, table: ConfigTable, environ: Mapping[str, str], catalogue: Mapping[str, CatalogueEntry]
) -> ReadProvider:
    """One table of `[providers]`; its problems are reported there."""
    if not is_name(name):
        table.problems.add(
            table.path, "cannot name a provider", "use letters, digits, hyphens, dots and underscores, and no slash"
        )
    listing = catalogue.get(name) or alike(table.values, catalogue)
    options = option_names(listing)
    table.refuse_others((*file_schema.PROVIDER, "capabilities", *options))
    entry = ProviderEntry(
        table=table.fill(ProviderTable, file_schema.PROVIDER),
        options={option: value for option in options if (value := table.take(option, _OPTION)) is not None},
        capabilities=read_capability_rows(table),
    )
    _check_queue(table)
    report = ProblemReporter(_reporting(table, {} if listing else catalogue))
    provider = assemble(name, entry, listing, environ, report)
    left_out = dotted(table.path) if provider is None else f"a key of {dotted(table.path)}"
    missing = [missing_at((*table.path, key), unset, left_out, table) for key, unset in report.lacks]
    return ReadProvider(provider=provider, missing=tuple(missing))


def _check_queue(table: ConfigTable) -> None:
    """Reject a queue without `concurrency`."""
    for name in ("queue_size", "queue_timeout"):
        if table.has(name) and not table.has("concurrency"):
            problem = "needs concurrency: without a limit no call waits"
            table.complain(name, problem, "set concurrency, for example concurrency = 64, or leave it out")


def missing_at(path: KeyPath, unset: Unset, left_out: str, table: ConfigTable) -> Missing:
    """The missing value of a setting of a table."""
    return Missing(
        left_out=left_out,
        key=dotted(path),
        problem=unset.problem,
        remedy=unset.remedy,
        variable=unset.variable,
        line=table.problems.line_of(path),
    )


def alike(table: Mapping[str, object], catalogue: Mapping[str, CatalogueEntry]) -> CatalogueEntry | None:
    """The catalogue entry with the same transport: a second resource or region has a name of its own."""
    transport = table.get("transport")
    return next((entry for entry in catalogue.values() if entry.transport == transport != "http"), None)


def _reporting(table: ConfigTable, catalogue: Mapping[str, CatalogueEntry]) -> ProblemReport:
    """Notes of problems with members of a table, with the name of the catalogue that was probably meant."""
    close = nearest(str(table.path[-1]), catalogue)
    hint = f", or did you mean [providers.{dotted((close,))}] of the catalogue?" if close else ""
    # An unreadable value was already reported. Its absence is not reported again.
    reported_keys = table.problems.keys()

    def report(key: str, problem: str, remedy: str) -> None:
        path = (*table.path, key) if key else table.path
        if dotted(path) not in reported_keys:
            table.problems.add(path, problem, remedy + hint)

    return report


def option_names(listing: CatalogueEntry | None) -> tuple[str, ...]:
    """The keys of a provider's table that are options of its transport."""
    if listing is None:
        return ()
    names = (*listing.needs, *listing.option_env, *listing.options, *_OPTIONS.get(listing.transport, ()))
    return tuple(dict.fromkeys(names))


def assemble(
    name: str, entry: ProviderEntry, listing: CatalogueEntry | None, environ: Mapping[str, str], report: ProblemReporter
) -> Provider | None:
    """A provider that can be called; None if it cannot, with the reasons noted."""
    table = entry.table
    endpoints = _endpoints(table, listing, report)
    options = _options(entry, listing, environ, report)
    _check_required_options(listing, endpoints, options, report)
    headers = _headers(table, environ, report)
    auth, keys = _credentials(table, listing, endpoints, environ, report)
    if report.has_failed or report.is_absent:
        return None
    provider = _with_facts(_listed(name, listing), table, entry.capabilities)
    provider = msgspec.structs.replace(
        provider, endpoints=endpoints, auth=auth, keys=keys, headers=headers, options=options
    )
    variables = listing.env if listing is not None else ()
    called = key_names(keys, provider=name, texts=table.api_key, variables=variables, environ=environ)
    provider = msgspec.structs.replace(provider, key_names=called)
    _check_plaintext_key(provider, table.allow_plaintext_key, report)
    _check_transport(provider, report)
    _check_list(provider, report)
    return None if report.has_failed else provider


def _listed(name: str, listing: CatalogueEntry | None) -> Provider:
    if listing is None:
        return Provider(name=name, endpoints=())
    return Provider(
        **{member: getattr(listing, member) for member in _LISTED},
        name=name,
        # A second one of the same kind has another name, but the rules know it by this one.
        vendor=listing.vendor or (listing.name if listing.name != name else ""),
        include_usage=bool(listing.include_usage),
    )


def _with_facts(provider: Provider, table: ProviderTable, capabilities: tuple[CapabilityRow, ...]) -> Provider:
    """Members of the file besides addresses and credentials; missing ones stay."""
    return msgspec.structs.replace(
        provider,
        **{member: value for member in _GIVEN if (value := getattr(table, member)) is not None},
        capabilities=(*provider.capabilities, *capabilities),
        # Another address is another service, even with the same protocol.
        anthropic=provider.anthropic and table.base_url is None,
        include_usage=_may_include_usage(provider, table) if table.include_usage is None else table.include_usage,
    )


def _may_include_usage(provider: Provider, table: ProviderTable) -> bool:
    """Whether it is known to take the question for usage: a service at its own address, a local server at any."""
    return provider.include_usage and (table.base_url is None or any(map(_is_local, provider.endpoints)))


def _is_local(endpoint: Endpoint) -> bool:
    return urlsplit(endpoint.base_url).hostname == "127.0.0.1"


def _endpoints(table: ProviderTable, listing: CatalogueEntry | None, report: ProblemReport) -> tuple[Endpoint, ...]:
    """The addresses by protocol, the preferred one first."""
    base_urls = {endpoint.protocol: endpoint.base_url for endpoint in listing.endpoints} if listing else {}
    if isinstance(table.base_url, dict):
        base_urls |= table.base_url
    protocols = table.protocol or tuple(base_urls)
    if not protocols:
        report("protocol", "is missing", f"name what it speaks: {', '.join(PROTOCOL_NAMES)}")
    if isinstance(table.base_url, str):
        base_urls = _expand_base_url(table.base_url, protocols, base_urls, report)
    elif table.base_url is None and not base_urls:
        report("base_url", "is missing", 'name its address, for example base_url = "http://127.0.0.1:8000/v1"')
        return ()
    for protocol in protocols:
        if protocol not in base_urls:
            report("base_url", f"has no address for {protocol}", f'write base_url = {{ {protocol} = "https://…" }}')
    return tuple(
        Endpoint(protocol=protocol, base_url=base_urls[protocol]) for protocol in protocols if protocol in base_urls
    )


def _expand_base_url(
    base_url: str, protocols: tuple[str, ...], base_urls: Mapping[str, str], report: ProblemReport
) -> dict[str, str]:
    """One address for several protocols: those of the catalogue move to another host together."""
    if MESSAGES not in protocols or len(protocols) == 1:
        return dict.fromkeys(protocols, base_url)
    paths = {name: urlsplit(url).path for name, url in base_urls.items()}
    ending = next((paths[name] for name in protocols if paths.get(name) and base_url.endswith(paths[name])), None)
    if ending is not None and all(name in paths for name in protocols):
        return {name: base_url.removesuffix(ending) + paths[name] for name in protocols}
    if not base_url.endswith("/v1"):
        report(
            "base_url",
            "is one address for protocols of two makers and does not end in /v1",
            'end it in /v1, or write one for each: base_url = { openai-chat = "https://…", … }',
        )
    # OpenAI's SDK takes it with /v1 at the end, Anthropic's without.
    return {name: base_url.removesuffix("/v1") if name == MESSAGES else base_url for name in protocols}


def _options(
    entry: ProviderEntry, listing: CatalogueEntry | None, environ: Mapping[str, str], report: ProblemReporter
) -> dict[str, str]:
    """Options from the file, else from the environment, else from the catalogue."""
    options = {} if listing is None else dict(listing.options)
    variables = {} if listing is None else listing.option_env
    for option, names in variables.items():
        value = _first_set(names, environ)
        if value is not None:
            options[option] = value[1]
    for option, text in entry.options.items():
        try:
            options[option] = resolved(text, environ)
        except Unset as unset:
            report.lack(option, unset)
            options[option] = ""
        except ConfigError as error:
            report(option, error.problem, error.remedy)
            options[option] = ""
    return options


def _check_required_options(
    listing: CatalogueEntry | None, endpoints: tuple[Endpoint, ...], options: Mapping[str, str], report: ProblemReporter
) -> None:
    """Note options that are missing, but for those of the catalogue's address where the file has another."""
    if listing is None:
        return
    for option in listing.needs:
        placeholder = f"{{{option}}}"
        replaced = _has_placeholder(listing.endpoints, placeholder) and not _has_placeholder(endpoints, placeholder)
        if option not in options and not replaced:
            names = listing.option_env.get(option, ())
            if names:
                report.lack(option, Unset(names[0], instead=f'set {option} = "…"'))
            else:
                report(option, "is missing", f'set {option} = "…"')


def _has_placeholder(endpoints: Iterable[Endpoint], placeholder: str) -> bool:
    return any(placeholder in endpoint.base_url for endpoint in endpoints)


def _headers(table: ProviderTable, environ: Mapping[str, str], report: ProblemReporter) -> dict[str, str]:
    headers = {}
    for name, text in (table.headers or {}).items():
        try:
            headers[name] = header_value(text, environ)
        except Unset as unset:
            report.lack("headers", unset)
        except ConfigError as error:
            report("headers", f"{name} {error.problem}", error.remedy)
    return headers


def _credentials(
    table: ProviderTable,
    listing: CatalogueEntry | None,
    endpoints: tuple[Endpoint, ...],
    environ: Mapping[str, str],
    report: ProblemReporter,
) -> tuple[str, tuple[str, ...]]:
    """The authentication scheme, and the keys."""
    auth = table.auth or (listing.auth if listing else "")
    # With a key, a provider without a fixed scheme uses that of its transport or protocol.
    keyed = table.auth or ("" if auth in _KEYLESS else auth)
    names = listing.env if listing else ()
    variable = _first_set(names, environ)
    if table.api_key == (NO_KEY,):
        return (auth if auth in _KEYLESS else "none"), ()
    if table.api_key is not None:
        if table.auth == "none":
            report("auth", 'is "none", but there is an api_key', "leave out one of them")
        return keyed, _keys(table.api_key, environ, report)
    if variable is not None and table.auth not in _KEYLESS:
        try:
            return keyed, (visible(variable[1]),)
        except ConfigError as error:
            report("api_key", f"{variable[0]} {error.problem}", error.remedy)
            return keyed, ()
    if auth in _KEYLESS:
        return auth, ()
    if listing is None and endpoints and all(is_loopback(host_of(endpoint)) for endpoint in endpoints):
        return "none", ()
    if names:
        report.lack("api_key", Unset(names[0]))
    else:
        report("api_key", "is missing", 'write api_key = "$NAME", or api_key = "none" if it needs none')
    return auth, ()


def _keys(texts: tuple[str, ...], environ: Mapping[str, str], report: ProblemReporter) -> tuple[str, ...]:
    keys: dict[str, None] = {}
    missing: list[Unset] = []
    for text in texts:
        if text == NO_KEY:
            report("api_key", 'has "none" among several keys', "leave it out")
            continue
        try:
            keys[secret(text, environ)] = None
        except Unset as unset:
            missing.append(unset)
        except ConfigError as error:
            report("api_key", error.problem, error.remedy)
    for each in missing:
        # The others do without it.
        report.lack("api_key", each, needed=not keys)
    return tuple(keys)


def _first_set(names: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, str] | None:
    for name in names:
        value = environ.get(name, "").strip()
        if value:
            return name, value
    return None


def host_of(endpoint: Endpoint) -> str:
    return urlsplit(endpoint.base_url).hostname or ""


def has_credentials(headers: Iterable[str]) -> bool:
    """Whether some of the headers carry a key by themselves."""
    return any(name.lower() in _CREDENTIALS for name in headers)


def _check_plaintext_key(provider: Provider, insecure: bool, report: ProblemReport) -> None:
    """Reject a configuration that would send a key in clear text over a network."""
    if insecure or not (provider.keys or has_credentials(provider.headers)):
        return
    for endpoint in provider.endpoints:
        if endpoint.base_url.startswith("http://") and not is_loopback(host_of(endpoint)):
            report(
                "base_url", "sends the key in clear text", "use https://, or accept it with allow_plaintext_key = true"
            )
            return


def _check_transport(provider: Provider, report: ProblemReport) -> None:
    """Check whether the transport can call this provider: options and extras may be missing."""
    try:
        transport_of(provider.transport).check(provider)
    except ConfigError as error:
        report(error.key.removeprefix(f"providers.{provider.name}").removeprefix("."), error.problem, error.remedy)


def _check_list(provider: Provider, report: ProblemReport) -> None:
    """Reject health checks of a provider without a model list."""
    if provider.health_check_interval is not None and not has_list(provider):
        problem = f"needs a list of models, which the transport {provider.transport} does not have"
        report("health_check_interval", problem, "leave it out: a target in cooldown is probed when the cooldown ends")
