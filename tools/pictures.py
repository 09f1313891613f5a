"""Draws the pictures of the README from real output, as SVG for light and dark screens: `make pictures`.

A gateway and a mock provider run on 127.0.0.1 with an empty home. A scripted agent run goes through the gateway, with
the headers that Claude Code sends. `dragoman session` and `dragoman explain` then run in a pseudo terminal, and their
ANSI colours become CSS classes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from tools.pseudo_terminal import Terminal  # noqa: E402 - the path above comes first

PICTURES = ROOT / "docs/pictures"
SESSION = "0b6b5a6e-8a1c-4f7c-9f38-2f1b8e2c9a77"
_COLUMNS = 92
_SECONDS = 30.0
_DRAGOMAN = (sys.executable, "-m", "dragoman")
_ADDRESS = re.compile(r"http://(127\.0\.0\.1:\d+)")
_CONFIG = """
[providers.anthropic]
base_url = "http://{mock}"
api_key = "any"

[providers.openai]
base_url = "http://{mock}/v1"
api_key = "any"

[providers.deepseek]
protocol = "openai-chat"
base_url = "http://{mock}/v1"
api_key = "any"
"""
# Thread, parent, class, type of agent, model, requests, and words of the prompt in thousands.
_RUN = (
    ("", "", "main", "", "anthropic/claude-opus-5", 6, 9),
    ("explore", "", "subagent", "Explore", "openai/gpt-5-mini", 4, 12),
    ("search", "explore", "subagent", "Search", "deepseek/deepseek-chat", 3, 7),
    ("tests", "", "subagent", "Tester", "anthropic/claude-sonnet-5", 3, 8),
    ("", "", "utility", "", "openai/gpt-5-mini", 2, 1),
)
# A small request, so that its three forms fit on a screen.
_REQUEST = {
    "model": "gpt-5.1",
    "messages": [{"role": "user", "content": "Capital of Norway?"}],
    "reasoning_effort": "low",
    "max_completion_tokens": 500,
    "seed": 7,
    "stream": True,
}
_SCRIPT = (
    "<mock>\n" + "\n---\n".join("think Look at the files.\nsay " + "Step done. " * 60 for _ in range(8)) + "\n</mock>"
)

# A cell's width and a line's height at 14 px, and the margin around the text.
_CELL, _LINE, _MARGIN = 8.43, 20, 18
_SGR = re.compile(r"\x1b\[([0-9;]*)m|\x1b\[[0-9;?]*[A-Za-z]")
_CLASSES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "34": "u", "35": "m", "36": "c", "90": "d"}
_STYLE = """
text { font: 14px ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328; }
.back { fill: #f6f8fa; stroke: #d1d9e0; } .b { font-weight: 600; } .d { fill: #59636e; } .r { fill: #cf222e; }
.g { fill: #1a7f37; } .y { fill: #9a6700; } .u { fill: #0969da; } .m { fill: #8250df; } .c { fill: #1b7c83; }
.p { fill: #59636e; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .back { fill: #0d1117; stroke: #3d444d; } .d, .p { fill: #9198a1; } .r { fill: #ff7b72; }
.g { fill: #3fb950; } .y { fill: #d29922; } .u { fill: #58a6ff; } .m { fill: #bc8cff; } .c { fill: #39c5cf; }
}
"""


def svg(command: str, output: str) -> str:
    """Draw a command and its output, with the colours that its escapes select."""
    lines = [f'<tspan class="p">$</tspan> {escape(command)}', "", *_coloured(output)]
    width = max(len(re.sub(r"<[^>]+>", "", line).replace("&gt;", ">")) for line in lines)
    size = (round(2 * _MARGIN + width * _CELL), 2 * _MARGIN + len(lines) * _LINE - 6)
    texts = [
        f'<text x="{_MARGIN}" y="{_MARGIN + 12 + number * _LINE}" xml:space="preserve">{line}</text>'
        for number, line in enumerate(lines)
        if line
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" role="img">'
    frame = f'<rect class="back" x="0.5" y="0.5" width="{size[0] - 1}" height="{size[1] - 1}" rx="8"/>'
    title = f"<title>Output of {escape(command)}</title>"
    return "\n".join([head, title, f"<style>{_STYLE}</style>", frame, *texts, "</svg>", ""])


def _coloured(output: str) -> Iterator[str]:
    """Turn the escapes of each line into spans."""
    classes: list[str] = []
    for line in output.replace("\r\n", "\n").rstrip("\n").split("\n"):
        pieces, last = [], 0
        for match in [*_SGR.finditer(line), None]:
            text = escape(line[last : match.start() if match else len(line)], quote=False)
            pieces.append(f'<tspan class="{" ".join(classes)}">{text}</tspan>' if classes and text else text)
            if match is None:
                break
            last = match.end()
            for code in (match[1] or "0").split(";") if match[1] is not None else ():
                classes = [] if code == "0" else [*classes, _CLASSES[code]] if code in _CLASSES else classes
        yield "".join(pieces).rstrip()


@contextmanager
def _running(environ: Mapping[str, str], *arguments: str) -> Iterator[str]:
    """Run a server of ours on a free port; gives its address."""
    command = [*_DRAGOMAN, *arguments, "--port", "0"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            found = _ADDRESS.search(server.stdout.readline())
            assert found is not None, f"{arguments[0]} did not start"
            yield found[1]
        finally:
            server.terminate()


def _play(address: str) -> None:
    """Send the requests of the agent run, thread by thread, each with its growing history."""
    for thread, parent, kind, agent, model, turns, thousands in _RUN:
        named = {"agent-id": thread, "parent-agent-id": parent, "request-class": kind, "agent-type": agent}
        headers = {f"x-claude-code-{name}": value for name, value in named.items() if value}
        prompt = f"{agent or kind}: " + "please read the source files " * (thousands * 200) + _SCRIPT
        messages: list[dict[str, object]] = [{"role": "user", "content": prompt}]
        for _ in range(turns):
            reply = _ask(address, headers, {"model": model, "max_tokens": 4000, "messages": messages})
            messages += [
                {"role": "assistant", "content": [part for part in reply if part["type"] == "text"]},
                {"role": "user", "content": "Go on."},
            ]


def _ask(address: str, headers: Mapping[str, str], body: Mapping[str, object]) -> list[dict[str, str]]:
    known = {
        "content-type": "application/json",
        "user-agent": "claude-cli/2.1.325",
        "x-claude-code-session-id": SESSION,
    }
    request = urllib.request.Request(
        f"http://{address}/v1/messages", json.dumps(body).encode(), {**known, **headers, "x-api-key": "any"}
    )
    with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
        content: list[dict[str, str]] = json.loads(reply.read())["content"]
    return content


def _shown(line: str, folder: Path, environ: Mapping[str, str]) -> str:
    """What a command writes to a terminal, escapes included."""
    program = " ".join(_DRAGOMAN)
    with Terminal(line.replace("dragoman", program, 1), folder, environ, _COLUMNS) as terminal:
        assert terminal.wait(_SECONDS) == 0, terminal.text()
        return terminal.raw()


def main() -> None:
    """Play the run and write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        environ = {**kept, "HOME": home, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        with _running(environ, "mock", "--lenient") as mock:
            (Path(home) / "request.json").write_text(json.dumps(_REQUEST), encoding="utf-8")
            folder = Path(home) / ".config/dragoman"
            folder.mkdir(parents=True)
            (folder / "dragoman.toml").write_text(_CONFIG.format(mock=mock), encoding="utf-8")
            (folder / "dragoman.toml").chmod(0o600)
            with _running(environ, "serve", "--log", "off") as address:
                _play(address)
            for name, line in (
                ("session", f"dragoman session {SESSION[:8]}"),
                ("explain", "dragoman explain request.json"),
            ):
                (PICTURES / f"{name}.svg").write_text(svg(line, _shown(line, Path(home), environ)), encoding="utf-8")
                print(f"wrote docs/pictures/{name}.svg")


if __name__ == "__main__":
    main()
