"""Floods: streams that are as long as one likes and of a kind that invites to look again at what came before."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.laws.strategies import CHAT, MESSAGES, RESPONSES

# So many units of a kind, as the bytes of a stream. Where the decoder looks at the last 64 things, there are five for
# each unit, so that the steps for these do not look like growth.
Flood: TypeAlias = Callable[[int], bytes]
# The name and the arguments of a call, by its number.
_Told: TypeAlias = Callable[[int], tuple[str | None, str]]


def frame(event: JsonObject, *, named: bool = True) -> bytes:
    head = f"event: {event.get('type')!s}\n" if named else ""
    return f"{head}data: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def each(count: int, write: Callable[[int], bytes]) -> bytes:
    return b"".join(map(write, range(count)))


# --- Messages ---------------------------------------------------------------------------------------------------------

_MESSAGE = frame({"type": "message_start", "message": {"id": "m", "model": "x", "usage": {"input_tokens": 1}}})
_MESSAGE_END = frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}) + frame({"type": "message_stop"})
_WEB: JsonObject = {"type": "web_search_result_location", "url": "http://a", "title": "t", "cited_text": "c"}


def block(index: int, start: JsonObject, *deltas: bytes) -> bytes:
    opening = frame({"type": "content_block_start", "index": index, "content_block": start})
    return opening + b"".join(deltas) + frame({"type": "content_block_stop", "index": index})


def delta(index: int, kind: str, **members: JsonValue) -> bytes:
    return frame({"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}})


def started(index: int, start: JsonObject) -> bytes:
    return frame({"type": "content_block_start", "index": index, "content_block": start})


def used(identity: str) -> JsonObject:
    return {"type": "tool_use", "id": identity, "name": "get_weather", "input": {}}


def _searched(number: int) -> JsonObject:
    return {"type": "server_tool_use", "id": f"s{number}", "name": "web_search", "input": {"query": "q"}}


def _found(number: int, count: int) -> JsonObject:
    result: JsonObject = {"type": "web_search_result", "url": "http://a", "title": "t", "encrypted_content": "x"}
    return {"type": "web_search_tool_result", "tool_use_id": f"s{number}", "content": [result] * count}


def call_block(name: str, piece: str, count: int) -> bytes:
    start: JsonObject = {"type": "tool_use", "id": "t", "name": name, "input": {}}
    return block(0, start, delta(0, "input_json_delta", partial_json=piece) * count)


def message(inner: bytes) -> bytes:
    return _MESSAGE + inner + _MESSAGE_END


_TEXT: JsonObject = {"type": "text", "text": ""}
_SAID_BLOCK: JsonObject = {"type": "text", "text": "a"}
_THOUGHT: JsonObject = {"type": "thinking", "thinking": ""}
_CITED = delta(0, "text_delta", text="x") + delta(0, "citations_delta", citation=_WEB)
_MESSAGES: dict[str, Flood] = {
    "blank text": lambda n: message(block(0, _TEXT, delta(0, "text_delta", text=" ") * n)),
    "one letter that begins a stop string": lambda n: message(block(0, _TEXT, delta(0, "text_delta", text="a") * n)),
    "arguments that are no object": lambda n: message(call_block("get_weather", "[", n)),
    "arguments that are complete again and again": lambda n: message(call_block("get_weather", "{}", n)),
    "free text that never opens": lambda n: message(call_block("patch", " ", n)),
    "citations": lambda n: message(block(0, _TEXT, _CITED * n)),
    "blocks": lambda n: message(each(n, lambda i: block(i, {"type": "text", "text": "a"}))),
    "cited blocks": lambda n: message(
        each(n, lambda i: block(i, {"type": "text", "text": "a"}, delta(i, "citations_delta", citation=_WEB)))
    ),
    "blocks that were never begun": lambda n: message(each(n, lambda i: delta(i, "text_delta", text="a"))),
    "counts with ever more members": lambda n: message(
        each(n, lambda i: frame({"type": "message_delta", "delta": {}, "usage": {f"k{i}": i}}))
    ),
    "one large count and many small": lambda n: message(
        frame({"type": "message_delta", "usage": {"output_tokens_details": {f"k{i}": i for i in range(5 * n)}}})
        + frame({"type": "message_delta", "usage": {"output_tokens": 5}}) * n
    ),
    "events that nobody knows": lambda n: message(each(n, lambda i: frame({"type": f"k{i}"}))),
    "calls": lambda n: message(
        each(n, lambda i: block(i, used(f"t{i}"), delta(i, "input_json_delta", partial_json="{}")))
    ),
    "calls that stay open": lambda n: message(
        each(n, lambda i: started(i, used(f"t{i}")))
        + each(n, lambda i: delta(i, "input_json_delta", partial_json="{}"))
    ),
    "calls with half of their arguments": lambda n: message(
        each(n, lambda i: started(i, used(f"t{i}")) + delta(i, "input_json_delta", partial_json="{"))
    ),
    "calls of one id": lambda n: message(
        each(n, lambda i: block(i, used("t"), delta(i, "input_json_delta", partial_json=f'{{"a":{i}}}')))
    ),
    "calls with their arguments at the start": lambda n: message(
        each(n, lambda i: block(i, {**used(f"t{i}"), "input": {"a": i}}))
    ),
    "one call begun again and again": lambda n: message(each(n, lambda i: started(0, {**used("t"), f"k{i}": 1}))),
    "arguments for no call": lambda n: message(
        each(n, lambda i: started(i, used(f"t{i}"))) + delta(-9, "input_json_delta", partial_json=" ") * n
    ),
    "blocks in the first event": lambda n: (
        frame({"type": "message_start", "message": {"id": "m", "model": "x", "content": [_SAID_BLOCK] * n}})
        + each(n, lambda i: block(i, _TEXT, delta(i, "text_delta", text="a")))
        + _MESSAGE_END
    ),
    "blocks in the first event that grow": lambda n: (
        frame({"type": "message_start", "message": {"id": "m", "model": "x", "content": [_SAID_BLOCK] * n}})
        + each(n, lambda i: delta(n - i, "text_delta", text="a"))
        + _MESSAGE_END
    ),
    "thinking": lambda n: message(
        each(
            n,
            lambda i: block(
                i, _THOUGHT, delta(i, "thinking_delta", thinking="a"), delta(i, "signature_delta", signature="s")
            ),
        )
    ),
    "signatures of one block": lambda n: message(
        block(0, _THOUGHT, delta(0, "thinking_delta", thinking="a") * n, delta(0, "signature_delta", signature="s") * n)
    ),
    "redacted thinking": lambda n: message(each(n, lambda i: block(i, {"type": "redacted_thinking", "data": "x"}))),
    "hosted calls and their results": lambda n: message(
        each(n, lambda i: block(2 * i, _searched(i)) + block(2 * i + 1, _found(i, 1)))
    ),
    "results of one search": lambda n: message(block(0, _searched(0)) + block(1, _found(0, n))),
    "citations at the start of a block": lambda n: message(block(0, {**_TEXT, "text": "a", "citations": [_WEB] * n})),
    "blocks that nobody knows": lambda n: message(each(n, lambda i: block(i, {"type": f"k{i}", "a": 1}))),
    "pings": lambda n: message(frame({"type": "ping"}) * n),
    "ends of blocks that never began": lambda n: message(
        each(n, lambda i: frame({"type": "content_block_stop", "index": i}))
    ),
    "reasons to stop": lambda n: message(frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}) * n),
    "iterations counted": lambda n: message(
        frame({"type": "message_delta", "usage": {"output_tokens": 1, "iterations": [{"output_tokens": 1}] * n}})
    ),
}

# --- Chat -------------------------------------------------------------------------------------------------------------


def chunk(delta: JsonObject, finish: str | None = None, **members: JsonValue) -> bytes:
    choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish, **members}
    return frame({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}, named=False)


_CHAT_END = chunk({}, "stop") + b"data: [DONE]\n\n"


def fragment(index: int, arguments: str, name: str | None = None, identity: str | None = None) -> bytes:
    function: JsonObject = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    call: JsonObject = {"index": index, "function": function}
    return chunk({"tool_calls": [call if identity is None else {**call, "id": identity}]})


def passed_call(opening: str, piece: str, count: int) -> bytes:
    """A call that something else interrupts: from then on each fragment may be its last."""
    begun = fragment(0, opening, "get_weather", "a") + chunk({"content": "x"})
    return begun + fragment(0, piece) * count + _CHAT_END


def detail(**members: JsonValue) -> bytes:
    return chunk({"reasoning_details": [{"type": "reasoning.text", **members}]})


def annotation(start: int, end: int) -> JsonObject:
    cited: JsonObject = {"url": "http://a", "title": "t", "start_index": start, "end_index": end}
    return {"type": "url_citation", "url_citation": cited}


def called(index: int | None, arguments: str, name: str = "get_weather", identity: str = "") -> JsonObject:
    call: JsonObject = {"id": identity, "function": {"name": name, "arguments": arguments}}
    return call if index is None else {"index": index, **call}


_LOGPROB: JsonObject = {"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": []}
_LOGGED: JsonObject = {"content": [_LOGPROB]}
_PART: JsonObject = {"type": "text", "text": "a"}
_THINKING: JsonObject = {"type": "thinking", "thinking": [_PART]}
_PROOF: JsonObject = {"google": {"thought_signature": "s"}}
_FILTERED: JsonObject = {"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False}}}
_COUNTED = frame({"choices": [], "usage": {"prompt_tokens": 1}}, named=False)
# What each of very many calls is told with: its index, its id, its name and its arguments.
_INDEXES: dict[str, Callable[[int], int]] = {"by index": lambda i: i, "at one index": lambda i: 0}
_IDENTITIES: dict[str, Callable[[int], str | None]] = {
    "with ids": lambda i: f"a{i}",
    "of one id": lambda i: "a",
    "without ids": lambda i: None,
}
_CALLED: dict[str, _Told] = {
    "without arguments": lambda i: ("get_weather", ""),
    "with a stand-in": lambda i: ("get_weather", "null"),
    "with names of their own": lambda i: (f"t{i}", "{}"),
    "without names": lambda i: (None, f'{{"a":{i}}}'),
    "with values": lambda i: ("get_weather", f'{{"a":{i}}}'),
    "with the same value": lambda i: ("get_weather", '{"a":1}'),
    "that are not whole": lambda i: ("get_weather", "{"),
}


def _calls_of(index: Callable[[int], int], identity: Callable[[int], str | None], call: _Told) -> Flood:
    def write(number: int) -> bytes:
        name, arguments = call(number)
        return fragment(index(number), arguments, name, identity(number))

    return lambda n: each(n, write) + _CHAT_END


_CALLS: dict[str, Flood] = {
    f"{first} {second} {third}": _calls_of(index, identity, call)
    for first, index in _INDEXES.items()
    for second, identity in _IDENTITIES.items()
    for third, call in _CALLED.items()
}
_CHATS: dict[str, Flood] = {
    "content between counts": lambda n: chunk({"content": "a"}) + (chunk({"content": "a"}) + _COUNTED) * n + _CHAT_END,
    "counts with ever more members": lambda n: (
        each(n, lambda i: frame({"choices": [], "usage": {f"k{i}": 2}}, named=False)) + _CHAT_END
    ),
    "log probabilities": lambda n: chunk({"content": "a"}, logprobs=_LOGGED) * n + _CHAT_END,
    "blank refusal": lambda n: chunk({"refusal": " "}) * n + _CHAT_END,
    "blank text": lambda n: chunk({"content": " "}) * n + _CHAT_END,
    "arguments that may be complete": lambda n: passed_call('{"a":{}', ',"a":{}', n),
    "arguments in a list": lambda n: passed_call("[", "[1],", n),
    "a number in digits": lambda n: passed_call("1", "1", n),
    "the same call again and again": lambda n: fragment(0, '{"a":{}', "get_weather", "a") * n + _CHAT_END,
    "a name in pieces": lambda n: fragment(0, "", "x", "a") + each(n, lambda i: fragment(0, "", f"y{i}")) + _CHAT_END,
    "calls that stay open": lambda n: (
        each(n, lambda i: fragment(i, "{", "get_weather", f"a{i}")) + each(n, lambda i: fragment(i, "}")) + _CHAT_END
    ),
    "thinking and text in turn": lambda n: (
        (chunk({"reasoning_content": "x"}) + chunk({"content": "y"})) * n + _CHAT_END
    ),
    "one detail in pieces": lambda n: detail(text="x", index=0) * n + _CHAT_END,
    "many details": lambda n: each(n, lambda i: detail(text="x", index=i)) + _CHAT_END,
    "annotations": lambda n: (chunk({"content": "y"}) + chunk({"annotations": [annotation(0, 5)]})) * n + _CHAT_END,
    "annotations within each other": lambda n: (
        chunk({"content": "x" * n}) + chunk({"annotations": [annotation(i, n - i) for i in range(n // 2)]}) + _CHAT_END
    ),
    "members that nobody knows": lambda n: each(n, lambda i: chunk({"content": "x", f"k{i}": 1})) + _CHAT_END,
    **{f"calls, {name}": opened for name, opened in _CALLS.items()},
    "calls in one chunk": lambda n: (
        chunk({"tool_calls": [called(i, "{}", identity=f"a{i}") for i in range(n)]}) + _CHAT_END
    ),
    "calls and text in turn": lambda n: (
        each(n, lambda i: fragment(i, "{}", "get_weather", f"a{i}") + chunk({"content": "x"})) + _CHAT_END
    ),
    "calls and more of the first": lambda n: (
        fragment(0, "{", "run", "a")
        + each(n, lambda i: fragment(i + 1, '{"a":1}', "get_weather", f"a{i}") + fragment(0, '"b":{},'))
        + _CHAT_END
    ),
    "one call in doubt, and others": lambda n: (
        fragment(0, '{"a":', "run", "a")
        + fragment(0, '{"a":{"b":"' + "x" * 20 * n + '"}')
        + each(n, lambda i: fragment(i + 1, "", None, None) + fragment(n, '{"a":1}'))
        + _CHAT_END
    ),
    "a name said beside long arguments": lambda n: (
        fragment(0, "{", "run", "a")
        + fragment(0, '"a') * n
        + fragment(1, '{"a":1}', "get_weather", "b")
        + fragment(1, "{", "run") * n
        + _CHAT_END
    ),
    "ends after calls": lambda n: (
        each(n, lambda i: fragment(i, "{}", "get_weather", f"a{i}")) + chunk({}, "tool_calls") * n + _CHAT_END
    ),
    "ends between calls": lambda n: (
        each(n, lambda i: fragment(i, "{", "get_weather", f"a{i}") + chunk({}, "tool_calls")) + _CHAT_END
    ),
    "one call opened again elsewhere": lambda n: (
        fragment(0, '{"a":1}', "get_weather", "a")
        + each(n, lambda i: fragment(i + 1, "", "get_weather", "a"))
        + _CHAT_END
    ),
    "calls told again as a message": lambda n: (
        each(n, lambda i: fragment(i, f'{{"a":{i}}}', "get_weather", f"a{i}"))
        + chunk({}, message={"tool_calls": [called(None, f'{{"a": {i}}}') for i in range(n)]})
        + _CHAT_END
    ),
    "calls told again one by one": lambda n: (
        each(n, lambda i: fragment(i, f'{{"a":{i}}}', "get_weather", f"a{i}"))
        + each(n, lambda i: chunk({}, message={"tool_calls": [called(None, f'{{"a":{i}}}')]}))
        + _CHAT_END
    ),
    "calls with proofs": lambda n: (
        each(n, lambda i: chunk({"tool_calls": [{**called(i, "{}", identity=f"a{i}"), "extra_content": _PROOF}]}))
        + _CHAT_END
    ),
    "proofs of one call": lambda n: (
        fragment(0, "{", "get_weather", "a")
        + each(n, lambda i: chunk({"tool_calls": [{"index": 0, "thought_signature": f"s{i}"}]}))
        + _CHAT_END
    ),
    "proofs of the text": lambda n: (
        each(n, lambda i: chunk({"content": "x", "extra_content": {"google": {"thought_signature": f"s{i}"}}}))
        + _CHAT_END
    ),
    "older calls": lambda n: (
        each(n, lambda i: chunk({"function_call": {"name": f"t{i}", "arguments": "{}"}})) + _CHAT_END
    ),
    "choices": lambda n: (
        each(n, lambda i: frame({"choices": [{"index": i, "delta": {"content": "a"}}]}, named=False)) + _CHAT_END
    ),
    "choices in one chunk": lambda n: (
        frame({"choices": [{"index": i, "delta": {"content": "a"}} for i in range(n)]}, named=False) + _CHAT_END
    ),
    "content parts": lambda n: chunk({"content": [{"type": "text", "text": "a"}] * n}) + _CHAT_END,
    "content parts and thinking in turn": lambda n: chunk({"content": [_PART, _THINKING] * n}) + _CHAT_END,
    "reasoning at every end": lambda n: (
        (chunk({"reasoning_content": "x"}, "stop") + chunk({"content": "y"}, "stop")) * n + _CHAT_END
    ),
    "details in one chunk": lambda n: (
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "x", "index": i} for i in range(n)]})
        + _CHAT_END
    ),
    "encrypted details": lambda n: (
        each(n, lambda i: chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "id": f"r{i}"}]}))
        + _CHAT_END
    ),
    "thinking blocks": lambda n: (
        each(n, lambda i: chunk({"thinking_blocks": [{"type": "thinking", "thinking": "x", "signature": f"s{i}"}]}))
        + _CHAT_END
    ),
    "annotations in one chunk": lambda n: (
        chunk({"content": "y"}) + chunk({"annotations": [annotation(0, 1)] * n}) + _CHAT_END
    ),
    "citations beside the choices": lambda n: (
        each(n, lambda i: frame({"choices": [], "citations": [f"http://a/{i}"]}, named=False)) + _CHAT_END
    ),
    "log probabilities in one chunk": lambda n: (
        chunk({"content": "a"}, logprobs={"content": [_LOGPROB] * n}) + _CHAT_END
    ),
    "alternatives to one token": lambda n: (
        chunk({"content": "a"}, logprobs={"content": [{**_LOGPROB, "top_logprobs": [_LOGPROB] * n}]}) + _CHAT_END
    ),
    "log probabilities of a refusal": lambda n: (
        chunk({"refusal": "a"}, logprobs={"refusal": [_LOGPROB]}) * n + _CHAT_END
    ),
    "safety entries": lambda n: (
        chunk({"content": "a"}, content_filter_results={f"k{i}": {"filtered": False} for i in range(n)}) * 2 + _CHAT_END
    ),
    "safety entries of the question": lambda n: (
        frame({"choices": [], "prompt_filter_results": [_FILTERED] * n}, named=False)
        + frame({"choices": [], "prompt_filter_results": [_FILTERED]}, named=False) * n
        + _CHAT_END
    ),
    "pictures and sounds": lambda n: (
        each(n, lambda i: chunk({"images": [{"type": "image_url"}], "audio": {"data": "AA=="}})) + _CHAT_END
    ),
    "ends": lambda n: chunk({"content": "a"}) + chunk({}, "stop") * n + _CHAT_END,
}

# --- Responses --------------------------------------------------------------------------------------------------------

_RESPONSE: JsonObject = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
_CREATED = frame({"type": "response.created", "response": {**_RESPONSE, "status": "in_progress"}})
_COMPLETED = frame({"type": "response.completed", "response": {**_RESPONSE, "status": "completed"}})


def added(index: int, kind: str, **members: JsonValue) -> bytes:
    item: JsonObject = {"type": kind, "id": f"i{index}", **members}
    return frame({"type": "response.output_item.added", "output_index": index, "item": item})


def done(index: int, kind: str, **members: JsonValue) -> bytes:
    item: JsonObject = {"type": kind, "id": f"i{index}", **members}
    return frame({"type": "response.output_item.done", "output_index": index, "item": item})


def grown(kind: str, index: int = 0, **members: JsonValue) -> bytes:
    return frame({"type": f"response.{kind}", "output_index": index, **members})


def unplaced(event: bytes) -> bytes:
    """An event that says neither the place nor the name of its item."""
    head, _, data = event.partition(b"data: ")
    told = json.loads(data)
    del told["output_index"], told["item"]["id"]
    return head + b"data: " + json.dumps(told, separators=(",", ":")).encode() + b"\n\n"


def item(kind: str, number: int, **members: JsonValue) -> JsonObject:
    return {"type": kind, "id": f"i{number}", **members}


def _call_item(number: int) -> JsonObject:
    return item("function_call", number, call_id=f"c{number}", name="get_weather", arguments="{}")


def completed(output: list[JsonObject]) -> bytes:
    return frame({"type": "response.completed", "response": {**_RESPONSE, "status": "completed", "output": [*output]}})


def response(inner: bytes) -> bytes:
    return _CREATED + inner + _COMPLETED


_OUTPUT: JsonObject = {"type": "output_text", "text": "hello "}
_SEARCH: JsonObject = {"type": "search", "query": "q", "sources": [{"type": "url", "url": "http://a"}]}
_SAID = grown("output_text.delta", content_index=0, delta="hello ")
_URL: JsonObject = {"type": "url_citation", "url": "http://a", "title": "t", "start_index": 0, "end_index": 1}
_ANNOTATED = grown("output_text.annotation.added", content_index=0, annotation=_URL)
_CALL_ITEM = added(0, "function_call", call_id="c", name="get_weather", arguments="")
_RESPONSES: dict[str, Flood] = {
    "a text told again and again": lambda n: response(
        added(0, "message") + _SAID * n + grown("output_text.done", content_index=0, text="h") * n
    ),
    "parts": lambda n: response(
        added(0, "message") + each(n, lambda i: grown("output_text.delta", content_index=i, delta="x"))
    ),
    "messages that stay open": lambda n: response(
        each(n, lambda i: added(i, "message") + grown("output_text.delta", i, content_index=0, delta="x"))
    ),
    "summaries and reasoning": lambda n: response(
        added(0, "reasoning", summary=[])
        + each(n, lambda i: grown("reasoning_summary_text.delta", summary_index=i, delta="s"))
        + each(n, lambda i: grown("reasoning_text.delta", content_index=i, delta="s"))
    ),
    "arguments told again and again": lambda n: response(
        _CALL_ITEM
        + grown("function_call_arguments.delta", delta="{") * n
        + grown("function_call_arguments.done", arguments="x") * n
    ),
    "calls": lambda n: response(
        each(n, lambda i: added(i, "function_call", call_id="c", name="get_weather", arguments=""))
        + each(n, lambda i: grown("function_call_arguments.delta", i, delta="{}"))
    ),
    "annotations": lambda n: response(added(0, "message") + (_SAID + _ANNOTATED) * n),
    "an item that ends again and again": lambda n: response(
        each(n, lambda i: done(0, "message", content=[{"type": "output_text", "text": f"x{i}"}]))
    ),
    "calls that end at once": lambda n: response(
        each(n, lambda i: done(i, "function_call", call_id=f"c{i}", name="get_weather", arguments="{}"))
    ),
    "calls without a name": lambda n: response(
        each(n, lambda i: added(i, "function_call", call_id=f"c{i}"))
        + each(n, lambda i: grown("function_call_arguments.delta", i, delta="{}"))
    ),
    "calls without a place": lambda n: response(
        each(n, lambda i: unplaced(done(i, "function_call", call_id=f"c{i}", name="get_weather", arguments="{}")))
    ),
    "one call announced again and again": lambda n: response(
        each(n, lambda i: added(0, "function_call", call_id="c", name="get_weather", arguments="", **{f"k{i}": 1}))
    ),
    "free texts": lambda n: response(
        each(n, lambda i: added(i, "custom_tool_call", call_id=f"c{i}", name="patch", input=""))
        + each(n, lambda i: grown("custom_tool_call_input.delta", i, delta="x"))
    ),
    "messages": lambda n: response(each(n, lambda i: added(i, "message") + done(i, "message", content=[_OUTPUT]))),
    "parts of one message": lambda n: response(added(0, "message") + done(0, "message", content=[_OUTPUT] * n)),
    "annotations at the end": lambda n: response(
        added(0, "message") + done(0, "message", content=[{**_OUTPUT, "annotations": [_URL] * n}])
    ),
    "log probabilities": lambda n: response(
        added(0, "message") + grown("output_text.delta", content_index=0, delta="a", logprobs=[_LOGPROB]) * n
    ),
    "log probabilities of one text": lambda n: response(
        added(0, "message") + grown("output_text.delta", content_index=0, delta="a", logprobs=[_LOGPROB] * n)
    ),
    "refusals": lambda n: response(
        added(0, "message") + each(n, lambda i: grown("refusal.delta", content_index=i, delta="x"))
    ),
    "parts that end": lambda n: response(
        added(0, "message") + each(n, lambda i: grown("content_part.done", content_index=i, part=_OUTPUT))
    ),
    "reasoning": lambda n: response(
        each(n, lambda i: done(i, "reasoning", summary=[{"type": "summary_text", "text": "s"}], encrypted_content="x"))
    ),
    "summaries of one reasoning": lambda n: response(
        done(0, "reasoning", summary=[{"type": "summary_text", "text": "s"}] * n, encrypted_content="x")
    ),
    "searches": lambda n: response(
        each(n, lambda i: added(i, "web_search_call") + done(i, "web_search_call", action=_SEARCH, status="completed"))
    ),
    "calls of servers": lambda n: response(
        each(n, lambda i: done(i, "mcp_call", server_label="s", name="n", arguments="{}", output="x"))
    ),
    "tools of a server": lambda n: response(
        done(0, "mcp_list_tools", server_label="s", tools=[{"name": f"t{i}", "input_schema": {}} for i in range(n)])
    ),
    "items that nobody knows": lambda n: response(each(n, lambda i: done(i, f"k{i}", a=1))),
    "events that nobody knows": lambda n: response(each(n, lambda i: frame({"type": f"response.k{i}"}))),
    "answers in progress": lambda n: response(frame({"type": "response.in_progress", "response": _RESPONSE}) * n),
    "messages in the output": lambda n: _CREATED + completed([item("message", i, content=[_OUTPUT]) for i in range(n)]),
    "calls in the output": lambda n: _CREATED + completed([_call_item(i) for i in range(n)]),
    "calls told again in the output": lambda n: (
        _CREATED
        + each(n, lambda i: done(i, "function_call", call_id=f"c{i}", name="get_weather", arguments="{}"))
        + completed([_call_item(i) for i in range(n)])
    ),
    "calls in the output the other way round": lambda n: (
        _CREATED
        + each(5 * n, lambda i: done(i, "function_call", call_id=f"c{i}", name="get_weather", arguments="{}"))
        + completed([_call_item(5 * n - i) for i in range(5 * n)])
    ),
    "calls beside a long one": lambda n: response(
        added(0, "function_call", call_id="c", name="get_weather", arguments="")
        + grown("function_call_arguments.delta", delta='{"a":"' + "x" * 40 * n + '"}')
        + each(
            5 * n,
            lambda i: unplaced(done(i, "function_call", call_id=f"d{i}", name="get_weather", arguments=f'{{"a":{i}}}')),
        )
    ),
    "pieces that begin like all so far": lambda n: response(
        _CALL_ITEM
        + grown("function_call_arguments.delta", delta='{"a":"' + "x" * 40 * n)
        + grown("function_call_arguments.delta", delta="{") * n
    ),
    "messages beside a long one": lambda n: (
        _CREATED
        + added(0, "message")
        + _SAID * n
        + completed([item("message", i + 1, content=[{"type": "output_text", "text": f"x{i}"}]) for i in range(n)])
    ),
    "parts beside a long one": lambda n: response(
        added(0, "message")
        + _SAID * n
        + each(5 * n, lambda i: grown("output_text.done", content_index=i + 1, text=f"x{i}"))
    ),
    "messages that end beside a long one": lambda n: response(
        added(0, "message")
        + _SAID * n
        + each(n, lambda i: unplaced(done(0, "message", content=[{"type": "output_text", "text": f"x{i}"}])))
    ),
    "summaries beside a long one": lambda n: response(
        added(0, "reasoning", summary=[])
        + grown("reasoning_summary_text.delta", summary_index=0, delta="s ") * n
        + each(5 * n, lambda i: grown("reasoning_summary_text.done", summary_index=i + 1, text=f"x{i}"))
    ),
    "reasoning told again in the output": lambda n: (
        _CREATED
        + added(0, "reasoning", summary=[])
        + grown("reasoning_summary_text.delta", summary_index=0, delta="s ") * n
        + completed([item("reasoning", i + 1, summary=[{"type": "summary_text", "text": f"x{i}"}]) for i in range(n)])
    ),
}

FLOODS: dict[str, dict[str, Flood]] = {MESSAGES: _MESSAGES, CHAT: _CHATS, RESPONSES: _RESPONSES}

# Bytes that are no stream of anybody's, by hundreds.
NOISE: dict[str, Flood] = {
    "line feeds": lambda n: b"\n" * (100 * n),
    "returns": lambda n: b"\r" * (100 * n),
    "both": lambda n: b"\r\n" * (50 * n),
    "one comment": lambda n: b":" + b"x" * (100 * n),
    "comments": lambda n: b": x\n\n\n" * (17 * n),
    "one event": lambda n: b"data: {" + b"x" * (100 * n),
    "lines of data": lambda n: b"data: x\n" * (12 * n) + b"\n",
    "brackets": lambda n: b"data: " + b"[" * (100 * n) + b"\n\n",
    "a number": lambda n: b'data: {"a":' + b"1" * (100 * n) + b"}\n\n",
    "escapes": lambda n: b'data: {"a":"' + b"\\ud800" * (16 * n) + b'"}\n\n',
    "byte order marks": lambda n: b"\xef\xbb\xbf" * (33 * n),
}
