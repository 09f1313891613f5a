"""Settings of an operator, with all defaults. Comments above members are their text in docs/configuration.md."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.identities.identity import Identity
from dragoman.model.losses import Strict
from dragoman.prices.book import Override
from dragoman.providers.provider import Provider
from dragoman.routing.route import FALLBACK, RuleCondition

MEBIBYTE = 1024 * 1024
GIBIBYTE = 1024 * MEBIBYTE
# What `storage.path` says in place of a file.
MEMORY = ":memory:"
# Seconds of an exchange, where nothing is said of that.
_DEFAULT_TOTAL = 1800.0


class Server(Struct, frozen=True, kw_only=True):
    """Where the gateway listens and whom a browser may send to it."""

    # The address to listen on. Anything but a loopback address needs `[keys]`, or `--no-auth`.
    host: str = "127.0.0.1"
    # The port to listen on; 0 takes a free one.
    port: int = 8484
    # How many processes serve.
    workers: int = 1
    # Names under which it is reached beside loopback names, IP addresses and `host` (against DNS rebinding).
    allowed_hosts: tuple[str, ...] = ()
    # Web pages whose scripts may call it, as `https://example.org`.
    allowed_origins: tuple[str, ...] = ()
    # Proxies in front of it, as addresses or networks, that are believed about the client's address
    # (`X-Forwarded-For`): for the log, and for `addresses` of keys.
    trusted_proxies: tuple[str, ...] = ()
    # Further paths of providers that are relayed with their key, as `GET /files/*`: a method or `*`, and a path
    # without `/v1`, in which `*` is one segment, and at the end everything below. Open without this: what a model
    # computes (embeddings, images, audio, moderation, rerank), and files, batches and the like to be made, not read.
    passthrough_paths: tuple[str, ...] = ()
    # Refuse a request whose translation would change the response, for everybody; `"all"` also refuses losses that are
    # bookkeeping ([which is which](losses.md)).
    strict: Strict = False
    # Whether x-ratelimit-* of a provider are passed on although several keys take turns.
    forward_pooled_rate_limits: bool = False
    # Whether providers of the catalogue whose key is in the environment are there although the file leaves them out;
    # and, on a loopback address and without `[keys]`, Ollama, LM Studio, llama.cpp and vLLM on their usual ports.
    discover: bool = True
    # Whether the embedded `echo` is there, which answers without a key and without cost.
    echo: bool = True


class RouteRule(Struct, frozen=True, kw_only=True):
    """Where a route leads in place of its own targets, when a request fits."""

    when: RuleCondition
    targets: tuple[str, ...]
    weights: tuple[int, ...] = ()


class RouteConfig(Struct, frozen=True, kw_only=True):
    """One route of `[models]`, as written. `*` in a target stands for the same text as in the pattern; a target may be
    the name of another route. None inherits from the route that names this one, else from the general settings."""

    pattern: str
    targets: tuple[str, ...]
    policy: str = FALLBACK
    # One for each target, for the policy that asks for them.
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
    """Limits in time, in seconds."""

    # Until a connection to a provider stands.
    connect: float = 10.0
    # From the request to the first content of the answer; of a whole one, to its first byte.
    first_byte: float = 300.0
    # Silence within an answer.
    idle: float = 120.0
    # Time without content within a stream, whatever else comes: text, reasoning and arguments are content; pings,
    # comments, blank lines and empty deltas are not.
    content: float = 900.0
    # A whole exchange, from the request to the last byte of the answer. Left out, half an hour, but for streams: one
    # that has begun to say something goes on for as long as it has more to say.
    total: float | None = None
    # Silence after which a streaming client gets a keep-alive of its own protocol.
    heartbeat: float = 15.0
    # Until a client's headers are complete.
    client_headers: float = 30.0
    # Silence within a client's body.
    client_body: float = 60.0
    # How long a client's connection is kept without a request. Longer than load balancers keep theirs, so that none
    # of them sends a request into a connection that is being closed.
    client_idle: float = 650.0
    # How long it serves on after SIGTERM while `/readyz` already fails, so that balancers take notice.
    lame_duck: float = 5.0
    # How long running exchanges may take after a termination signal; 0 ends them at once.
    drain: float = 30.0

    @cached_property
    def effective_total(self) -> float:
        """How long an exchange may take until its answer is whole, or is a stream that says something."""
        return _DEFAULT_TOTAL if self.total is None else self.total

    @cached_property
    def soonest(self) -> float:
        """The first of all limits that an exchange may meet, and of signs of life, while its provider is waited for."""
        return min(self.first_byte, self.idle, self.content, self.effective_total, self.heartbeat)


class Routing(Struct, frozen=True, kw_only=True):
    """What may follow a failure, for one request, before anything of an answer was said: another try on the same
    target or the next one, as the model's route in `[models]` says."""

    # How many tries a request has, over all targets and names.
    max_attempts: int = 8
    # How often a request is sent once more although the provider may have worked on it, and may bill it: after silence,
    # or a stream that broke.
    max_billed_retries: int = 1
    # How long nothing is told while targets are tried, on routes with several of them; then a streaming client gets
    # heartbeats.
    heartbeat_after: float = 10.0
    # The share of requests with which `fastest` leads with the target whose figures are missing or the oldest.
    exploration_rate: float = 0.05


