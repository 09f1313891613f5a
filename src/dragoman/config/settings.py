"""Settings of an operator, with all defaults. Comments above members are their text in docs/configuration.md."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from dragoman.database_location import MEMORY, DatabaseLocation, PostgresDatabase, is_persistent
from dragoman.errors import ConfigError
from dragoman.identities.identity import Identity
from dragoman.model.losses import Strict
from dragoman.prices.book import Override
from dragoman.providers.provider import Provider
from dragoman.routing.route import FALLBACK, RuleCondition

MEBIBYTE = 1024 * 1024
GIBIBYTE = 1024 * MEBIBYTE
# Default seconds of an exchange.
_DEFAULT_TOTAL = 1800.0


class Server(Struct, frozen=True, kw_only=True):
    """Address of the gateway, processes, and access by browsers and proxies."""

    # Listen address. An address other than loopback needs a gateway key or `--no-auth`.
    host: str = "127.0.0.1"
    # Listen port. 0 selects a free port.
    port: int = 8484
    # Number of worker processes.
    workers: int = 1
    # Accepted names in the `Host` header, in addition to loopback names, IP addresses and `host`. The check prevents
    # DNS rebinding.
    allowed_hosts: tuple[str, ...] = ()
    # Origins of web pages that may call the gateway, such as `https://example.org`.
    allowed_origins: tuple[str, ...] = ()
    # Addresses or networks of reverse proxies whose `X-Forwarded-For` header is trusted, for the log and for
    # `addresses` of keys.
    trusted_proxies: tuple[str, ...] = ()
    # Additional provider paths that clients may call with the provider's key, such as `GET /files/*`: a method or `*`,
    # and a path without `/v1`. `*` matches one segment, or the rest of the path at its end. Always open: paths on which
    # a model computes (embeddings, images, audio, moderation, rerank), and uploads of files, batches and similar input.
    passthrough_paths: tuple[str, ...] = ()
    # Reject every request whose translation would change the response. `"all"` also rejects bookkeeping losses
    # ([losses](losses.md)).
    strict: Strict = False
    # Forward the `x-ratelimit-*` headers of a provider with several keys.
    forward_pooled_rate_limits: bool = False
    # Enable providers of the catalogue whose key is in the environment, without a table in the file. On a loopback
    # address without `[keys]`, also enable Ollama, LM Studio, llama.cpp and vLLM on their default ports.
    discover: bool = True
    # Enable the built-in provider `echo`, which needs no key and costs nothing.
    echo: bool = True


class RouteRule(Struct, frozen=True, kw_only=True):
    """Where a route leads in place of its own targets, when a request fits."""

    when: RuleCondition
    targets: tuple[str, ...]
    weights: tuple[int, ...] = ()


class RouteConfig(Struct, frozen=True, kw_only=True):
    """One route of `[models]`, as written. `*` in a target is the text that the pattern matched; a target may be the
    name of another route. None inherits from the route that names this one, else from the general settings."""

    pattern: str
    targets: tuple[str, ...]
    policy: str = FALLBACK
    # One per target, for the weighted policy.
    weights: tuple[int, ...] = ()
    rules: tuple[RouteRule, ...] = ()
    strict: Strict = False
    sticky: bool | None = None
    retries: int | None = None
    # In seconds.
    first_byte: float | None = None
    # In nano-dollars.
    max_cost: int | None = None
    fallback_on_refusal: bool | None = None


class Timeouts(Struct, frozen=True, kw_only=True, dict=True):
    """Time limits, in seconds."""

    # Limit for a connection to a provider.
    connect: float = 10.0
    # Limit from the request to the first content of a stream, or to the first byte of a full response.
    first_byte: float = 300.0
    # Limit for silence within a response.
    idle: float = 120.0
    # Limit for a stream without content. Text, reasoning and tool arguments are content. Pings, comments, blank lines
    # and empty deltas are not.
    content: float = 900.0
    # Limit from the request to the last byte of the response. The default is 30 minutes, and no limit for a stream
    # after its first content.
    total: float | None = None
    # Silence after which a streaming client gets a heartbeat of its protocol.
    heartbeat: float = 15.0
    # Limit for the headers of a client's request.
    client_headers: float = 30.0
    # Limit for silence within a client's request body.
    client_body: float = 60.0
    # Lifetime of an idle client connection. It is longer than that of common load balancers, so that a balancer never
    # sends a request on a connection that the gateway is closing.
    client_idle: float = 650.0
    # Time after SIGTERM during which the gateway serves requests while `/readyz` fails, so that load balancers notice.
    lame_duck: float = 5.0
    # Limit for running requests after a termination signal. 0 ends them at once.
    drain: float = 30.0

    @cached_property
    def effective_total(self) -> float:
        """The limit of an exchange until its response is complete, or a stream with content."""
        return _DEFAULT_TOTAL if self.total is None else self.total

    @cached_property
    def soonest(self) -> float:
        """The first of all limits that an exchange may meet, and of signs of life, while its provider is waited for."""
        return min(self.first_byte, self.idle, self.content, self.effective_total, self.heartbeat)


class Routing(Struct, frozen=True, kw_only=True):
    """Limits of retries and failover of one request. Failover is possible until the first content of the response was
    sent. The route in `[models]` names the targets."""

    # Maximum attempts of a request, over all targets.
    max_attempts: int = 8
    # Maximum retries after an attempt that the provider may bill: after a timeout or a broken stream.
    max_billed_retries: int = 1
    # Silence after which a streaming client gets heartbeats, while a route with several targets is tried.
    heartbeat_after: float = 10.0
    # Share of requests for which `fastest` calls the target with the oldest or missing measurements first.
    exploration_rate: float = 0.05


class Limits(Struct, frozen=True, kw_only=True):
    """Size limits, in bytes unless the name states another unit."""

    # A request body, decompressed.
    request_body: int = 32 * MEBIBYTE
    # Request line and headers of a request together.
    header_bytes: int = 64 * 1024
    # Number of headers of a request.
    header_count: int = 128
    # A provider's full response, decompressed.
    response_body: int = 256 * MEBIBYTE
    # One event of a provider's stream.
    stream_event: int = 16 * MEBIBYTE
    # Incomplete request bodies of all gateway keys, per process. The same limit holds for complete bodies and the
    # stored items that they reference, until their requests end. The gateway pauses reading from a client whose key
    # exceeds its share.
    unfinished_bytes: int = 256 * MEBIBYTE
    # Full responses that are buffered for clients, and the part of each stream beyond 1 MiB, per process. The gateway
    # pauses reading from a provider if a key exceeds its share. The same limit holds for buffered and stored responses
    # that clients have not read.
    buffered_bytes: int = 256 * MEBIBYTE
    # Open connections to one address of a provider.
    connections_per_host: int = 1024


class Storage(Struct, frozen=True, kw_only=True):
    """Stored responses, conversations and background responses of Responses clients, and the records of all requests. A
    provider that supports Responses stores its own responses. For Chat clients, signed reasoning of responses with tool
    calls is cached for one hour."""

    # Store responses and conversations. If `false`, requests that reference stored items are rejected.
    store_responses: bool = True
    # The database file. A relative path starts at the directory of the configuration. `:memory:` stores data only while
    # the process runs. The default is `dragoman/state.db` in `$XDG_STATE_HOME`, or in `~/.local/state`. If `database`
    # is set, only the journals of this machine are beside this path.
    path: str = ""
    # The address of a database of PostgreSQL that several machines share, in place of a file. `$NAME` reads an
    # environment variable. No message shows more of it than hosts, ports and the name of the database. It needs the
    # extra `postgres`. For a host other than loopback, the address needs `sslmode=verify-full`.
    database: PostgresDatabase | None = None
    # The name of this machine among the machines of the database. The default is the name of the host.
    machine: str = ""
    # Connections of each worker to the database for responses and conversations. Each worker has two more, for
    # ingestion and for its heartbeat.
    connections: int = 2
    # How long ingested journals are retained with `database`: longer than a replica of the database can lag, since a
    # failover may lose their rows, which are then ingested again.
    journal_keep: float = 3600.0
    # Accept `sslmode` below `verify-full` for another machine. Its identity is then not verified.
    allow_unverified_database: bool = False
    # Days after the last addition until a response or conversation is deleted.
    response_days: int = 30
    # Limit for responses, conversations, their items and events of background responses of all keys. Beyond it,
    # requests that store something get 507. 0 means no limit. With `:memory:`, the limit is at most 256 MiB per
    # process.
    max_bytes: int = 8 * GIBIBYTE
    # The same limit for one gateway key. 0 means no limit.
    max_bytes_per_key: int = 2 * GIBIBYTE
    # Maximum background responses that run at the same time, per process.
    max_background_responses: int = 64
    # Record key, client, model, provider, tokens, cost and timing of each request, without prompts and responses.
    # Records are in the same file, and in journals in the directory `state.db.records` until they are ingested. With
    # `:memory:`, nothing is recorded.
    record_requests: bool = True
    # Days until the record of a single request is deleted. Totals are never deleted. A thousand records take about 1
    # MB.
    record_days: int = 400
    # When the client gets the end of its response: `process`, if the record survives a crash of the gateway; `machine`,
    # if it also survives a crash of the machine, which takes a disk write.
    durability: str = "process"
    # Behaviour if records cannot be written, as on a full disk: `serve` continues and reports it in `/readyz` and the
    # log, `reject` rejects requests.
    on_write_failure: str = "serve"
    # Recorded part of a client's address: its `network` (/24 for IPv4, /48 for IPv6), the `full` address, or `off`.
    client_addresses: str = "network"
    # How long gateway keys of the database are accepted while the database does not answer, or its file cannot be read,
    # as on a disk that fails. After that, they get 503 until the gateway can read it.
    key_grace: float = 60.0
    # Time zone of days in totals by day. The default is the time zone of the machine.
    time_zone: str = ""

    @property
    def location(self) -> DatabaseLocation:
        """Where the data is stored."""
        return self.database or self.path or MEMORY

    @property
    def is_persistent(self) -> bool:
        """Whether data outlives the process, and other processes see it."""
        return is_persistent(self.location)


class Contents(Struct, frozen=True, kw_only=True):
    """Bodies of requests and responses: what the client sent, what each provider was sent and returned, and what the
    client got. They are stored in `contents.db` beside `storage.path`, or in a schema of their own in
    `storage.database`, without credentials. `dragoman logs ID --contents` shows those of a request."""

    # Store the contents of conversations. A client keeps its own out with the header `x-dragoman-record: off`.
    record: str = "off"
    # Days until contents are deleted.
    days: int = 30
    # Limit for all contents. The oldest are deleted first.
    size: int = 5 * 10**9
    # Patterns of text that is not stored, in addition to credentials of known forms: regular expressions of at most 500
    # ASCII characters. A pattern that could take too long is refused.
    redact: tuple[str, ...] = ()
    # The key that contents are encrypted with. `$NAME` reads an environment variable. It needs the extra `contents`.
    # Stored contents can be read only with the key that they were stored with.
    key: str = ""

    def __repr__(self) -> str:
        # Without the key.
        return f"Contents(record={self.record!r}, days={self.days}, size={self.size})"


class Telemetry(Struct, frozen=True, kw_only=True):
    """OpenTelemetry export: the collector gets one span per request by OTLP over HTTP, with models, tokens, cost and
    timing, without prompts and responses. Telemetry needs the extra `otel` and records (`[storage]`)."""

    # Address of the collector. `/v1/traces` is appended if the address does not end in it. `$NAME` reads an environment
    # variable. Without an address, nothing is exported.
    endpoint: str = ""
    # Headers of each call to the collector. `$NAME` reads an environment variable.
    headers: dict[str, str] = {}
    # Exported share of requests without `traceparent`. For other requests, `traceparent` decides.
    sample_ratio: float = 1.0
    # `service.name` of this gateway.
    service_name: str = "dragoman"
    # Additional resource attributes, named by OpenTelemetry's conventions.
    attributes: dict[str, str] = {}

    def __repr__(self) -> str:
        # Headers must not reach a log.
        return f"Telemetry(endpoint={self.endpoint!r}, headers={len(self.headers)})"


class Missing(Struct, frozen=True, kw_only=True):
    """Something that the file relies on and that is not there: the setting's key and line, and what to do."""

    # The skipped item, as the subject of a sentence.
    left_out: str
    key: str
    problem: str
    remedy: str
    # The environment variable to set; "" if it is none that is missing.
    variable: str = ""
    line: int = 0
    # Whether the file has a table of the provider, or only names it in `[models]`.
    has_table: bool = True

    def __str__(self) -> str:
        return f"{self.left_out} is left out: {self.problem} ({self.remedy})"

    def as_error(self, file: str) -> ConfigError:
        """The same as an error, for `dragoman check`."""
        return ConfigError(key=self.key, problem=self.problem, remedy=self.remedy, file=file, line=self.line)


