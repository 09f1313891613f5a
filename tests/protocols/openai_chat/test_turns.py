"""Conversations of other protocols as messages of this one."""

from __future__ import annotations

import pytest

from dragoman.errors import RefusedError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.parts import (
    CacheBreakpoint,
    Compaction,
    Document,
    FileRef,
    Foreign,
    HostedCall,
    HostedKind,
    Image,
    Inline,
    InputForm,
    Part,
    PlainText,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.model.request import Message, OutputFormat, OutputKind, Request, Role
from dragoman.protocols.openai_chat.shapes import JSON_ONLY
from dragoman.protocols.openai_chat.turns import AssistantText, joined_content
from dragoman.rules.capabilities import capabilities_of
from tests.protocols.openai_chat.room import A, R, assistant, dig, losses, objects, said, target, user, written
from tests.protocols.openai_chat.second_turn import (
    CLIENTS,
    THOUGHT,
    Conversation,
    lost,
)

PNG = Image(source=Inline(media_type="image/png", data="AAAA"))
PNG_WIRE: JsonObject = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def call(name: str = "f", call_id: str = "c1", arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


def result(text: str = "r", call_id: str = "c1", *parts: Part, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id=call_id, parts=(Text(text=text), *parts), is_error=is_error)


def messages(request: Request, **changes: object) -> list[JsonObject]:
    body = written(request, target(**changes))[0]["messages"]  # type: ignore[arg-type]  # test data
    assert isinstance(body, list)
    return [message for message in body if isinstance(message, dict)]


def system(text: str, role: Role = Role.SYSTEM) -> Message:
    return Message(role=role, parts=(Text(text=text),))


def test_pitfall_006_instruction_blocks_are_joined_with_blank_lines() -> None:
    request = said(user(Text(text="hi")), instructions=(Text(text="a"), Text(text="b")))
    assert messages(request)[0] == {"role": "system", "content": "a\n\nb"}


def test_an_instruction_for_the_output_is_a_text_part_behind_a_cache_breakpoint() -> None:
    request = said(
        user(Text(text="hi")),
        instructions=(Text(text="a", cache=CacheBreakpoint(origin=A)),),
        output=OutputFormat(kind=OutputKind.JSON),
    )
    content = messages(request, breakpoints=True, json_mode=False)[0]["content"]
    marked: JsonObject = {"mode": "explicit"}
    assert content == [
        {"type": "text", "text": "a", "prompt_cache_breakpoint": marked},
        {"type": "text", "text": JSON_ONLY},
    ]


def test_pitfall_007_the_telemetry_line_goes_and_its_block_with_it() -> None:
    line = "x-anthropic-billing-header: cch=1"
    request = said(
        user(Text(text="hi")),
        system(f"{line}\nlate"),
        instructions=(Text(text=line), Text(text="a")),
    )
    body, ledger, _ = written(request)
    assert body["messages"] == [
        {"role": "system", "content": "a"},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "late"},
    ]
    assert [feature for _, feature, _ in losses(ledger)] == ["telemetry_line"] * 2


def test_pitfall_001_a_late_system_message_stays_in_place() -> None:
    request = said(user(Text(text="a")), system("s"), assistant(Text(text="b")), user(Text(text="c")))
    assert [message["role"] for message in messages(request)] == ["user", "system", "assistant", "user"]


def test_pitfall_003_servers_that_want_system_first_get_late_ones_as_tagged_user_text() -> None:
    request = said(system("x"), user(Text(text="a")), system("s"), instructions=(Text(text="top"),))
    sent = messages(request, system_anywhere=False)
    assert sent == [
        {"role": "system", "content": "top\n\nx"},
        {"role": "user", "content": "a"},
        {"role": "user", "content": "<system-reminder>\ns\n</system-reminder>"},
    ]


@pytest.mark.parametrize(("upstream", "role"), [("openai", "developer"), ("", "system")])
def test_pitfall_004_the_developer_role_only_where_the_endpoint_knows_it(upstream: str, role: str) -> None:
    request = said(system("d", Role.DEVELOPER), user(Text(text="a")), origin=R)
    body, _, _ = written(request, target("m", upstream))
    assert dig(body, "messages", 0) == {"role": role, "content": "d"}


def test_pitfall_021_parts_keep_their_order_and_text_alone_is_a_string() -> None:
    assert messages(said(user(Text(text="a"), Text(text="b"))))[0]["content"] == "a\n\nb"
    mixed = messages(said(user(Text(text="a"), PNG, Text(text="b"))))[0]["content"]
    assert mixed == [{"type": "text", "text": "a"}, PNG_WIRE, {"type": "text", "text": "b"}]


def test_pitfall_024_results_come_first_then_one_user_message() -> None:
    request = said(
        assistant(call(), call("g", "c2")),
        user(Text(text="also"), result("2", "c2"), result("1", "c1"), Text(text="that")),
    )
    sent = messages(request)
    assert [(one["role"], one.get("tool_call_id"), one["content"]) for one in sent[1:]] == [
        ("tool", "c1", "1"),
        ("tool", "c2", "2"),
        ("user", None, "also\n\nthat"),
    ]


def test_pitfall_165_media_of_results_follow_in_the_user_message_after_all_of_them() -> None:
    request = said(
        assistant(call(), call("g", "c2")),
        user(result("a", "c1", PNG), result("b", "c2"), Text(text="look")),
    )
    body, ledger, _ = written(request)
    sent = body["messages"]
    assert isinstance(sent, list)
    assert sent[1:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "a\n[image omitted; attached below]"},
        {"role": "tool", "tool_call_id": "c2", "content": "b"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[image from the result of tool call c1]"},
                PNG_WIRE,
                {"type": "text", "text": "look"},
            ],
        },
    ]
    assert ("approximated", "tool_result_media", "messages[1].parts[0].parts[1]") in losses(ledger)


