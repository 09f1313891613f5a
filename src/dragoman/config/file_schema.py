"""The tables of dragoman.toml as written, and the value type of each key. The comment above a member is its description
in docs/configuration.md. None is left out: the catalogue, the environment or `Settings` has the value."""

from __future__ import annotations

import datetime
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from dragoman.config import values
from dragoman.config.environment import is_literal
from dragoman.config.tables import did_you_mean
from dragoman.config.values import ValueType
from dragoman.errors import ConfigError
from dragoman.identities.identity import CLIENT, MAX_TAGS, ROLES, is_tag
from dragoman.identities.members import MAX_CONCURRENCY
from dragoman.identities.path_families import ACTIONS, OPEN_ACTIONS, is_path_right
from dragoman.identities.permissions import MAX_PATTERN_LENGTH, MAX_PATTERN_STARS, is_pattern
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Strict
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.routing.policies import POLICIES
from dragoman.routing.route import FALLBACK

AUTHS = ("bearer", "x-api-key", "api-key", "none", "aws", "google")
TRANSPORTS = ("http", "azure", "bedrock", "vertex")
STREAMS = ("on-request", "always", "never")
NO_KEY = "none"

WEIGHTS = '{ "a/m" = 80, "b/m" = 20 }'

_MAX_WEIGHT = 1_000_000

Addresses: TypeAlias = str | dict[str, str]
# Targets in order, or with their weights.
Targets: TypeAlias = tuple[str, ...] | dict[str, int]


class ProviderTable(Struct, frozen=True, kw_only=True):
    """A provider. A provider of the catalogue (`dragoman providers`) needs only its key, and no table if the key is in
    the environment. A local server of the catalogue needs an empty table. Any other name needs `protocol` and
    `base_url`. Settings of a transport (`region`, `project`, `resource`, `api_version` and similar) are additional keys
    of the table."""

    # The protocol of the provider, or an array of protocols in order of preference.
    protocol: tuple[str, ...] | None = None
    # The base URL as the official SDK of the protocol takes it, or a table with one URL per protocol. A single URL for
    # protocols of both vendors ends in `/v1`, which is removed for Messages.
    base_url: Addresses | None = None
    # The API key, or an array of keys that are used in turn. `$NAME` or `${NAME}` reads an environment variable, `none`
    # means no key, `$$` at the start is a dollar sign. The default is the variable of the catalogue.
    api_key: tuple[str, ...] | None = None
    # How the key is sent. The default is that of the catalogue, else that of the protocol.
    auth: str | None = None
    # Additional headers of each call. `$NAME` reads an environment variable.
    headers: dict[str, str] | None = None
    # The vendor whose built-in rules apply, if it differs from the name of the table.
    vendor: str | None = None
    # Whether the provider streams if the request asks for it (`on-request`), `always` or `never`.
    streaming: str | None = None
    # The models to list. The default is the provider's model list.
    models: tuple[str, ...] | None = None
    # Request usage in relayed Chat streams with `stream_options.include_usage`, and hide the usage chunk from clients
    # that did not request it. If `false`, the gateway estimates their tokens.
    include_usage: bool | None = None
    # Whether the provider has an endpoint that counts tokens.
    counts_tokens: bool | None = None
    # Whether a Responses provider stores its responses, so that only the provider can resolve their IDs.
    stores_responses: bool | None = None
    # How calls are addressed, signed and framed.
    transport: str | None = None
    # Maximum calls at the same time, divided among the workers, at least one for each. The default is no limit.
    concurrency: int | None = None
    # Maximum requests that wait for a free slot, divided among the workers. The next request gets the overload error.
    # Needs `concurrency`.
    queue_size: int | None = None
    # Maximum wait for a free slot. Needs `concurrency`.
    queue_timeout: float | None = None
    # Interval of active health checks while a target is in cooldown. A check requests the model list, which is free. If
    # a check fails and a later one succeeds, the cooldown ends. Without this key, one probe request is sent after the
    # cooldown.
    health_check_interval: float | None = None
    # Send the key over `http://` to another machine.
    allow_plaintext_key: bool = False


