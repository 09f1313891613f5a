"""Option `--gateway URL`: the command uses a gateway's admin API instead of the database of this machine."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from dragoman.config.settings import Settings

if TYPE_CHECKING:
    from dragoman.launching.admin_client import AdminClient


def add_admin_gateway(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gateway", metavar="URL", help="use the admin API of this gateway instead of the records of this machine"
    )
    parser.add_argument("--key-file", metavar="FILE", help="file with the gateway key (default: $DRAGOMAN_KEY)")


def admin_client(options: argparse.Namespace) -> AdminClient | None:
    """The client for the gateway that the command line names; None for the database of this machine."""
    if options.gateway is None:
        return None
    from dragoman.cli.env import read_gateway, warn_of_clear_text
    from dragoman.launching.admin_client import AdminClient
    from dragoman.launching.keys import find_key

    # The configuration of this machine does not have the keys of that gateway.
    address, key = read_gateway(options.gateway), find_key(Settings(), os.environ, options.key_file)
    warn_of_clear_text(address, key)
    return AdminClient(address, key.sent)