def test_media_of_results_get_a_user_message_of_their_own_before_the_next_turn() -> None:
    request = said(assistant(call()), user(result("a", "c1", PNG)), assistant(Text(text="ok")), user(Text(text="x")))
    assert [one["role"] for one in messages(request)] == ["assistant", "tool", "user", "assistant", "user"]


@pytest.mark.parametrize(("text", "expected"), [("boom", "Error: boom"), ("Error: boom", "Error: boom")])
def test_pitfall_033_an_error_is_said_in_the_text_once(text: str, expected: str) -> None:
    request = said(assistant(call()), user(result(text, is_error=True)))
    assert messages(request)[1]["content"] == expected


def test_pitfall_017_a_result_without_content_is_an_empty_string() -> None:
    request = said(assistant(call()), user(ToolResult(call_id="c1", parts=())))
    assert messages(request)[1]["content"] == ""


def test_pitfall_025_027_orphans_become_text_and_open_calls_are_answered() -> None:
    request = said(user(result("lost", "zz")), assistant(call()), user(Text(text="x")))
    sent = messages(request)
    assert sent[0]["content"] == "[result of unknown tool call zz]\nlost"
    assert sent[2]["content"] == "Error: [no result: the call was interrupted]"


def test_pitfall_029_items_of_one_turn_fold_into_one_message() -> None:
    request = said(assistant(Text(text="a")), assistant(Text(text="b")), assistant(call()), user(result()), origin=R)
    first = messages(request)[0]
    assert first["content"] == "a\n\nb"
    assert len(objects(first, "tool_calls")) == 1


def test_adjacent_blocks_are_glued_and_others_stand_apart() -> None:
    search = HostedCall(call_id="s", kind=HostedKind.WEB_SEARCH, name="web_search", arguments="{}")
    request = said(assistant(Text(text="a"), Text(text="b"), search, Text(text="c")), user(Text(text="x")))
    body, ledger, _ = written(request)
    assert dig(body, "messages", 0, "content") == "ab\n\nc"
    assert losses(ledger) == {("dropped", "web_search", "messages[0].parts[2]")}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", "{}"),
        (" ", "{}"),
        ('{"a": 1.0}', '{"a": 1.0}'),
        ('{"_raw_arguments":"oops"}', "oops"),
        ('{"_value":[1]}', "[1]"),
    ],
)
def test_pitfall_046_052_arguments_are_copied_as_text(arguments: str, expected: str) -> None:
    request = said(assistant(call(arguments=arguments)), user(result()))
    assert dig(messages(request), 0, "tool_calls", 0, "function", "arguments") == expected