class CapabilityTable(Struct, frozen=True, kw_only=True):
    """Capabilities of some models of the provider, if the built-in rules have none or are wrong. Later rows win."""

    # The protocol of the row.
    protocol: str | None = None
    # A shell pattern of model names.
    model: str = "*"
    # Capabilities and their values, from the list below.
    set: JsonObject | None = None


class RouteTable(Struct, frozen=True, kw_only=True):
    """Routes: model names for clients, in addition to `provider/model`. A route has a name, or a pattern with one `*`.
    Its value is a target as a string, an array of targets as a fallback in this order, or a table. A target is
    `provider/model` or the name of another route. A nested route uses its own keys, and inherits the others from this
    route. In a target, `*` is the text that the `*` of the pattern matched. As a complete model name, as in `openai/*`,
    it is the requested name without the directories of the pattern. If several patterns match, the longest literal
    prefix wins."""

    # The only target. A route has either `to` or `targets`.
    to: str | None = None
    # Targets in order, or for `weighted` a table of targets and weights.
    targets: Targets | None = None
    # How targets are ordered: as written (`fallback`), at random by weight (`weighted`), in turn (`round-robin`), by
    # estimated cost (`cheapest`), by expected time (`fastest`), or by the number of losses (`least-loss`). If a target
    # fails, the next one is called.
    policy: str = FALLBACK
    # Session affinity: a conversation stays on its target until the target fails, so that prompt caches and reasoning
    # remain usable. The default is `true`, and `false` for `round-robin`.
    sticky: bool | None = None
    # Retries on the same target before the next target, after failures that a retry can repair. The default is 0,
    # because clients retry by themselves.
    retries: int | None = None
    # Time until the response must begin, before the next target is called. The default is `timeouts.first_byte`.
    first_byte: float | None = None
    # Maximum estimated cost of a request. Targets above it, or without a known price, are skipped.
    max_cost: int | None = None
    # Reject a request whose translation would change the response. With several targets, skip those targets. `"all"`
    # also rejects bookkeeping losses ([losses](losses.md)).
    strict: Strict = False
    # Call the next target if a target refuses the content with an error. By default the client gets the refusal. A
    # refusal inside a response is always returned.
    fallback_on_refusal: bool | None = None


class RuleTable(Struct, frozen=True, kw_only=True):
    """Rules of a route. The first rule that fits replaces the targets of the route. Policy and other keys of the route
    stay in force. Rules are for cost, not for permissions: the permissions of a key apply to the requested name."""

    # Conditions, from the list below. All must hold.
    when: dict[str, object] | None = None
    # The only target. A rule has either `to` or `targets`.
    to: str | None = None
    # Targets in order, or for `weighted` a table of targets and weights.
    targets: Targets | None = None


class KeyTable(Struct, frozen=True, kw_only=True):
    """A gateway key, which opens every protocol. `dragoman key new NAME --print` makes one. It has `key` or `hash`."""

    # The key itself; `$NAME` reads the environment.
    key: str | None = None
    # The SHA-256 digest of the key, so that the file contains no secret. During a rotation, an array of two.
    hash: tuple[str, ...] | None = None
    # The digest that identifies the owner of stored responses and records. It stays the same when the key is rotated.
    # The default is the digest of the key. Two digests need it.
    owner: str | None = None
    # A `client` calls models and reads its own records. A `viewer` reads all records and calls no model. An `admin`
    # does both and changes keys.
    role: str = CLIENT
    # The models that it may request, as patterns of the names that clients write, without `claude:`, `[1m]` and
    # `@protocol`. `*` stands for any text within a segment between slashes; as the last segment, for everything below;
    # alone, for everything. A model that a body names elsewhere, as for a tool, must be permitted as `provider/model`
    # or by a name that leads to it. Left out, all.
    models: tuple[str, ...] | None = None
    # The providers that its requests may reach, under any model name. Left out, all.
    providers: tuple[str, ...] | None = None
    # The client addresses and networks from which the key is accepted. Left out, all.
    addresses: tuple[str, ...] | None = None
    # The families of paths that it may use, with an action (`create`, `read`, `delete`, `cancel`) or without:
    # `messages`, `chat`, `responses`, `conversations`, `models`, `embeddings`, `completions`, `moderations`,
    # `classify`, `rerank`, `ocr`, `tokenize`, `images`, `audio`, `videos`, `files`, `uploads`, `batches`, `containers`,
    # `vector_stores`, and `other` for what `server.passthrough_paths` alone opens. What is closed by default must be
    # named with its action. Left out, everything that is open by default.
    paths: tuple[str, ...] | None = None
    # Names and values that are copied into records, for `dragoman usage --by tag`.
    tags: dict[str, str] | None = None
    # When the key expires: a date-time, or the end of a date in `storage.time_zone`. Left out, never.
    expires: datetime.date | None = None
    # Reject requests of this key whose translation would change the response. `"all"` also rejects bookkeeping losses
    # ([losses](losses.md)).
    strict: Strict = False
    # Maximum model requests at the same time, including background responses. The next request gets a rate-limit error
    # at once. Divided among the workers, rounded up. Left out, no limit.
    concurrency: int | None = None


