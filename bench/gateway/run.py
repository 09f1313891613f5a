"""The door: `make bench-gateway`, or

python -m bench.gateway.run                      everything, printed
python -m bench.gateway.run --write              the same, and written to docs/internals/benchmarks.md
python -m bench.gateway.run --quick --case S1,S7 a look at some of it
python -m bench.gateway.run --tls                the relays to a provider behind TLS as well
python -m bench.gateway.run --no-records         a gateway that writes no exchange down
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import uvloop
from msgspec import Struct

from bench.gateway import serving, standing
from bench.gateway.cases import WHOLE, Case, chosen
from bench.gateway.load import LoadError
from bench.gateway.process import PROC, ProcessError, Served, cores
from bench.gateway.report import PAGE, Result, Standing, tables, write
from bench.gateway.rounds import FULL, LAYOUTS, QUICK, TOGETHER, Bench, Cost, Delay, Effort

# How long, in seconds, the last lines of the log are waited for.
_LAST_LINES = 5.0


class Plan(Struct, frozen=True, kw_only=True):
    """What to measure and how long to look."""

    cases: list[Case]
    effort: Effort
    layouts: list[str]
    tls: bool
    latency: bool
    cold_start: bool
    install_size: bool
    # Whether the gateway writes exchanges down, as it does by itself.
    records: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the status says whether it could, not whether it was fast."""
    options = _options().parse_args(arguments)
    names = tuple(name for name in options.case.split(",") if name)
    plan = Plan(
        cases=chosen(names, tls=options.tls),
        effort=QUICK if options.quick else FULL,
        layouts=[options.layout] if options.layout else list(LAYOUTS),
        tls=options.tls,
        latency=not options.no_latency,
        cold_start=not options.no_cold_start,
        install_size=not (options.quick or options.no_install_size),
        records=not options.no_records,
    )
    if not plan.cases:
        print(f"no case is called {options.case}", file=sys.stderr)
        return 2
    if not PROC.joinpath("self/stat").exists():
        print("the benchmark reads what processes cost from /proc: it needs Linux", file=sys.stderr)
        return 2
    try:
        if options.install:
            serving.install_nginx()
        result = _run(plan)
    except (LoadError, ProcessError, subprocess.SubprocessError) as error:
        print(f"the benchmark failed: {error}", file=sys.stderr)
        return 1
    print(tables(result))
    if options.write:
        write(result)
        print(f"\nwritten to {PAGE.parent.name}/{PAGE.name}")
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.gateway", description="Measure what the gateway costs.")
    parser.add_argument("--quick", action="store_true", help="one short look, to see that it runs")
    parser.add_argument("--case", default="", metavar="S1,S7", help="some of the cases")
    parser.add_argument("--layout", choices=LAYOUTS, help="one of the layouts; both if none is given")
    parser.add_argument("--tls", action="store_true", help="the relays to a provider behind TLS as well")
    parser.add_argument("--write", action="store_true", help="write the figures to docs/internals/benchmarks.md")
    parser.add_argument("--install", action="store_true", help="install nginx first, if root")
    parser.add_argument("--no-latency", action="store_true", help="leave the latencies out")
    parser.add_argument("--no-cold-start", action="store_true", help="leave the cold start out")
    parser.add_argument("--no-records", action="store_true", help="no exchange is written down: what that costs")
    parser.add_argument("--no-install-size", action="store_true", help="leave out what needs a package registry")
    return parser


def _run(plan: Plan) -> Result:
    where = cores()
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="bench-gateway-")))
        tls = serving.secured(place) if plan.tls else None
        provider = stack.enter_context(serving.provider(place, where.apart, tls))
        provider.wait_ready()

        def start_gateway() -> Served:
            return serving.gateway(place, where.measured, provider.port, tls, records=plan.records)

        cold = standing.cold_start(start_gateway, plan.effort.starts) if plan.cold_start else None
        gateway = stack.enter_context(start_gateway())
        gateway.wait_ready()
        servers = {"direct": provider, "gateway": gateway}
        nginx = serving.nginx(place, where.measured, provider.port)
        if nginx is not None:
            servers["nginx"] = stack.enter_context(nginx)
            nginx.wait_ready()
        idle, lines = gateway.memory(), _lines(gateway)
        bench = Bench(servers, where, plan.layouts if where.two else [TOGETHER], _say)
        costs, delays = uvloop.run(_measure(bench, plan))
        return Result(
            costs=costs,
            delays=delays,
            standing=Standing(
                cold_start=cold,
                install=standing.install_size() if plan.install_size else None,
                idle=idle,
                loaded=gateway.memory(),
            ),
            pace=median(bench.paces),
            rounds=plan.effort.rounds,
            paced_chunks_a_read=bench.paced_chunks / bench.paced_reads if bench.paced_reads else None,
            exchanges=bench.exchanges,
            log_lines=_all_lines(gateway, lines + bench.exchanges) - lines,
            versions=_versions(with_nginx=nginx is not None),
        )


async def _measure(bench: Bench, plan: Plan) -> tuple[list[Cost], list[Delay]]:
    costs = await bench.costs(plan.cases, plan.effort)
    small = [case for case in plan.cases if case.mode == WHOLE and case.workload == "small"]
    return costs, await bench.delays(small, plan.effort) if plan.latency else []


def _lines(served: Served) -> int:
    return served.log.read_bytes().count(b"\n")


def _all_lines(served: Served, expected: int) -> int:
    """How many lines it has logged in the end: they are written by a thread, a moment after what they tell."""
    until = time.perf_counter() + _LAST_LINES
    while _lines(served) < expected and time.perf_counter() < until:
        time.sleep(0.01)
    return _lines(served)


def _versions(*, with_nginx: bool) -> dict[str, str]:
    found = {"Python": platform.python_version()}
    found |= {name: version(name) for name in ("msgspec", "httptools", "uvloop")}
    return found | ({"nginx": serving.nginx_version()} if with_nginx else {})


def _say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
