"""Launchable clients: the settings by which each of them uses a gateway."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import DragomanError, UsageError, WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.wire.json import decode, encode_text

_UNITS = {"": 1, "k": 1000, "m": 1_000_000}
_is_size = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([km]?)", re.ASCII | re.IGNORECASE).fullmatch
_MAX_TOKENS = 10**9
# The part of the context window that is reserved for output if its maximum is unknown.
_PART = 4


class Sizes(Struct, frozen=True, kw_only=True):
    window: int | None = None
    cap: int | None = None

    @property
    def output(self) -> int | None:
        """The maximum output to request, which leaves room for the input."""
        if self.window is None or (self.cap is not None and self.cap < self.window):
            return self.cap
        return max(self.window // _PART, 1)


def read_tokens(text: str, option: str) -> int:
    """Parse a number of tokens: 128k, 1m, 32768."""
    match = _is_size(text.strip().replace("_", ""))
    tokens = round(float(match[1]) * _UNITS[match[2].lower()]) if match is not None else 0
    if not 0 < tokens <= _MAX_TOKENS:
        raise UsageError(f"{option} is a number of tokens, for example {option} 32768 or {option} 128k")
    return tokens


# The variable with the gateway's key, for users and for clients that read a variable.
KEY_VARIABLE = "DRAGOMAN_KEY"
KEY_REMEDY = f"set {KEY_VARIABLE}, or name the file that holds it with --key-file"
# The provider's name in clients that need one; they store sessions under it.
PROVIDER = "dragoman"
# The header that identifies the requests of one launch.
LAUNCH_HEADER = "x-dragoman-launch"


class LaunchOptions(Struct, frozen=True, kw_only=True):
    """The gateway's address without a final slash, and the requested models."""

    url: str
    model: str | None = None
    # For titles, summaries and the like.
    small_model: str | None = None
    # The context window, which overrides metadata.
    context: int | None = None
    others: tuple[str, ...] = ()
    sizes: Mapping[str, Sizes] = {}
    # The name of the launch; empty for a client that is started by hand.
    launch: str = ""
    # The user's variables, for values that are extended instead of replaced.
    own: Mapping[str, str] = {}

    @property
    def requested_models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name in (self.model, self.small_model) if name is not None))

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.requested_models, *self.others)))

    def sizes_of(self, name: str | None) -> Sizes:
        """Window and output of a model; unknown for a client's own choice."""
        sizes = self.sizes.get(name or "", Sizes())
        return sizes if self.context is None else replace(sizes, window=self.context)


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """The start of a client: its environment and first arguments. It contains no secret."""

    # The variable from which the client reads the key.
    key_variable: str
    environment: Mapping[str, str]
    # Variables that would lead the client elsewhere.
    removed: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    # The option for a settings file, if the user's files win over the environment.
    settings: str = ""


class LaunchableClient(Struct, frozen=True, kw_only=True):
    name: str
    program: str
    package: str
    plan: Callable[[LaunchOptions], LaunchPlan]
    # Whether it has no default model, and whether it uses a small one.
    needs_model: bool = False
    has_small_model: bool = True
    offers_models: bool = False
    # A model that it requests by itself.
    usual: str = ""
    hint: str = ""
    # The option before a session ID that resumes it. The client's own hint works only with a launch.
    resumes: str
    # Settings that may lead it to another address, if it never called the gateway.
    elsewhere: str = ""

    @property
    def remedy(self) -> str:
        return f"install it: npm install -g {self.package}"


_CLAUDE_MODELS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_FABLE_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
# The first is the older name, which it still reads.
_CLAUDE_SMALL_MODELS = ("ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")
# Its maximum output for an unknown model. A conversation before its compaction may leave less room, and servers reject
# requests beyond the window. The client therefore gets only smaller limits.
_CLAUDE_OUTPUT = 32_000
# The valid range of its compaction threshold. It rejects values outside.
_CLAUDE_MIN_COMPACT_WINDOW, _CLAUDE_MAX_COMPACT_WINDOW = 100_000, 1_000_000
CLAUDE_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
# A name with this suffix states its context window.
CLAUDE_SUFFIX = "[1m]"
# Ways around the gateway: keys of its own, logins, and other clouds.
_CLAUDE_ELSEWHERE = (
    "ANTHROPIC_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
)