def _hashes(value: object) -> tuple[str, ...]:
    hashes = values.read_strings(value)
    if len(hashes) > 2 or len({*hashes}) < len(hashes):
        raise values.invalid("expected one digest, or two different ones")
    return hashes


def _model_pattern(value: object) -> str:
    text = values.read_string(value)
    if not is_pattern(text):
        raise values.unexpected(
            text,
            f"a pattern of model names with at most {MAX_PATTERN_LENGTH} characters and {MAX_PATTERN_STARS} single `*`",
        )
    return text


def _provider_name(value: object) -> str:
    text = values.read_string(value)
    if not values.is_name(text):
        raise values.unexpected(text, "the name of a provider")
    return text


def _path_right(value: object) -> str:
    text = values.read_string(value)
    if not is_path_right(text):
        family, colon, _ = text.partition(":")
        if colon and family in OPEN_ACTIONS:
            raise values.unexpected(text, f"{family}: and one of {', '.join(ACTIONS)}")
        raise values.invalid(f"there is no path family {values.quoted(text)}", did_you_mean(family, OPEN_ACTIONS))
    return text


def _machine(value: object) -> str:
    text = values.read_string(value)
    if not values.is_name(text):
        raise values.unexpected(text, "a name of up to 64 letters, digits, ., _ and -")
    return text


