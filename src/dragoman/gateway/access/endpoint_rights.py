"""Endpoint rights: which endpoints and paths the role and the lists of a gateway key permit, before a body is read.
The table of roles is total: an endpoint that is not in it is permitted to no key. The admin API has its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote_plus

from dragoman.errors import ClientError, NotPermitted
from dragoman.gateway.advice import printable
from dragoman.gateway.paths import ApiPath, EndpointKind, PathRule, rule_of
from dragoman.identities.identity import ADMIN, CLIENT, ROLES, VIEWER, Identity, Rights
from dragoman.identities.permissions import limits_models, permits_path
from dragoman.routing.target import Target
from dragoman.wire.duplicate_keys import joined

_CALLERS, _READERS = (CLIENT, ADMIN), (VIEWER, ADMIN)
# Who may use an endpoint; what is open to requests without a key needs no role.
ENDPOINT_ROLES: Mapping[EndpointKind, tuple[str, ...]] = {
    EndpointKind.CONVERSATION: _CALLERS,
    EndpointKind.COUNT: _CALLERS,
    EndpointKind.COMPACT: _CALLERS,
    EndpointKind.STORED: _CALLERS,
    EndpointKind.CONVERSATIONS: _CALLERS,
    EndpointKind.OTHER: _CALLERS,
    EndpointKind.MODELS: ROLES,
    EndpointKind.MODEL: ROLES,
    EndpointKind.MODEL_NAMES: ROLES,
    EndpointKind.ROUTE: ROLES,
    EndpointKind.LAUNCH: ROLES,
    EndpointKind.NOWHERE: ROLES,
    EndpointKind.METRICS: _READERS,
    EndpointKind.STATUS: _READERS,
}
# Endpoints that the lists of a key are about, but for `OTHER`, whose paths depend on the configuration.
_LISTED = frozenset(
    {
        EndpointKind.CONVERSATION,
        EndpointKind.COUNT,
        EndpointKind.COMPACT,
        EndpointKind.STORED,
        EndpointKind.CONVERSATIONS,
        EndpointKind.MODELS,
        EndpointKind.MODEL,
        EndpointKind.MODEL_NAMES,
        EndpointKind.ROUTE,
    }
)
# Endpoints that call models by the body of a request.
_CALLING = frozenset({EndpointKind.CONVERSATION, EndpointKind.COUNT, EndpointKind.COMPACT, EndpointKind.OTHER})
# Words that choose a model in a query, by their letters alone.
_CHOOSING = frozenset({"model", "models", "modelid", "modelname", "deployment", "deploymentid", "engine"})
_parts = re.compile("[&;]").split


def require_provider(key: Identity | None, target: Target) -> None:
    """Refuse a call to a provider that the key may not use. Routes were made without it: this is the last look."""
    if key is not None and key.rights.providers is not None and target.provider.name not in key.rights.providers:
        raise NotPermitted(printable(target.provider.name))


def roles_for(method: str, kind: EndpointKind) -> tuple[str, ...]:
    """The roles that may send a request of a method to an endpoint."""
    if kind is EndpointKind.STATUS and method == "POST":
        return (ADMIN,)
    return ENDPOINT_ROLES.get(kind, ())


def may_use(role: str, method: str, kind: EndpointKind) -> bool:
    """Whether a role may send a request of a method to an endpoint."""
    return role in roles_for(method, kind)


def check_endpoint(rights: Rights, method: str, api_path: ApiPath, query: str) -> None:
    """Refuse what the lists of a key do not permit at an endpoint of the gateway."""
    kind = api_path.kind
    if rights.paths is not None and kind in _LISTED:
        check_path(rights, rule_of(method, api_path.rest))
    if kind in _CALLING and limits_models(rights):
        check_query(query)


def check_path(rights: Rights, rule: PathRule | None) -> None:
    """Refuse a path that a key's list does not have, or that is closed to keys without one."""
    if rule is None:
        raise ClientError(403, "this key may not use this path; /admin/v1/me shows what it may")
    if not permits_path(rights, rule.family, rule.action, is_open=rule.is_open):
        raise ClientError(403, f"this key may not use paths of {rule.right}; /admin/v1/me shows what it may")


def is_stated_path(rights: Rights, rule: PathRule) -> bool:
    """Whether a key's list names the family of a path."""
    return rights.paths is not None and (rule.right in rights.paths or rule.family in rights.paths)


def check_query(query: str) -> None:
    """Refuse a query that may choose another model than the body, which is what is compared."""
    if any(joined(name) in _CHOOSING for name in query_names(query)):
        raise NotPermitted("a model in a query")


def query_names(query: str) -> Iterator[str]:
    """The names in a query, as a server reads them that separates by `;` too, or decodes twice."""
    for part in _parts(query):
        yield unquote_plus(unquote_plus(part.partition("=")[0])).partition("[")[0].strip()
