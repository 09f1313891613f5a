"""Starts the HTTP gateway in TensorZero's Python package; run by the Python of its own virtual environment.

`patch_openai_client` starts the gateway on a free port of 127.0.0.1 and sets `base_url` of the client it is given. Any
object with that attribute will do. No other registry package has a server of TensorZero.
"""

from __future__ import annotations

import signal
import sys
import warnings
from importlib import import_module


class Client:
    """Stands for the OpenAI client whose address the gateway sets."""

    base_url = ""


def main(config: str) -> None:
    """Serve with that configuration file until a signal ends the process."""
    # The function goes away in a later release; the version is pinned.
    warnings.simplefilter("ignore", DeprecationWarning)
    client = Client()
    import_module("tensorzero").patch_openai_client(client, config_file=config, async_setup=False)
    print(f"serving on {client.base_url}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
