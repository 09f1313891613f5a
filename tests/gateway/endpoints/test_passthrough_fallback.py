"""Embeddings go on to another provider of the same model, and never to another model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Routing, Settings
from dragoman.providers.provider import Endpoint, Provider
from tests.gateway.gate import Gate
from tests.gateway.harness import CHAT, PROVIDER_KEY, House, Received, Reply, running, settings_for, whole
from tests.gateway.says import failure_of, log_lines
from tests.waiting import wait_until

ASKED = {"model": "vectors", "input": "a"}
VECTORS = {"data": [{"embedding": [1.0]}]}
BROKEN = whole({"error": {"message": "no", "type": "server_error"}}, 500)
# A provider is told by where it is asked.
ANSWERS = dict[str, Reply]


def house_of(
    targets: Sequence[str] = ("a/m", "b/m", "c/other", "d/m"),
    keys: dict[str, tuple[str, ...]] | None = None,
    routing: Routing | None = None,
) -> Callable[[int], Settings]:
    """Providers at a server's paths, and a line of their models."""

    def settings(port: int) -> Settings:
        made = settings_for(port)
        providers = {
            name: Provider(
                name=name,
                endpoints=(Endpoint(protocol=CHAT, base_url=f"http://127.0.0.1:{port}/{name}"),),
                keys=(keys or {}).get(name, (PROVIDER_KEY,)),
                models=("m",),
            )
            for name in "abcd"
        }
        lines = (RouteConfig(pattern="vectors", targets=tuple(targets)),)
        return replace(made, providers={**made.providers, **providers}, routes=lines, routing=routing or Routing())

    return settings


def script(answers: ANSWERS) -> Callable[[Received], Reply]:
    """Each provider says always the same; those that are not named answer."""
    return lambda received: answers.get(received.target[1], whole(VECTORS))


def asked(house: House) -> list[str]:
    """Whom the requests went to, with the model of each."""
    return [f"{received.target[1]}/{received.json()['model']!s}" for received in house.provider.received]


@pytest.mark.parametrize(
    "failure",
    [
        BROKEN,
        whole({"error": {"message": "wait"}}, 429),
        whole({"error": {"message": "no such model", "code": "model_not_found"}}, 404),
        whole({"error": {"message": "bad key"}}, 401),
        Reply(raw=True, steps=(None,)),
        whole(b"", 302, location="http://elsewhere.example/"),
    ],
    ids=["500", "429", "unknown model", "401", "closed", "redirect"],
)
def test_another_provider_of_the_same_model_is_asked(failure: Reply) -> None:
    with running(script({"a": failure}), house_of()) as house:
        told = house.post("/v1/embeddings", ASKED)
        assert (told.status, told.json()) == (200, VECTORS)
        assert told.header("x-dragoman-route") == "b/m; protocol=openai-chat; policy=fallback; attempts=2"
        assert asked(house)[-1] == "b/m" and set(asked(house)) == {"a/m", "b/m"}
        line = log_lines(house)[0]
        assert (line["provider"], line["model"], line["status"]) == ("b", "m", 200)
        assert (line["route"], line["policy"], line["attempt_count"]) == ("vectors", "fallback", len(asked(house)))
        tried = cast("list[dict[str, str]]", line["attempts"])
        assert [(each["target"], each["kind"] == "answered") for each in (tried[0], tried[-1])] == [
            ("a/m", False),
            ("b/m", True),
        ]


def test_the_model_never_changes_and_the_first_failure_is_told() -> None:
    first = whole({"error": {"message": f"mine {PROVIDER_KEY}", "type": "server_error"}}, 500)
    with running(script({"a": first, "b": BROKEN, "d": BROKEN}), house_of()) as house:
        told = house.post("/v1/embeddings", ASKED)
        assert (told.status, b"server_error" in told.body) == (500, True)
        assert "mine" in told.body.decode() and PROVIDER_KEY not in told.body.decode()
        assert asked(house) == ["a/m", "b/m", "d/m"]
        assert (told.header("x-dragoman-route") or "").startswith("a/m;")
        assert log_lines(house)[0]["provider"] == "a"


def test_a_wrong_request_is_told_at_once() -> None:
    wrong = whole({"error": {"message": "input is required", "type": "invalid_request_error", "param": "input"}}, 400)
    with running(script({"a": wrong}), house_of()) as house:
        assert house.post("/v1/embeddings", ASKED).status == 400
        assert asked(house) == ["a/m"]


def test_attempts_are_capped() -> None:
    with running(script(dict.fromkeys("abd", BROKEN)), house_of(routing=Routing(max_attempts=2))) as house:
        assert house.post("/v1/embeddings", ASKED).status == 500
        assert asked(house) == ["a/m", "b/m"]


def test_a_key_that_is_refused_makes_room_for_its_sibling_and_rests() -> None:
    def says(received: Received) -> Reply:
        bad = received.header("authorization") == "Bearer sk-bad-00000000"
        return whole({"error": {"message": "no", "code": "invalid_api_key"}}, 401) if bad else whole(VECTORS)

    with running(says, house_of(keys={"a": ("sk-bad-00000000", "sk-good-0000000")})) as house:
        for _ in range(3):
            assert house.post("/v1/embeddings", ASKED).status == 200
        assert asked(house) == ["a/m"] * 4


def test_pitfall_312_keys_that_are_all_bad_are_not_the_clients() -> None:
    bad = whole({"error": {"message": f"bad {PROVIDER_KEY}", "code": "invalid_api_key"}}, 401)
    with running(script(dict.fromkeys("abd", bad)), house_of()) as house:
        told = house.post("/v1/embeddings", ASKED)
        assert (told.status, told.header("content-type")) == (502, "application/json")
        assert failure_of(CHAT, told) and PROVIDER_KEY not in told.body.decode()


def test_one_that_failed_again_and_again_is_passed_over() -> None:
    with running(script({"a": BROKEN}), house_of()) as house:
        for _ in range(8):
            assert house.post("/v1/embeddings", ASKED).status == 200
        assert asked(house).count("a/m") < 8
        assert asked(house)[-1] == "b/m"


def test_what_was_begun_is_not_begun_again() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n"
    gate = Gate()
    cut = Reply(raw=True, steps=(head + b"{" * 100, gate.step, None))
    with running(script({"a": cut}), house_of()) as house:
        told = gate.post(house, "/v1/embeddings", ASKED, b"{{{")
        assert (told.status, told.complete) == (200, False)
        wait_until(lambda: bool(log_lines(house)), "the exchange is logged")
        line = log_lines(house)[0]
        tried = cast("list[dict[str, str]]", line["attempts"])
        assert (line["failure"], [each["kind"] for each in tried]) == ("truncated", ["stream_broken"])


def test_what_a_provider_keeps_is_asked_of_one_alone() -> None:
    with running(script({"a": BROKEN}), house_of()) as house:
        assert house.post("/v1/videos", ASKED).status == 500
        assert asked(house) == ["a/m"]