class Settings(Struct, frozen=True, kw_only=True):
    """A gateway as configured. `file` is where it was read from, "" if from the environment alone."""

    file: str = ""
    server: Server = Server()
    providers: dict[str, Provider] = {}
    # Local servers without a table, called when a request names them.
    local: dict[str, Provider] = {}
    # Whether the file has a table of the embedded provider.
    echo_table: bool = False
    # Providers of the file that cannot be called, because something is missing. No other provider takes their name.
    absent: dict[str, Missing] = {}
    # All that is missing: of those, and keys of others that are left out.
    missing: tuple[Missing, ...] = ()
    # Routes of `[models]`, and default routes of available providers for other names.
    routes: tuple[RouteConfig, ...] = ()
    defaults: tuple[RouteConfig, ...] = ()
    # Prices of the file, by `provider/model`, and the path of an updated price book; "" if nowhere.
    prices: dict[str, Override] = {}
    price_book_path: str = ""
    keys: tuple[Identity, ...] = ()
    # Whether the file has `[keys]`, with anything in it or not; and whether it has nothing at all.
    keys_table: bool = False
    empty: bool = False
    timeouts: Timeouts = Timeouts()
    routing: Routing = Routing()
    limits: Limits = Limits()
    storage: Storage = Storage()
    contents: Contents = Contents()
    telemetry: Telemetry = Telemetry()
    # Warnings in sentences without secrets.
    warnings: tuple[str, ...] = ()

    def listed(self, local_servers: Sequence[Provider] = ()) -> list[Provider]:
        """The providers to list: configured ones, running `local_servers`, and echo. Echo is left out once there is
        another one, unless the file has a table of it; its names work as ever."""
        others = [provider for provider in self.providers.values() if provider.transport != "echo"]
        echo = [provider for provider in self.providers.values() if provider.transport == "echo"]
        return [*others, *local_servers, *(echo if self.echo_table or not (others or local_servers) else ())]

    @property
    def records_contents(self) -> bool:
        """Whether contents are stored: they are enabled, and there is a place for them."""
        return self.contents.record == "on" and self.storage.is_persistent

    @property
    def has_telemetry_export(self) -> bool:
        """Whether records are exported: there is a collector, and records are enabled."""
        return bool(self.telemetry.endpoint) and self.storage.record_requests and self.storage.is_persistent

    @property
    def callable(self) -> dict[str, Provider]:
        """All providers that a request can name."""
        return {**self.providers, **self.local}