def _claude(launch_options: LaunchOptions) -> LaunchPlan:
    environment = {
        "ANTHROPIC_BASE_URL": launch_options.url,
        # Its model selection lists the models of the gateway.
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
        # It sends session and subagent with each request.
        "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1",
    }
    if launch_options.launch:
        own = launch_options.own.get(CLAUDE_HEADERS, "").rstrip("\n")
        environment[CLAUDE_HEADERS] = "\n".join(filter(None, (own, f"{LAUNCH_HEADER}: {launch_options.launch}")))
    small = launch_options.small_model or launch_options.model
    environment |= dict.fromkeys(_CLAUDE_MODELS, launch_options.model) if launch_options.model else {}
    environment |= dict.fromkeys(_CLAUDE_SMALL_MODELS, small) if small else {}
    window = launch_options.sizes_of(launch_options.model).window
    if window:
        # The first is for models that it does not know, the second also for models that it knows by another name.
        environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(window)
        environment["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(
            min(max(window, _CLAUDE_MIN_COMPACT_WINDOW), _CLAUDE_MAX_COMPACT_WINDOW)
        )
    # All of its models share one limit.
    outputs = [size for name in (launch_options.model, small) if (size := launch_options.sizes_of(name).output)]
    if outputs and min(outputs) < _CLAUDE_OUTPUT:
        environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(min(outputs))
    return LaunchPlan(
        key_variable="ANTHROPIC_AUTH_TOKEN", environment=environment, removed=_CLAUDE_ELSEWHERE, settings="--settings"
    )


def _codex(launch_options: LaunchOptions) -> LaunchPlan:
    """Codex gets its settings on its command line, which leaves its file unchanged."""
    members: JsonObject = {
        "name": "Dragoman",
        "base_url": f"{launch_options.url}/v1",
        "wire_api": "responses",
        "env_key": KEY_VARIABLE,
        "supports_websockets": False,
    }
    if launch_options.launch:
        members["http_headers"] = {LAUNCH_HEADER: launch_options.launch}
    settings = {"model_provider": encode_text(PROVIDER), f"model_providers.{PROVIDER}": _toml(members)}
    if launch_options.model:
        settings["model"] = encode_text(launch_options.model)
    window = launch_options.sizes_of(launch_options.model).window
    if window:
        # It never requests a maximum output, so that needs no setting.
        settings["model_context_window"] = str(window)
    arguments = tuple(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))
    return LaunchPlan(key_variable=KEY_VARIABLE, environment={}, arguments=arguments)


def _toml(value: JsonValue) -> str:
    """A value on one line. Strings, numbers and booleans are the same in TOML as in JSON."""
    if not isinstance(value, dict):
        return encode_text(value)
    return f"{{ {', '.join(f'{name} = {_toml(inner)}' for name, inner in value.items())} }}"


# It sends images and efforts only to models that are declared to accept them. The gateway knows the exceptions.
_OPENCODE_CONFIG = "OPENCODE_CONFIG_CONTENT"
_OPENCODE_AGENTS = ("build", "plan")
# OpenCode's maximum output, also for a model with unknown limits, and its largest budget for a title.
_OPENCODE_OUTPUT, _OPENCODE_THINKING = 32_000, 16_000
# The minimum thinking budget of Messages.
_LEAST_THINKING = 1024
_OPENCODE_ABLE: JsonObject = {"attachment": True, "modalities": {"input": ["text", "image", "pdf"], "output": ["text"]}}


