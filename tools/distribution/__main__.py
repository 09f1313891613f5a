"""Builds wheel and sdist into dist/, and proves them.

python -m tools.distribution            all of it: contents, metadata, every Python at hand, uvx and pipx
python -m tools.distribution --offline  without what a package registry is needed for
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.distribution import contents, running

# What starts a program from a file of ours without installing it for good.
ROADS = (("uvx", "--from"), ("pipx", "run", "--spec"))
# In which package each program is, and where it is told to keep what it keeps.
PACKAGES = {"uvx": "uv", "uv": "uv", "pipx": "pipx"}
KEPT = {
    "UV_CACHE_DIR": "uv",
    "UV_TOOL_DIR": "tools",
    "UV_TOOL_BIN_DIR": "bin",
    "PIPX_HOME": "pipx",
    "PIPX_BIN_DIR": "bin",
}


class NotTried(Exception):
    """Something could not be tried here, and why."""


def main(arguments: list[str]) -> int:
    """Do all of it, and tell; the exit status says whether all was well."""
    built = contents.build(contents.ROOT / "dist")
    for path in built:
        print(f"built {path.relative_to(contents.ROOT)}, {path.stat().st_size // 1024} KB")
    held = contents.members(built.wheel)
    files = contents.repository_files(committed=True)
    if files is None:
        print("not tried: whether the files are the repository's; this is no repository, or git is not here")
        problems: list[str] = []
    else:
        stem = built.sdist.name.removesuffix(".tar.gz")
        problems = [
            *contents.wheel_problems(held, files),
            *contents.sdist_problems(contents.members(built.sdist), files, stem),
        ]
    problems += contents.metadata_problems(held)
    for problem in problems:
        print(f"wrong: {problem}")
    if problems:
        return 1
    print(f"contents and metadata are good: {len(held)} files in the wheel")
    return 0 if "--offline" in arguments else _try_all(built, contents.pythons_named(held))


def _try_all(built: contents.Distribution, named: set[str]) -> int:
    at_hand = running.pythons()
    trials: dict[str, Callable[[Path], None]] = {}
    for version, python in at_hand.items():
        note = "" if version in named else ", which the metadata does not name"
        trials[f"the wheel on Python {version}{note}"] = partial(_installed, python, built.wheel)
    trials["the sdist"] = partial(_installed, Path(sys.executable), built.sdist)
    for road in ROADS:
        trials[f"{' '.join(road)} WHEEL dragoman"] = partial(_by_road, (*road, str(built.wheel), "dragoman"))
    for line in contents.install_lines():
        if line[0] in PACKAGES:
            trials[f"the README's {' '.join(line)}"] = partial(_by_road, line)
    failed = [name for name, trial in trials.items() if not _works(name, trial)]
    for minor in running.MINORS:
        version = f"3.{minor}"
        if version not in at_hand:
            print(f"not tried: Python {version} is not here{', but the metadata names it' if version in named else ''}")
    return 1 if failed else 0


def _works(name: str, trial: Callable[[Path], None]) -> bool:
    """Try something in a folder of its own, and say what came of it."""
    with TemporaryDirectory(prefix="dragoman-dist-") as folder:
        try:
            trial(Path(folder))
        except NotTried as reason:
            print(f"not tried: {name}: {reason}", flush=True)
        except running.TrialError as error:
            print(f"wrong: {name}: {error}", flush=True)
            return False
        else:
            print(f"runs: {name}", flush=True)
    return True


def _installed(python: Path, what: Path, place: Path) -> None:
    running.try_program([running.install(python, place, what) / "dragoman"], place)


def _by_road(words: tuple[str, ...], place: Path) -> None:
    """Go a road: one that runs `dragoman` names it, after one that installs it the command is there."""
    package = PACKAGES[words[0]]
    try:
        programs = running.install(Path(sys.executable), place, package)
    except running.TrialError:
        raise NotTried(f"{package} cannot be installed here") from None
    environ = running.environment(place) | {name: str(place / folder) for name, folder in KEPT.items()}
    # Paths of the README are those of a clone.
    road: list[str | Path] = [str(contents.ROOT) if word == "." else word for word in words]
    road[0] = programs / words[0]
    if "dragoman" in words:
        running.try_program(road[: words.index("dragoman") + 1], place, environ)
    else:
        running.run(road, place, environ)
        running.try_program([place / "bin/dragoman"], place, environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
