"""Shell syntax: formats a launch plan as lines for `eval "$(dragoman env claude)"`. The key is read from its variable
or file."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from dragoman.launching.clients import KEY_VARIABLE, LaunchPlan
from dragoman.launching.keys import GivenKey


class Shell(Struct, frozen=True, kw_only=True):
    """The syntax of one kind of shell. `{name}` and `{value}` are the variable and its quoted value."""

    quote: Callable[[str], str]
    sets: str
    removes: str
    # The syntax of a variable's value and of a file's content.
    variable: str
    content: str
    # A function that calls the program of its name with additional arguments before the user's, and its removal.
    function: str
    forgets: str


def quote_fish(text: str) -> str:
    backslash = "\\"
    return "'" + text.replace(backslash, backslash * 2).replace("'", backslash + "'") + "'"


SHELLS: Mapping[str, Shell] = {
    "sh": Shell(
        quote=shlex.quote,
        sets="export {name}={value}",
        removes="unset {name}",
        variable='"${name}"',
        content='"$(cat {file})"',
        function='{name}() {{ command {name} {words} "$@"; }}',
        forgets="unset -f {name}",
    ),
    "fish": Shell(
        quote=quote_fish,
        sets="set -gx {name} {value}",
        removes="set -e {name}",
        variable='"${name}"',
        content="(string trim < {file})",
        function="function {name}; command {name} {words} $argv; end",
        forgets="functions -e {name}",
    ),
    "powershell": Shell(
        quote=lambda text: "'" + text.replace("'", "''") + "'",
        sets="$env:{name} = {value}",
        removes="Remove-Item Env:{name} -ErrorAction SilentlyContinue",
        variable="$env:{name}",
        content="(Get-Content -Raw {file}).Trim()",
        function="function {name} {{ & (Get-Command {name} -CommandType Application)[0] {words} @args }}",
        forgets="Remove-Item Function:{name} -ErrorAction SilentlyContinue",
    ),
}


def shell_lines(plan: LaunchPlan, program: str, key: GivenKey, shell: Shell) -> list[str]:
    """The lines after which the program, started by hand, behaves as in a launch."""
    lines = [shell.removes.format(name=name) for name in plan.removed]
    lines += [shell.sets.format(name=name, value=shell.quote(value)) for name, value in plan.environment.items()]
    value = _key_value(key, shell)
    if value != shell.variable.format(name=plan.key_variable):
        lines.append(shell.sets.format(name=plan.key_variable, value=value))
    if plan.arguments:
        lines.append(shell.function.format(name=program, words=" ".join(shell.quote(word) for word in plan.arguments)))
    return lines


def undo_lines(
    plan: LaunchPlan,
    program: str,
    key: GivenKey,
    shell: Shell,
    environ: Mapping[str, str],
    restored: Sequence[str] = (),
) -> list[str]:
    """The lines that undo it, as comments at the end: a forgotten variable misleads its client for weeks. `restored`
    variables get their old value back. Old values of others are left out, because they may be secret."""
    names = dict.fromkeys(plan.environment)
    if _key_value(key, shell) != shell.variable.format(name=plan.key_variable):
        names[plan.key_variable] = None
    steps = [
        shell.sets.format(name=name, value=shell.quote(environ[name]))
        if name in restored and environ.get(name)
        else shell.removes.format(name=name)
        for name in names
    ]
    steps += [shell.forgets.format(name=program)] if plan.arguments else []
    if not steps:
        return []
    lines = [f"# To undo this: {'; '.join(steps)}"]
    gone = [name for name in (*plan.removed, *names) if name in environ and name not in restored]
    if gone:
        lines.append(f"# A new shell has these again, as they were: {' '.join(dict.fromkeys(gone))}")
    return lines


def _key_value(key: GivenKey, shell: Shell) -> str:
    if key.is_placeholder:
        return shell.quote(key.text)
    if key.file is not None:
        return shell.content.format(file=shell.quote(key.file))
    return shell.variable.format(name=KEY_VARIABLE)