@pytest.mark.parametrize(("call_id", "upstream"), [("toolu_" + "x" * 50, "openai"), ("toolu_01", "mistral")])
def test_pitfall_037_ids_are_bounded_on_both_sides_of_the_pair(call_id: str, upstream: str) -> None:
    body, _, _ = written(said(assistant(call(call_id=call_id)), user(result(call_id=call_id))), target("m", upstream))
    sent = body["messages"]
    short = dig(sent, 0, "tool_calls", 0, "id")
    assert len(str(short)) == (9 if upstream == "mistral" else 29)
    assert dig(sent, 1, "tool_call_id") == short


@pytest.mark.parametrize("call_id", ["functions.add:0", "call-0193e7d5-57d5-4d4b-9d2a-6f0fd1d7c2aa-0", "x" * 300])
@pytest.mark.parametrize("upstream", ["", "moonshot", "xai", "litellm", "vllm"])
def test_item_10_a_servers_ids_come_back_as_it_said_them(call_id: str, upstream: str) -> None:
    body, ledger, _ = written(
        said(assistant(call(call_id=call_id)), user(result(call_id=call_id))), target("m", upstream)
    )
    assert dig(body, "messages", 0, "tool_calls", 0, "id") == call_id
    assert dig(body, "messages", 1, "tool_call_id") == call_id
    assert losses(ledger) == set()


REPEATED = {"call_0": ["call_0", "call_0_2", "call_0_3"], "functions.f:0": [f"functions.f:{n}" for n in range(3)]}


@pytest.mark.parametrize("call_id", REPEATED)
@pytest.mark.parametrize(
    ("model", "upstream"), [("m", ""), ("moonshot-v1", "moonshot"), ("m", "ollama"), ("gpt-4o", "openai")]
)
def test_an_id_of_an_earlier_turn_is_sent_once(model: str, upstream: str, call_id: str) -> None:
    turn = (assistant(call(call_id=call_id)), user(result(call_id=call_id)))
    sent: list[object] = []
    for turns in range(1, 4):
        body, ledger, _ = written(said(*turn * turns), target(model, upstream))
        ids = [dig(body, "messages", 2 * at, "tool_calls", 0, "id") for at in range(turns)]
        assert ids == [dig(body, "messages", 2 * at + 1, "tool_call_id") for at in range(turns)]
        assert losses(ledger) == {
            ("approximated", "call_id", f"messages[{2 * at}].parts[0].call_id") for at in range(1, turns)
        }
        sent.append(ids)
    # A call keeps its id while the conversation grows.
    assert sent == [REPEATED[call_id][:turns] for turns in range(1, 4)]


def test_custom_calls_of_history_are_wrapped_or_native() -> None:
    custom = ToolCall(call_id="c1", name="g", arguments='a"b', form=InputForm.TEXT)
    request = said(assistant(custom), user(result()), origin=R)
    wrapped = messages(request)[0]["tool_calls"]
    assert wrapped == [{"id": "c1", "type": "function", "function": {"name": "g", "arguments": '{"input":"a\\"b"}'}}]
    native = messages(request, custom_tools=True)[0]["tool_calls"]
    assert native == [{"id": "c1", "type": "custom", "custom": {"name": "g", "input": 'a"b'}}]


def test_pitfall_010_a_prefill_is_kept_and_its_continuation_asked_for() -> None:
    request = said(user(Text(text="a")), assistant(Text(text="{")))
    body, ledger, _ = written(request)
    last = dig(body, "messages", -1)
    assert dig(last, "role") == "user" and str(dig(last, "content")).startswith("Continue exactly")
    assert ("invented", "prefill", "messages[1].parts[0]") in losses(ledger)
    native = messages(request, prefill=True)
    assert native[-1] == {"role": "assistant", "content": "{", "prefix": True}


