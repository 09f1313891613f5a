"""Other paths of a provider: relayed byte for byte, whatever they carry."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Server, Settings
from dragoman.gateway.endpoints import passthrough as passing
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.thread_offload import INLINE
from dragoman.protocols.codec import Codec
from dragoman.protocols.registry import codec_of as registered
from tests.gateway.gate import Gate
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PROVIDER_KEY,
    RESPONSES,
    Reply,
    Step,
    running,
    settings_for,
    stay_silent,
    stream,
    take_turns,
    whole,
)
from tests.gateway.says import failure_of, headers_named, log_lines
from tests.waiting import wait_until

EMBEDDINGS = b'{ "model" : "chat/served",\n "input":["a", "\\u00e9"], "dimensions": 1.0, "x":1, "x":2 }'
FORM = (
    b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    b"RIFF\x00\xff\r\n--not the end\r\n"
    b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nchat/served\r\n--xyz--\r\n'
)


# What an operator opens whose account is his alone.
READING = Server(passthrough_paths=("GET /files", "GET /files/*", "GET /messages/batches/*", "GET /vector_stores/*"))


def reading(port: int) -> Settings:
    """A gateway at which what the account holds is read."""
    return settings_for(port, server=READING)


def only_chat(port: int) -> Settings:
    """The same with one provider that speaks an OpenAI protocol."""
    made = reading(port)
    return replace(made, providers={name: made.providers[name] for name in ("chat", "messages", "echo")})


@pytest.mark.parametrize("prefix", ["/v1", "", "/openai/v1", "/openai", "/v1/v1"])
def test_embeddings_are_relayed_byte_for_byte(prefix: str) -> None:
    said = b'{"object":"list", "data":[{"embedding":[1.0,-0,1e-9]}] ,"usage":{"prompt_tokens":1}}\n'
    with running([whole(said, x_ratelimit_remaining_requests="3", set_cookie="a=b")]) as house:
        told = house.post(f"{prefix}/embeddings", EMBEDDINGS, content_type="application/json", cookie="c=d")
        assert (told.status, told.body) == (200, said)
        received = house.provider.received[0]
        assert received.body == EMBEDDINGS.replace(b"chat/served", b"served")
        assert received.target == "/v1/embeddings"
        assert received.header("authorization") == f"Bearer {PROVIDER_KEY}"
        assert received.header("cookie") is None
        assert told.header("set-cookie") is None
        assert told.header("x-ratelimit-remaining-requests") == "3"
        assert told.header("x-dragoman-route") == "chat/served; protocol=openai-chat"
        assert log_lines(house)[0]["path"] == "/embeddings"


def test_a_form_is_relayed_byte_for_byte_but_for_the_models_name() -> None:
    with running([whole({"text": "hello"})]) as house:
        told = house.post("/v1/audio/transcriptions", FORM, content_type="multipart/form-data; boundary=xyz")
        assert told.json() == {"text": "hello"}
        received = house.provider.received[0]
        assert received.body == FORM.replace(b"chat/served", b"served")
        assert received.header("content-type") == "multipart/form-data; boundary=xyz"
        assert received.header("content-length") == str(len(received.body))


def test_bytes_of_any_kind_come_back_as_they_are() -> None:
    sound = bytes(range(256)) * 500
    reply = Reply(
        headers=(("content-type", "audio/mpeg"),), steps=(sound[:1000], take_turns, sound[1000:]), chunked=True
    )
    with running([reply]) as house:
        told = house.post("/v1/audio/speech", {"model": "chat/served", "input": "hi"})
        assert (told.status, told.header("content-type"), told.body, told.complete) == (200, "audio/mpeg", sound, True)


def test_a_stream_of_another_path_passes_as_it_comes() -> None:
    with running([stream(b"data: 1\n\n", take_turns, b"data: [DONE]\n\n")]) as house:
        told = house.post("/v1/completions", {"model": "chat/served", "prompt": "hi", "stream": True})
        assert (told.body, told.header("content-type")) == (b"data: 1\n\ndata: [DONE]\n\n", "text/event-stream")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/files?purpose=batch&limit=3"),
        ("GET", "/v1/files/file-1/content"),
        ("POST", "/v1/batches/batch_1/cancel"),
        ("GET", "/v1/vector_stores/vs_1"),
    ],
)
def test_a_request_without_a_model_goes_to_the_provider_it_names_or_the_only_one(method: str, path: str) -> None:
    for settings, headers in ((reading, {"x_dragoman_provider": "chat"}), (only_chat, {})):
        with running([whole({"ok": True})], settings) as house:
            told = house.ask(method, path, b"", content_type="application/json", **headers)
            assert (told.status, told.json()) == (200, {"ok": True}), told.body
            received = house.provider.received[0]
            assert (received.method, received.target, received.body) == (method, path, b"")
            assert received.header("x-dragoman-provider") is None


def test_a_request_that_names_nobody_among_several_is_a_404() -> None:
    with running((), reading) as house:
        told = house.get("/v1/files")
        assert told.status == 404
        assert "x-dragoman-provider" in str(failure_of(CHAT, told)["message"])
        assert house.get("/v1/files", x_dragoman_provider="nobody").status == 404
        assert house.get("/v1/files", x_dragoman_provider="messages").status == 404


def test_paths_below_messages_go_to_a_provider_of_messages() -> None:
    with running([whole({"id": "msgbatch_1"})], reading) as house:
        told = house.get("/v1/messages/batches/msgbatch_1", x_dragoman_provider="messages")
        assert told.json() == {"id": "msgbatch_1"}
        received = house.provider.received[0]
        assert (received.target, received.header("x-api-key")) == ("/v1/messages/batches/msgbatch_1", PROVIDER_KEY)
        told = house.post("/v1/messages/batches", {"model": "chat/served"})
        assert (told.status, failure_of(MESSAGES, told)["type"]) == (404, "not_found_error")


@pytest.mark.parametrize(
    ("targets", "served"),
    [
        (("chat/served", "responses/other"), "chat/served"),
        (("messages/served", "messages/other", "chat/other", "responses/served"), "responses/served"),
        (("nested", "chat/other"), "responses/served"),
    ],
)
def test_a_name_with_several_targets_keeps_to_the_first_ones_model(targets: tuple[str, ...], served: str) -> None:
    """Vectors of two models cannot be compared; another provider of the same model is as good."""
    nested = RouteConfig(pattern="nested", targets=("messages/served", "responses/served"), policy="round-robin")

    def settings(port: int) -> Settings:
        return replace(settings_for(port), routes=(RouteConfig(pattern="vectors", targets=targets), nested))

    with running(lambda received: whole({"data": []}), settings) as house:
        for _ in range(3):
            told = house.post("/v1/embeddings", {"model": "vectors", "input": "a"})
            assert (told.status, (told.header("x-dragoman-route") or "").partition(";")[0]) == (200, served)
            assert house.provider.received[-1].json()["model"] == "served"


def test_a_name_whose_model_is_served_by_nobody_with_the_path_is_a_404() -> None:
    def settings(port: int) -> Settings:
        return replace(
            settings_for(port), routes=(RouteConfig(pattern="v", targets=("messages/served", "chat/other")),)
        )

    with running((), settings) as house:
        told = house.post("/v1/embeddings", {"model": "v", "input": "a"})
        assert (told.status, "messages has no path" in str(failure_of(CHAT, told)["message"])) == (404, True)
        assert not house.provider.received


def test_an_unknown_model_is_a_404_with_the_nearest_names() -> None:
    with running() as house:
        told = house.post("/v1/embeddings", {"model": "ehco/text", "input": "a"})
        error = failure_of(CHAT, told)
        assert (told.status, error["code"], "echo/text" in str(error["message"])) == (404, "model_not_found", True)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"model": 5}', b'{"model": "\xff"}'])
def test_a_body_that_is_no_json_is_a_400(body: bytes) -> None:
    with running() as house:
        told = house.post("/v1/embeddings", body, content_type="application/json")
        assert (told.status, failure_of(CHAT, told)["type"]) == (400, "invalid_request_error")


def test_pitfall_202_an_error_passes_without_secrets() -> None:
    words = json.dumps({"error": {"message": f"bad key {PROVIDER_KEY} at http://127.0.0.1:7/v1/x"}, "odd": 1.0})
    with running([whole(words.encode(), 429, retry_after="3", location="/x")]) as house:
        told = house.post("/v1/embeddings", EMBEDDINGS)
        assert (told.status, told.header("retry-after"), told.header("location")) == (429, "3", None)
        assert told.json()["odd"] == 1.0
        assert PROVIDER_KEY not in told.body.decode() and "127.0.0.1" not in told.body.decode()


@pytest.mark.parametrize(
    "reply",
    [
        whole(b"", 302, location="http://elsewhere.example/"),
        Reply(raw=True, steps=(None,)),
        Reply(raw=True, steps=(b"no HTTP\r\n\r\n", None)),
    ],
    ids=["a redirect", "a closed connection", "no HTTP"],
)
def test_what_is_no_answer_is_a_502(reply: Reply) -> None:
    with running([reply, reply]) as house:
        told = house.post("/v1/embeddings", EMBEDDINGS)
        assert (told.status, failure_of(CHAT, told)["code"]) == (502, "upstream_error")
        assert headers_named(told, "location") == {}


def test_an_answer_that_is_cut_is_seen_to_be_cut() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: 5000\r\n\r\n"
    gate = Gate()
    with running([Reply(raw=True, steps=(head + b"x" * 100, gate.step, None))]) as house:
        told = gate.post(house, "/v1/audio/speech", {"model": "chat/served"}, b"xxx")
        assert (told.status, told.complete) == (200, False)
        wait_until(lambda: bool(log_lines(house)), "the exchange is logged")
        assert log_lines(house)[0]["failure"] == "truncated"


def test_an_answer_without_a_body_has_none() -> None:
    with running([Reply(status=204, headers=())], reading) as house:
        told = house.get("/v1/files/1", x_dragoman_provider="chat")
        assert (told.status, told.body) == (204, b"")


@pytest.mark.parametrize(
    "path", ["/v1/files/../../admin", "/v1/files/%2e%2e/x", "/v1/files/a%20b/..", "/v1/files/..%2f..%2Fx"]
)
def test_a_path_cannot_leave_its_base(path: str) -> None:
    with running() as house:
        told = house.get(path, x_dragoman_provider="chat")
        assert told.status == 404
        assert not house.provider.received


def test_a_key_in_an_errors_headers_never_gets_out() -> None:
    reply = whole({"error": {"message": "no"}}, 429, retry_after=PROVIDER_KEY, content_type=f"a/b; c={PROVIDER_KEY}")
    with running([reply], reading) as house:
        told = house.get("/v1/files", x_dragoman_provider="chat")
        assert told.status == 429
        assert told.header("retry-after") == "[redacted]"
        assert PROVIDER_KEY not in str(told.headers)


def test_an_error_of_many_megabytes_is_not_searched_for_secrets() -> None:
    with running([whole(b"x" * 2_000_000, 500)], reading) as house:
        assert house.get("/v1/files", x_dragoman_provider="chat").status == 502


def test_a_method_that_nobody_has_is_a_405() -> None:
    with running() as house:
        told = house.ask("PUT", "/v1/files/1", b"", x_dragoman_provider="chat")
        assert (told.status, bool(failure_of(CHAT, told))) == (405, True)


@pytest.mark.parametrize(
    "steps", [(stay_silent,), (b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\n\r\nx", stay_silent)], ids=["before", "after"]
)
def test_pitfall_201_a_client_that_goes_away_ends_the_call(steps: tuple[Step, ...]) -> None:
    with running([Reply(raw=True, steps=steps)]) as house:
        with house.connect() as connection:
            head = f"POST /v1/embeddings HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(EMBEDDINGS)}\r\n\r\n"
            connection.sendall(head.encode() + EMBEDDINGS)
            wait_until(lambda: len(house.provider.received) == 1, "the provider receives the request")
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")


def test_a_responses_path_is_told_in_its_own_envelope() -> None:
    with running() as house:
        told = house.get("/v1/responses/resp_1")
        assert (told.status, bool(failure_of(RESPONSES, told))) == (404, True)


CLOSED = (
    ("GET", "organization/admin_api_keys"),
    ("POST", "organization/admin_api_keys"),
    ("POST", "realtime/client_secrets"),
    ("DELETE", "files/file-1"),
    ("DELETE", "vector_stores/vs_1"),
    ("GET", "chat/completions/chatcmpl-1/messages"),
    ("POST", "chat/completions/chatcmpl-1"),
    ("POST", "fine_tuning/jobs"),
    ("POST", "messages/x/y"),
    ("GET", "nobody/thought/of/it"),
)
PREFIXES = ("/v1/", "/v1/v1/", "/openai/v1/", "/openai/", "/anthropic/v1/", "//v1///")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_closed_path_is_a_403_that_names_the_setting_and_reaches_no_provider(prefix: str) -> None:
    with running() as house:
        for method, path in CLOSED:
            protocol = api_path_of(prefix + path).protocol
            named = "messages" if protocol == MESSAGES else "chat"
            told = house.ask(method, prefix + path, b'{"model":"chat/served"}', x_dragoman_provider=named)
            assert told.status == 403, (method, path, told.body)
            assert "server.passthrough_paths" in str(failure_of(protocol, told)["message"])
        assert not house.provider.received


def test_the_log_says_which_path_is_closed_and_what_opens_it() -> None:
    with running() as house:
        assert house.ask("GET", "/v1/nobody/thought/of/it", b"", x_dragoman_provider="chat").status == 403
        (line,) = log_lines(house)
    words = "GET `/nobody/thought/of/it` is not relayed here; server.passthrough_paths opens it if it should be"
    assert (line["failure"], line["refusal"]) == ("forbidden", words)


DISGUISED = (
    "/v1/organization%2Fadmin_api_keys",
    "/v1/%6frganization/admin_api_keys",
    "/v1/Organization/admin_api_keys",
    "/v1/files/%2e%2e/organization/admin_api_keys",
    "/v1/files/%252e%252e/organization/admin_api_keys",
    "/v1/files/..%2forganization%2fadmin_api_keys",
    "/v1/files/../organization/admin_api_keys",
    "/v1/files/./x",
    "/v1/files/..;/organization",
    "/v1/files/x;y",
    "/v1/files/x%3by",
    "/v1/files/x%00",
    "/v1/files/x%0d%0ahost:y",
    "/v1/files/x%5c..%5corganization",
    "/v1/files/x\\..\\organization",
    "/v1/files/%e2%80%a5/organization",
    "/v1/files/%c0%ae%c0%ae/organization",
    "/v1/files/a%20b",
    "/v1/files/x%3fy",
    "/v1/files/x%23y",
    "/v1/embeddings%2f..%2forganization",
    "/v1/openai/v1/organization/admin_api_keys",
    "/openai/anthropic/v1/organization/admin_api_keys",
    "/openai/openai/v1/files",
    "/v1/files/x:delete",
)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_closed_path_in_disguise_reaches_no_provider(method: str) -> None:
    with running() as house:
        for path in DISGUISED:
            told = house.ask(method, path, b"", x_dragoman_provider="chat")
            assert told.status in (400, 403, 404), (path, told.status)
        assert not house.provider.received


@pytest.mark.parametrize(
    "query",
    [
        "_method=DELETE",
        "x=1&_METHOD=delete",
        "x=1;_method=DELETE",
        "%5fmethod=DELETE",
        "%255fmethod=DELETE",
        "X-HTTP-Method-Override=DELETE",
    ],
)
def test_a_query_cannot_say_another_method(query: str) -> None:
    with running() as house:
        told = house.ask("POST", f"/v1/batches?{query}", b"", x_dragoman_provider="chat")
        assert (told.status, house.provider.received) == (400, [])


def test_a_query_stays_behind_the_path() -> None:
    query = "purpose=a/../../organization&x=%2e%2e%2f?y"
    with running([whole({"ok": True})], reading) as house:
        assert house.get(f"/v1/files?{query}", x_dragoman_provider="chat").status == 200
        assert house.provider.received[0].target == f"/v1/files?{query}"


def test_the_configuration_opens_a_path() -> None:
    def opened(port: int) -> Settings:
        return settings_for(port, server=Server(passthrough_paths=("DELETE /files/*", "POST /realtime/client_secrets")))

    with running([whole({"deleted": True}), whole({"value": "ek"})], opened) as house:
        assert house.ask("DELETE", "/v1/files/file-1", b"", x_dragoman_provider="chat").status == 200
        assert house.post("/v1/realtime/client_secrets", b"{}", x_dragoman_provider="chat").status == 200
        assert house.ask("DELETE", "/v1/batches/b", b"", x_dragoman_provider="chat").status == 403
        assert [received.method for received in house.provider.received] == ["DELETE", "POST"]


def test_where_owners_are_told_apart_nobody_cancels_what_is_in_the_account() -> None:
    def several(port: int) -> Settings:
        return settings_for(port, keys=("first-key", "second-key"), server=READING)

    with running(lambda _: whole({"ok": True}), several) as house:
        for method, path in (("HEAD", "/batches"), ("POST", "/batches/batch_1/cancel"), ("POST", "/batches")):
            told = house.ask(method, f"/v1{path}", b"", x_dragoman_provider="chat", x_api_key="first-key")
            assert told.status == 403, path
        assert not house.provider.received
        # What is opened is open for every key.
        told = house.get("/v1/files/file-1", x_dragoman_provider="chat", x_api_key="first-key")
        assert told.status == 200


# Closed for everybody, and closed where owners are told apart.
FOR_NOBODY = [
    ("GET", "/v1/containers/cntr_1/files/cfile_1/content"),
    ("HEAD", "/v1/containers/cntr_1/files/cfile_1/content"),
    ("DELETE", "/v1/files/file-1"),
]
SEVERAL = ("first-key", "second-key")


@pytest.mark.parametrize(
    ("keys", "method", "path"),
    [
        *((keys, *asked) for keys in ((), ("only-key",), SEVERAL) for asked in FOR_NOBODY),
        (SEVERAL, "GET", "/openai/v1/containers/cntr_1"),
        (SEVERAL, "GET", "/v1/files/file-1/content"),
        (SEVERAL, "GET", "/v1/files"),
        (SEVERAL, "GET", "/v1/messages/batches/msgbatch_1/results"),
        (SEVERAL, "POST", "/v1/vector_stores/vs_1/search"),
        (SEVERAL, "GET", "/v1/videos/video_1/content"),
    ],
)
def test_item_22_a8_what_the_providers_account_holds_is_not_read_with_its_key(
    keys: tuple[str, ...], method: str, path: str
) -> None:
    with running((), partial(settings_for, keys=keys)) as house:
        key = keys[0] if keys else "none"
        told = house.ask(method, path, b"", x_dragoman_provider="all", x_api_key=key)
        assert (told.status, house.provider.received) == (403, [])
        if method != "HEAD":
            assert b"server.passthrough_paths opens it" in told.body


def test_what_stands_below_a_stored_response_is_closed_but_for_what_is_known() -> None:
    with running(lambda _: whole({"ok": True})) as house:
        assert house.get("/v1/responses/resp_1/input_items", x_dragoman_provider="all").status == 200
        assert house.post("/v1/responses/resp_1/share", b"{}", x_dragoman_provider="all").status == 403
        assert house.get("/v1/responses/resp_1;x", x_dragoman_provider="all").status == 404
        assert len(house.provider.received) == 1


def test_an_account_is_not_the_clients_to_choose_and_idempotency_keys_are_told_apart() -> None:
    def several(port: int) -> Settings:
        return settings_for(port, keys=("first-key", "second-key"))

    with running(lambda _: whole({"ok": True}), several) as house:
        said = {"openai_organization": "org-1", "openai_project": "p", "idempotency_key": "order-1"}
        for key in ("first-key", "second-key", "first-key"):
            house.post("/v1/embeddings", EMBEDDINGS, x_api_key=key, **said)
        received = house.provider.received
        assert not any(one.header("openai-organization") or one.header("openai-project") for one in received)
        first, second, third = (one.header("idempotency-key") for one in received)
        assert first == third != second
        assert first is not None and "order-1" not in first


FORM_KIND = "multipart/form-data; boundary=xyz"
AMBIGUOUS = {
    "twice in a form": (
        FORM_KIND,
        FORM.replace(b"--xyz--", b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nx\r\n--xyz--'),
    ),
    "in other letters in a form": (FORM_KIND, FORM.replace(b'"model"', b'"MODEL"')),
    "twice in JSON": ("application/json", b'{"model":"chat/served","model":"chat/other"}'),
    "in other letters in JSON": ("application/json", b'{"model":"chat/served","Model":"chat/other"}'),
    "in other letters alone": ("application/json", b'{"MODEL":"chat/served"}'),
    "twice in JSON without a type": ("", b' {"model":"chat/served","model":"chat/other"}'),
    "of no text in a form": (FORM_KIND, FORM.replace(b"chat/served", b"chat/\xff")),
    "endless in a form": (FORM_KIND, FORM.replace(b"chat/served", b"x" * 300)),
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_item_8_a_model_that_is_said_twice_or_in_other_letters_is_refused(case: str) -> None:
    kind, body = AMBIGUOUS[case]
    with running() as house:
        given = {"content_type": kind} if kind else {}
        told = house.post("/v1/audio/transcriptions", body, **given, x_dragoman_provider="chat")
        assert (told.status, bool(failure_of(CHAT, told)), house.provider.received) == (400, True, [])


def test_a_form_whose_boundary_speaks_of_json_is_a_form() -> None:
    with running([whole({"text": "hello"})]) as house:
        body = FORM.replace(b"xyz", b"json")
        told = house.post("/v1/audio/transcriptions", body, content_type="multipart/form-data; boundary=json")
        assert told.status == 200
        assert house.provider.received[0].body == body.replace(b"chat/served", b"served")


def test_a_form_without_a_boundary_goes_where_a_body_without_a_model_goes() -> None:
    with running([whole({"text": "hello"})]) as house:
        told = house.post(
            "/v1/audio/transcriptions", FORM, content_type="multipart/form-data", x_dragoman_provider="chat"
        )
        assert (told.status, house.provider.received[0].body) == (200, FORM)


def test_a_large_body_is_looked_at_and_renamed_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def watched(work: Callable[[bytes], str], body: bytes) -> str:
        threads.append(threading.current_thread())
        return work(body)

    large = b'{"model":"chat/served","input":"' + b"a" * INLINE + b'"}'
    monkeypatch.setattr(passing, "_model_in", partial(watched, passing._model_in))
    with running(lambda received: whole({"ok": True})) as house:
        for body in (EMBEDDINGS, large):
            assert house.post("/v1/embeddings", body, content_type="application/json").status == 200
        assert [received.body for received in house.provider.received] == [
            body.replace(b"chat/served", b"served") for body in (EMBEDDINGS, large)
        ]
    assert [thread.name.startswith("large-") for thread in threads] == [False, True]


def test_an_object_with_more_members_than_anybody_writes_is_a_400() -> None:
    with running() as house:
        body = b'{"model":"chat/served"' + b',"a":1' * 5000 + b"}"
        told = house.post("/v1/embeddings", body, content_type="application/json")
        assert (told.status, "4096 members" in str(failure_of(CHAT, told)["message"])) == (400, True)


@pytest.mark.parametrize("model", ["chat/served", "vectors"], ids=["one target", "several"])
@pytest.mark.parametrize("size", [10, 200_000], ids=["small", "large"])
def test_a_large_error_is_decoded_off_the_event_loop(model: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decoding: list[str] = []

    def codec_of(protocol: str) -> Codec:
        decoding.append(threading.current_thread().name.partition("-")[0])
        return registered(protocol)

    monkeypatch.setattr("dragoman.gateway.exchange.provider_errors.codec_of", codec_of)

    def settings(port: int) -> Settings:
        line = RouteConfig(pattern="vectors", targets=("chat/served", "responses/served"))
        return replace(settings_for(port), routes=(line,))

    error = {"error": {"message": "x" * size, "type": "invalid_request_error"}}
    with running(lambda _: whole(error, 400), settings) as house:
        reply = house.post("/v1/embeddings", {"model": model, "input": "a"})
    assert (reply.status, reply.json()) == (400, error)
    assert set(decoding) == {"large" if size > 10 else "house"}