class Limits(Struct, frozen=True, kw_only=True):
    """Limits in size, in bytes unless the name says otherwise."""

    # A request's body, decoded.
    request_body: int = 32 * MEBIBYTE
    # A request's line and headers together.
    header_bytes: int = 64 * 1024
    # How many headers a request may have.
    header_count: int = 128
    # A provider's whole answer, decoded.
    response_body: int = 256 * MEBIBYTE
    # One event of a provider's stream.
    stream_event: int = 16 * MEBIBYTE
    # Request bodies that have not come completely, of all gateway keys, in each process; and as many bytes of complete
    # ones, with what they refer to, until their exchanges end. A client beyond its key's part is not read until there
    # is room.
    unfinished_bytes: int = 256 * MEBIBYTE
    # Answers that are read as a whole before the client gets them, and what each stream holds beyond 1 MiB, likewise: a
    # provider beyond the part of a key is not read until there is room. And as many bytes of such answers, and of
    # stored ones, that clients have not read.
    buffered_bytes: int = 256 * MEBIBYTE
    # Open connections to one address of a provider.
    connections_per_host: int = 1024


class Storage(Struct, frozen=True, kw_only=True):
    """What is kept for clients that refer back to it: stored responses and conversations, and what runs in the
    background. A provider that speaks Responses keeps its own. Of answers with tool calls to Chat clients their sealed
    reasoning is kept for an hour, for those that do not send it back."""

    # Whether anything is kept. Without it a reference to what was stored is refused.
    store_responses: bool = True
    # The file to keep it in, a relative one beside the configuration, or `:memory:` to keep it as long as the process
    # lives. Left out, it is `dragoman/state.db` in the user's state directory (`$XDG_STATE_HOME`, else
    # `~/.local/state`).
    path: str = ""
    # How many days after something was last added to them responses and conversations are forgotten.
    response_days: int = 30
    # How many bytes are stored for all keys together: responses, conversations, their items, and the events of
    # background responses. Beyond that, requests that are to be stored get a 507 until something is deleted or out of
    # date; 0 sets no limit. In memory it is 256 MiB at most, in each process.
    max_bytes: int = 8 * GIBIBYTE
    # How many bytes of those one key may store; 0 sets no limit.
    max_bytes_per_key: int = 2 * GIBIBYTE
    # How many responses may run in the background at once, in each process.
    max_background_responses: int = 64
    # Whether every exchange is written down: who asked what of whom, what it took and what it cost, but nothing of what
    # was said. It lies in the same file, and until it is there in journals in a directory beside it
    # (`state.db.records`). In memory nothing is written down.
    record_requests: bool = True
    # How many days the rows of exchanges are kept; what they come to is kept for ever. A thousand exchanges take about
    # a megabyte.
    record_days: int = 400
    # What a client waits for before it hears the end of its answer: `process`, that nothing is lost if the gateway is
    # killed; `machine`, also if the machine fails, which takes a write to the disk.
    durability: str = "process"
    # What is done while exchanges cannot be written down, as on a full disk: `serve`, and say so in `/readyz` and the
    # log, or `reject`.
    on_write_failure: str = "serve"
    # How much of a client's address is written down: its `network` (/24, of IPv6 /48), the `full` one, or `off`.
    client_addresses: str = "network"
    # How many seconds gateway keys of the file are accepted while it cannot be read, as on a disk that fails; after
    # that they get a 503 until it can.
    key_grace: float = 60.0
    # The time zone that days begin in where exchanges are added up by day, as `Europe/Berlin`; left out, the machine's.
    time_zone: str = ""


