"""Both turns of a client: the question with its tools, and the echo of the answer with the results of the calls.

The echo is what users of each SDK write: the content, the message or the items of the answer go back as they came.
"""

from __future__ import annotations

from tools.replaying.protocols import CHAT, MESSAGES, RESPONSES, Object
from tools.replaying.reading import read_whole
from tools.replaying.said import Call, Said, member, objects, text_of

RESULT = "The tool's result."
_SCHEMA: Object = {"type": "object", "properties": {}, "additionalProperties": True}
_QUESTION: Object = {"role": "user", "content": "A question."}


def question(protocol: str, model: str, said: Said, *, streamed: bool) -> Object:
    """A first request of a client whose tools are those that the answer calls."""
    names = sorted({call.name for call in said.calls if call.name})
    texts = {call.name for call in said.calls if isinstance(call.arguments, str)}
    if protocol == MESSAGES:
        body: Object = {"model": model, "max_tokens": 4096, "messages": [_QUESTION]}
        tools: list[Object] = [{"name": name, "input_schema": _SCHEMA} for name in names]
    elif protocol == CHAT:
        body = {"model": model, "messages": [_QUESTION]}
        tools = [_chat_tool(name, name in texts) for name in names]
        if streamed:
            body["stream_options"] = {"include_usage": True}
    else:
        body = {"model": model, "input": [_QUESTION], "store": False, "include": ["reasoning.encrypted_content"]}
        tools = [_responses_tool(name, name in texts) for name in names]
    if tools:
        body["tools"] = tools
    if streamed:
        body["stream"] = True
    return body


def _chat_tool(name: str, is_text: bool) -> Object:
    if is_text:
        return {"type": "custom", "custom": {"name": name}}
    return {"type": "function", "function": {"name": name, "parameters": _SCHEMA}}


def _responses_tool(name: str, is_text: bool) -> Object:
    if is_text:
        return {"type": "custom", "name": name}
    return {"type": "function", "name": name, "parameters": _SCHEMA, "strict": False}


EARLIER = Call("call_earlier1", "look_up", {})


def with_earlier_call(protocol: str, asked: Object) -> Object:
    """The question, as it is after a tool was called and answered: what follows is the end of that turn."""
    if protocol == MESSAGES:
        use: Object = {"type": "tool_use", "id": EARLIER.id, "name": EARLIER.name, "input": {}}
        result: Object = {"type": "tool_result", "tool_use_id": EARLIER.id, "content": RESULT}
        turns: list[Object] = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    elif protocol == CHAT:
        call: Object = {"id": EARLIER.id, "type": "function", "function": {"name": EARLIER.name, "arguments": "{}"}}
        turns = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": EARLIER.id, "content": RESULT},
        ]
    else:
        turns = [
            {"type": "function_call", "call_id": EARLIER.id, "name": EARLIER.name, "arguments": "{}"},
            {"type": "function_call_output", "call_id": EARLIER.id, "output": RESULT},
        ]
    place = "input" if protocol == RESPONSES else "messages"
    return {**asked, place: [*objects(asked[place]), *turns]}


def echoed(protocol: str, asked: Object, answer: Object) -> Object:
    """The second request: the first one, the answer as the SDK holds it, and a result for each call."""
    if protocol == MESSAGES:
        blocks = objects(answer.get("content"))
        results: list[Object] = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": RESULT}
            for block in blocks
            if block.get("type") == "tool_use"
        ]
        after: Object = {"role": "user", "content": results or "Go on."}
        echo: list[Object] = [{"role": "assistant", "content": blocks}] if blocks else []
        return {**asked, "messages": [*objects(asked["messages"]), *echo, after]}
    if protocol == CHAT:
        message = _kept(member(next(iter(objects(answer.get("choices"))), None), "message"))
        replies: list[Object] = [
            {"role": "tool", "tool_call_id": call.get("id"), "content": RESULT}
            for call in objects(message.get("tool_calls"))
        ]
        return {
            **asked,
            "messages": [*objects(asked["messages"]), message, *(replies or [{"role": "user", "content": "Go on."}])],
        }
    items = objects(answer.get("output"))
    outputs: list[Object] = [
        {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": RESULT}
        for item in items
        if item.get("type") in ("function_call", "custom_tool_call")
    ]
    return {**asked, "input": [*objects(asked["input"]), *items, *(outputs or [{"role": "user", "content": "Go on."}])]}


def _kept(message: object) -> Object:
    """A message without what is null, as `model_dump(exclude_none=True)` gives it."""
    if not isinstance(message, dict):
        return {"role": "assistant", "content": ""}
    return {"role": "assistant", **{name: value for name, value in message.items() if value is not None}}


def read_echo(protocol: str, body: Object) -> tuple[Said, list[str]]:
    """What the provider finds of its answer in the second request, and the ids of the results."""
    if protocol == MESSAGES:
        blocks = [block for turn in _turns(body, "assistant") for block in objects(turn.get("content"))]
        for turn in _turns(body, "assistant"):
            if isinstance(turn.get("content"), str):
                blocks.append({"type": "text", "text": turn["content"]})
        said = read_whole(MESSAGES, {"content": blocks})
        inner = [block for turn in _turns(body, "user") for block in objects(turn.get("content"))]
        return said, [text_of(block.get("tool_use_id")) for block in inner if block.get("type") == "tool_result"]
    if protocol == CHAT:
        said = Said()
        for turn in _turns(body, "assistant"):
            part = read_whole(CHAT, {"choices": [{"message": turn}]})
            said.texts += part.texts
            said.reasoning += part.reasoning
            said.calls += part.calls
            said.seals += part.seals
        return said, [text_of(turn.get("tool_call_id")) for turn in _turns(body, "tool")]
    items = objects(body.get("input"))
    output = [_as_output(item) for item in items if item.get("role", "assistant") == "assistant"]
    results = [item for item in items if item.get("type") in ("function_call_output", "custom_tool_call_output")]
    return read_whole(RESPONSES, {"output": output}), [text_of(item.get("call_id")) for item in results]


def _turns(body: Object, role: str) -> list[Object]:
    return [turn for turn in objects(body.get("messages")) if turn.get("role") == role]


def _as_output(item: Object) -> Object:
    if "type" in item and item["type"] != "message":
        return item
    content = item.get("content")
    parts = [{"type": "output_text", "text": content}] if isinstance(content, str) else content
    return {"type": "message", "content": parts}
