"""The house in order: every source file has its test, every public name is meant."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dragoman

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src/dragoman"
# Values without behaviour of their own: what reads and writes them is tested.
PLAIN = {
    "model/jsonvalue.py",
    "model/features.py",
    "model/parts.py",
    "model/tools.py",
    "model/request.py",
    "model/response.py",
    "model/failure.py",
    "protocols/codec.py",
    "protocols/anthropic_messages/shapes.py",
    "protocols/openai_chat/shapes.py",
    "protocols/openai_responses/shapes.py",
    "http/upstream_call.py",
    "providers/provider.py",
    "routing/candidate.py",
    "model/request_features.py",
    "model/session_hints.py",
    "routing/needs.py",
    "routing/policies/policy.py",
    "routing/route.py",
    "routing/speed.py",
    "routing/plan_inputs.py",
    "gateway/exchange/states.py",
    "gateway/exchange/events_commands.py",
    "gateway/observability/record.py",
    "__main__.py",
}


def test_every_source_file_has_a_test_beside_its_name() -> None:
    missing = []
    for source in sorted(SOURCES.rglob("*.py")):
        name = source.relative_to(SOURCES)
        if name.name == "__init__.py" or name.as_posix() in PLAIN:
            continue
        test = ROOT / "tests" / name.parent / f"test_{name.name}"
        if not test.exists():
            missing.append(name.as_posix())
    assert not missing


# Words that come to mind for many things; each is the name of one.
ONE_THING = ("Conversation", "Phase", "Place", "Record", "Refusal", "State", "Target", "Watch")


def test_a_word_that_could_mean_much_is_the_name_of_one_thing() -> None:
    named: dict[str, list[str]] = {word: [] for word in ONE_THING}
    for source in sorted(SOURCES.rglob("*.py")):
        text = source.read_text(encoding="utf-8")
        if not any(word in text for word in ONE_THING):
            continue
        for name in _defined(ast.parse(text)):
            if name in named:
                named[name].append(source.relative_to(SOURCES).as_posix())
    assert {word: places for word, places in named.items() if len(places) > 1} == {}


def _defined(module: ast.Module) -> Iterator[str]:
    """The names of the classes and types of a module."""
    for node in ast.walk(module):
        match node:
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield name


def test_the_public_names_are_these() -> None:
    assert sorted(dragoman.__all__) == [
        "Abilities",
        "DragomanError",
        "Failure",
        "Ledger",
        "LossLine",
        "Mint",
        "ProtocolName",
        "RefusedError",
        "Response",
        "Row",
        "StreamTranslator",
        "StrictError",
        "TranslatedRequest",
        "TranslatedResponse",
        "Usage",
        "WireError",
        "abilities_of",
        "system_mint",
        "translate_failure",
        "translate_headers",
        "translate_request",
        "translate_response",
    ]


def test_the_package_is_typed_for_its_users() -> None:
    assert (SOURCES / "py.typed").exists()


def test_no_path_of_this_machine_is_committed() -> None:
    # A clone may lie where every machine has a directory, which tests and documents may name.
    common = set(Path(tempfile.gettempdir()).parents)
    suspects = [f"{place}/" for place in (Path.home(), ROOT, ROOT.parent) if place not in common]
    for path in ROOT.rglob("*"):
        if path.suffix not in {".py", ".md", ".toml", ".txt", ".json", ".txtar", ".yaml"}:
            continue
        parts = path.relative_to(ROOT).parts
        # What is built is not committed.
        if parts[0] in ("build", "dist") or any(part.startswith(".") and part != ".ci" for part in parts):
            continue
        text = path.read_text(encoding="utf-8")
        assert not any(suspect in text for suspect in suspects), path