class Telemetry(Struct, frozen=True, kw_only=True):
    """Where exchanges are told to: a collector of OpenTelemetry gets a span for each, by OTLP over HTTP, with models,
    tokens, costs and times, and nothing that was said. It needs the extra `otel`, and what is told are the records
    (`[storage]`)."""

    # The collector; `/v1/traces` is added to an address that does not end in it. `$NAME` reads the environment. Left
    # out, nobody is told anything.
    endpoint: str = ""
    # Sent with every call to it; `$NAME` reads the environment.
    headers: dict[str, str] = {}
    # The share of exchanges that is told, of those whose client does not say by `traceparent` whether it is.
    sample_ratio: float = 1.0
    # What this gateway is called there.
    service_name: str = "dragoman"
    # What else tells it from others, by the names of OpenTelemetry's conventions.
    attributes: dict[str, str] = {}

    def __repr__(self) -> str:
        # Headers must not reach a log.
        return f"Telemetry(endpoint={self.endpoint!r}, headers={len(self.headers)})"


class Missing(Struct, frozen=True, kw_only=True):
    """Something that the file relies on and that is not there: the setting's key and line, and what to do."""

    # What is left out for want of it, as a subject.
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
        """The same for whoever asks whether a file is in order."""
        return ConfigError(key=self.key, problem=self.problem, remedy=self.remedy, file=file, line=self.line)


class Settings(Struct, frozen=True, kw_only=True):
    """A gateway as configured. `file` is where it was read from, "" if from the environment alone."""

    file: str = ""
    server: Server = Server()
    providers: dict[str, Provider] = {}
    # Servers of this machine that have no table, and are called when somebody names them.
    local: dict[str, Provider] = {}
    # Whether the file has a table of the embedded provider.
    echo_table: bool = False
    # Providers of the file that cannot be called until something else is there: nobody takes their place.
    absent: dict[str, Missing] = {}
    # All that is missing: of those, and keys of others that are left out.
    missing: tuple[Missing, ...] = ()
    # What `[models]` says, and what the catalogue says of the providers at hand, for names that `[models]` leaves out.
    routes: tuple[RouteConfig, ...] = ()
    defaults: tuple[RouteConfig, ...] = ()
    # What the file says of prices, by `provider/model`, and where an updated book of prices may be; "" if nowhere.
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
    telemetry: Telemetry = Telemetry()
    # What works but should be known, in sentences without secrets.
    warnings: tuple[str, ...] = ()

    def listed(self, local_servers: Sequence[Provider] = ()) -> list[Provider]:
        """The providers to list: configured ones, running `local_servers`, and echo. Echo is left out once there is
        another one, unless the file has a table of it; its names work as ever."""
        others = [provider for provider in self.providers.values() if provider.transport != "echo"]
        echo = [provider for provider in self.providers.values() if provider.transport == "echo"]
        return [*others, *local_servers, *(echo if self.echo_table or not (others or local_servers) else ())]

    @property
    def has_telemetry_export(self) -> bool:
        """Whether a collector is told of exchanges: there is one, and they are written down."""
        return bool(self.telemetry.endpoint) and self.storage.record_requests and self.storage.path not in ("", MEMORY)

    @property
    def callable(self) -> dict[str, Provider]:
        """Everybody who is called when somebody names them."""
        return {**self.providers, **self.local}
