"""A bare environment: an empty home, no keys, and gateways in it, as a page's reader has them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
DRAGOMAN = (sys.executable, "-m", "dragoman")
# What a command needs to run at all; everything else of the environment stays outside.
_KEPT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR")
_HELLO = {"max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}


def bare_environ(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment with this home and nothing of whoever runs the tests."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "HOME": str(home), **(more or {})}


@contextmanager
def gateway(
    home: Path, *arguments: str, environ: Mapping[str, str] | None = None, program: Sequence[str] = DRAGOMAN
) -> Iterator[str]:
    """A gateway on a free port of this machine; gives its address, without a scheme."""
    serving = subprocess.Popen(
        [*program, "serve", "--host", "127.0.0.1", "--port", "0", "--log", "off", *arguments],
        cwd=home,
        env=bare_environ(home, environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stdout is not None and serving.stderr is not None
        found = re.search(r"http://(127\.0\.0\.1:\d+)", serving.stdout.readline())
        assert found is not None, serving.stderr.read()
        yield found[1]
    finally:
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=60)


def ask(address: str, model: str, key: str = "") -> tuple[int, str]:
    """Ask for a model by a small request; gives the status and the body."""
    request = urllib.request.Request(
        f"http://{address}/v1/messages",
        json.dumps({"model": model, **_HELLO}).encode(),
        {"content-type": "application/json", **({"x-api-key": key} if key else {})},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
