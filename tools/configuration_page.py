"""Writes docs/configuration.md: every key of dragoman.toml, from the structs that hold it and their comments.

python tools/configuration_page.py          writes the page
python tools/configuration_page.py --check  exits with status 1 if the page is not what it would write
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from dragoman.config import capability_overrides, file_schema, prices, settings  # noqa: E402 - the paths above come first
from dragoman.config.values import ValueType  # noqa: E402 - the paths above come first
from dragoman.providers.catalogue import CatalogueEntry  # noqa: E402 - the paths above come first
from dragoman.providers.provider import Provider  # noqa: E402 - the paths above come first
from dragoman.routing.route import RuleCondition  # noqa: E402 - the paths above come first
from dragoman.rules.capabilities import Capabilities  # noqa: E402 - the paths above come first
from tools.writing import write_or_check  # noqa: E402 - the paths above come first

PAGE = ROOT / "docs/configuration.md"


class Section(Struct, frozen=True):
    """One table of the file: its heading, the struct with the comments, the types of its keys' values, an example."""

    heading: str
    struct: type[Struct]
    kinds: Mapping[str, ValueType[object]]
    example: str


HEAD = """# Configuration

Write `dragoman.toml`, or let `dragoman init` write a first one, and check it:

```sh
dragoman check            # every problem with its line and remedy
```

Dragoman needs no configuration file: provider keys in the environment (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, …) are
enough, and the built-in `echo` needs no key. It reads the first of these files:

1. the file named by `--config`,
2. the file named by `DRAGOMAN_CONFIG`,
3. `dragoman.toml` in the current directory, after `dragoman trust`,
4. `dragoman/dragoman.toml` in `$XDG_CONFIG_HOME`, or in `~/.config`.

A valid change applies to new requests without a restart; an invalid one is logged and ignored. `make docs`
generates this page from `src/dragoman/config/settings.py` and `src/dragoman/config/file_schema.py`.

## Available providers

- Providers with a table in the file, if the variables that the table names are set.
- Providers of the catalogue whose key is in the environment, unless `discover = false`.
- Ollama, LM Studio, llama.cpp and vLLM on their default ports, if the gateway has a loopback address and no `[keys]`,
  unless `discover = false`. Servers of another user on this machine are not called.
- `echo`, unless `echo = false`. Model lists contain it only if there is no other provider, or with
  `[providers.echo]`.

If a variable is not set, its provider is left out with a warning, and routes use their other targets. A reload that
would lose a provider is not applied. `dragoman check` reports a missing variable as an error.

## Names that work without a route

`provider/model` works for every available provider. Unambiguous names work alone: `claude-*` is Anthropic's,
`gpt-5*`, `o3*` and similar names are OpenAI's, `gemini-*` is Google's. `dragoman check` lists them under "by
itself". Routes of `[models]` come first ([order](api.md#model-names)).
"""

EXAMPLES = {
    "server": """[server]
host = "127.0.0.1"
port = 8484
allowed_origins = ["https://app.example.org"]
""",
    "provider": """[providers.openai]                       # from the catalogue
api_key = ["$OPENAI_API_KEY", "$OPENAI_SECOND_KEY"]

[providers.ollama]                       # a local server of the catalogue

[providers.local]                        # anything else
protocol = "openai-chat"
base_url = "http://127.0.0.1:8000/v1"
api_key = "none"

[providers.both]
protocol = ["anthropic-messages", "openai-chat"]
api_key = "$BOTH_KEY"
headers = { x-team = "blue" }
concurrency = 64

[providers.both.base_url]
anthropic-messages = "https://llm.example.org/anthropic"
openai-chat = "https://llm.example.org/v1"

[providers.echo]                         # the embedded provider; it takes `protocol` alone
protocol = "anthropic-messages"
""",
    "row": """[[providers.local.capabilities]]
protocol = "openai-chat"
model = "qwen3*"
set = { images = false, max_output = 8192 }
""",
    "models": """[models]
"gpt-5.1" = "openai/gpt-5.1"
"local/*" = "local/*"
"exact" = { to = "openai/gpt-5.1", strict = true }
"smart" = ["both/large", "openai/gpt-5.1"]                # an array is a fallback, in order
"cheap" = { policy = "cheapest", targets = ["local/qwen3", "openai/gpt-5-mini"], max_cost = 0.05 }
"split" = { policy = "weighted", targets = { "both/large" = 80, "openai/gpt-5.1" = 20 }, sticky = false }
"patient" = { to = "local/qwen3", retries = 3, first_byte = "20 s" }
"all" = { policy = "fastest", targets = ["smart", "patient"] }
""",
    "rules": """[models."large-*"]
to = "both/*"

[[models."large-*".rules]]
when = { input_tokens_over = 60_000, tools = false }
to = "openai/gpt-5.1"

[[models."large-*".rules]]
when = { key = "laptop" }
targets = ["local/qwen3", "smart"]
""",
    "prices": """[prices."local/*"]                       # whatever this provider has
input = 0
output = 0

[prices."openai/gpt-5.1"]
input = 1.1                              # US dollars for a million tokens
output = 8.8
tiers = { flex = { input = 0.55, output = 4.4 } }
""",
    "keys": """[keys.laptop]
key = "$LAPTOP_KEY"

[keys.server]
hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
strict = true
""",
    "timeouts": """[timeouts]
connect = 10
first_byte = "5 min"
drain = "30 s"
""",
    "routing": """[routing]
max_attempts = 4
heartbeat_after = "5 s"
""",
    "limits": """[limits]
request_body = "32 MiB"
header_count = 128
""",
    "storage": """[storage]
path = "/var/lib/dragoman/state.db"
response_days = 7
""",
    "contents": """[storage.contents]
record = "on"
days = 7
redact = ["ACME-[0-9]{8}"]
""",
    "telemetry": """[telemetry]
endpoint = "https://collector.example.org"
headers = { authorization = "$COLLECTOR_AUTHORIZATION" }
sample_ratio = 0.1
attributes = { "deployment.environment.name" = "production" }
""",
}

