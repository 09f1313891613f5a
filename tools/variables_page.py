"""Writes docs/variables.md: every environment variable that is read, from the sources and the catalogue.

python tools/variables_page.py          writes the page
python tools/variables_page.py --check  exits with status 1 if the page is not what it would write
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from dragoman.providers.catalogue import catalogue  # noqa: E402 - the paths above come first
from tools.writing import write_or_check  # noqa: E402 - the paths above come first

PAGE = ROOT / "docs/variables.md"
SOURCES = ROOT / "src/dragoman"
# What a text looks like that names a variable; those of one word are few.
_NAME = re.compile(
    r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|(http|https|all|no)_proxy"
    r"|HOME|USERPROFILE|PATH|SHELL|TERM|COLUMNS|LINES|LANG|USER|LOGNAME|TMPDIR|EDITOR|PAGER"
)
# Texts of that form that name something else.
OTHERS = frozenset({"DEFAULT_LIMIT", "O_NOCTTY", "O_NONBLOCK", "TCP_KEEPIDLE"})
# What is read: the default, and what it does.
READ: Mapping[str, tuple[str, str]] = {
    "DRAGOMAN_CONFIG": ("–", "the configuration file, unless `--config` names another"),
    "DRAGOMAN_KEY": (
        "–",
        "the gateway key of commands that call a gateway (`launch`, `env`, `status`, `route`, `models`, and "
        "every command with `--gateway`), unless `--key-file` names a file; "
        "`launch` gives it to Codex and OpenCode under the same name",
    ),
    "XDG_CONFIG_HOME": ("`~/.config`", "directory of `dragoman/dragoman.toml`; an absolute path"),
    "XDG_STATE_HOME": (
        "`~/.local/state`",
        "directory of `dragoman/` with stored responses, records, an updated price book and trusted files",
    ),
    "HOME": ("–", "the meaning of `~`; without it there is neither a user configuration nor a state directory"),
    "USERPROFILE": ("–", "the same, if `HOME` is not set"),
    "SHELL": ("`sh`", "shell for the lines of `dragoman env`, unless `--shell` names one"),
    "PATH": (
        "the system's",
        "directories in which `launch` looks for clients; relative entries are ignored",
    ),
    "HTTPS_PROXY": (
        "–",
        "proxy for calls to providers; the lower-case `https_proxy` wins. Never for loopback addresses",
    ),
    "HTTP_PROXY": ("–", "the same for addresses without TLS; in CGI only the lower-case form counts"),
    "ALL_PROXY": ("–", "proxy for both, if they are not set"),
    "NO_PROXY": ("–", "hosts without a proxy; `launch` and `env` add this machine for clients"),
    "REQUEST_METHOD": ("–", "marks CGI, where clients can set `HTTP_PROXY`, which is then ignored"),
    "NO_COLOR": ("–", "any value disables colours in the log and in tables; `--color always` wins"),
    "TERM": ("–", "`dumb`, `unknown` or not set: no colours, ASCII only"),
    "COLUMNS": ("the terminal's", "width of tables and the log on a terminal"),
    "LC_ALL": ("–", "`C` or `POSIX`: ASCII only"),
    "CLAUDE_CONFIG_DIR": (
        "`~/.claude`",
        "directory of Claude Code's settings, which `launch` and `doctor` read and never change",
    ),
    "CODEX_HOME": ("`~/.codex`", "directory of Codex's configuration, which `doctor` reads"),
    "ANTHROPIC_BASE_URL": ("–", "`doctor` reports an address at which nothing listens; `launch` and `env` set it"),
    "OPENAI_BASE_URL": ("–", "the same, only for `doctor`"),
    "OPENAI_API_BASE": ("–", "the same"),
    "ANTHROPIC_AUTH_TOKEN": ("–", "`doctor` reports it if `ANTHROPIC_API_KEY` is set, too; `launch` and `env` set it"),
    "SSL_CERT_FILE": ("the system's", "trusted certificate authorities for providers; `doctor` reports it"),
    "SSL_CERT_DIR": ("the system's", "the same, as a directory"),
    "NODE_EXTRA_CA_CERTS": ("–", "the same for clients on Node; `doctor` reports it"),
    "REQUESTS_CA_BUNDLE": ("–", "the same for the login library of Google; `service install` copies it"),
    "CURL_CA_BUNDLE": ("–", "the same"),
    "AWS_SESSION_TOKEN": (
        "–",
        "part of AWS credentials that expire within hours: `service install` copies all `AWS_` variables and warns "
        "about this one",
    ),
    "AWS_BEARER_TOKEN_BEDROCK": ("–", "API key for Bedrock, in place of AWS credentials"),
}

HEAD = """# Environment variables

Set provider keys and options of the program. The gateway reads its environment once, at the start, so a change
needs a restart. `dragoman doctor` shows which variables are set, without their values. Settings such as
`api_key = "$MY_KEY"` may name variables of your own. `make docs` generates this page from the sources and the
catalogue.

## Read by the program

| Variable | Default | Does | Read in |
| --- | --- | --- | --- |
"""
PROVIDERS = """
## Read for providers

A provider of the catalogue is available if its key is set, unless `discover = false` in `[server]`. If several
variables are listed for a provider, the first one that is set counts.

| Variable | Provider | Is |
| --- | --- | --- |
"""
CLIENTS = """
## Set for clients

`dragoman launch` and `dragoman env` set or remove these variables for a client
([Claude Code](clients/claude-code.md)). Dragoman does not read these variables from your environment.

"""


@cache
def named() -> dict[str, set[str]]:
    """The variables that the sources name, with the files that do so."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES.rglob("*.py"):
        place = path.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
                found[node.value.upper()].add(place)
    return {name: places for name, places in sorted(found.items()) if name not in OTHERS}


def of_providers() -> dict[str, list[tuple[str, str]]]:
    """The variables of the catalogue, each with the providers that look there, and for what."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for provider, listing in catalogue().items():
        for name in listing.env:
            found[name].append((provider, "its key"))
        for option, names in listing.option_env.items():
            for name in names:
                found[name].append((provider, f"`{option}`"))
    return dict(sorted(found.items()))


def for_clients() -> list[str]:
    """The variables that are set for a client alone."""
    return [
        name
        for name, places in named().items()
        if name not in READ and name not in of_providers() and all(place.startswith("launching/") for place in places)
    ]


def undescribed() -> list[str]:
    """Variables that the sources name, and that no part of the page explains."""
    return [name for name in named() if name not in {*READ, *of_providers(), *for_clients()}]


def _rows() -> Iterator[str]:
    places = named()
    for name, (default, does) in READ.items():
        yield f"| `{name}` | {default} | {does} | {', '.join(f'`{place}`' for place in sorted(places.get(name, ())))} |"


def page() -> str:
    """The whole page."""
    providers = "".join(
        f"| `{name}` | {', '.join(f'`{provider}`' for provider, _ in said)} | {said[0][1]} |\n"
        for name, said in of_providers().items()
    )
    clients = ", ".join(f"`{name}`" for name in for_clients())
    return HEAD + "\n".join(_rows()) + "\n" + PROVIDERS + providers + CLIENTS + clients + ".\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page()))
