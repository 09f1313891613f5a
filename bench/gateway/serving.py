"""Who is served: the mock provider, the gateway as an operator would run it, and nginx as a plain reverse proxy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from bench.gateway.process import ProcessError, Served, free_port
from bench.gateway.questions import GATEWAY_KEY
from bench.workloads import CHAT, MESSAGES, MODELS

# The gateway's program, without a profiler.
PLAIN = (sys.executable, "-m", "dragoman")
# One key opens the gateway; metrics and the exchange log are on because they always are.
_GATEWAY = """
[server]
host = "127.0.0.1"
port = {port}

[timeouts]
lame_duck = 0

[providers.chat]
protocol = "openai-chat"
base_url = "http://127.0.0.1:{provider}/v1"
api_key = "sk-mock-chat"

[providers.messages]
protocol = "anthropic-messages"
base_url = "http://127.0.0.1:{provider}"
api_key = "sk-mock-messages"

[providers.responses]
protocol = "openai-responses"
base_url = "http://127.0.0.1:{provider}/v1"
api_key = "sk-mock-responses"
{others}{secure}
[models]
"{chat}" = "chat/{chat}"
"{messages}" = "messages/{messages}"
{lines}{secure_models}
[keys.bench]
key = "{key}"
"""
# Lists of the gateway key, which is the last table of the file; all of them permit the cases.
KEY_LISTS = """\
models = ["claude-*", "gpt-*", "mock-*"]
providers = ["chat", "messages", "responses"]
addresses = ["10.0.0.0/8", "127.0.0.0/8", "::1"]
paths = ["chat", "messages", "responses", "models"]
"""
CONTENTS = """
[storage.contents]
record = "on"
"""
_NO_RECORDS = """
[storage]
record_requests = false
"""
# The same provider under other names, as further targets of lines.
_OTHER = """
[providers.{name}-{number}]
protocol = "{protocol}"
base_url = "http://127.0.0.1:{provider}{base}"
api_key = "sk-mock-{number}"
"""
_LINES = """"{model}-two" = ["{name}/{model}-two", "{name}-2/{model}-two"]
"{model}-four" = {{ policy = "fastest", targets = [{four}] }}
"""
_SECURE = """
[providers.chat-tls]
protocol = "openai-chat"
base_url = "https://127.0.0.1:{port}/v1"
api_key = "sk-mock-chat"

[providers.messages-tls]
protocol = "anthropic-messages"
base_url = "https://127.0.0.1:{port}"
api_key = "sk-mock-messages"
"""
_SECURE_MODELS = """"{chat}-tls" = "chat-tls/{chat}-tls"
"{messages}-tls" = "messages-tls/{messages}-tls"
"""
_NGINX = """
{user}
worker_processes 1;
daemon off;
pid {place}/nginx.pid;
error_log {place}/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {place}/client;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    client_max_body_size 32m;
    client_body_buffer_size 1m;
    keepalive_requests 1000000;
    upstream provider {{
        server 127.0.0.1:{provider};
        keepalive 64;
        keepalive_requests 1000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{
            proxy_pass http://provider;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


class Secured(Struct, frozen=True, kw_only=True):
    """A certificate for the mock provider, the authority behind it, and the port that it is shown on."""

    certificate: Path
    authority: Path
    port: int


def secured(place: Path) -> Secured:
    """A certificate for 127.0.0.1 that a fresh authority issued."""
    # Only here, because it is a tool of development and only those who ask for TLS need it.
    import trustme

    authority = trustme.CA()
    certificate, trusted = place / "certificate.pem", place / "authority.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(certificate))
    authority.cert_pem.write_to_path(str(trusted))
    return Secured(certificate=certificate, authority=trusted, port=free_port())


def provider(place: Path, core: int, tls: Secured | None = None) -> Served:
    """The mock provider, started."""
    port = free_port()
    command = [sys.executable, "-m", "bench.gateway.provider", str(port)]
    if tls is not None:
        command += [str(tls.port), str(tls.certificate)]
    return Served(command, port, place / "provider.log", core=core)


def gateway(
    place: Path,
    core: int,
    provider_port: int,
    tls: Secured | None = None,
    *,
    records: bool = True,
    command: Sequence[str] = PLAIN,
    variables: Mapping[str, str] | None = None,
    more: str = "",
) -> Served:
    """The gateway, started: one worker, one key, everything else as it comes; `command` may run it under a profiler,
    `more` are further tables of its file."""
    port = free_port()
    file = place / "dragoman.toml"
    settings = gateway_settings(port, provider_port, tls) + ("" if records else _NO_RECORDS) + more
    file.write_text(settings, encoding="utf-8")
    started = [*command, "serve", "--config", str(file), "--port", str(port)]
    environment = {"XDG_STATE_HOME": str(place), **(variables or {})}
    if tls is not None:
        environment["SSL_CERT_FILE"] = str(tls.authority)
    return Served(started, port, place / "gateway.log", core=core, variables=environment)


def gateway_settings(port: int, provider_port: int, tls: Secured | None) -> str:
    """The gateway's configuration file."""
    chat, messages = MODELS[CHAT], MODELS[MESSAGES]
    return _GATEWAY.format(
        port=port,
        provider=provider_port,
        key=GATEWAY_KEY,
        chat=chat,
        messages=messages,
        others="".join(
            _OTHER.format(name=name, number=number, protocol=protocol, provider=provider_port, base=base)
            for name, protocol, base in (("chat", CHAT, "/v1"), ("messages", MESSAGES, ""))
            for number in (2, 3, 4)
        ),
        lines=_lines("chat", chat) + _lines("messages", messages),
        secure="" if tls is None else _SECURE.format(port=tls.port),
        secure_models="" if tls is None else _SECURE_MODELS.format(chat=chat, messages=messages),
    )


def _lines(name: str, model: str) -> str:
    """Lines with two and with four targets that have a model."""
    places = (name, *(f"{name}-{number}" for number in (2, 3, 4)))
    return _LINES.format(name=name, model=model, four=", ".join(f'"{place}/{model}-four"' for place in places))


def nginx_program() -> str | None:
    """Where nginx is; system directories are often missing from a user's path."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def nginx_version() -> str:
    """The version of nginx, which must be installed."""
    told = subprocess.run([str(nginx_program()), "-v"], capture_output=True, text=True, check=True, timeout=10)
    # "nginx version: nginx/1.22.1"
    return told.stderr.strip().rpartition("/")[2]


def nginx(place: Path, core: int, provider_port: int) -> Served | None:
    """The program nginx, started, or None if it is not there."""
    program = nginx_program()
    if program is None:
        return None
    port = free_port()
    file = place / "nginx.conf"
    # Started by root, its workers would become somebody who may not look into the directory.
    user = "user root;" if os.geteuid() == 0 else ""
    file.write_text(_NGINX.format(user=user, place=place, port=port, provider=provider_port), encoding="utf-8")
    command = [program, "-p", str(place), "-e", str(place / "nginx-error.log"), "-c", str(file)]
    return Served(command, port, place / "nginx.log", core=core)


def install_nginx() -> None:
    """Install nginx with the system's packages; only root can."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ProcessError("only root can install nginx, and only with apt-get; install it by hand")
    subprocess.run(["apt-get", "install", "-y", "-qq", "nginx-light"], check=True, timeout=600)
