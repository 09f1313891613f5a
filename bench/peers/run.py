"""Measures other gateways beside Dragoman and nginx: `make bench-peers`, or

python -m bench.peers.run                               all of them, printed
python -m bench.peers.run --write                       the same, kept in bench/results/peers.json and shown on pages
python -m bench.peers.run --draw                        the pages and plots again, from the results that are kept
python -m bench.peers.run --quick --peer litellm        a look at one of them
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from bench.gateway import serving, standing
from bench.gateway.load import LoadError
from bench.gateway.process import PROC, ProcessError, cores
from bench.peers import installing, peers, report
from bench.peers.installing import InstallingError
from bench.peers.peers import ALL_CASES, PEERS, Peer
from bench.peers.report import Comparison, Once
from bench.peers.rounds import DRAGOMAN, MEASURED, NGINX, About, Program, Rounds

_ROUNDS = 5
_QUICK_SHARE = 0.05


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; the status says whether it could, not who was fast."""
    options = _options().parse_args(arguments)
    if options.draw:
        report.write(report.read())
        return 0
    names = [name for name in options.peer.split(",") if name]
    if unknown := set(names) - {peer.name for peer in PEERS}:
        print(
            f"unknown: {', '.join(sorted(unknown))}; peers are {', '.join(one.name for one in PEERS)}", file=sys.stderr
        )
        return 2
    if not PROC.joinpath("self/stat").exists():
        print("the benchmark reads what processes cost from /proc: it needs Linux", file=sys.stderr)
        return 2
    chosen = [peer for peer in PEERS if not names or peer.name in names]
    try:
        found = _run(chosen, 1 if options.quick else _ROUNDS, _QUICK_SHARE if options.quick else 1.0)
    except (InstallingError, LoadError, ProcessError, subprocess.SubprocessError) as error:
        print(f"the benchmark failed: {error}", file=sys.stderr)
        return 1
    print("\n\n".join([report.details(found), report.once(found)]))
    if options.write:
        report.write(found)
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.peers", description="Measure other gateways beside Dragoman.")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--peer", default="", metavar="NAME,NAME", help="some of the peers")
    parser.add_argument("--write", action="store_true", help="keep the results and show them on the pages")
    parser.add_argument("--draw", action="store_true", help="write the pages and plots again, without measuring")
    return parser


def _run(chosen: Sequence[Peer], rounds: int, share: float) -> Comparison:
    installed = {peer.name: installing.install(peer.name) for peer in chosen}
    core = cores().measured
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="bench-peers-")))
        provider = stack.enter_context(serving.provider(place, core))
        provider.wait_ready()
        programs = [_dragoman(stack, place, core, provider.port), _nginx(stack, place, core, provider.port)]
        for peer in chosen:
            served = stack.enter_context(peers.start(peer, installed[peer.name], place, core, provider.port))
            programs.append(peers.running(peer, installed[peer.name], served))
        idle = {one.name: one.served.memory() for one in programs}
        measured = uvloop.run(Rounds(programs, core, _say).run(MEASURED, rounds, share))
        once = [
            Once(
                name=one.name,
                about=one.about,
                idle=idle[one.name],
                loaded=one.served.memory(),
                installation=one.installation,
                start=one.start,
                exchanges=measured.exchanges[one.name],
            )
            for one in programs
        ]
    return Comparison(
        date=datetime.now(UTC).date().isoformat(),
        python=platform.python_version(),
        rounds=rounds,
        pace=measured.pace,
        programs=once,
        costs=measured.costs,
    )


def _dragoman(stack: ExitStack, place: Path, core: int, provider_port: int) -> Program:
    """The gateway as `dragoman serve` runs it, with everything on."""
    served = stack.enter_context(serving.gateway(place, core, provider_port))
    about = About(
        title="Dragoman",
        version=version("dragoman"),
        source="this repository",
        active="gateway key, records in SQLite, metrics, request log",
    )
    start = served.wait_ready()
    return Program(
        name=DRAGOMAN, about=about, served=served, start=start, installation=standing.install_size(), cases=ALL_CASES
    )


def _nginx(stack: ExitStack, place: Path, core: int, provider_port: int) -> Program:
    """The program nginx as a plain reverse proxy."""
    served = serving.nginx(place, core, provider_port)
    if served is None:
        raise ProcessError("nginx is not installed; python -m bench.gateway.run --install installs it, as root")
    stack.enter_context(served)
    about = About(
        title="nginx",
        version=serving.nginx_version(),
        source="Debian package `nginx-light`",
        active="nothing: a plain reverse proxy without an access log",
    )
    start = served.wait_ready()
    return Program(name=NGINX, about=about, served=served, start=start, installation=None, cases=frozenset({"S1"}))


def _say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
