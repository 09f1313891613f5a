"""What `dragoman serve` is in the tests of pages: the gateway of the page on a free port, ended once it serves."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.docs.bare import DRAGOMAN


def main() -> int:
    """Start it, end it as Ctrl-C does, and give its exit status."""
    command = [*DRAGOMAN, "serve", *sys.argv[1:], "--host", "127.0.0.1", "--port", "0"]
    serving = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert serving.stdout is not None
    if serving.stdout.readline().startswith("dragoman listens on "):
        serving.send_signal(signal.SIGINT)
    serving.communicate(timeout=60)
    return serving.returncode


if __name__ == "__main__":
    sys.exit(main())
