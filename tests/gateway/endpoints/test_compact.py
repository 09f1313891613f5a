"""`/responses/compact`, and a compaction that is asked for at the end of a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Limits, RouteConfig, RouteRule, Settings
from dragoman.prices.book import Override
from dragoman.routing.route import RuleCondition
from tests.gateway.harness import CHAT, MESSAGES, RESPONSES, Received, Reply, running, settings_for, whole
from tests.gateway.keeping_house import ALICE, BOB, create, error_in, keeping
from tests.gateway.says import STOPS, log_lines, model_of, streams, tells
from tests.sdk.digging import Object, dig_objects, dig_text
from tests.sdk.providers import Turn, answer
from tests.sdk.samples import events_of

SUMMARY = "They met, and agreed on Tuesday."
ABROAD = (MESSAGES, CHAT)
SAID = [
    {"role": "user", "content": "When do we meet?"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "On Tuesday."}]},
    {"role": "user", "content": "Good."},
]


@pytest.mark.parametrize("provider", ABROAD)
def test_what_its_user_said_and_one_compaction_stand_for_a_conversation(provider: str) -> None:
    with keeping([tells(provider, SUMMARY), tells(provider)]) as house:
        body = {"model": model_of(provider), "input": SAID, "instructions": "Be brief.", "tools": [], "metadata": {}}
        made = house.post("/v1/responses/compact", body)
        assert made.status == 200, made.body
        told: Object = {**made.json()}
        assert set(told) == {"id", "object", "created_at", "output", "usage"}
        assert told["object"] == "response.compaction"
        output = dig_objects(told, "output")
        assert [item["type"] for item in output] == ["message", "message", "compaction"]
        assert [item.get("role") for item in output] == ["user", "user", None]
        asked = house.provider.received[0].body.decode()
        assert "Be brief." in asked and "On Tuesday." in asked and "summary" in asked
        again = house.post("/v1/responses", {"model": model_of(provider), "input": [*output, *SAID[2:]]})
        assert again.status == 200
        assert SUMMARY in house.provider.received[1].body.decode()


def test_text_alone_is_a_conversation_too() -> None:
    with keeping([tells(CHAT, SUMMARY)]) as house:
        made = {**house.post("/v1/responses/compact", {"model": model_of(CHAT), "input": "Hello."}).json()}
        assert dig_text(made, "output", 0, "content", 0, "text") == "Hello."


def test_what_is_referred_to_is_compacted_with_it() -> None:
    with keeping([tells(CHAT, SUMMARY)]) as house:
        before = create(house, input="said long ago")
        body = {"model": model_of(CHAT), "previous_response_id": before["id"]}
        assert house.post("/v1/responses/compact", body).status == 200
        assert "said long ago" in house.provider.received[0].body.decode()
        missing = {"model": model_of(CHAT), "input": "x", "previous_response_id": "resp_9"}
        assert error_in(house.post("/v1/responses/compact", missing))[1:3] == (
            "previous_response_id",
            "previous_response_not_found",
        )
        assert error_in(house.post("/v1/responses/compact", {"model": model_of(CHAT)}))[0] == 400


def test_an_error_of_the_provider_is_told_as_ever() -> None:
    with keeping([whole({"error": {"message": "Slow down."}}, 429), whole(answer(CHAT, Turn(stop="stop")))]) as house:
        body = {"model": model_of(CHAT), "input": "Hello."}
        refused = house.post("/v1/responses/compact", body)
        assert (refused.status, error_in(refused)[3]) == (429, "Slow down.")
        nothing = house.post("/v1/responses/compact", body)
        assert nothing.status == 502 and "summary" in error_in(nothing)[3]


def test_a_provider_that_has_compaction_is_asked_for_it() -> None:
    compacted = {"id": "resp_c", "object": "response.compaction", "output": [], "usage": {}, "created_at": 1}
    with keeping(lambda received: whole(compacted)) as house:
        raw = b'{ "model": "responses/served", "input": "Hello.", "odd": 1.50 }'
        assert house.post("/v1/responses/compact", raw, content_type="application/json").json() == compacted
        received = house.provider.received[0]
        assert received.target == "/v1/responses/compact"
        assert received.body == raw.replace(b"responses/served", b"served")


@pytest.mark.parametrize("first", [CHAT, RESPONSES])
def test_a_name_with_several_targets_is_compacted_by_the_same_one_every_time(first: str) -> None:
    compacted = {"id": "resp_c", "object": "response.compaction", "output": [], "usage": {}, "created_at": 1}
    others = tuple(model_of(name) for name in (MESSAGES, CHAT, RESPONSES) if name != first)
    line = RouteConfig(pattern="turns", targets=(model_of(first), *others), policy="round-robin")
    reply = whole(compacted) if first == RESPONSES else tells(first, SUMMARY)

    def settings(port: int) -> Settings:
        return replace(settings_for(port), routes=(line,))

    with running(lambda received: reply, settings) as house:
        for _ in range(3):
            told = house.post("/v1/responses/compact", {"model": "turns", "input": SAID})
            assert (told.status, told.json()["object"]) == (200, "response.compaction")
        path = "/v1/responses/compact" if first == RESPONSES else "/v1/chat/completions"
        assert {received.target for received in house.provider.received} == {path}
        assert {received.json()["model"] for received in house.provider.received} == {"served"}


def test_a_conversation_goes_on_with_the_provider_that_compacted_it() -> None:
    """Nobody else can read its compaction, and the first of the line would be asked otherwise."""
    sealed = {"type": "compaction", "id": "cmp_1", "encrypted_content": "opaque"}
    compacted = {"id": "resp_c", "object": "response.compaction", "output": [sealed], "usage": {}, "created_at": 1}
    answered = {"id": "resp_1", "object": "response", "status": "completed", "output": [], "model": "served"}

    def settings(port: int) -> Settings:
        line = RouteConfig(pattern="two", targets=(model_of(CHAT), "responses/served"))
        return replace(settings_for(port), routes=(line,), prices={"responses/served": Override(context_window=1000)})

    def script(received: Received) -> Reply:
        if received.target == "/v1/responses/compact":
            return whole(compacted)
        return whole(answered) if received.target == "/v1/responses" else tells(CHAT)

    user = {"type": "message", "role": "user", "content": "Hello."}
    with running(script, settings) as house:
        first = house.post("/v1/responses", {"model": "two", "input": [user]})
        assert (first.header("x-dragoman-route") or "").startswith("chat/served;")
        assert house.post("/v1/responses/compact", {"model": "two", "input": [user]}).json() == compacted
        told = house.post("/v1/responses", {"model": "two", "input": [user, sealed, {**user, "content": "And?"}]})
        assert (told.header("x-dragoman-route") or "").startswith("responses/served;")


def test_nobody_compacts_what_is_anothers_wherever_it_is_kept() -> None:
    with keeping(lambda received: whole({}), keys=(ALICE, BOB)) as house:
        before = create(house, key=ALICE)
        for model in (model_of(RESPONSES), model_of(CHAT)):
            for reference in (before["id"], "resp_theirs"):
                body = {"model": model, "input": "x", "previous_response_id": reference}
                for path in ("/v1/responses/compact", "/v1/responses/input_tokens"):
                    told = house.post(path, body, authorization=f"Bearer {BOB}")
                    assert error_in(told)[:3] == (400, "previous_response_id", "previous_response_not_found")
        assert not house.provider.received


@pytest.mark.parametrize("provider", ABROAD)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reply", [tells, streams])
def test_a_trigger_gives_exactly_one_compaction_whatever_the_form(provider: str, stream: bool, reply: object) -> None:
    assert callable(reply)
    with keeping([reply(provider, SUMMARY)]) as house:
        body = {"model": model_of(provider), "input": [*SAID, {"type": "compaction_trigger"}], "stream": stream}
        told = house.post("/v1/responses", body)
        response = events_of(told.body)[-1]["response"] if stream else told.json()
        assert isinstance(response, dict)
        assert [item["type"] for item in dig_objects(response, "output")] == ["compaction"]
        assert json.loads(house.get(f"/v1/responses/{response['id']}").body) == response


@pytest.mark.parametrize("provider", ABROAD)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reply", ["whole", "stream"])
def test_an_empty_summary_is_an_error_and_no_message(provider: str, stream: bool, reply: str) -> None:
    turn = Turn(stop=STOPS[provider])
    said = whole(answer(provider, turn)) if reply == "whole" else streams(provider, " ")
    with keeping([said]) as house:
        body = {"model": model_of(provider), "input": [*SAID, {"type": "compaction_trigger"}], "stream": stream}
        told = house.post("/v1/responses", body)
        if told.status == 200:
            assert stream and events_of(told.body)[-1]["type"] == "response.failed"
        else:
            assert told.status == 502 and "summary" in error_in(told)[3]
        lines = [json.loads(line) for line in house.log.getvalue().splitlines()]
        assert [line["failure"] for line in lines if line["event"] == "exchange"] == ["bad_gateway"]


def test_half_a_summary_is_an_error_where_nothing_could_say_that_it_is_half() -> None:
    reply = answer(CHAT, Turn(text=SUMMARY, stop=STOPS[CHAT]))
    choice = dig_objects({**reply}, "choices")[0]
    with keeping([whole({**reply, "choices": [{**choice, "finish_reason": "length"}]})]) as house:
        made = house.post("/v1/responses/compact", {"model": model_of(CHAT), "input": SAID})
        assert error_in(made)[0] == 502


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_limits_answer_holds_for_a_summary_on_its_way(stream: bool) -> None:
    def settings(port: int) -> Settings:
        return settings_for(port, limits=Limits(response_body=10_000))

    with running([streams(CHAT, "x" * 20_000)], settings) as house:
        body = {"model": model_of(CHAT), "input": [*SAID, {"type": "compaction_trigger"}], "stream": stream}
        told = house.post("/v1/responses", body)
    assert (told.status, "exceeds the limit" in told.body.decode()) == (502, True)


COMPACTED = {"id": "resp_c", "object": "response.compaction", "output": [], "usage": {}, "created_at": 1}
# Of each provider the path that it is asked at for a compaction.
COMPACTING = {
    RESPONSES: "/v1/responses/compact",
    CHAT: "/v1/chat/completions",
    MESSAGES: "/v1/messages",
}


def line_of(*protocols: str, **more: object) -> Callable[[int], Settings]:
    """A route with a target of each protocol."""
    line = replace(RouteConfig(pattern="line", targets=tuple(map(model_of, protocols))), **more)
    return lambda port: replace(settings_for(port), routes=(line,))


def compacting(failing: frozenset[str], status: int = 503) -> Callable[[Received], Reply]:
    """Providers that compact, of which some fail."""

    def script(received: Received) -> Reply:
        protocol = next(name for name, path in COMPACTING.items() if received.target == path)
        if protocol in failing:
            return whole({"error": {"message": "no", "type": "server_error"}}, status)
        return whole(COMPACTED) if protocol == RESPONSES else tells(protocol, SUMMARY)

    return script


@pytest.mark.parametrize("status", [503, 429, 500])
@pytest.mark.parametrize(("first", "second"), list(permutations((RESPONSES, CHAT, MESSAGES), 2)))
def test_a_compaction_fails_over_like_any_request(first: str, second: str, status: int) -> None:
    with running(compacting(frozenset({first}), status), line_of(first, second)) as house:
        told = house.post("/v1/responses/compact", {"model": "line", "input": SAID})
        assert (told.status, told.json()["object"]) == (200, "response.compaction"), told.body
        assert [received.target for received in house.provider.received] == [COMPACTING[first], COMPACTING[second]]
    (line,) = log_lines(house)
    assert (line["status"], line["attempt_count"], line["route"], line["policy"]) == (200, 2, "line", "fallback")
    assert line["provider"] == model_of(second).partition("/")[0]
    assert "failure" not in line


def test_each_target_is_asked_for_its_own_model() -> None:
    def settings(port: int) -> Settings:
        line = RouteConfig(pattern="line", targets=("responses/one", "all/two"))
        return replace(settings_for(port), routes=(line,))

    def script(received: Received) -> Reply:
        return whole(COMPACTED) if received.json()["model"] == "two" else whole({"error": {"message": "no"}}, 503)

    with running(script, settings) as house:
        assert house.post("/v1/responses/compact", {"model": "line", "input": SAID}).status == 200
        assert [received.json()["model"] for received in house.provider.received] == ["one", "two"]


@pytest.mark.parametrize("targets", [(RESPONSES, CHAT), (CHAT, RESPONSES), (CHAT, MESSAGES)])
def test_when_all_targets_of_a_compaction_fail_the_client_gets_an_error(targets: tuple[str, ...]) -> None:
    with running(compacting(frozenset(targets)), line_of(*targets)) as house:
        told = house.post("/v1/responses/compact", {"model": "line", "input": SAID})
        assert told.status == 503 and dig_text(told.json(), "error", "message")
        assert len(house.provider.received) == 2
    (line,) = log_lines(house)
    assert (line["status"], line["attempt_count"]) == (503, 2)


def test_a_bad_request_is_not_asked_of_the_next_target() -> None:
    with running(compacting(frozenset({RESPONSES}), 400), line_of(RESPONSES, CHAT)) as house:
        assert house.post("/v1/responses/compact", {"model": "line", "input": SAID}).status == 400
        assert len(house.provider.received) == 1


def test_a_target_in_cooldown_is_not_asked_first_for_a_compaction() -> None:
    with running(compacting(frozenset({RESPONSES})), line_of(RESPONSES, CHAT)) as house:
        for _ in range(8):
            assert house.post("/v1/responses/compact", {"model": "line", "input": SAID}).status == 200
        before = len(house.provider.received)
        assert house.post("/v1/responses/compact", {"model": "line", "input": SAID}).status == 200
        assert [received.target for received in house.provider.received[before:]] == [COMPACTING[CHAT]]


def test_rules_of_a_route_hold_for_a_compaction() -> None:
    rule = RouteRule(when=RuleCondition(input_tokens_over=1), targets=(model_of(CHAT),))
    with running(compacting(frozenset()), line_of(RESPONSES, CHAT, rules=(rule,))) as house:
        assert house.post("/v1/responses/compact", {"model": "line", "input": SAID}).status == 200
        assert [received.target for received in house.provider.received] == [COMPACTING[CHAT]]


def test_what_a_provider_keeps_is_compacted_by_that_provider_alone() -> None:
    answered = {"id": "resp_theirs", "object": "response", "status": "completed", "output": [], "model": "served"}
    failing = compacting(frozenset({RESPONSES}))

    def script(received: Received) -> Reply:
        return whole(answered) if received.target == "/v1/responses" else failing(received)

    with running(script, line_of(CHAT, RESPONSES)) as house:
        made = house.post("/v1/responses", {"model": model_of(RESPONSES), "input": "Hello."}).json()
        body = {"model": "line", "input": SAID, "previous_response_id": made["id"]}
        assert house.post("/v1/responses/compact", body).status == 503
        assert [received.target for received in house.provider.received][1:] == [COMPACTING[RESPONSES]]


def test_a_conversation_goes_on_with_the_target_that_compacted_it_after_a_failure() -> None:
    user = {"type": "message", "role": "user", "content": "Hello."}
    sealed = {"type": "compaction", "id": "cmp_1", "encrypted_content": "opaque"}
    answered = {"id": "resp_1", "object": "response", "status": "completed", "output": [], "model": "served"}

    def script(received: Received) -> Reply:
        if received.target == COMPACTING[RESPONSES]:
            return whole({**COMPACTED, "output": [sealed]})
        if received.target == "/v1/responses":
            return whole(answered)
        return whole({"error": {"message": "no"}}, 503) if b"summary" in received.body else tells(CHAT)

    with running(script, line_of(CHAT, RESPONSES)) as house:
        house.post("/v1/responses", {"model": "line", "input": [user]})
        assert house.post("/v1/responses/compact", {"model": "line", "input": [user]}).status == 200
        told = house.post("/v1/responses", {"model": "line", "input": [user, sealed, {**user, "content": "And?"}]})
        assert (told.header("x-dragoman-route") or "").startswith("responses/served;")
