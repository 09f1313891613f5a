"""The command line of the mutation tool."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import Queue

import msgspec

import tools.mutations
from tools.branch_coverage import RINGS, ROOT, record
from tools.mutations.mutants import Mutation, sample
from tools.mutations.running import UNSTABLE, Result, ScratchTree, judge
from tools.mutations.selection import SOURCES, Recording
from tools.pytest_plugins.coverage_recorder import LINES_BY_TEST

DIRECTORY = ROOT / "build/mutations"
PACKAGES = ("protocols", "rules", "routing", "gateway/exchange", "records")
SAMPLE, LINES, RESULTS = "sample.jsonl", "lines", "results.jsonl"


def take_sample(options: argparse.Namespace) -> None:
    """Choose mutations and write them to a file."""
    options.data.mkdir(parents=True, exist_ok=True)
    packages = [str(SOURCES / package) for package in PACKAGES]
    chosen = sample(options.tree, packages, options.count, options.seed)
    (options.data / SAMPLE).write_bytes(msgspec.json.Encoder().encode_lines(chosen))
    print(f"{len(chosen)} mutations: {options.data / SAMPLE}")


def record_lines(options: argparse.Namespace) -> None:
    """Record which test executes which line."""
    status = record(options.tree, options.data / LINES, LINES_BY_TEST, options.tests, options.workers)
    print(f"recorded; pytest ended with status {status}: {options.data / LINES}-tests.log")


def run_sample(options: argparse.Namespace) -> None:
    """Judge every mutation of the sample that has no result yet, or only that of an unstable test."""
    results = options.data / RESULTS
    known = {result.mutation.name for result in read_results(results) if result.outcome != UNSTABLE}
    waiting = [mutation for mutation in read_sample(options) if mutation.name not in known]
    recording = Recording(options.tree, options.data / LINES)
    scratch = Path(tempfile.mkdtemp(prefix="dragoman-mutations-"))
    trees: Queue[ScratchTree] = Queue()
    for number in range(options.workers):
        trees.put(ScratchTree(options.tree, scratch / str(number)))

    def judged(mutation: Mutation) -> Result:
        tree = trees.get()
        try:
            return judge(mutation, recording, tree)
        finally:
            trees.put(tree)

    try:
        with ThreadPoolExecutor(options.workers) as pool, results.open("ab") as file:
            futures = [pool.submit(judged, mutation) for mutation in waiting]
            for number, future in enumerate(as_completed(futures), 1):
                result = future.result()
                file.write(msgspec.json.encode(result) + b"\n")
                file.flush()
                print(f"{number}/{len(waiting)} {line_of(result)}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def print_report(options: argparse.Namespace) -> None:
    """Print how many mutations had each outcome, and those that were not killed."""
    for line in report(read_results(options.data / RESULTS)):
        print(line)


def report(results: Sequence[Result]) -> Iterator[str]:
    """Counts by outcome; then what was not killed."""
    for outcome, count in Counter(result.outcome for result in results).most_common():
        yield f"{count:>5} {outcome}"
    for result in results:
        if not result.killer:
            yield line_of(result)


def line_of(result: Result) -> str:
    """A result in one line."""
    mutation = result.mutation
    change = f"{mutation.before[:60]!r} -> {mutation.after[:60].strip()!r}"
    ran = f"{result.tests} tests, {result.seconds:.0f} s"
    return f"{result.outcome}: {mutation.path}:{mutation.line} {change} ({ran}) {result.killer}".rstrip()


def read_sample(options: argparse.Namespace) -> list[Mutation]:
    """The mutations to judge."""
    if options.survivors_of:
        return [result.mutation for result in read_results(options.survivors_of) if result.is_survivor]
    return msgspec.json.Decoder(Mutation).decode_lines((options.sample or options.data / SAMPLE).read_bytes())


def read_results(path: Path) -> list[Result]:
    """The results in a file, which may not exist yet: the last one of each mutation."""
    results = msgspec.json.Decoder(Result).decode_lines(path.read_bytes()) if path.exists() else []
    return list({result.mutation.name: result for result in results}.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    description = (tools.mutations.__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tools.mutations", description=description)
    commands = parser.add_subparsers(required=True)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=(command.__doc__ or "").split("\n")[0])
        sub.set_defaults(command=command)
        sub.add_argument("--tree", type=lambda path: Path(path).resolve(), default=ROOT, help="another tree")
        sub.add_argument("--data", type=Path, default=DIRECTORY, help="directory of sample, recording and results")
        if name == "sample":
            sub.add_argument("--count", type=int, default=200)
            sub.add_argument("--seed", type=int, default=21)
        elif name == "record":
            sub.add_argument("--workers", default="auto", help="processes that run tests")
            sub.add_argument("tests", nargs="*", default=RINGS, help="arguments of pytest that select tests, behind --")
        elif name == "run":
            sub.add_argument("--workers", type=int, default=2, help="mutations that are judged at once")
            sub.add_argument("--sample", type=Path, help="the file of another sample")
            sub.add_argument("--survivors-of", type=Path, help="results of another suite: judge what it did not kill")
    options = parser.parse_args(arguments)
    options.command(options)
    return 0


COMMANDS = {"sample": take_sample, "record": record_lines, "run": run_sample, "report": print_report}

if __name__ == "__main__":
    sys.exit(main())
