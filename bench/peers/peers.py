"""The other gateways: where their packages come from, how each is configured and started, and which cases it can do.

Each has one provider, the mock, under the names of its models, and one worker. Telemetry, update checks and downloads
are switched off by each gateway's own settings. The environment is empty but for what is named here, so that no key of
the user reaches a peer, and proxy variables name a port without a listener: a forgotten call to elsewhere fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, json

from bench.gateway.process import Served, free_port
from bench.gateway.questions import GATEWAY_KEY
from bench.peers.installing import size, version
from bench.peers.rounds import About, Program
from bench.workloads import CHAT, MESSAGES, MODELS

# Labels of cases by the protocol of the client.
CHAT_CASES = frozenset({"S1", "S2", "S4 burst", "S4 paced"})
ALL_CASES = CHAT_CASES | {"S3 burst", "S3 paced", "S6"}
_PROVIDER_KEY = "sk-mock"
# Seconds until the slowest of them is ready on a machine with other work.
_READY = 180.0
# Port 9 is "discard", which listens nowhere today.
_CLOSED = "http://127.0.0.1:9"
_OFFLINE = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HTTP_PROXY": _CLOSED,
    "HTTPS_PROXY": _CLOSED,
    "http_proxy": _CLOSED,
    "https_proxy": _CLOSED,
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}
_CHAT_MODEL, _MESSAGES_MODEL = MODELS[CHAT], MODELS[MESSAGES]

_TENSORZERO = """
[gateway]
disable_pseudonymous_usage_analytics = true
observability.enabled = false

[models."{chat}"]
routing = ["mock"]

[models."{chat}".providers.mock]
type = "openai"
model_name = "{chat}"
api_base = "http://127.0.0.1:{provider}/v1/"
api_key_location = "env::MOCK_KEY"

[models."{messages}"]
routing = ["mock"]

