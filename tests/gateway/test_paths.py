"""Paths: base URLs are pasted in every form, and each means one endpoint."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from dragoman.gateway import paths
from dragoman.gateway.access.endpoint_rights import is_stated_path
from dragoman.gateway.paths import (
    CHAT,
    MESSAGES,
    RESPONSES,
    EndpointKind,
    ModelPlace,
    PathRule,
    api_path_of,
    is_plain,
    relayed_rule,
    rule_of,
)
from dragoman.identities.identity import ADMIN, Rights
from dragoman.identities.path_families import ACTIONS, OPEN_ACTIONS, OTHER
from dragoman.identities.permissions import permits_path, uncovered
from tests.identities.holders import holder


def is_relayed(method: str, path: str, *, shared: bool, opened: Sequence[str] = ()) -> bool:
    """Whether a key without lists has a path relayed."""
    rule = relayed_rule(method, path, shared=shared, opened=opened)
    return rule is not None and rule.is_open


ENDPOINTS = {
    "/v1/messages": (EndpointKind.CONVERSATION, MESSAGES),
    "/v1/chat/completions": (EndpointKind.CONVERSATION, CHAT),
    "/v1/responses": (EndpointKind.CONVERSATION, RESPONSES),
    "/v1/messages/count_tokens": (EndpointKind.COUNT, MESSAGES),
    "/v1/responses/input_tokens": (EndpointKind.COUNT, RESPONSES),
    "/v1/models": (EndpointKind.MODELS, ""),
    "/metrics": (EndpointKind.METRICS, ""),
    "/status": (EndpointKind.STATUS, ""),
    "/route": (EndpointKind.ROUTE, ""),
    "/api/hello": (EndpointKind.HELLO, ""),
    "/health": (EndpointKind.HEALTH, ""),
    "/healthz": (EndpointKind.HEALTH, ""),
    "/readyz": (EndpointKind.READY, ""),
    "/": (EndpointKind.INDEX, ""),
}


@pytest.mark.parametrize("path", ENDPOINTS)
def test_the_path_selects_the_endpoint_and_the_clients_protocol(path: str) -> None:
    place = api_path_of(path)
    assert (place.kind, place.protocol) == ENDPOINTS[path]


FORMS = {
    "without a version": "/messages",
    "with the version twice": "/v1/v1/messages",
    "with the version three times": "/v1/v1/v1/messages",
    "with a slash at the end": "/v1/messages/",
    "with doubled slashes": "//v1//messages",
    "behind its family": "/anthropic/v1/messages",
    "behind its family without a version": "/anthropic/messages",
    "behind the other family": "/openai/v1/messages",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_pasted_base_url_means_the_same_in_every_form(form: str) -> None:
    place = api_path_of(FORMS[form])
    assert (place.kind, place.protocol, place.rest) == (EndpointKind.CONVERSATION, MESSAGES, "/messages")
    assert place.methods == ("POST",)


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        ("/v1/models", ""),
        ("/openai/v1/models", CHAT),
        ("/anthropic/v1/models", MESSAGES),
        ("/anthropic/models", MESSAGES),
    ],
)
def test_pitfall_209_the_family_in_the_path_decides_the_shape_of_the_list(path: str, protocol: str) -> None:
    # Without one the headers decide: "" says so.
    assert api_path_of(path).protocol == protocol


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("/v1/models/gpt-5.1", "/models/gpt-5.1"),
        ("/v1/models/openai/gpt-5.1", "/models/openai/gpt-5.1"),
        ("/v1/models/openai%2Fgpt-5.1", "/models/openai%2Fgpt-5.1"),
        ("/anthropic/v1/models/claude-x", "/models/claude-x"),
    ],
)
def test_a_models_name_keeps_its_slashes(path: str, rest: str) -> None:
    place = api_path_of(path)
    assert (place.kind, place.rest) == (EndpointKind.MODEL, rest)


OTHERS = {
    "/v1/embeddings": CHAT,
    "/embeddings": CHAT,
    "/openai/anything": CHAT,
    "/v1/messages/batches": MESSAGES,
    "/anthropic/v1/files": MESSAGES,
    "/v1/chat/completions/chatcmpl-1": CHAT,
}


@pytest.mark.parametrize("path", OTHERS)
def test_other_paths_of_an_api_belong_to_a_provider_and_have_its_envelope(path: str) -> None:
    place = api_path_of(path)
    assert (place.kind, place.protocol) == (EndpointKind.OTHER, OTHERS[path])


KEPT = {
    "/v1/responses/resp_1": EndpointKind.STORED,
    "/responses/resp_1/cancel": EndpointKind.STORED,
    "/v1/responses/resp_1/input_items/": EndpointKind.STORED,
    "/openai/v1/conversations/conv_1/items": EndpointKind.CONVERSATIONS,
    "/v1/conversations": EndpointKind.CONVERSATIONS,
    "/v1/responses/compact": EndpointKind.COMPACT,
}


@pytest.mark.parametrize("path", KEPT)
def test_what_is_kept_has_paths_of_its_own(path: str) -> None:
    place = api_path_of(path)
    assert (place.kind, place.protocol) == (KEPT[path], RESPONSES)
    assert "POST" in place.methods


@pytest.mark.parametrize(
    "path", ["/favicon.ico", "/robots.txt", "/.env", "/admin", "/Messages", "*", "/v1messages", "/V1/messages"]
)
def test_what_belongs_to_nobody_goes_to_nobody(path: str) -> None:
    assert api_path_of(path).kind is EndpointKind.NOWHERE


def test_paths_without_number_are_not_remembered() -> None:
    before = len(paths._CACHE)
    for count in range(1000):
        api_path_of(f"/v1/models/m{count}")
        api_path_of(f"/v1/files/f{count}")
        api_path_of(f"/v1/responses/r{count}")
        api_path_of(f"/v1/conversations/c{count}")
        api_path_of(f"/nowhere{count}")
    assert len(paths._CACHE) == before


def test_spellings_without_number_of_one_endpoint_are_remembered_within_a_limit() -> None:
    known = dict(paths._CACHE)
    try:
        for count in range(2000):
            assert api_path_of("/" * (count + 1) + "v1/messages").kind is EndpointKind.CONVERSATION
        assert len(paths._CACHE) == paths._MAX_CACHED
    finally:
        paths._CACHE.clear()
        paths._CACHE.update(known)


@pytest.mark.parametrize("path", ["/v1/%63hat/completions", "/%76%31/chat/completions", "/v1/chat/%63ompletions"])
def test_an_endpoint_has_no_second_name(path: str) -> None:
    assert api_path_of(path).kind is EndpointKind.CONVERSATION


@pytest.mark.parametrize("path", ["/v1/files/%2e%2e/x", "/v1/files/a%2Fb", "/v1/files/%zz", "/v1/files/a%20b"])
def test_what_needs_its_escape_keeps_it(path: str) -> None:
    assert api_path_of(path).rest == path.removeprefix("/v1")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/responses%2Fresp_1",
        "/v1/responses%252Fresp_1",
        "/v1/%2fresponses%2fresp_1",
        "/v1/RESPONSES/resp_1",
        "/v1/Responses",
        "/v1/responses;x/resp_1",
        "/v1/conversations%5cconv_1",
        "/v1/%2572esponses/resp_1",
    ],
)
def test_no_spelling_leads_past_the_owner_of_what_a_provider_keeps(path: str) -> None:
    # Some servers decode before they look, take no notice of case, or cut parameters off.
    assert (api_path_of(path).kind, api_path_of(path).protocol) == (EndpointKind.NOWHERE, RESPONSES)


COMPUTED = (
    "POST /embeddings",
    "POST /images/generations",
    "POST /audio/transcriptions",
    "POST /moderations",
    "POST /rerank",
    "POST /files",
    "POST /uploads/upload_1/parts",
    "POST /messages/batches",
    "POST /videos",
    "POST /vector_stores/vs_1/files",
)
# What belongs to the provider's account, and to no gateway key that is known.
OF_THE_ACCOUNT = (
    "GET /files",
    "HEAD /files",
    "GET /files/file-1",
    "HEAD /files/file-1",
    "GET /files/file-1/content",
    "GET /batches",
    "GET /batches/batch_1",
    "GET /messages/batches",
    "GET /messages/batches/msgbatch_1",
    "GET /messages/batches/msgbatch_1/results",
    "GET /containers",
    "GET /containers/c",
    "GET /containers/c/files",
    "GET /containers/c/files/f",
    "GET /vector_stores",
    "GET /vector_stores/vs_1",
    "GET /vector_stores/vs_1/files",
    "GET /vector_stores/vs_1/files/f",
    "GET /vector_stores/vs_1/files/f/content",
    "GET /vector_stores/vs_1/file_batches/b",
    "GET /vector_stores/vs_1/file_batches/b/files",
    "POST /vector_stores/vs_1/search",
    "GET /videos",
    "GET /videos/video_1",
    "GET /videos/video_1/content",
    "POST /videos/video_1/remix",
)
# Nobody's to read, whoever asks.
CLOSED_TO_ALL = (
    "GET /containers/c/files/f/content",
    "HEAD /containers/c/files/f/content",
    "DELETE /containers/c/files/f",
    "GET /uploads/upload_1",
)
OF_ONE_OWNER = (
    *OF_THE_ACCOUNT,
    "POST /batches",
    "POST /batches/batch_1/cancel",
    "POST /messages/batches/msgbatch_1/cancel",
    "POST /uploads/upload_1/cancel",
)
CLOSED = (
    "GET /organization/admin_api_keys",
    "POST /organization/admin_api_keys",
    "POST /organization/projects/p/service_accounts",
    "GET /organizations/me",
    "POST /realtime/client_secrets",
    "POST /realtime/sessions",
    "POST /realtime/calls",
    "GET /api_keys",
    "GET /api-key",
    "GET /projects",
    "GET /certificates",
    "POST /webhooks",
    "POST /fine_tuning/jobs",
    "POST /evals",
    "POST /assistants",
    "POST /threads",
    "GET /threads/thread_1/messages",
    "GET /skills",
    "GET /chat/completions",
    "GET /chat/completions/chatcmpl-1",
    "GET /chat/completions/chatcmpl-1/messages",
    "POST /chat/completions/chatcmpl-1",
    "POST /vector_stores/vs_1",
    "POST /containers/c/files/f",
    "POST /files/file-1",
    "POST /audio/voices",
    "GET /embeddings",
    "DELETE /files/file-1",
    "DELETE /batches/batch_1",
    "DELETE /messages/batches/msgbatch_1",
    "DELETE /vector_stores/vs_1",
    "DELETE /containers/c",
    "DELETE /videos/video_1",
    "DELETE /models/ft",
    "POST /EMBEDDINGS",
    "POST /Embeddings",
    "POST /embeddings/x",
    "POST /embeddings/../organization",
    "POST /",
    "GET /nobody/thought/of/it",
)


@pytest.mark.parametrize("shared", [True, False])
def test_what_a_model_computes_is_relayed_and_what_it_needs(shared: bool) -> None:
    assert [asked for asked in COMPUTED if not is_relayed(*asked.split(), shared=shared)] == []


@pytest.mark.parametrize("shared", [True, False])
def test_item_22_a8_what_belongs_to_the_providers_account_is_read_by_nobody_unless_it_is_opened(shared: bool) -> None:
    closed = (*CLOSED_TO_ALL, *OF_THE_ACCOUNT) if shared else CLOSED_TO_ALL
    assert [asked for asked in closed if is_relayed(*asked.split(), shared=shared)] == []
    for asked in closed:
        method, path = asked.split()
        opened = f"{'GET' if method == 'HEAD' else method} {path}"
        assert is_relayed(method, path, shared=shared, opened=[opened])


def test_the_account_is_read_and_what_others_began_is_ended_where_it_is_one_owners() -> None:
    assert [asked for asked in OF_ONE_OWNER if not is_relayed(*asked.split(), shared=False)] == []
    assert [asked for asked in OF_ONE_OWNER if is_relayed(*asked.split(), shared=True)] == []


@pytest.mark.parametrize("shared", [True, False])
def test_what_mints_administers_or_deletes_is_closed_and_so_is_what_nobody_thought_of(shared: bool) -> None:
    assert [asked for asked in CLOSED if is_relayed(*asked.split(), shared=shared)] == []


@pytest.mark.parametrize(
    ("opened", "asked", "is_open"),
    [
        ("DELETE /files/*", "DELETE /files/file-1", True),
        ("DELETE /files/*", "DELETE /files", False),
        ("DELETE /files/*", "DELETE /files/file-1/content", True),
        ("DELETE /files/*", "POST /files/file-1", False),
        ("DELETE /files/*", "DELETE /batches/file-1", False),
        ("DELETE /*/x", "DELETE /files/x", True),
        ("DELETE /*/x", "DELETE /files/y", False),
        ("DELETE /*/x", "DELETE /files/x/y", False),
        ("POST /realtime/client_secrets", "POST /realtime/client_secrets", True),
        ("POST /realtime/client_secrets", "POST /realtime/sessions", False),
        ("GET /files", "GET /files", True),
        ("GET /fine_tuning/*", "HEAD /fine_tuning/jobs", True),
        ("* /evals/*", "DELETE /evals/eval_1", True),
    ],
)
def test_the_configuration_opens_by_method_and_path(opened: str, asked: str, is_open: bool) -> None:
    assert is_relayed(*asked.split(), shared=True, opened=[opened]) is is_open


@pytest.mark.parametrize(
    "rest",
    [
        "/files/%2e%2e",
        "/files/a%2fb",
        "/files/a%252fb",
        "/files/a%20b",
        "/files/.",
        "/files/..",
        "/files/...",
        "/files/a\\b",
        "/files/a;b",
        "/files//b",
        "/files/a\tb",
        "/files/é",
        "/files/a:delete",
        "/files/{id}",
        "/files/*",
        "/files/",
    ],
)
def test_a_segment_that_servers_read_in_several_ways_is_not_plain(rest: str) -> None:
    assert not is_plain(rest)
    assert is_plain("/files/file-1_A.b~c@d=/content")


# One rule of each path of the table, and that of paths which `server.passthrough_paths` opens.
ALL_RULES = [
    *(rule for _, rule in paths._RULES),
    PathRule(family=OTHER, action="create", model=ModelPlace.NONE),
]
PATH_RIGHTS = [right for family in OPEN_ACTIONS for right in (family, *(f"{family}:{each}" for each in ACTIONS))]


def may_take(rights: Rights, rule: PathRule) -> bool:
    """Whether a key of several owners' gateway may take a path, as far as that depends on its lists."""
    if rights.models is not None and rule.model is ModelPlace.NONE and rule.is_relayed:
        return permits_path(rights, rule.family, rule.action, is_open=rule.is_open) and is_stated_path(rights, rule)
    return permits_path(rights, rule.family, rule.action, is_open=rule.is_open)


@pytest.mark.parametrize("models", [None, ("fast",)])
@pytest.mark.parametrize("held", [None, *PATH_RIGHTS])
def test_a_list_of_paths_that_a_key_may_give_opens_no_path_that_is_closed_to_itself(
    held: str | None, models: tuple[str, ...] | None
) -> None:
    maker = holder("maker", b"1", rights=Rights(role=ADMIN, models=models, paths=None if held is None else (held,)))
    for given in PATH_RIGHTS:
        made = replace(maker.rights, paths=(given,))
        if uncovered(maker, made, (), None) is None:
            assert [rule for rule in ALL_RULES if may_take(made, rule) and not may_take(maker.rights, rule)] == []


def test_an_own_family_can_be_given() -> None:
    # What every key may do, an administrator may also write into a list.
    maker = holder("maker", b"1", rights=Rights(role=ADMIN))
    assert uncovered(maker, Rights(paths=("chat", "files", "embeddings:create", "batches")), (), None) is None
    for path in ("/batches", "/videos/{id}/remix"):
        rule = rule_of("POST", path)
        assert rule is not None and uncovered(maker, Rights(paths=(rule.right,)), (), None) == "paths"
