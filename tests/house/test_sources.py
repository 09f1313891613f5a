"""Every source file has its test, and a public name has one meaning."""

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
    "contents/exchange_contents.py",
    "providers/provider.py",
    "routing/candidate.py",
    "model/request_features.py",
    "model/session_hints.py",
    "routing/needs.py",
    "routing/policies/policy.py",
    "routing/route.py",
    "routing/speed.py",
    "routing/plan_inputs.py",
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


GENERIC = frozenset({"list", "dict", "set", "frozenset", "tuple", "deque", "Counter", "OrderedDict", "defaultdict"})


def test_no_generic_alias_is_called() -> None:
    """`list[str]()` and a call of `JsonList` take 3,000 instructions more than `[]`: they raise an error within."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in SOURCES.rglob("*.py")}
    aliases = {
        node.target.id
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.value is not None
        and _is_alias(node.value)
    }
    assert "JsonList" in aliases
    calls = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (_is_alias(node.func) or (isinstance(node.func, ast.Name) and node.func.id in aliases))
    ]
    assert not calls


def _is_alias(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in GENERIC


# Public names of classes and types that stand for more than one, with the reason.
DEFINED_TWICE = {
    "EncodedTools": "the tools of a request, in each protocol package",
    "ToolEncoder": "writes the tools of a request, in each protocol package",
}


def test_a_public_class_name_has_one_meaning() -> None:
    defined: dict[str, list[str]] = {}
    for source in sorted(SOURCES.rglob("*.py")):
        for name in _public_types(ast.parse(source.read_text(encoding="utf-8"))):
            defined.setdefault(name, []).append(source.relative_to(SOURCES).as_posix())
    twice = {name: modules for name, modules in defined.items() if len(modules) > 1}
    assert {name: modules for name, modules in twice.items() if name not in DEFINED_TWICE} == {}
    assert sorted(twice) == sorted(DEFINED_TWICE), "take it off the list"


def _public_types(module: ast.Module) -> Iterator[str]:
    """The names of the public classes and type aliases of a module."""
    for node in module.body:
        match node:
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                if not name.startswith("_"):
                    yield name


def test_the_public_names_are_these() -> None:
    assert sorted(dragoman.__all__) == [
        "Capabilities",
        "CapabilityRow",
        "DragomanError",
        "Failure",
        "Ledger",
        "LossLine",
        "Mint",
        "ProtocolName",
        "RefusedError",
        "Response",
        "StreamTranslator",
        "StrictError",
        "TranslatedRequest",
        "TranslatedResponse",
        "Usage",
        "WireError",
        "capabilities_of",
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