def _tags(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise values.mismatch(value, "a table of strings")
    if len(value) > MAX_TAGS:
        raise values.invalid(f"expected at most {MAX_TAGS} tags, got {len(value)}")
    for name, text in value.items():
        if not isinstance(text, str) or not (is_tag(name) and is_tag(text)):
            raise values.invalid(
                f"expected a name and a value of 1 to 64 letters, digits, dots, hyphens and underscores for the tag "
                f"{values.quoted(name)}"
            )
    return value


def _moment(value: object) -> datetime.date:
    if not isinstance(value, datetime.date):
        raise values.mismatch(value, "a date or a date-time")
    return value


def _protocols(value: object) -> tuple[str, ...]:
    names = values.read_strings(value)
    for name in names:
        values.choice(*PROTOCOL_NAMES)(name)
    if len(set(names)) < len(names):
        raise values.invalid("expected each protocol once, got one twice")
    return names


def _addresses(value: object) -> Addresses:
    if not isinstance(value, dict):
        return values.read_url(value)
    return {values.choice(*PROTOCOL_NAMES)(name): values.read_url(url) for name, url in value.items()}


def _changes(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise values.mismatch(value, "a table of capabilities")
    return {name: _plain(member) for name, member in value.items()}


def _plain(value: object) -> JsonValue:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str | int):
        return value
    raise values.mismatch(value, "a string, an integer, a boolean or an array")


def _targets(value: object) -> Targets:
    if not isinstance(value, dict):
        if isinstance(value, list):
            return values.read_strings(value)
        raise values.mismatch(value, "an array of targets, or a table of weights")
    if not value:
        raise values.invalid("expected at least one target, got an empty table")
    weights = {name: _weight(name, weight) for name, weight in value.items()}
    if not any(weights.values()):
        raise values.invalid("expected a weight above 0, got none", f"example: targets = {WEIGHTS}")
    return weights


def _weight(name: str, value: object) -> int:
    try:
        return values.integer(0, _MAX_WEIGHT)(value)
    except ConfigError as error:
        raise values.invalid(f"for {values.quoted(name)}: {error.problem}", f"example: targets = {WEIGHTS}") from None


def _policy(value: object) -> str:
    text = values.read_string(value)
    if text not in POLICIES:
        raise values.invalid(
            f"expected one of {', '.join(POLICIES)}, got {values.quoted(text)}", did_you_mean(text, POLICIES)
        )
    return text


def _when(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise values.mismatch(value, "a table")
    if not value:
        raise values.invalid("expected at least one condition, got an empty table, which every request would match")
    return value


def read_collector(value: object) -> str:
    try:
        return values.read_url(value)
    except ConfigError as error:
        # Credentials are sent in a header, here as elsewhere.
        raise values.invalid(error.problem, "put them into headers" if "credentials" in error.problem else "") from None


def _collector(value: object) -> str:
    """The same as written: the environment is read later."""
    text = values.read_string(value)
    return read_collector(text) if is_literal(text) else text


def _attributes(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise values.mismatch(value, "a table of names and strings")
    return {name: values.read_string(text) for name, text in value.items()}


_BOOLEAN = ValueType(type_name="boolean", example="true", read=values.read_boolean)
_STRICT = ValueType(type_name='boolean or `"all"`', example="true", read=values.read_strict)
_PROTOCOL = ValueType(type_name="a protocol", example='"openai-chat"', read=values.choice(*PROTOCOL_NAMES))


def _duration(example: str, lowest: float = 0.001) -> ValueType[float]:
    type_name = "seconds, or a string with a unit (`ms`, `s`, `min`, `h`)"
    return ValueType(type_name=type_name, example=example, read=values.duration(lowest))


def _size(example: str, lowest: int = 1) -> ValueType[int]:
    type_name = "bytes, or a string with a unit (`kB`, `MB`, `GB`, `KiB`, `MiB`, `GiB`)"
    return ValueType(type_name=type_name, example=example, read=partial(values.read_size, lowest=lowest))


def _choice(*choices: str) -> ValueType[str]:
    named = ", ".join(f"`{choice}`" for choice in choices)
    return ValueType(type_name=f"one of {named}", example=f'"{choices[0]}"', read=values.choice(*choices))


def _count(example: int, highest: int) -> ValueType[int]:
    return ValueType(type_name=f"integer from 1 to {highest}", example=str(example), read=values.integer(1, highest))


SERVER: dict[str, ValueType[object]] = {
    "host": ValueType(type_name="host name or IP address", example='"127.0.0.1"', read=values.read_host),
    "port": ValueType(type_name="integer from 0 to 65535", example="8484", read=values.integer(0, 65535)),
    "workers": _count(2, 256),
    "allowed_hosts": ValueType(
        type_name="array of host names", example='["gateway.example.org"]', read=values.each_of(values.read_host)
    ),
    "allowed_origins": ValueType(
        type_name="array of origins", example='["https://app.example.org"]', read=values.each_of(values.read_origin)
    ),
    "trusted_proxies": ValueType(
        type_name="array of IP addresses or networks",
        example='["10.0.0.0/8", "127.0.0.1"]',
        read=values.each_of(values.read_network),
    ),
    "passthrough_paths": ValueType(
        type_name="array of methods with paths",
        example='["GET /files/*"]',
        read=values.each_of(values.read_passthrough_path),
    ),
    "strict": _STRICT,
    "forward_pooled_rate_limits": _BOOLEAN,
    "discover": ValueType(type_name="boolean", example="false", read=values.read_boolean),
    "echo": ValueType(type_name="boolean", example="false", read=values.read_boolean),
}

TIMEOUTS: dict[str, ValueType[object]] = {
    "connect": _duration("10"),
    "first_byte": _duration('"5 min"'),
    "idle": _duration("120"),
    "content": _duration('"15 min"'),
    "total": _duration('"30 min"'),
    "heartbeat": _duration("15"),
    "client_headers": _duration("30"),
    "client_body": _duration("60"),
    "client_idle": _duration("650"),
    "lame_duck": _duration("5", lowest=0.0),
    "drain": _duration('"30 s"', lowest=0.0),
}

ROUTING: dict[str, ValueType[object]] = {
    "max_attempts": _count(8, 16),
    "max_billed_retries": ValueType(type_name="integer from 0 to 16", example="0", read=values.integer(0, 16)),
    "heartbeat_after": _duration('"10 s"'),
    "exploration_rate": ValueType(type_name="number from 0 to 1", example="0.05", read=values.read_share),
}

LIMITS: dict[str, ValueType[object]] = {
    "request_body": _size('"32 MiB"'),
    "header_bytes": _size('"64 KiB"'),
    "header_count": _count(128, 10000),
    "response_body": _size('"256 MiB"'),
    "stream_event": _size('"16 MiB"'),
    "unfinished_bytes": _size('"256 MiB"'),
    "buffered_bytes": _size('"256 MiB"'),
    "connections_per_host": _count(1024, 65535),
}

DATABASE: ValueType[str] = ValueType(
    type_name="address of a PostgreSQL database", example='"$DATABASE_URL"', read=values.read_string
)

STORAGE: dict[str, ValueType[object]] = {
    "store_responses": ValueType(type_name="boolean", example="false", read=values.read_boolean),
    "path": ValueType(type_name="path of a file", example='"/var/lib/dragoman/state.db"', read=values.read_string),
    "database": DATABASE,
    "machine": ValueType(type_name="name of letters, digits, `.`, `_` and `-`", example='"eu-1"', read=_machine),
    "connections": _count(2, 64),
    "journal_keep": _duration('"1 h"', lowest=1.0),
    "allow_unverified_database": _BOOLEAN,
    "response_days": _count(30, 3650),
    "max_bytes": _size('"8 GiB"', lowest=0),
    "max_bytes_per_key": _size('"2 GiB"', lowest=0),
    "max_background_responses": _count(64, 10000),
    "record_requests": ValueType(type_name="boolean", example="false", read=values.read_boolean),
    "record_days": _count(400, 36500),
    "durability": _choice("process", "machine"),
    "on_write_failure": _choice("serve", "reject"),
    "client_addresses": _choice("network", "full", "off"),
    "key_grace": _duration('"60 s"', lowest=1.0),
    "time_zone": ValueType(type_name="time zone name", example='"Europe/Berlin"', read=values.read_time_zone),
}

CONTENTS: dict[str, ValueType[object]] = {
    "record": _choice("off", "on"),
    "days": _count(30, 3650),
    "size": _size('"5 GB"'),
    "redact": ValueType(
        type_name="regular expression, or an array of them",
        example='["ACME-[0-9]{8}"]',
        read=values.each_of(values.read_string),
    ),
    "key": ValueType(type_name="string of at least 16 characters", example='"$CONTENTS_KEY"', read=values.read_string),
}

TELEMETRY: dict[str, ValueType[object]] = {
    "endpoint": ValueType(type_name="address", example='"http://127.0.0.1:4318"', read=_collector),
    "headers": ValueType(
        type_name="table of strings", example='{ authorization = "$COLLECTOR_AUTHORIZATION" }', read=values.read_headers
    ),
    "sample_ratio": ValueType(type_name="number from 0 to 1", example="0.1", read=values.read_share),
    "service_name": ValueType(type_name="string", example='"gateway-1"', read=values.read_string),
    "attributes": ValueType(
        type_name="table of strings", example='{ "deployment.environment.name" = "production" }', read=_attributes
    ),
}

PROVIDER: dict[str, ValueType[object]] = {
    "protocol": ValueType(
        type_name=f"{_choice(*PROTOCOL_NAMES).type_name}, or an array of them", example='"openai-chat"', read=_protocols
    ),
    "base_url": ValueType(
        type_name="address, or a table of addresses by protocol",
        example='"https://llm.example.org/v1"',
        read=_addresses,
    ),
    "api_key": ValueType(type_name="string or array of strings", example='"$OPENAI_API_KEY"', read=values.read_strings),
    "auth": _choice(*AUTHS),
    "headers": ValueType(type_name="table of strings", example='{ x-team = "blue" }', read=values.read_headers),
    "vendor": ValueType(type_name="string", example='"deepseek"', read=values.read_string),
    "streaming": _choice(*STREAMS),
    "models": ValueType(
        type_name="string or array of strings", example='["qwen3", "gemma3"]', read=values.read_strings
    ),
    "include_usage": _BOOLEAN,
    "counts_tokens": _BOOLEAN,
    "stores_responses": ValueType(type_name="boolean", example="false", read=values.read_boolean),
    "transport": _choice(*TRANSPORTS),
    "concurrency": _count(64, 100_000),
    "queue_size": ValueType(type_name="integer from 0 to 100000", example="256", read=values.integer(0, 100_000)),
    "queue_timeout": _duration('"30 s"'),
    "health_check_interval": _duration('"30 s"', lowest=1.0),
    "allow_plaintext_key": _BOOLEAN,
}

CAPABILITY: dict[str, ValueType[object]] = {
    "protocol": _PROTOCOL,
    "model": ValueType(type_name="string", example='"qwen3*"', read=values.read_string),
    "set": ValueType(type_name="table", example="{ images = false, max_output = 8192 }", read=_changes),
}

TO = ValueType(type_name="string", example='"openai/gpt-5.1"', read=values.read_string)
TARGETS = ValueType(
    type_name="array of strings, or a table of integers", example='["openai/gpt-5.1", "local/qwen3"]', read=_targets
)

ROUTE: dict[str, ValueType[object]] = {
    "to": TO,
    "targets": TARGETS,
    "policy": ValueType(type_name=_choice(*POLICIES).type_name, example='"cheapest"', read=_policy),
    "sticky": ValueType(type_name="boolean", example="false", read=values.read_boolean),
    "retries": ValueType(type_name="integer from 0 to 5", example="3", read=values.integer(0, 5)),
    "first_byte": _duration('"20 s"'),
    "max_cost": ValueType(type_name="US dollars", example="0.05", read=values.read_cost),
    "strict": _STRICT,
    "fallback_on_refusal": _BOOLEAN,
}

RULE: dict[str, ValueType[object]] = {
    "when": ValueType(type_name="table", example="{ input_tokens_over = 60_000 }", read=_when),
    "to": TO,
    "targets": TARGETS,
}

WHEN: dict[str, ValueType[object]] = {
    "input_tokens_over": ValueType(type_name="integer", example="60_000", read=values.integer(0, 10**9)),
    "thinking": _BOOLEAN,
    "images": _BOOLEAN,
    "documents": _BOOLEAN,
    "tools": _BOOLEAN,
    "structured_output": _BOOLEAN,
    "client": ValueType(type_name="string", example='"claude-cli"', read=values.read_string),
    "key": ValueType(type_name="string", example='"laptop"', read=values.read_string),
    "thread": ValueType(type_name="thread class", example='"subagent"', read=values.read_string),
}

KEY: dict[str, ValueType[object]] = {
    "key": ValueType(type_name="string", example='"$LAPTOP_KEY"', read=values.read_string),
    "hash": ValueType(
        type_name="string: `sha256:` and 64 hexadecimal digits, or an array of two",
        example='"sha256:…"',
        read=_hashes,
    ),
    "owner": ValueType(
        type_name="string: `sha256:` and 64 hexadecimal digits", example='"sha256:…"', read=values.read_string
    ),
    "role": _choice(*ROLES),
    "models": ValueType(
        type_name="string or array of strings", example='["claude-*", "fast"]', read=values.some_of(_model_pattern)
    ),
    "providers": ValueType(
        type_name="string or array of strings", example='["anthropic"]', read=values.some_of(_provider_name)
    ),
    "addresses": ValueType(
        type_name="address or network, or an array of them",
        example='["10.0.0.0/8"]',
        read=values.some_of(values.read_network),
    ),
    "paths": ValueType(
        type_name="string or array of strings", example='["embeddings", "files:read"]', read=values.some_of(_path_right)
    ),
    "tags": ValueType(type_name="table of strings", example='{ team = "web" }', read=_tags),
    "expires": ValueType(type_name="date or date-time", example="2027-01-31", read=_moment),
    "strict": _STRICT,
    "concurrency": _count(16, MAX_CONCURRENCY),
}

SECTIONS = ("server", "providers", "models", "prices", "keys", "timeouts", "routing", "limits", "storage", "telemetry")