[models."{messages}".providers.mock]
type = "anthropic"
model_name = "{messages}"
api_base = "http://127.0.0.1:{provider}/v1/"
api_key_location = "env::MOCK_KEY"
"""


class Place(Struct, frozen=True, kw_only=True):
    """Where a peer runs: its virtual environment, its directory, its port and that of the provider."""

    installed: Path
    directory: Path
    port: int
    provider: int

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.directory / "config"

    @property
    def python(self) -> str:
        """The Python of the virtual environment."""
        return str(self.installed / "bin/python")


class Peer(Struct, frozen=True, kw_only=True):
    """A gateway to compare with; `name` is that of its package and of its file of pins."""

    name: str
    title: str
    # How the server was obtained, and what it does besides forwarding.
    source: str
    active: str
    # Labels of the cases that it can do.
    cases: frozenset[str]
    # What comes before the paths of the protocols and before the names of models.
    base: bytes = b""
    prefix: str = ""
    config: Callable[[Place], str]
    command: Callable[[Place], list[str]]
    variables: Mapping[str, str] = {}
    # The path that returns 200 when it is ready, or the output that names its port, if it selects one itself.
    health: bytes = b""
    address: re.Pattern[bytes] | None = None
    # The share of the exchanges of a turn, so that a turn of a slow program takes seconds. With 16 requests of 300 KB,
    # LiteLLM's figures had two modes, because half a second of work came once in a while.
    share: float = 1.0


def _tensorzero_config(place: Place) -> str:
    return _TENSORZERO.format(chat=_CHAT_MODEL, messages=_MESSAGES_MODEL, provider=place.provider)


def _tensorzero_command(place: Place) -> list[str]:
    return [place.python, str(Path(__file__).with_name("tensorzero_server.py")), str(place.config)]


def _litellm_config(place: Place) -> str:
    # JSON is YAML.
    models = {
        _CHAT_MODEL: {"model": f"openai/{_CHAT_MODEL}", "api_base": f"http://127.0.0.1:{place.provider}/v1"},
        _MESSAGES_MODEL: {"model": f"anthropic/{_MESSAGES_MODEL}", "api_base": f"http://127.0.0.1:{place.provider}"},
    }
    written = {
        "model_list": [
            {"model_name": name, "litellm_params": {**params, "api_key": _PROVIDER_KEY}}
            for name, params in models.items()
        ],
        # Without the second, Messages requests go to the Responses API of the provider.
        "litellm_settings": {"drop_params": True, "use_chat_completions_url_for_anthropic_messages": True},
        "general_settings": {"master_key": GATEWAY_KEY},
    }
    return json.encode(written).decode()


def _litellm_command(place: Place) -> list[str]:
    program = str(place.installed / "bin/litellm")
    # The proxy checks its own health only if told to; one worker is the default.
    return [place.python, program, "--config", str(place.config), "--host", "127.0.0.1", "--port", str(place.port)]


def _rosetta_config(place: Place) -> str:
    written = {
        "providers": {
            "chat": {
                "type": "openai_chat",
                "api_key": _PROVIDER_KEY,
                "base_url": f"http://127.0.0.1:{place.provider}/v1",
            },
            "messages": {
                "type": "anthropic",
                "api_key": _PROVIDER_KEY,
                "base_url": f"http://127.0.0.1:{place.provider}",
            },
        },
        "models": {_CHAT_MODEL: "chat", _MESSAGES_MODEL: "messages"},
        "server": {"host": "127.0.0.1", "port": place.port, "open_on_no_keys": True},
    }
    return json.encode(written).decode()


def _rosetta_command(place: Place) -> list[str]:
    program = str(place.installed / "bin/llm-rosetta-gateway")
    return [place.python, program, "--config", str(place.config), "--no-banner", "--data-dir", str(place.directory)]


PEERS = (
    Peer(
        name="tensorzero",
        title="TensorZero",
        source="PyPI package `tensorzero`: the HTTP gateway that `patch_openai_client` starts inside Python",
        active="metrics; no keys and no records, which need PostgreSQL or ClickHouse",
        cases=CHAT_CASES,
        base=b"/openai",
        prefix="tensorzero::model_name::",
        config=_tensorzero_config,
        command=_tensorzero_command,
        variables={"MOCK_KEY": _PROVIDER_KEY},
        address=re.compile(rb"serving on http://127\.0\.0\.1:(\d+)"),
    ),
    Peer(
        name="llm-rosetta",
        title="LLM-Rosetta",
        source="PyPI package `llm-rosetta`: `llm-rosetta-gateway`",
        active="metrics and request log in SQLite; no keys",
        cases=ALL_CASES,
        config=_rosetta_config,
        command=_rosetta_command,
        health=b"/health",
        share=0.3,
    ),
    Peer(
        name="litellm",
        title="LiteLLM",
        source="PyPI package `litellm[proxy]`: `litellm`",
        active="master key, cost calculation; no records, which need PostgreSQL",
        cases=ALL_CASES,
        config=_litellm_config,
        command=_litellm_command,
        variables={
            # Prices, headers and announcements come from the package instead of from its repository.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
            "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
            "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
            "LITELLM_LOCAL_BLOG_POSTS": "True",
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOG": "ERROR",
        },
        health=b"/health/liveliness",
        share=0.3,
    ),
)


def start(peer: Peer, installed: Path, where: Path, core: int, provider_port: int) -> Served:
    """A peer, started on that core with a directory of its own below `where`."""
    directory = where / peer.name
    directory.mkdir()
    place = Place(installed=installed, directory=directory, port=free_port(), provider=provider_port)
    place.config.write_text(peer.config(place), encoding="utf-8")
    variables = {**_OFFLINE, "HOME": str(directory), **peer.variables}
    # `env -i` becomes the program itself, so that it keeps its process id.
    command = ["env", "-i", *(f"{name}={value}" for name, value in variables.items()), *peer.command(place)]
    return Served(command, place.port, where / f"{peer.name}.log", core=core, health=peer.health)


def running(peer: Peer, installed: Path, served: Served) -> Program:
    """A peer as a program to measure, once it accepts requests."""
    ready = served.wait_ready(_READY) if peer.address is None else served.wait_listening(peer.address, _READY)
    return Program(
        name=peer.name,
        about=About(title=peer.title, version=version(peer.name), source=peer.source, active=peer.active),
        served=served,
        start=ready,
        installation=size(installed),
        cases=peer.cases,
        base=peer.base,
        prefix=peer.prefix,
        share=peer.share,
    )
