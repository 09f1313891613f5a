"""Key gateway: gateway keys of another gateway, as `dragoman key --gateway URL` reads and changes them through the
admin API."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from dragoman.cli.key_file import missing_key
from dragoman.identities.changes import check_grace
from dragoman.identities.members import KeyMembers, name_problem
from dragoman.identities.views import AuditView, IssuedKey, KeysView, KeyView
from dragoman.launching.admin_client import AdminClient

_PAGE = 1000


class KeyGateway:
    """The keys of one gateway, changed with the rights of the calling key. A change states the generation that it is
    based on, so that it undoes no other change."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client
        self.place = client.address

    def list_all(self) -> Iterator[KeyView]:
        page = self._client.get("/keys", KeysView, {"n": _PAGE})
        yield from page.keys
        while page.next is not None:
            page = self._client.get("/keys", KeysView, {"n": _PAGE, "after": page.next})
            yield from page.keys

    def get(self, name: str) -> KeyView:
        return self._client.get(_path(name), KeyView)

    def create(self, name: str, members: KeyMembers) -> IssuedKey:
        body = msgspec.json.encode({"name": name, **msgspec.to_builtins(members)})
        return self._client.send("POST", "/keys", IssuedKey, body)

    def change(self, name: str, members: KeyMembers) -> KeyView:
        body, generation = msgspec.json.encode(members), self.get(name).generation
        return self._client.send("PATCH", _path(name), KeyView, body, generation=generation)

    def rotate(self, name: str, grace: float) -> IssuedKey:
        """Give a key a new text. The former one is accepted for `grace` seconds."""
        check_grace(grace)
        body, generation = msgspec.json.encode({"grace": grace}), self.get(name).generation
        return self._client.send("POST", f"{_path(name)}/rotate", IssuedKey, body, generation=generation)

    def revoke(self, name: str) -> KeyView:
        return self._client.send("DELETE", _path(name), KeyView, generation=self.get(name).generation)

    def audit(self, limit: int) -> AuditView:
        view = self._client.get("/audit", AuditView, {"n": min(limit, _PAGE)})
        while view.next is not None and len(view.changes) < limit:
            rest = min(limit - len(view.changes), _PAGE)
            more = self._client.get("/audit", AuditView, {"n": rest, "before": view.next})
            view = replace(more, changes=[*view.changes, *more.changes])
        return view

    def warnings(self, key: KeyView) -> Iterator[str]:
        """Entries that match no name, in the lists of the key that was created or changed last."""
        return iter(self._client.notes.warnings)


def _path(name: str) -> str:
    # An invalid name may be a key text, which must not be sent in a URL.
    if name_problem(name) is not None:
        raise missing_key(name)
    return f"/keys/{name}"