def test_a_refusal_stays_a_refusal() -> None:
    request = said(assistant(Refusal(text="no")), user(Text(text="x")), origin=R)
    assert messages(request)[0] == {"role": "assistant", "content": None, "refusal": "no"}


def thinking(model: str = "m", upstream: str = "", field: str = "reasoning") -> Thinking:
    seal = Seal(origin="openai-chat", kind="text", body={"field": field, "text": "t"}, model=model, vendor=upstream)
    return Thinking(text="t", seal=seal)


@pytest.mark.parametrize(
    ("part", "changes", "with_call", "expected"),
    [
        (thinking(), {}, True, {"reasoning": "t"}),
        (thinking(field="reasoning_content"), {}, True, {"reasoning_content": "t"}),
        (thinking(), {}, False, {}),
        (thinking(), {"echo_thinking": "all"}, False, {"reasoning": "t"}),
        (thinking(), {"echo_thinking": "none"}, True, {}),
        (thinking(model="other"), {}, True, {}),
        (thinking(upstream="elsewhere"), {}, True, {}),
        (Thinking(text="t"), {"demands_thinking": True}, True, {"reasoning_content": ""}),
        (
            Thinking(text="t", seal=Seal(origin=A, kind="thinking", body={"type": "thinking"}, model="m")),
            {},
            True,
            {},
        ),
    ],
)
def test_pitfall_112_reasoning_returns_only_to_who_issued_it_in_the_member_it_used(
    part: Thinking, changes: dict[str, object], with_call: bool, expected: JsonObject
) -> None:
    parts: tuple[Part, ...] = (part, Text(text="x"), *((call(),) if with_call else ()))
    request = said(assistant(*parts), *((user(result()),) if with_call else ()), user(Text(text="y")))
    sent = messages(request, **changes)[0]
    assert {key: value for key, value in sent.items() if key.startswith("reasoning")} == expected
    assert sent["content"] == "x"


def test_documents_are_files_or_text() -> None:
    pdf = Document(source=Inline(media_type="application/pdf", data="AAAA"), title="Report", context="c")
    text = Document(source=PlainText(text="body"), title="T", context="C")
    body, ledger, _ = written(said(user(pdf, text)))
    assert dig(body, "messages", 0, "content") == [
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "Report.pdf"}},
        {"type": "text", "text": "T\nC\nbody"},
    ]
    assert losses(ledger) == {
        ("dropped", "document_options", "messages[0].parts[0].context"),
        ("approximated", "text_document", "messages[0].parts[1]"),
    }


@pytest.mark.parametrize(
    "part",
    [
        Document(source=Url(url="https://x/y.pdf")),
        Image(source=FileRef(issuer="anthropic", file_id="f")),
        Document(source=FileRef(issuer="anthropic", file_id="f")),
        Foreign(origin=A, kind="container_upload", body={}),
        Compaction(summary=None),
    ],
    ids=lambda part: type(part).__name__,
)
def test_pitfall_018_170_what_cannot_be_said_is_refused_not_dumped(part: Part) -> None:
    with pytest.raises(RefusedError):
        written(said(user(part)))


def test_a_picture_in_instructions_is_refused() -> None:
    picture = Message(role=Role.SYSTEM, parts=(Image(source=Url(url="https://x/y.png")),))
    with pytest.raises(RefusedError) as caught:
        written(said(picture, user(Text(text="hi"))))
    assert caught.value.feature == Feature.INSTRUCTIONS.value


def test_a_compaction_becomes_a_user_message_in_its_place() -> None:
    request = said(assistant(Compaction(summary="s"), Text(text="a")), user(Text(text="x")))
    assert [(one["role"], one["content"]) for one in messages(request)] == [
        ("user", "Summary of the conversation so far:\ns"),
        ("assistant", "a"),
        ("user", "x"),
    ]


