"""Limited keys: what role and lists of a gateway key do not permit reaches no provider, however it is written."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Server, Settings, Storage
from dragoman.gateway.paths import EndpointKind
from dragoman.identities.identity import ADMIN, CLIENT, ROLES, VIEWER, Rights
from dragoman.model.jsonvalue import JsonObject
from tests.gateway.harness import CHAT, MESSAGES, PATHS, RESPONSES, House
from tests.gateway.limited import KEY, OTHER_KEY, limited_house, send
from tests.gateway.says import log_lines, question
from tests.sdk.digging import dig_text

FAST = Rights(models=("fast", "embedder", "messages/small"))


def _ask(protocol: str, model: str, **more: object) -> JsonObject:
    return {**question(protocol, protocol), "model": model, **more}  # type: ignore[dict-item]  # members of any kind


def _conversation(house: House, protocol: str, model: str, **more: object) -> tuple[int, str]:
    return send(house, "POST", PATHS[protocol], _ask(protocol, model, **more))


NAMES = {
    "slow": False,
    "fast": True,
    "claude:fast": True,
    "fast[1m]": True,
    "claude:fast[1m]": True,
    "claude:slow": False,
    "slow[1m]": False,
    "messages/small": True,
    "messages/small@anthropic-messages": True,
    "messages/small[1m]": True,
    "messages/large": False,
    "messages/small@openai-chat": True,
    "fast@openai-chat": False,
    "FAST": False,
    "fast ": False,
    " fast": False,
    "fast\n": False,
    "fast/": False,
    "chat/renamed": False,
    "chat/small": False,
    "claude-small": False,
    "nobody/knows": False,
    "anthropic/small": False,
    "messages/small/../large": False,
    "messages//small": False,
    "f\u0430st": False,
}


def test_pitfall_321_a_name_is_compared_as_it_is_dispatched() -> None:
    with limited_house(FAST) as house:
        for name, is_permitted in NAMES.items():
            for protocol in (MESSAGES, CHAT, RESPONSES):
                before = len(house.provider.received)
                status, message = _conversation(house, protocol, name)
                if is_permitted:
                    # One of them names a protocol that its provider does not speak.
                    assert status == (404 if "@openai-chat" in name else 200), (name, protocol, status, message)
                else:
                    assert status == 403, (name, protocol, status, message)
                    assert message.startswith("this key may not use "), name
                    assert message.endswith("; see /v1/models"), name
                    assert len(house.provider.received) == before, name


def test_pitfall_734_a_name_with_a_protocol_goes_no_other_way_than_the_route_that_is_permitted() -> None:
    def open_all(settings: Settings) -> Settings:
        routes = (
            RouteConfig(pattern="gpt-5", targets=("chat/small",)),
            RouteConfig(pattern="gpt-*", targets=("chat/*",)),
        )
        return replace(settings, routes=routes)

    with limited_house(Rights(models=("gpt-5",)), open_all) as house:
        assert _conversation(house, CHAT, "gpt-5") == (200, "")
        assert house.provider.received[-1].json()["model"] == "small"
        # This would be the model itself.
        for name in ("gpt-5@openai-chat", "gpt-5[1m]@openai-chat", "gpt-5[1m][1m]", "gpt-5@openai-chat[1m]"):
            assert _conversation(house, CHAT, name)[0] == 403, name
    with limited_house(Rights(models=("*-chat",)), open_all) as house:
        assert _conversation(house, CHAT, "gpt-5@openai-chat")[0] == 403
    with limited_house(Rights(models=("gpt-*",)), open_all) as house:
        assert _conversation(house, CHAT, "gpt-5@openai-chat")[0] == 200


def test_pitfall_734_a_provider_that_a_route_hides_is_not_reached_by_its_own_name() -> None:
    with limited_house(Rights(models=("chat/renamed",))) as house:
        assert _conversation(house, CHAT, "chat/renamed") == (200, "")
        assert house.provider.received[-1].json()["model"] == "small"
        assert _conversation(house, CHAT, "chat/renamed@openai-chat")[0] == 403


DEEPER: dict[str, list[JsonObject]] = {
    MESSAGES: [
        {"fallbacks": [{"model": "large"}]},
        {"fallbacks": "default"},
        {"fallbacks": [{"model": "small"}, {"model": "large"}]},
        {"fallbacks": [{"model": {"id": "large"}}]},
        {"fallbacks": ["large"]},
        {"fallbacks": [{"small": ["large"]}]},
        {"models": ["large"]},
        {"plugins": [{"id": "fusion", "analysis_models": ["large"]}]},
        {"providerOptions": {"gateway": {"models": ["large"]}}},
        {"tools": [{"type": "advisor_20260301", "name": "advisor", "model": "large"}]},
        {"tools": [{"type": "advisor_20260301", "name": "advisor", "Model": "large"}]},
    ],
    CHAT: [
        {"models": ["chat/large", "large"]},
        {"models": "large"},
        {"fallbacks": ["large"]},
        {"fallbacks": [{"small": ["large"]}]},
        {"plugins": [{"id": "web", "model": "large"}]},
        {"plugins": [{"id": "fusion", "analysis_models": ["small", "large"]}]},
        {"tools": [{"type": "openrouter:fusion", "parameters": {"analysis_models": ["large"]}}]},
        {"tools": [{"type": "openrouter:fusion", "parameters": {"Analysis_Models": ["large"]}}]},
        {"providerOptions": {"gateway": {"models": ["large"]}}},
        {"preset": "large"},
        {"compound_custom": {"models": {"answering_model": "large"}}},
        {"tools": [{"type": "openrouter:image", "parameters": {"model": "large"}}]},
    ],
    RESPONSES: [
        {"tools": [{"type": "image_generation", "model": "large"}]},
        {"models": ["large"]},
        {"providerOptions": {"gateway": {"models": ["large"]}}},
        {"plugins": [{"id": "fusion", "analysis_models": ["large"]}]},
        {"tools": [{"type": "openrouter:fusion", "parameters": {"analysis_models": ["large"]}}]},
        {"input": [{"type": "tool_search_output", "tools": [{"type": "image_generation", "model": "large"}]}]},
    ],
}


@pytest.mark.parametrize("protocol", DEEPER)
def test_names_deeper_in_a_body_are_compared_as_the_target_that_they_mean(protocol: str) -> None:
    short = {MESSAGES: "messages", CHAT: "chat", RESPONSES: "responses"}[protocol]
    with limited_house(Rights(models=(f"{short}/small",))) as house:
        for more in DEEPER[protocol]:
            status, message = _conversation(house, protocol, f"{short}/small", **more)
            assert status in (400, 403), (more, message)
            assert not house.provider.received, more
    with limited_house(Rights(models=(f"{short}/*",))) as house:
        status, message = _conversation(house, protocol, f"{short}/small", tools=[{"type": "x", "model": "large"}])
        assert len(house.provider.received) == 1, message


DOUBLED = (
    b'{"model":"slow","model":"fast","messages":[],"max_tokens":9}',
    b'{"model":"fast","messages":[],"max_tokens":9,"model":"slow"}',
    b'{"model":"fast","Model":"slow","messages":[],"max_tokens":9}',
    b'{"mod\\u0065l":"slow","model":"fast","messages":[],"max_tokens":9}',
    b'{"model":"fast","messages":[],"max_tokens":9,"fallbacks":[],"fallbacks":[{"model":"slow"}]}',
    b'{"model":"fast","messages":[],"max_tokens":9,"Fallbacks":[{"model":"slow"}]}',
    b'{"model":"fast","messages":[],"max_tokens":9,"fallbacks":[{"model":"small","model":"large"}]}',
    b'{"model":"fast","messages":[],"max_tokens":9,"models":["small"],"models":["large"]}',
)


@pytest.mark.parametrize("body", DOUBLED)
def test_a_member_that_readers_may_read_in_two_ways_is_refused(body: bytes) -> None:
    with limited_house(FAST) as house:
        for path in (PATHS[MESSAGES], PATHS[CHAT], "/v1/messages/count_tokens"):
            assert send(house, "POST", path, body)[0] in (400, 403)
        assert not house.provider.received


QUERIES = ("model=slow", "Model=slow", "%6dodel=slow", "%256dodel=slow", "x=1;model=slow", "model[]=slow", "model",
           "deployment=slow", "deployment-id=slow", "api-version=1&engine=slow", "beta=true&models=slow")  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_names_a_model_is_refused_for_a_key_with_a_list(query: str) -> None:
    with limited_house(FAST) as house:
        for path in (*PATHS.values(), "/v1/messages/count_tokens", "/v1/embeddings", "/v1/responses/compact"):
            body = {"model": "fast", "messages": [], "input": "x", "max_tokens": 9}
            assert send(house, "POST", f"{path}?{query}", body)[0] == 403, path
        assert not house.provider.received


def test_a_header_that_may_name_a_model_reaches_no_provider() -> None:
    with limited_house(FAST) as house:
        for name in ("openai_model", "anthropic_model_override", "openai_deployment_id", "openai_engine"):
            assert send(house, "POST", PATHS[MESSAGES], _ask(MESSAGES, "fast"), **{name: "slow"})[0] == 200
            assert house.provider.received[-1].header(name.replace("_", "-")) is None


def _form(*fields: tuple[str, str]) -> bytes:
    parts = [f'--b\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields]
    return ("".join(parts) + "--b--\r\n").encode()


JSON, BATCHES = "application/json", "/v1/messages/batches"
FORM = "multipart/form-data; boundary=b"
BODIES: tuple[tuple[str, bytes, str], ...] = (
    ("/v1/embeddings", b'{"model":"slow","input":"x"}', JSON),
    ("/v1/embeddings", b'{"model":"chat/vectors","input":"x"}', JSON),
    ("/v1/embeddings", b'{"input":"x"}', JSON),
    ("/v1/embeddings", b'{"model":null,"input":"x"}', JSON),
    ("/v1/embeddings", b'{"model":"","input":"x"}', JSON),
    ("/v1/embeddings", b'{"model":"embedder","model":"slow"}', JSON),
    ("/v1/embeddings", b'[{"model":"embedder"}]', JSON),
    ("/v1/embeddings", b"model=embedder", "application/x-www-form-urlencoded"),
    ("/v1/embeddings", b'{"model":"embedder","models":["chat/large"]}', JSON),
    ("/v1/embeddings", b'{"model":"embedder","Fallbacks":["chat/large"]}', JSON),
    ("/v1/moderations", b'{"input":"x"}', JSON),
    ("/v1/audio/transcriptions", _form(("model", "slow")), FORM),
    ("/v1/audio/transcriptions", _form(("model", "embedder"), ("model", "slow")), FORM),
    ("/v1/audio/transcriptions", _form(("Model", "embedder")), FORM),
    ("/v1/audio/transcriptions", _form(("language", "en")), FORM),
    ("/v1/audio/transcriptions", b'{"model":"embedder"}', FORM),
    ("/v1/audio/transcriptions", _form(("model", "embedder")), "multipart/form-data"),
    ("/v1/audio/transcriptions", _form(("model", "embedder"), ("fallbacks", '["chat/large"]')), FORM),
    ("/v1/audio/transcriptions", _form(("model", "embedder"), ("Models", "chat/large")), FORM),
    ("/v1/images/edits", _form(("model", "slow"), ("prompt", "x")), FORM),
    (BATCHES, b'{"requests":[{"params":{"model":"large"}}]}', JSON),
    (BATCHES, b'{"requests":[{"params":{"model":"small"}},{"params":{}}]}', JSON),
    (BATCHES, b'{"requests":[{"params":{"model":"small","model":"large"}}]}', JSON),
    (BATCHES, b'{"requests":[{"params":{"model":"small"},"params":{"model":"large"}}]}', JSON),
    (BATCHES, b'{"requests":[],"requests":[{"params":{"model":"large"}}]}', JSON),
    (BATCHES, b'{"requests":[{"params":{"model":"small","fallbacks":[{"model":"large"}]}}]}', JSON),
    (BATCHES, b'{"input":[{"params":{"model":"large"}}]}', JSON),
    (BATCHES, b'{"model":"fast","requests":[{"params":{"model":"large"}}]}', JSON),
    (BATCHES, b"requests", "text/plain"),
    ("/v1/files", b'{"purpose":"batch"}', JSON),
    ("/v1/files", b'{"model":"fast"}', JSON),
    ("/v1/files", _form(("model", "fast"), ("purpose", "batch")), FORM),
    ("/v1/uploads", b"{}", JSON),
    ("/v1/containers", b"{}", JSON),
    ("/v1/batches", b'{"input_file_id":"file-1"}', JSON),
    ("/v1/vector_stores", b"{}", JSON),
    ("/v1/responses/compact", b'{"model":"slow","input":"x"}', JSON),
    ("/v1/messages/count_tokens", b'{"model":"slow","messages":[]}', JSON),
    ("/v1/responses/input_tokens", b'{"model":"slow","input":"x"}', JSON),
)  # fmt: skip


@pytest.mark.parametrize(("path", "body", "kind"), BODIES)
def test_what_names_another_model_or_none_at_another_path_reaches_no_provider(
    path: str, body: bytes, kind: str
) -> None:
    with limited_house(FAST) as house:
        found = [
            send(house, "POST", path, body, content_type=kind, x_dragoman_provider=provider)
            for provider in ("chat", "messages")
        ]
        # One of them has no such path.
        assert {status for status, _ in found} in ({400}, {403}, {403, 404}, {400, 404}), found
        assert not house.provider.received


def test_what_a_list_permits_at_other_paths_is_relayed() -> None:
    with limited_house(FAST) as house:
        assert send(house, "POST", "/v1/embeddings", {"model": "embedder", "input": "x"}) == (200, "")
        form = _form(("model", "embedder"))
        assert send(house, "POST", "/v1/audio/transcriptions", form, content_type=FORM) == (200, "")
        batch = {"requests": [{"custom_id": "1", "params": {"model": "small"}}]}
        assert send(house, "POST", "/v1/messages/batches", batch, x_dragoman_provider="messages") == (200, "")
        assert len(house.provider.received) == 3


def test_a_path_without_a_model_is_for_a_key_whose_paths_name_it() -> None:
    with limited_house(Rights(models=("fast",), paths=("files", "batches:create"))) as house:
        chat = {"x_dragoman_provider": "chat"}
        assert send(house, "POST", "/v1/files", {}, **chat) == (200, "")
        assert send(house, "POST", "/v1/batches", {"input_file_id": "file-1"}, **chat) == (200, "")
        assert send(house, "POST", "/v1/uploads", {}, **chat)[0] == 403
        # What another key may have made has to be named with its action.
        assert send(house, "GET", "/v1/files/file-1", **chat)[0] == 403


PROVIDERS = Rights(providers=("messages", "echo"))


def test_providers_are_left_out_of_routes_and_reached_by_no_name() -> None:
    with limited_house(PROVIDERS) as house:
        for name in ("slow", "chat/small", "chat/renamed", "chat/small@openai-chat", "all/small", "embedder"):
            for protocol in (MESSAGES, CHAT, RESPONSES):
                status, message = _conversation(house, protocol, name)
                assert status == 403, (name, protocol, message)
                assert message == f"this key may not use `{name}`; see /v1/models"
        for path in ("/v1/messages/count_tokens", "/v1/embeddings", "/v1/responses/compact"):
            assert send(house, "POST", path, {"model": "slow", "messages": [], "input": "x"})[0] == 403
        for provider in ("chat", "all", "nobody"):
            refused = send(house, "POST", "/v1/files", {}, x_dragoman_provider=provider)
            assert refused == (403, f"this key may not use `{provider}`; see /v1/models")
        assert not house.provider.received
        for protocol in (MESSAGES, CHAT, RESPONSES):
            # The route has two providers, and one of them remains.
            assert _conversation(house, protocol, "fast") == (200, "")
        assert {received.target for received in house.provider.received} == {PATHS[MESSAGES]}


def test_a_fallback_goes_to_no_provider_that_the_key_may_not_use() -> None:
    with limited_house(Rights(providers=("chat",))) as house:
        assert _conversation(house, CHAT, "fast") == (200, "")
        assert [received.target for received in house.provider.received] == [PATHS[CHAT]]


def test_the_reason_is_in_the_explanation_for_who_may_read_it() -> None:
    narrow = Rights(providers=("messages",))
    with limited_house(Rights(role=VIEWER), other=narrow) as house:
        told = house.post("/route?model=fast&key=other", _ask(CHAT, "fast"), authorization=f"Bearer {KEY}").json()
        assert told["candidates"][-1]["left_out"] == {  # type: ignore[index,call-overload]  # JSON of any kind
            "filter": "providers",
            "why": "the key's list of providers does not have its provider",
        }
    with limited_house(narrow) as house:
        answer = house.post("/route?model=fast", _ask(CHAT, "fast"), authorization=f"Bearer {KEY}")
        assert answer.status == 200
        assert b"chat/" not in answer.body


ENDPOINTS: dict[EndpointKind, tuple[str, str]] = {
    EndpointKind.CONVERSATION: ("POST", "/v1/messages"),
    EndpointKind.COUNT: ("POST", "/v1/messages/count_tokens"),
    EndpointKind.COMPACT: ("POST", "/v1/responses/compact"),
    EndpointKind.STORED: ("GET", "/v1/responses/resp_1"),
    EndpointKind.CONVERSATIONS: ("POST", "/v1/conversations"),
    EndpointKind.OTHER: ("POST", "/v1/embeddings"),
    EndpointKind.MODELS: ("GET", "/v1/models"),
    EndpointKind.MODEL: ("GET", "/v1/models/fast"),
    EndpointKind.MODEL_NAMES: ("GET", "/model-names"),
    EndpointKind.ROUTE: ("POST", "/route?model=fast"),
    EndpointKind.LAUNCH: ("GET", "/launches/x"),
    EndpointKind.METRICS: ("GET", "/metrics"),
    EndpointKind.STATUS: ("GET", "/status"),
    EndpointKind.NOWHERE: ("GET", "/nowhere"),
}
CALLING = {EndpointKind.CONVERSATION, EndpointKind.COUNT, EndpointKind.COMPACT, EndpointKind.STORED,
           EndpointKind.CONVERSATIONS, EndpointKind.OTHER}  # fmt: skip
READING = {EndpointKind.METRICS, EndpointKind.STATUS}


@pytest.mark.parametrize("role", ROLES)
def test_every_endpoint_is_for_the_roles_of_the_decision(role: str) -> None:
    with limited_house(Rights(role=role)) as house:
        for kind, (method, path) in ENDPOINTS.items():
            body = _ask(MESSAGES, "fast", input="x") if method == "POST" else None
            status, message = send(house, method, path, body)
            refused = role == VIEWER if kind in CALLING else role == CLIENT if kind in READING else False
            needed = "client or admin" if kind in CALLING else "viewer or admin"
            words = f"a gateway key with the role {role} may not use this path, which needs {needed}"
            assert (message == words) is refused, (kind, status, message)
            assert (status == 403) is refused, (kind, status, message)
        assert send(house, "POST", "/status", {"reset": "chat/x"})[0] == (200 if role == ADMIN else 403)
        asked = "/route?model=fast&key=other"
        assert send(house, "POST", asked, _ask(CHAT, "fast"))[0] == (403 if role == CLIENT else 200)
        checked = send(house, "POST", "/route?model=fast&check=1", _ask(CHAT, "fast"))[0]
        assert checked == (200 if role == ADMIN else 403)


@pytest.mark.parametrize("rights", [Rights(role=ADMIN, models=("fast",)), Rights(role=ADMIN, providers=("messages",))])
@pytest.mark.parametrize("key", ["other", "nobody"])
def test_no_provider_is_called_for_another_key_that_the_asker_may_not_use(rights: Rights, key: str) -> None:
    with limited_house(rights) as house:
        asked = f"/route?model=chat/large&key={key}"
        assert send(house, "POST", asked, _ask(CHAT, "fast"))[0] == 200
        assert send(house, "POST", f"{asked}&check=1", _ask(CHAT, "fast"))[0] == 403
        assert not house.provider.received
        checked = send(house, "POST", f"/route?model=fast&key={key}&check=1", _ask(CHAT, "fast"))[0]
        assert checked == (200 if rights.providers is None else 403)


def test_every_endpoint_of_the_application_has_roles() -> None:
    known = {*ENDPOINTS, EndpointKind.ADMIN, EndpointKind.INDEX, EndpointKind.HELLO, EndpointKind.HEALTH}
    assert known | {EndpointKind.READY} == {*EndpointKind}


PATHS_OF_KEYS: dict[tuple[str, ...], set[str]] = {
    ("messages",): {"/v1/messages", "/v1/messages/count_tokens"},
    ("chat:create",): {"/v1/chat/completions"},
    ("chat:read",): set(),
    ("responses",): {"/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact",
                     "GET /v1/responses/resp_1"},
    ("responses:read",): {"GET /v1/responses/resp_1"},
    ("models",): {"GET /v1/models", "GET /v1/models/fast", "GET /model-names", "/route?model=fast"},
    ("embeddings",): {"/v1/embeddings"},
    ("conversations",): {"/v1/conversations", "GET /v1/conversations/conv_1"},
    ("files",): {"/v1/files"},
    ("files:read",): {"GET /v1/files", "GET /v1/files/file-1"},
}  # fmt: skip
ALL_PATHS = sorted(set().union(*PATHS_OF_KEYS.values()))


@pytest.mark.parametrize("paths", PATHS_OF_KEYS)
def test_paths_are_what_the_list_names_and_nothing_else(paths: tuple[str, ...]) -> None:
    with limited_house(Rights(paths=paths)) as house:
        for text in ALL_PATHS:
            method, path = ("GET", text.removeprefix("GET ")) if text.startswith("GET ") else ("POST", text)
            body = None if method == "GET" else {**_ask(MESSAGES, "fast"), "input": "x"}
            status, message = send(house, method, path, body, x_dragoman_provider="chat")
            is_listed = text in PATHS_OF_KEYS[paths]
            assert (status != 403) is is_listed, (text, status, message)


SPELLED = ("/v1//embeddings", "/v1/embeddings/", "/openai/v1/embeddings", "/v1/%65mbeddings", "/embeddings",
           "/v1/v1/embeddings", "//v1/embeddings", "/anthropic/v1/embeddings", "/v1/./embeddings",
           "/v1/chat/../embeddings", "/v1/Embeddings", "/v1/embeddings%2F", "/v1/embeddings;x",
           "/v1/%2565mbeddings")  # fmt: skip


def test_no_spelling_of_a_path_avoids_the_list() -> None:
    with limited_house(Rights(paths=("chat",))) as house:
        for path in SPELLED:
            assert send(house, "POST", path, {"model": "embedder", "input": "x"})[0] in (403, 404), path
        for path in ("/v1//messages", "/anthropic/v1/messages", "/v1/%6dessages", "/messages", "/v1/messages/"):
            assert send(house, "POST", path, _ask(MESSAGES, "fast"))[0] == 403, path
        assert not house.provider.received


def test_what_the_configuration_opens_is_open_to_a_list_that_names_it() -> None:
    def opened(settings: Settings) -> Settings:
        return replace(settings, server=Server(passthrough_paths=("GET /files/*", "POST /fine_tuning/jobs")))

    chat = {"x_dragoman_provider": "chat"}
    cases = {
        Rights(): (200, 200),
        Rights(paths=("files",)): (200, 403),
        Rights(paths=("other",)): (403, 200),
        Rights(models=("fast",)): (403, 403),
        Rights(models=("fast",), paths=("other", "files:read")): (200, 200),
    }
    for rights, expected in cases.items():
        with limited_house(rights, opened) as house:
            read = send(house, "GET", "/v1/files/file-1", **chat)[0]
            tuned = send(house, "POST", "/v1/fine_tuning/jobs", {"training_file": "file-1"}, **chat)[0]
            assert (read, tuned) == expected, rights


@pytest.mark.parametrize("strict", [False, True, "all"])
def test_strict_of_a_key_holds_and_no_header_loosens_it(strict: bool | str) -> None:
    rights = Rights(strict=strict)  # type: ignore[arg-type]  # one of the values that it may have
    lossy = _ask(CHAT, "messages/small", seed=7)
    with limited_house(rights) as house:
        assert send(house, "POST", PATHS[CHAT], lossy)[0] == (400 if strict else 200)
        assert send(house, "POST", PATHS[CHAT], lossy, x_dragoman_strict="0")[0] == (400 if strict else 200)


def test_pitfall_642_the_list_of_models_is_of_what_the_key_may_use() -> None:
    def listed(house: House, key: str) -> list[str]:
        answer = house.get("/v1/models", authorization=f"Bearer {key}")
        return [model["id"] for model in json.loads(answer.body)["data"]]

    with limited_house(Rights(models=("fast", "messages/*"))) as house:
        assert listed(house, KEY) == ["fast", "messages/served"]
        assert "slow" in listed(house, OTHER_KEY)
        assert send(house, "GET", "/v1/models/fast")[0] == 200
        assert send(house, "GET", "/v1/models/slow")[0] == 403
        assert send(house, "GET", "/v1/models/claude%3Aslow")[0] == 403
        assert send(house, "GET", "/v1/models/no-such-name")[0] == 403
    with limited_house(Rights(role=VIEWER, models=("fast",))) as house:
        assert "slow" in listed(house, KEY)
    with limited_house(PROVIDERS) as house:
        names = listed(house, KEY)
        assert {"fast", "messages/served"} <= {*names}
        assert not [name for name in names if name.startswith(("chat/", "all/", "responses/")) or name == "slow"]


def test_what_is_refused_is_logged_with_the_name_of_the_key() -> None:
    with limited_house(Rights(models=("fast",), paths=("chat",))) as house:
        assert send(house, "POST", PATHS[MESSAGES], _ask(MESSAGES, "fast"))[0] == 403
        assert send(house, "POST", PATHS[CHAT], _ask(CHAT, "slow"))[0] == 403
        lines = log_lines(house)
    assert [(line["key"], line["status"]) for line in lines] == [("limited", 403)] * 2
    assert "messages:create" in str(lines[0]["refusal"])


def test_a_star_alone_is_no_limit() -> None:
    with limited_house(Rights(models=("*",))) as house:
        chat = {"x_dragoman_provider": "chat"}
        assert send(house, "POST", "/v1/files", {}, **chat) == (200, "")
        assert send(house, "POST", "/v1/moderations", {"input": "x"}, **chat) == (200, "")
        assert send(house, "POST", f"{PATHS[CHAT]}?model=x", _ask(CHAT, "slow", models=["any"])) == (200, "")


def test_a_stored_response_is_read_by_its_own_key_whatever_its_models_are() -> None:
    with limited_house(Rights(models=("fast",)), lambda settings: replace(settings, storage=Storage())) as house:
        made = house.post(PATHS[RESPONSES], _ask(RESPONSES, "fast", store=True), authorization=f"Bearer {KEY}")
        path = f"/v1/responses/{dig_text(made.json(), 'id')}"
        assert send(house, "GET", path) == (200, "")
        # What it goes on from opens no other model.
        more = _ask(RESPONSES, "slow", previous_response_id=path.rpartition("/")[2])
        assert send(house, "POST", PATHS[RESPONSES], more)[0] == 403
        assert house.get(path, authorization=f"Bearer {OTHER_KEY}").status == 404
        assert send(house, "DELETE", path) == (200, "")


def test_web_sockets_and_other_methods_open_nothing() -> None:
    with limited_house(Rights(role=VIEWER)) as house:
        assert send(house, "GET", PATHS[RESPONSES], upgrade="websocket", sec_websocket_key="x")[0] == 426
        for method in ("PUT", "PATCH", "GET"):
            assert send(house, method, PATHS[MESSAGES], _ask(MESSAGES, "fast"))[0] in (403, 405)
        assert not house.provider.received
