"""`dragoman completion`: generates a shell script from the parsers. `dragoman models --names` completes models."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from dragoman.cli import documents
from dragoman.cli.parser import children, options_of
from dragoman.launching.shells import quote_fish as _quoted

# Options whose value is a model, and value names that are files.
_MODELS = frozenset({"model", "small_model"})
_FILES = frozenset({"FILE", "FILE|URL"})
_MODELS_COMMAND = "dragoman models --names 2>/dev/null"


class Option(Struct, frozen=True, kw_only=True):
    names: tuple[str, ...]
    description: str
    takes: bool = False
    choices: tuple[str, ...] = ()
    file: bool = False
    model: bool = False


class CommandPlace(Struct, frozen=True, kw_only=True):
    path: str
    # Completions besides options: commands, or the choices of an argument, with descriptions.
    completions: Mapping[str, str]
    options: tuple[Option, ...]


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description='Print a script that completes commands: eval "$(dragoman completion bash)" in ~/.bashrc; '
        "source <(dragoman completion zsh) in ~/.zshrc, behind compinit; dragoman completion fish | source in "
        "~/.config/fish/config.fish",
    )
    parser.add_argument("shell", choices=tuple(SHELLS), help="whose")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    # Imported here, because this module is one of the commands.
    from dragoman.cli import tree

    documents.write_text("\n".join(SHELLS[options.shell](list(places(tree())))))
    return 0


def places(parser: argparse.ArgumentParser, path: str = "", more: Sequence[str] = ()) -> Iterator[CommandPlace]:
    """Yield every state of a command line, the first one first. `more` are words beyond the parser's."""
    below = children(parser)
    words = {name: child.description or "" for name, child in below.items() if " " not in name}
    for action in parser._get_positional_actions():
        if action.choices is not None and not isinstance(action, argparse._SubParsersAction):
            words |= dict.fromkeys(map(str, action.choices), "")
    words |= dict.fromkeys(more, "")
    yield CommandPlace(path=path, completions=words, options=tuple(map(_option, options_of(parser))))
    for name, child in below.items():
        # Of a name of two words, only the second is completed after the first.
        longer = [other.removeprefix(f"{name} ") for other in below if other.startswith(f"{name} ")]
        yield from places(child, f"{path} {name}", longer)


def _option(action: argparse.Action) -> Option:
    takes = action.nargs != 0
    return Option(
        names=tuple(action.option_strings),
        description=(action.help or "").replace("%(prog)s", "dragoman"),
        takes=takes,
        choices=tuple(map(str, action.choices or ())),
        file=takes and action.metavar in _FILES,
        model=takes and action.dest in _MODELS,
    )


def _paths(commands: Sequence[CommandPlace]) -> str:
    """All states but the first, as patterns of a `case`."""
    return " | ".join(shlex.quote(place.path) for place in commands[1:])


def _taking(commands: Sequence[CommandPlace]) -> Iterator[tuple[str, Option]]:
    """The options with a value, each with its pattern for a shell's `case`."""
    for place in commands:
        for option in place.options:
            if option.takes:
                yield " | ".join(shlex.quote(f"{place.path} {name}") for name in option.names), option


def _offered(place: CommandPlace) -> list[str]:
    """All words that may follow: commands and options."""
    return [*place.completions, *(name for option in place.options for name in option.names)]


def _bash(commands: Sequence[CommandPlace]) -> Iterator[str]:
    yield "# bash completion for dragoman"
    yield "_dragoman() {"
    yield '    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} place="" words="" word i'
    yield "    COMPREPLY=()"
    yield "    for ((i = 1; i < COMP_CWORD; i++)); do"
    yield "        word=${COMP_WORDS[i]}"
    yield "        # What follows is for another program."
    yield "        [[ $word == -- ]] && return"
    yield f'        case "$place $word" in {_paths(commands)}) place="$place $word" ;; esac'
    yield "    done"
    yield '    case "$place $prev" in'
    for names, option in _taking(commands):
        yield f"        {names}) {_bash_values(option)} ;;"
    yield "    esac"
    yield '    case "$place" in'
    for place in commands:
        yield f"        {shlex.quote(place.path)}) words={shlex.quote(' '.join(_offered(place)))} ;;"
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$cur"))'
    yield "}"
    yield "complete -o default -F _dragoman dragoman"


def _bash_values(option: Option) -> str:
    if option.choices:
        return f'COMPREPLY=($(compgen -W {shlex.quote(" ".join(option.choices))} -- "$cur")); return'
    if option.model:
        return f'COMPREPLY=($(compgen -W "$({_MODELS_COMMAND})" -- "$cur")); return'
    # Without completions bash falls back to files.
    return "return" if option.file else "compopt +o default 2>/dev/null; return"


def _zsh(commands: Sequence[CommandPlace]) -> Iterator[str]:
    yield "#compdef dragoman"
    yield "_dragoman() {"
    yield '    local cur=${words[CURRENT]} prev=${words[CURRENT-1]} place="" word i'
    yield "    for ((i = 2; i < CURRENT; i++)); do"
    yield "        word=${words[i]}"
    yield "        [[ $word == -- ]] && { _files; return }"
    yield f'        case "$place $word" in ({_paths(commands)}) place="$place $word" ;; esac'
    yield "    done"
    yield '    case "$place $prev" in'
    for names, option in _taking(commands):
        yield f"        ({names}) {_zsh_values(option)}; return ;;"
    yield "    esac"
    yield '    case "$place" in'
    for place in commands:
        yield f"        ({shlex.quote(place.path)}) compadd -- {shlex.join(_offered(place))} ;;"
    yield "    esac"
    yield "    [[ -z $place || $cur == -* ]] || _files"
    yield "}"
    yield 'if [[ $funcstack[1] == _dragoman ]]; then _dragoman "$@"; else compdef _dragoman dragoman; fi'


def _zsh_values(option: Option) -> str:
    if option.choices:
        return f"compadd -- {shlex.join(option.choices)}"
    if option.model:
        return f'compadd -- ${{(f)"$({_MODELS_COMMAND})"}}'
    return "_files" if option.file else "_message value"


def _fish(commands: Sequence[CommandPlace]) -> Iterator[str]:
    yield "# fish completion for dragoman"
    yield "function __dragoman_place"
    yield '    set -l place ""'
    yield "    for word in (commandline -opc)[2..-1]"
    yield '        switch "$place $word"'
    yield f"            case {' '.join(_quoted(place.path) for place in commands[1:])}"
    yield '                set place "$place $word"'
    yield "        end"
    yield "    end"
    yield '    echo "$place"'
    yield "end"
    yield "function __dragoman_at"
    yield "    set -l place (__dragoman_place)"
    yield '    test "$place" = "$argv[1]"'
    yield "end"
    for place in commands:
        here = f"complete -c dragoman -n {_quoted(f'__dragoman_at {_quoted(place.path)}')}"
        # No command is a file.
        alone = "" if place.path else " -f"
        for word, words in place.completions.items():
            yield f"{here}{alone} -a {_quoted(word)} -d {_quoted(words)}"
        for option in place.options:
            yield f"{here} {_fish_option(option)} -d {_quoted(option.description)}"


def _fish_option(option: Option) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.choices:
        names.append(f"-x -a {_quoted(' '.join(option.choices))}")
    elif option.model:
        names.append(f"-x -a {_quoted(f'({_MODELS_COMMAND})')}")
    elif option.file:
        names.append("-r -F")
    elif option.takes:
        names.append("-x")
    return " ".join(names)


SHELLS: Mapping[str, Callable[[Sequence[CommandPlace]], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