def test_pitfall_175_cache_marks_only_where_the_model_takes_breakpoints() -> None:
    request = said(user(Text(text="a", cache=CacheBreakpoint(origin=A, ttl="1h"))))
    body, ledger, _ = written(request)
    assert body["messages"] == [{"role": "user", "content": "a"}]
    assert losses(ledger) == {("dropped", "cache_breakpoint", "messages[0].parts[0].cache")}
    marked: JsonValue = messages(request, breakpoints=True)[0]["content"]
    assert marked == [{"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}]


def test_a_user_message_left_empty_stays() -> None:
    assert messages(said(user(Text(text=""))))[0] == {"role": "user", "content": ""}


@pytest.mark.parametrize(
    ("text", "reported"),
    [("boom", True), ("Error: boom", True)],
    ids=["prefixed", "says so already"],
)
def test_an_error_flag_is_reported_however_the_text_says_it(text: str, reported: bool) -> None:
    result = ToolResult(call_id="a", parts=(Text(text=text),), is_error=True)
    call = ToolCall(call_id="a", name="f", arguments="{}")
    ledger = written(said(user(Text(text="hi")), assistant(call), user(result)))[1]
    assert (("approximated", "tool_error", "messages[2].parts[0]") in losses(ledger)) is reported


def test_an_invented_result_is_one_loss() -> None:
    call = ToolCall(call_id="a", name="f", arguments="{}")
    ledger = written(said(user(Text(text="hi")), assistant(call), user(Text(text="go on"))))[1]
    assert losses(ledger) == {("invented", "unanswered_call", "messages[1].parts[0]")}


def _results(*ids: str) -> list[Message]:
    return [user(ToolResult(call_id=one, parts=(Text(text=one),))) for one in ids]


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_pitfall_028_035_every_result_keeps_its_id_in_the_order_of_the_calls(order: tuple[str, str]) -> None:
    calls = [ToolCall(call_id=one, name="f", arguments="{}") for one in ("a", "b")]
    body = written(said(user(Text(text="hi")), *(assistant(call) for call in calls), *_results(*order)))[0]
    assert objects(body, "messages")[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": "a"},
        {"role": "tool", "tool_call_id": "b", "content": "b"},
    ]


def test_plain_parts_are_written_as_marked_ones_are_but_for_the_mark() -> None:
    def conversation(mark: CacheBreakpoint | None = None) -> list[JsonObject]:
        call = ToolCall(call_id="a", name="f", arguments="{}")
        result = ToolResult(call_id="a", parts=(Text(text="1"),), cache=mark)
        messages = (user(Text(text="hi", cache=mark)), assistant(Text(text="so", cache=mark), call), user(result))
        return objects(written(said(*messages))[0], "messages")

    assert conversation() == conversation(CacheBreakpoint(origin=A))


# Servers that take no user message after a tool's (T15).

LOOP = (user(Text(text="go")), assistant(call()))
REMINDER = Text(text="<system-reminder>be brief</system-reminder>")


def told_apart(request: Request) -> tuple[list[JsonObject], set[tuple[str, str, str]]]:
    body, ledger, _ = written(request, target(user_after_tool=False))
    return objects(body["messages"]), losses(ledger)


def test_item_6_a_reminder_beside_a_result_is_told_at_its_end() -> None:
    sent, lost = told_apart(said(*LOOP, user(result("4"), REMINDER)))
    assert sent[2:] == [{"role": "tool", "tool_call_id": "c1", "content": f"4\n\n{REMINDER.text}"}]
    assert lost == {("approximated", "result_order", "messages[2].parts[1]")}
    # Elsewhere it is the user's.
    assert [message["role"] for message in messages(said(*LOOP, user(result("4"), REMINDER)))[2:]] == ["tool", "user"]


def test_item_6_an_empty_result_takes_a_reminder_too() -> None:
    sent, _ = told_apart(said(*LOOP, user(ToolResult(call_id="c1", parts=()), REMINDER)))
    assert sent[2]["content"] == REMINDER.text


def test_item_6_what_the_user_says_next_stays_the_users() -> None:
    sent, lost = told_apart(said(*LOOP, user(result("4")), user(Text(text="stop that"))))
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[4] == {"role": "user", "content": "stop that"}
    assert lost == {("invented", "result_order", "messages[3].parts[0]")}
    beside, _ = told_apart(said(*LOOP, user(result("4"), REMINDER, Text(text="stop that"))))
    assert beside[4] == {"role": "user", "content": f"{REMINDER.text}\n\nstop that"}


def test_item_6_a_picture_beside_a_result_stays_the_users() -> None:
    sent, lost = told_apart(said(*LOOP, user(result("4", "c1", PNG), REMINDER)))
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert PNG_WIRE in objects(sent[4]["content"])
    assert ("invented", "result_order", "messages[2].parts[1]") in lost


@pytest.mark.parametrize("role", [Role.SYSTEM, Role.DEVELOPER])
def test_item_6_instructions_after_a_result_are_told_at_its_end(role: Role) -> None:
    sent, _ = told_apart(said(*LOOP, user(result("4")), system("be brief", role)))
    assert len(sent) == 3
    assert sent[2]["content"] == "4\n\n<system-reminder>\nbe brief\n</system-reminder>"


def test_item_6_an_answer_or_another_result_after_a_result_is_nothing_new() -> None:
    sent, lost = told_apart(said(*LOOP, user(result("4")), assistant(Text(text="so")), user(REMINDER)))
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert not lost


@pytest.mark.parametrize(
    ("model", "upstream", "takes"),
    [
        ("m", "mistral", False),
        ("mistralai/Mistral-Small-4-119B-2603-NVFP4", "vllm", False),
        ("devstral-medium-latest", "", False),
        ("gpt-4.1", "openai", True),
        ("deepseek-chat", "deepseek", True),
    ],
)
def test_item_6_mistrals_models_are_known_wherever_they_are_served(model: str, upstream: str, takes: bool) -> None:
    known = capabilities_of("openai-chat", model, upstream)
    assert (known.user_after_tool, known.system_anywhere) == (takes, takes)


def test_item_6_instructions_after_an_answer_are_the_users_to_mistral() -> None:
    late = said(*LOOP, user(result("4")), assistant(Text(text="so")), system("be brief"), user(Text(text="on")))
    body, ledger, _ = written(late, target(user_after_tool=False, system_anywhere=False))
    sent = objects(body["messages"])
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user", "user"]
    assert "be brief" in str(sent[4]["content"])
    assert ("approximated", "mid_conversation_system", "messages[4].parts[0]") in losses(ledger)


@pytest.mark.parametrize("client", CLIENTS)
def test_item_3_thinking_and_text_keep_their_places(client: str) -> None:
    other: JsonObject = {"type": "thinking", "thinking": [{"type": "text", "text": "I see"}]}
    content: JsonList = [THOUGHT, {"type": "text", "text": "Hm."}, other, {"type": "text", "text": "Rain."}]
    conversation = Conversation(client, "magistral-medium-latest", "mistral")
    conversation.hears({"content": content}, finish="stop")
    conversation.says("thanks")
    assert conversation.messages()[1]["content"] == content
    assert lost(conversation) == []


def test_item_3_parts_keep_text_apart_by_themselves() -> None:
    spoken = AssistantText()
    spoken.add({"type": "text", "text": "a"}, ("messages", 1, "parts", 0))
    spoken.put([dict(THOUGHT)])
    spoken.add({"type": "text", "text": "b"}, ("messages", 2, "parts", 0))
    assert spoken.content() == [{"type": "text", "text": "a"}, THOUGHT, {"type": "text", "text": "b"}]


def test_plain_texts_are_joined_as_paragraphs() -> None:
    assert joined_content([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]) == "a\n\nb"
    marked: JsonObject = {"type": "text", "text": "b", "prompt_cache_breakpoint": {"mode": "explicit"}}
    assert joined_content([{"type": "text", "text": "a"}, marked]) == [{"type": "text", "text": "a"}, marked]
