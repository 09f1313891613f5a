"""Admin option: `--gateway URL`: a command uses a gateway's admin API instead of the file of this machine."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from dragoman.config.settings import Settings

if TYPE_CHECKING:
    from dragoman.launching.admin_client import AdminClient


def add_admin_gateway(parser: argparse.ArgumentParser) -> None:
    """Declare the option for the gateway."""
    parser.add_argument("--gateway", metavar="URL", help="ask this gateway, and not the file of this machine")
    parser.add_argument("--key-file", metavar="FILE", help="holds the gateway's key; left out, DRAGOMAN_KEY does")


def admin_client(options: argparse.Namespace) -> AdminClient | None:
    """The gateway that the command line names; None for the file of this machine."""
    if options.gateway is None:
        return None
    from dragoman.cli.env import read_gateway, warn_of_clear_text
    from dragoman.launching.admin_client import AdminClient
    from dragoman.launching.keys import find_key

    # The configuration of this machine does not have the keys of that gateway.
    address, key = read_gateway(options.gateway), find_key(Settings(), os.environ, options.key_file)
    warn_of_clear_text(address, key)
    return AdminClient(address, key.sent)
