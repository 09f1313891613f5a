"""Writes docs/quirks.md: what servers do that others do not, from what the tests record of them and from the rows.

python tools/quirks_page.py          writes the page
python tools/quirks_page.py --check  exits with status 1 if the page is not what it would write
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from dragoman.model.jsonvalue import JsonValue  # noqa: E402 - the paths above come first
from dragoman.providers.catalogue import catalogue  # noqa: E402 - the paths above come first
from dragoman.rules.capabilities import ROWS, Capabilities, CapabilityRow  # noqa: E402 - the paths above come first
from dragoman.wire.json import encode_text  # noqa: E402 - the paths above come first
from tests.servers.recordings import FILES, Quirk, Server, read  # noqa: E402 - the paths above come first
from tools.configuration_page import comments_of  # noqa: E402 - the paths above come first
from tools.writing import write_or_check  # noqa: E402 - the paths above come first

PAGE = ROOT / "docs/quirks.md"
Says: TypeAlias = Callable[[JsonValue], tuple[str, str] | None]
NAMES = {"anthropic-messages": "Messages", "openai-chat": "Chat", "openai-responses": "Responses"}

# The section of what holds for models at whoever serves them.
EVERYWHERE = "Models, wherever they are served"

HEAD = """# Provider quirks

Look up how a server differs from the protocol that it implements, and how Dragoman handles it. Responses are decoded
liberally for every server. What a server *rejects or requires* is applied only to that server. An unlisted server is
treated as one that supports the common core; describe differences of yours with
[capabilities](configuration.md#capabilities) or [in the catalogue](adding-a-provider.md).

`make docs` generates this page from `tests/servers/`, `src/dragoman/providers/catalogue.toml` and
`src/dragoman/rules/capabilities.py`.
"""


class Line(Struct, frozen=True, kw_only=True):
    """One row of a table."""

    protocols: tuple[str, ...]
    models: tuple[str, ...] = ()
    does: str
    made: str
    source: str
    since: str = ""
    proof: str = ""


class Section(Struct, kw_only=True):
    """One server, or several under one roof, with all that is known."""

    title: str
    names: list[str]
    lines: list[Line]
    # Protocols and capabilities of which a quirk tells more than a row could.
    told: set[tuple[str, str]]


def _plain(value: JsonValue) -> str:
    return value if isinstance(value, str) else encode_text(value)


def _listed(words: JsonValue) -> str:
    return ", ".join(f"`{_plain(word)}`" for word in (words if isinstance(words, list) else [words]))


def _flag(without: str, made: str, having: str = "") -> Says:
    """Words for a capability that is had or not; that one has what all have is no quirk."""

    def words(value: JsonValue) -> tuple[str, str] | None:
        if not value:
            return without, made
        return (having, "Sent.") if having else None

    return words


def _efforts(levels: JsonValue) -> tuple[str, str]:
    if not levels:
        return "Accepts no reasoning effort.", "Removed."
    return f"Accepts the efforts {_listed(levels)}.", "Mapped to the nearest of these."


def _stops(limit: JsonValue) -> tuple[str, str]:
    if not limit:
        return "Accepts no stop sequences.", "The gateway ends the response at them."
    many = f"up to {_plain(limit)} stop sequences" if limit != 1 else "one stop sequence"
    return f"Accepts {many}.", "The gateway ends the response at the others."


def _refuses(names: JsonValue) -> tuple[str, str]:
    if not names:
        return "Accepts the members that the other models of the provider reject.", "Sent."
    return f"Rejects {_listed(names)}.", "Removed."


_ECHOES = {
    "none": ("Accepts no reasoning of earlier messages.", "Removed."),
    "calls": ("Accepts reasoning only in messages with calls.", "Sent back with them, otherwise removed."),
    "turns": (
        "Requires the reasoning of all messages of a turn with calls, in all later requests.",
        "Sent back with each of them, including the final response.",
    ),
    "all": ("Requires all reasoning.", "Sent back with every message."),
}

_IDS = {
    "any": ("Fails on call IDs that it did not issue.", "Sent back unchanged."),
    "mistral": (
        "Accepts call IDs of nine letters and digits, and its own.",
        "Others are mapped to such IDs, always to the same one.",
    ),
    "standard": (
        "Rejects call IDs that are longer than OpenAI's own.",
        "Longer ones are mapped to shorter ones, always to the same one.",
    ),
}

# What a capability in a row means to a user: what the server does, and what is made of it. None is no server's quirk.
WORDS: dict[str, Says | None] = {
    "official": None,
    "reasons": None,
    "efforts": _efforts,
    "stop_limit": _stops,
    "refuses": _refuses,
    "tool_limit": lambda limit: (
        f"Accepts up to {_plain(limit)} tools.",
        "Requests with more are rejected before any call.",
    ),
    "echo_thinking": lambda which: _ECHOES.get(_plain(which), _ECHOES["calls"]),
    "sampling": _flag("Rejects `temperature` and `top_p`.", "Removed."),
    "penalties": _flag("Rejects penalties.", "Removed.", "Accepts `frequency_penalty` and `presence_penalty`."),
    "top_k": _flag("Rejects `top_k`.", "Removed.", "Accepts `top_k`."),
    "audio": _flag("Rejects audio.", "Removed.", "Accepts audio."),
    "documents": _flag("Rejects documents.", "Routes use another target.", "Accepts documents."),
    "images": _flag("Rejects images.", "Replaced by a text.", "Accepts images."),
    "max_completion_tokens": lambda _: ("Takes the output limit as `max_completion_tokens`.", "Sent under this name."),
    "developer_role": _flag("Rejects the role `developer`.", "Sent as `system`.", "Accepts the role `developer`."),
    "system_anywhere": _flag(
        "Requires one system message, at the beginning.",
        "Leading ones are joined, later ones become tagged user messages.",
    ),
    "output_schema": _flag("Has no structured output.", "JSON mode if available, and the schema as an instruction."),
    "json_mode": _flag("Has no JSON mode.", "Replaced by an instruction."),
    "forced_choice": _flag(
        "Rejects a forced tool call.",
        "Sent as `auto`. If a tool was named, only this tool is declared.",
        "Accepts a forced tool call.",
    ),
    "named_choice": _flag(
        "Rejects a `tool_choice` that names a tool.", "Sent as `required` or `auto`, and only this tool is declared."
    ),
    "forced_with_thinking": _flag(
        "Rejects reasoning together with a forced tool call.", "The forced call is sent, and reasoning is disabled."
    ),
    "thinking_switch": _flag("Has no switch for thinking.", "Removed.", "Enables or disables reasoning by `thinking`."),
    "results_apart": lambda _: (
        "Requires each tool result directly after the message with its call.",
        "Parallel calls are sent one after the other.",
    ),
    "typed_branches": lambda _: (
        "Rejects tool schemas with `type` next to `anyOf`.",
        "The type is moved into the branches.",
    ),
    "custom_tools": _flag("Has no custom tools.", "Sent as functions with one string.", "Has custom tools."),
    "hosted_tools": _flag("Has no hosted tools.", "Removed. If no other tool remains, the request is rejected."),
    "automatic_cache": _flag("Has no automatic prompt caching.", "No cache breakpoint is sent for it."),
    "prefill": lambda _: ("Continues a last message of the assistant.", "Sent with `prefix`."),
    "inline_thinking": lambda _: (
        "Sends reasoning as `<think>` at the beginning of the text, depending on its settings.",
        "Separated from the text as reasoning.",
    ),
    "demands_thinking": lambda _: (
        "Requires the reasoning of messages with calls, at least an empty one.",
        "Sent back unchanged, or empty if it is missing.",
    ),
    "missing_thinking": lambda blank: (
        "Treats an empty string as missing reasoning.",
        "A space replaces missing reasoning." if blank == " " else f"{_listed(blank)} replaces it.",
    ),
    "call_proof": lambda value: (
        "Rejects a step whose first call has no signature, such as that of another model.",
        f"The call gets `{_plain(value)}`, which the server accepts.",
    ),
    "user_after_tool": _flag(
        "Rejects a user message, or instructions, directly after a tool result.",
        "Reminders are appended to the result. Other text follows a short assistant message.",
    ),
    "call_ids": lambda kind: _IDS.get(_plain(kind), _IDS["standard"]),
}


def said_of(capability: str, value: JsonValue) -> tuple[str, str] | None:
    """A row's change in words; those of the configuration where there are none better."""
    if capability in WORDS:
        words = WORDS[capability]
        return words(value) if words is not None else None
    about = comments_of(Capabilities).get(capability) or f"`{capability}`."
    return f"{about} Here: {_listed(value)}.", "Applied."


def _row_lines(row: CapabilityRow, told: set[tuple[str, str]]) -> Iterator[Line]:
    """A row in words, without what quirks tell already."""
    for capability, value in row.changes.items():
        words = said_of(capability, value) if (row.protocol, capability) not in told else None
        if words is not None:
            yield Line(
                protocols=(NAMES[row.protocol],),
                models=(row.model,) if row.model != "*" else (),
                does=words[0],
                made=words[1],
                source=row.source,
            )


def _joined(lines: list[Line]) -> list[Line]:
    """Those that say the same of several models or protocols as one."""
    found: dict[tuple[object, ...], Line] = {}
    for line in lines:
        of_models = (line.protocols, line.does, line.made, line.source, line.since, line.proof, bool(line.models))
        known = found.get(of_models)
        models = tuple(dict.fromkeys((*known.models, *line.models))) if known is not None else line.models
        found[of_models] = replace(line, models=models)
    of_protocols: dict[tuple[object, ...], Line] = {}
    for line in found.values():
        key = (line.models, line.does, line.made, line.source, line.since, line.proof)
        other = of_protocols.get(key)
        protocols = (*other.protocols, *line.protocols) if other is not None else line.protocols
        of_protocols[key] = replace(line, protocols=protocols)
    return list(of_protocols.values())


def _quirk_line(quirk: Quirk, server: Server, path: Path) -> Line:
    name, _, function = quirk.test.partition("::")
    # A test is found by its name, which shows when pointed at; a recording is in the file of its server.
    recorded = f"[recorded](../{path.relative_to(ROOT).as_posix()})"
    proof = f'[test](../{name} "{function}")' if quirk.test else recorded
    return Line(
        protocols=(NAMES[server.protocol],),
        does=quirk.does,
        made=quirk.made,
        source=quirk.source,
        since=quirk.since,
        proof=proof,
    )


def sections() -> dict[str, Section]:
    """Every server of which something is known, by its name in the catalogue or how people call it."""
    entries = catalogue()
    found: dict[str, Section] = {}

    def of(name: str, title: str) -> Section:
        # All of one vendor are one server.
        entry = entries.get(name)
        key = entry.vendor_or_name if entry is not None and entry.vendor_or_name in entries else name or title
        title = entries[key].title if key in entries else title
        return found.setdefault(key, Section(title=title, names=[], lines=[], told=set()))

    for name, entry in entries.items():
        of(name, entry.title).names.append(name)
    for path in FILES:
        server = read(path)
        section = of(server.provider, server.server)
        section.lines += [_quirk_line(quirk, server, path) for quirk in server.quirk]
        section.told |= {(server.protocol, name) for quirk in server.quirk for name in quirk.capabilities}
    for row in ROWS:
        if row.source:
            section = of(row.vendor or "", row.vendor or EVERYWHERE)
            section.lines += _row_lines(row, section.told)
    for name, entry in entries.items():
        section = of(name, entry.title)
        for row in entry.capabilities if not entry.vendor else ():
            section.lines += _row_lines(row, section.told)
    for section in found.values():
        section.lines = _joined(section.lines)
    known = [(key, section) for key, section in found.items() if section.lines]
    # What holds everywhere ends the page.
    return dict(sorted(known, key=lambda item: (item[0] == EVERYWHERE, item[1].title.lower())))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _anchor(key: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", key.lower()))


def _address(source: str) -> str:
    """A link under the name of whoever says it: a thread or a file of a repository, else the site."""
    thread = re.match(r"https://github\.com/([^/]+/[^/]+)/(?:(?:issues|pull)/(\d+))?", source)
    if thread is None:
        return f"[{str(urlsplit(source).hostname).removeprefix('www.')}]({source})"
    return f"[{thread[1]}{f'#{thread[2]}' if thread[2] else ''}]({source})"


def _where(line: Line) -> str:
    return ", ".join(line.protocols) + (f": {_listed(list[JsonValue](line.models))}" if line.models else "")


def page() -> str:
    """The whole page."""
    every = sections()
    index = " · ".join(f"[{section.title}](#{_anchor(key)})" for key, section in every.items())
    lines = [HEAD, index, ""]
    for key, section in every.items():
        lines += [f'## <a id="{_anchor(key)}"></a>{section.title}', ""]
        if section.names:
            lines += [f"In the catalogue: {_listed(list[JsonValue](section.names))}.", ""]
        lines += ["| Where | What it does | Since | What Dragoman does | Source | Test |"]
        lines += ["| --- | --- | --- | --- | --- | --- |"]
        for line in section.lines:
            cells = (_where(line), line.does, line.since, line.made, _address(line.source), line.proof)
            lines.append("| " + " | ".join(_cell(cell) or "–" for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page()))