def _opencode(launch_options: LaunchOptions) -> LaunchPlan:
    """OpenCode reads a full configuration from its environment, and merges it over the user's own."""
    options: JsonObject = {"baseURL": f"{launch_options.url}/v1", "apiKey": f"{{env:{KEY_VARIABLE}}}"}
    if launch_options.launch:
        options["headers"] = {LAUNCH_HEADER: launch_options.launch}
    provider: JsonObject = {
        # Messages is the richest protocol: thinking with signatures, cache breakpoints.
        "npm": "@ai-sdk/anthropic",
        "name": "Dragoman",
        "options": options,
        "models": {name: _opencode_model(name, launch_options.sizes_of(name)) for name in launch_options.models},
    }
    config: JsonObject = {"provider": {PROVIDER: provider}}
    if launch_options.model:
        config["model"] = model = f"{PROVIDER}/{launch_options.model}"
        # A model that the user's files assign to one of its own agents would win otherwise.
        config["agent"] = {agent: {"model": model} for agent in _OPENCODE_AGENTS}
    if small := launch_options.small_model or launch_options.model:
        config["small_model"] = f"{PROVIDER}/{small}"
    config = merged(_given_config(launch_options.own), config)
    return LaunchPlan(key_variable=KEY_VARIABLE, environment={_OPENCODE_CONFIG: encode_text(config)})


def _given_config(own: Mapping[str, str]) -> JsonObject:
    """The configuration in the user's environment. An unreadable one is ignored: its client reports it."""
    text = own.get(_OPENCODE_CONFIG, "")
    try:
        given = decode(text.encode()) if text else {}
    except WireError as error:
        raise DragomanError(f"{_OPENCODE_CONFIG} holds no JSON: {error}") from None
    return given if isinstance(given, dict) else {}


def merged(below: JsonObject, above: JsonObject) -> JsonObject:
    """Merge two documents. The second wins."""
    whole = {**below, **above}
    for name, value in above.items():
        other = below.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            whole[name] = merged(other, value)
    return whole


def _opencode_model(name: str, sizes: Sizes) -> JsonObject:
    """A model as OpenCode declares it, always with a limit; a context of 0 is unknown. For titles OpenCode requests a
    thinking budget of half of `output`, less one, on top of `output`. Without a limit that is -1, which Messages
    rejects; with the model's maximum, both exceed it. If the budget would be below the minimum of Messages, the model
    is declared without thinking."""
    cap = sizes.cap if sizes.cap or sizes.window else _OPENCODE_OUTPUT
    output = sizes.output or _OPENCODE_OUTPUT
    if cap is not None and cap < _OPENCODE_OUTPUT + _OPENCODE_THINKING:
        output = min(output, max(cap * 2 // 3, 1))
    limit: JsonObject = {"context": sizes.window or 0, "output": output}
    return {"name": name, **_OPENCODE_ABLE, "reasoning": output // 2 - 1 >= _LEAST_THINKING, "limit": limit}


CLIENTS: Mapping[str, LaunchableClient] = {
    client.name: client
    for client in (
        LaunchableClient(
            name="claude",
            program="claude",
            package="@anthropic-ai/claude-code",
            plan=_claude,
            usual="claude-sonnet-5",
            resumes="--resume",
            elsewhere="settings that an administrator manages",
        ),
        LaunchableClient(
            name="codex",
            program="codex",
            package="@openai/codex",
            plan=_codex,
            has_small_model=False,
            usual="gpt-5.1",
            resumes="resume",
            hint="codex keeps sessions by provider: those that begin here are listed and resumed by `dragoman launch "
            "codex -- resume` (or `resume ID`), and all others by `codex resume`",
            elsewhere="a session that was begun without launch, or -c model_provider behind --",
        ),
        LaunchableClient(
            name="opencode",
            program="opencode",
            package="opencode-ai",
            plan=_opencode,
            needs_model=True,
            offers_models=True,
            resumes="--session",
            elsewhere="enabled_providers or disabled_providers in opencode.json, or another model chosen in the client",
        ),
    )
}
