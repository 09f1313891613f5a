"""Shells: a plan as lines that a shell can take in, such as `eval "$(dragoman env claude)"`.

A key that is secret is not written out: the line names the variable or the file where the shell finds it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from dragoman.launching.clients import KEY_VARIABLE, Plan
from dragoman.launching.keys import GivenKey


class Shell(Struct, frozen=True, kw_only=True):
    """How one kind of shell says it; `{name}` and `{value}` stand for what is set, quoted."""

    quote: Callable[[str], str]
    sets: str
    removes: str
    # How the value of a variable and the content of a file are said.
    variable: str
    content: str
    # A function that calls the program of its name with some words before those of the user.
    function: str


def _quote_fish(text: str) -> str:
    backslash = "\\"
    return "'" + text.replace(backslash, backslash * 2).replace("'", backslash + "'") + "'"


def _quote_powershell(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SHELLS: Mapping[str, Shell] = {
    "sh": Shell(
        quote=shlex.quote,
        sets="export {name}={value}",
        removes="unset {name}",
        variable='"${name}"',
        content='"$(cat {file})"',
        function='{name}() {{ command {name} {words} "$@"; }}',
    ),
    "fish": Shell(
        quote=_quote_fish,
        sets="set -gx {name} {value}",
        removes="set -e {name}",
        variable='"${name}"',
        content="(string trim < {file})",
        function="function {name}; command {name} {words} $argv; end",
    ),
    "powershell": Shell(
        quote=_quote_powershell,
        sets="$env:{name} = {value}",
        removes="Remove-Item Env:{name} -ErrorAction SilentlyContinue",
        variable="$env:{name}",
        content="(Get-Content -Raw {file}).Trim()",
        function="function {name} {{ & (Get-Command {name} -CommandType Application)[0] {words} @args }}",
    ),
}


def shell_lines(plan: Plan, program: str, key: GivenKey, shell: Shell) -> list[str]:
    """What a shell has to do so that the program, started by hand, does what a launch would."""
    lines = [shell.removes.format(name=name) for name in plan.removed]
    lines += [shell.sets.format(name=name, value=shell.quote(value)) for name, value in plan.environment.items()]
    value = _key_value(key, shell)
    if value != shell.variable.format(name=plan.key_variable):
        lines.append(shell.sets.format(name=plan.key_variable, value=value))
    if plan.arguments:
        lines.append(shell.function.format(name=program, words=_words(plan.arguments, shell)))
    return lines


def _key_value(key: GivenKey, shell: Shell) -> str:
    if key.is_placeholder:
        return shell.quote(key.text)
    if key.file is not None:
        return shell.content.format(file=shell.quote(key.file))
    return shell.variable.format(name=KEY_VARIABLE)


def _words(arguments: Sequence[str], shell: Shell) -> str:
    return " ".join(shell.quote(word) for word in arguments)
