"""Tables of keys say what an absent list means, and leave out what a key does not have."""

from __future__ import annotations

from dragoman.cli.key_report import audit_as_text, key_as_text, keys_as_text
from dragoman.cli.terminal import OutputScreen
from dragoman.identities.audit import AuditedIdentity, AuditEntry
from dragoman.identities.identity import NO_RIGHTS, Rights
from dragoman.identities.views import KeyView, audit_view_of, configured_view_of
from tests.identities.holders import holder

PIPE = OutputScreen()


def view(rights: Rights) -> KeyView:
    return configured_view_of(holder("ci", b"ci", rights=rights), 1.0)


def test_a_key_of_the_configuration_has_no_creator() -> None:
    assert key_as_text(view(Rights()), PIPE).splitlines() == [
        "KEY\tci",
        "state\tactive",
        "role\tclient",
        *(f"{name}\tall" for name in ("models", "providers", "addresses", "paths")),
        "tags\t-",
        "expires\tnever",
        "concurrency\tany",
        "source\tfile",
    ]


def test_an_empty_list_permits_nothing_and_an_absent_one_everything() -> None:
    rows = keys_as_text([view(Rights()), view(NO_RIGHTS), view(Rights(models=("a", "b/*")))], PIPE).splitlines()[1:]
    assert [row.split("\t")[3] for row in rows] == ["all", "none", "a, b/*"]


def test_a_change_names_the_members_that_it_set() -> None:
    stored = AuditEntry(
        id=1,
        time=1.0,
        actor="ada",
        action="change",
        subject="ann",
        before=AuditedIdentity(rights=Rights(paths=("chat",), concurrency=1)),
        after=AuditedIdentity(rights=Rights(role="admin", strict="all"), tags={"a": "b"}),
    )
    row = audit_as_text(audit_view_of([stored], 1), PIPE).splitlines()[1]
    change = "role: client → admin; paths: chat → -; tags: - → a=b; strict: - → all; concurrency: 1 → -"
    assert row == f"1970-01-01T00:00:01Z\tada\tchange\tann\t{change}"


def test_strictness_is_shown_where_it_is_set() -> None:
    assert "strict\ttrue" in key_as_text(view(Rights(strict=True)), PIPE)
    assert "strict\tall" in key_as_text(view(Rights(strict="all")), PIPE)
