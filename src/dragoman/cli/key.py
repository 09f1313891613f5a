"""`dragoman key`: creates, lists, changes, rotates and revokes gateway keys, on the gateway's machine or with
`--gateway`. A key text is printed once, as the first line of standard output. Notes go to standard error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from dragoman.cli import documents
from dragoman.cli.admin_option import add_admin_gateway, admin_client
from dragoman.cli.formatting import counted
from dragoman.cli.key_options import MEMBERS, add_members, read_members
from dragoman.cli.parser import REFUSED
from dragoman.cli.record_file import add_config, escaped, name_of
from dragoman.cli.terminal import screen_of
from dragoman.cli.trust import configured
from dragoman.config.settings import Settings
from dragoman.errors import UsageError
from dragoman.identities.members import KeyMembers, KeyTerms, applied, name_problem

if TYPE_CHECKING:
    from dragoman.identities.views import AuditView, IssuedKey, KeyView

_DEFAULT_NAME = "default"
_AUDITED = 50
_WARNED = 20
# More keys than any database has, and less than its largest number.
_MOST = 1 << 60


class KeySource(Protocol):
    """The keys of one gateway: in the local database or behind an admin API. `place` names it."""

    place: str

    def list_all(self) -> Iterator[KeyView]: ...

    def get(self, name: str) -> KeyView: ...

    def create(self, name: str, members: KeyMembers) -> IssuedKey: ...

    def change(self, name: str, members: KeyMembers) -> KeyView: ...

    def rotate(self, name: str, grace: float) -> IssuedKey: ...

    def revoke(self, name: str) -> KeyView: ...

    def audit(self, limit: int) -> AuditView: ...

    def warnings(self, key: KeyView) -> Iterator[str]: ...


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "key",
        help="create and manage gateway keys",
        description=(
            "Gateway keys of clients. The database (storage.path) stores only their hashes. A "
            "running gateway applies changes within a second. With --gateway, the keys of another "
            "machine."
        ),
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    new = actions.add_parser("new", help="make one", description="Create a key and print it, once.")
    new.add_argument(
        "name", nargs="?", default=_DEFAULT_NAME, metavar="NAME", help=f"its name (default: {_DEFAULT_NAME})"
    )
    add_members(new, of_new_key=True)
    new.add_argument("--print", action="store_true", help="print lines for the configuration, and store nothing")
    list_all = actions.add_parser(
        "list", help="list all", description="List all keys, including those of the configuration."
    )
    show = actions.add_parser("show", help="show one", description="Show the rights of a key.")
    change = actions.add_parser(
        "set", help="change one", description="Set members of a key. Other members stay unchanged."
    )
    rotate = actions.add_parser(
        "rotate",
        help="replace its text",
        description="Print a new text for a key, once. The former text stays valid for a time.",
    )
    revoke = actions.add_parser(
        "revoke", help="end one", description="Revoke a key for ever. Its name cannot be used again."
    )
    imports = actions.add_parser(
        "import",
        help="import keys of LiteLLM",
        description="Import keys by their hashes, so that users keep their keys: what LiteLLM sends for "
        "/key/list?return_full_object=true, an array of rows, or a row on each line. All keys are imported, or none.",
    )
    imports.add_argument("file", metavar="FILE", help="the file; - is standard input")
    imports.add_argument("--ignore", action="append", default=[], metavar="FIELDS", help="fields that may be lost")
    imports.add_argument("--skip-refused", action="store_true", help="import the other keys if some are rejected")
    imports.add_argument("--dry-run", action="store_true", help="only show what would be imported")
    for action in (show, change, rotate, revoke):
        action.add_argument("name", metavar="NAME", help="the name of the key")
    add_members(change, of_new_key=False)
    change.add_argument(
        "--remove",
        action="append",
        default=[],
        choices=MEMBERS,
        metavar="MEMBER",
        help=f"member to remove; may be repeated: {', '.join(MEMBERS)}",
    )
    rotate.add_argument(
        "--grace", default="24h", metavar="TIME", help="how long the former text is accepted (default: 24h); 0 ends it"
    )
    audit = actions.add_parser("audit", help="list changes", description="List changes of keys, the latest first.")
    audit.add_argument(
        "-n", dest="most", type=int, default=_AUDITED, metavar="N", help=f"number of changes (default: {_AUDITED})"
    )
    runs = {
        new: run_new,
        list_all: run_list,
        show: run_show,
        change: run_set,
        rotate: run_rotate,
        revoke: run_revoke,
        audit: run_audit,
        imports: run_import,
    }
    for action, run in runs.items():
        action.add_argument("--json", action="store_true", help="machine-readable (JSON)")
        add_config(action)
        if action is not imports:
            add_admin_gateway(action)
        action.set_defaults(run=run)


def run_new(options: argparse.Namespace) -> int:
    """Create a key, in the database or as lines for the configuration."""
    problem = name_problem(options.name)
    if problem is not None:
        raise UsageError(str(problem))
    settings = _settings(options)
    members = _members(options, settings)
    if options.print:
        return _print_lines(options, members, settings)
    keys = _keys(options, settings)
    issued = keys.create(options.name, members)
    _show_issued(options, issued)
    documents.complain(f"{options.name} is stored in {keys.place}; the key is shown only now")
    _warn(list(keys.warnings(issued.identity)))
    if options.gateway is None:
        _note_of_open_gateway(settings)
    return 0


def run_list(options: argparse.Namespace) -> int:
    from dragoman.cli.key_report import keys_as_text

    keys, count = _keys(options), 0
    warnings: list[str] = []

    def listed() -> Iterator[KeyView]:
        nonlocal count
        for key in keys.list_all():
            count += 1
            warnings.extend(keys.warnings(key))
            yield key

    if options.json:
        documents.write_all(_as_json(listed()))
    else:
        screen = screen_of(sys.stdout, options.color)
        documents.write_text(keys_as_text(listed(), screen), screen)
    if not count:
        documents.complain(f"there are no keys in {keys.place}")
    _warn(warnings)
    return 0


def run_show(options: argparse.Namespace) -> int:
    _show(options, _keys(options).get(_name(options)))
    return 0


def run_set(options: argparse.Namespace) -> int:
    settings = _settings(options)
    members = _members(options, settings, options.remove)
    if members == KeyMembers():
        raise UsageError("nothing to set: name a member, for example --models 'fast', or --remove MEMBER")
    keys = _keys(options, settings)
    view = keys.change(_name(options), members)
    _show(options, view)
    documents.complain(f"{view.name} was changed in {keys.place}")
    _warn(list(keys.warnings(view)))
    return 0


def run_rotate(options: argparse.Namespace) -> int:
    from dragoman.records.time_range import duration_of

    grace = duration_of("--grace", options.grace)
    keys = _keys(options)
    issued = keys.rotate(_name(options), grace)
    until = issued.identity.former_until
    former = "ends now" if until is None else f"is accepted until {until}"
    _show_issued(options, issued)
    documents.complain(
        f"{issued.identity.name} was rotated in {keys.place}; the key is shown only now, the former one {former}"
    )
    return 0


def run_revoke(options: argparse.Namespace) -> int:
    keys = _keys(options)
    view = keys.revoke(_name(options))
    _show(options, view)
    documents.complain(f"{view.name} was revoked in {keys.place}, for ever")
    return 0


def run_audit(options: argparse.Namespace) -> int:
    from dragoman.cli.key_report import audit_as_text

    if options.most < 1:
        raise UsageError(f"-n: {options.most} is not a number of changes")
    changes = _keys(options).audit(min(options.most, _MOST))
    documents.show(options, msgspec.to_builtins(changes), lambda screen: audit_as_text(changes, screen))
    return 0


def run_import(options: argparse.Namespace) -> int:
    from dragoman.cli.key_file import KeyFile
    from dragoman.cli.key_import import imported
    from dragoman.cli.key_report import import_as_text

    settings = configured(options.config)
    view = imported(
        KeyFile(settings),
        documents.read(options.file),
        frozenset(field.strip() for fields in options.ignore for field in fields.split(",")),
        skip_refused=options.skip_refused,
        dry_run=options.dry_run,
    )
    documents.show(options, msgspec.to_builtins(view), lambda screen: import_as_text(view, screen))
    accepted = counted(len(view.keys) - view.refused, "key")
    if view.imported:
        documents.complain(f"{accepted} imported into {settings.storage.path}; {view.refused} rejected")
        _note_of_open_gateway(settings)
    else:
        documents.complain(f"nothing was imported: {accepted} accepted, {view.refused} rejected")
    if view.refused and not view.imported and not options.skip_refused:
        documents.complain("--skip-refused imports the accepted keys")
    return REFUSED if view.refused and not options.skip_refused else 0


def _warn(warnings: list[str]) -> None:
    """Print warnings about keys, up to `_WARNED`."""
    for warning in warnings[:_WARNED]:
        documents.complain(f"warning: {warning}")
    if len(warnings) > _WARNED:
        documents.complain(f"warning: {len(warnings) - _WARNED} more of these")


def _note_of_open_gateway(settings: Settings) -> None:
    """Warn if only the keys of the database protect the gateway."""
    if not settings.keys and not settings.keys_table:
        documents.complain(
            "note: without this database the gateway needs no key; an empty [keys] in the configuration prevents that"
        )


def _settings(options: argparse.Namespace) -> Settings:
    """The configuration of this machine. It is unknown for a gateway that the command line names."""
    return Settings() if options.gateway is not None and options.config is None else configured(options.config)


def _keys(options: argparse.Namespace, settings: Settings | None = None) -> KeySource:
    from dragoman.cli.key_file import KeyFile
    from dragoman.cli.key_gateway import KeyGateway

    client = admin_client(options)
    if client is not None:
        return KeyGateway(client)
    return KeyFile(_settings(options) if settings is None else settings)


def _name(options: argparse.Namespace) -> str:
    return name_of(options.name) or ""


def _members(options: argparse.Namespace, settings: Settings, removed: Iterable[str] = ()) -> KeyMembers:
    from dragoman.cli.key_file import clock
    from dragoman.records.time_range import zone_of

    return read_members(options, zone_of(settings.storage.time_zone), int(clock()), list(removed))


def _print_lines(options: argparse.Namespace, members: KeyMembers, settings: Settings) -> int:
    from dragoman.cli.key_file import clock
    from dragoman.config.key_lines import key_lines
    from dragoman.config.key_patterns import ConfiguredPatterns
    from dragoman.identities.key_text import digest_of, format_hash, new_key

    text = new_key()
    digest = digest_of(text)
    terms = applied(members, KeyTerms(), clock())
    lines = key_lines(options.name, digest, terms)
    printed = {"name": options.name, "key": text, "hash": format_hash(digest), "lines": lines}
    documents.show(
        options,
        printed,
        lambda _: f"{text}\n\n# The key is shown this once. These lines go into dragoman.toml:\n{lines}",
    )
    patterns = ConfiguredPatterns(settings)
    _warn(list(patterns.warnings(options.name, terms.rights.models, terms.rights.providers)))
    return 0


def _show(options: argparse.Namespace, key: KeyView) -> None:
    from dragoman.cli.key_report import key_as_text

    documents.show(options, msgspec.to_builtins(key), lambda screen: key_as_text(key, screen))


def _show_issued(options: argparse.Namespace, issued: IssuedKey) -> None:
    from dragoman.cli.key_report import key_as_text

    documents.show(
        options, msgspec.to_builtins(issued), lambda screen: f"{issued.key}\n\n{key_as_text(issued.identity, screen)}"
    )


def _as_json(keys: Iterable[KeyView]) -> Iterator[bytes]:
    """One document, written while keys are read: there may be 100,000."""
    yield b'{"keys":['
    for number, key in enumerate(keys):
        yield (b"," if number else b"") + escaped(msgspec.json.encode(key))
    yield b'],"next":null}\n'