SECTIONS = (
    Section("[server]", settings.Server, file_schema.SERVER, EXAMPLES["server"]),
    Section("[providers.NAME]", file_schema.ProviderTable, file_schema.PROVIDER, EXAMPLES["provider"]),
    Section("[[providers.NAME.capabilities]]", file_schema.CapabilityTable, file_schema.CAPABILITY, EXAMPLES["row"]),
    Section("[models]", file_schema.RouteTable, file_schema.ROUTE, EXAMPLES["models"]),
    Section("[[models.NAME.rules]]", file_schema.RuleTable, file_schema.RULE, EXAMPLES["rules"]),
    Section('[prices."PROVIDER/MODEL"]', prices.PriceTable, prices.PRICE, EXAMPLES["prices"]),
    Section("[keys.NAME]", file_schema.KeyTable, file_schema.KEY, EXAMPLES["keys"]),
    Section("[timeouts]", settings.Timeouts, file_schema.TIMEOUTS, EXAMPLES["timeouts"]),
    Section("[routing]", settings.Routing, file_schema.ROUTING, EXAMPLES["routing"]),
    Section("[limits]", settings.Limits, file_schema.LIMITS, EXAMPLES["limits"]),
    Section("[storage]", settings.Storage, file_schema.STORAGE, EXAMPLES["storage"]),
    Section("[storage.contents]", settings.Contents, file_schema.CONTENTS, EXAMPLES["contents"]),
    Section("[telemetry]", settings.Telemetry, file_schema.TELEMETRY, EXAMPLES["telemetry"]),
)


def comments_of(struct: type[Struct]) -> dict[str, str]:
    """The comment above each member of a struct; "" for members without one."""
    source = inspect.getsource(struct).splitlines()
    (body,) = ast.parse("\n".join(source)).body
    assert isinstance(body, ast.ClassDef)
    comments: dict[str, str] = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above: list[str] = []
            number = node.lineno - 2
            while source[number].lstrip().startswith("#"):
                above.insert(0, source[number].lstrip().removeprefix("#").strip())
                number -= 1
            comments[node.target.id] = " ".join(above)
    return comments


def _default(value: object) -> str:
    match value:
        case None | ():
            return "–"
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'`"{value}"`'
        case int() if value >= settings.MEBIBYTE and value % settings.MEBIBYTE == 0:
            return f'`"{value // settings.MEBIBYTE} MiB"`'
        case int() if value >= 16384 and value % 1024 == 0:
            return f'`"{value // 1024} KiB"`'
        case float():
            return f"`{value:g}`"
        case tuple():
            return "`[" + ", ".join(f'"{item}"' for item in value) + "]`"
        case _:
            return f"`{value}`"


def _defaults(struct: type[Struct]) -> dict[str, str]:
    """The defaults as the page shows them; a provider's are the catalogue's first."""
    found = {field.name: None if field.default is NODEFAULT else field.default for field in fields(struct)}
    if struct is not file_schema.ProviderTable:
        return {name: _default(value) for name, value in found.items()}
    behind = {name: default for name, default in _defaults(Provider).items() if default not in ("–", '`""`', "`{}`")}
    listed = dict.fromkeys(CatalogueEntry.__struct_fields__, "the catalogue's, else ")
    return {
        name: listed.get(name, "") + behind[name] if name in behind else _default(value)
        for name, value in found.items()
    }


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _section(section: Section) -> list[str]:
    comments, defaults = comments_of(section.struct), _defaults(section.struct)
    intro = " ".join((section.struct.__doc__ or "").split())
    lines = [f"## `{section.heading}`", "", intro, "", "```toml", section.example.rstrip(), "```", ""]
    lines += ["| Key | Value | Default | Meaning | Example |", "| --- | --- | --- | --- | --- |"]
    for name, kind in section.kinds.items():
        cells = (f"`{name}`", kind.type_name, defaults[name], comments[name], f"`{kind.example}`")
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return [*lines, ""]


def _without_article(type_name: str) -> str:
    return re.sub(r"^an? ", "", type_name)


def _capabilities() -> list[str]:
    comments, defaults = comments_of(Capabilities), _defaults(Capabilities)
    lines = ["### Capabilities", "", "Names and values for `set`. The defaults are those of an unknown server.", ""]
    lines += ["| Capability | Value | Default | Meaning |", "| --- | --- | --- | --- |"]
    for name in Capabilities.__struct_fields__:
        cells = (f"`{name}`", _without_article(capability_overrides.expected_of(name)), defaults[name], comments[name])
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return [*lines, ""]


def _when() -> list[str]:
    comments = comments_of(RuleCondition)
    lines = ["### When", "", "Conditions for `when`. A condition that is left out is not checked.", ""]
    lines += ["| Key | Value | Meaning | Example |", "| --- | --- | --- | --- |"]
    for name, kind in file_schema.WHEN.items():
        cells = (f"`{name}`", kind.type_name, comments[name], f"`{kind.example}`")
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return [*lines, ""]


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for section in SECTIONS:
        lines += _section(section)
        if section.struct is file_schema.CapabilityTable:
            lines += _capabilities()
        if section.struct is file_schema.RuleTable:
            lines += _when()
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page()))
