"""The same conversations and answers in all three protocols, each as its own clients and servers write them.

Thinking is native everywhere: signed blocks in Messages, `reasoning_content` in Chat (the field that Chat servers with
visible reasoning use), reasoning items with encrypted content in Responses. Text is compact JSON in UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

from msgspec import json

from bench import prose
from bench.conversation import AGENT, HISTORY, LARGE, SMALL, Conversation, Step, Turn, converse
from dragoman.model.jsonvalue import JsonList, JsonObject

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
# The model that a request in, or to, a protocol asks for.
MODELS = {MESSAGES: "claude-opus-5", CHAT: "gpt-5.4", RESPONSES: "gpt-5.4"}
SCALES = {"small": SMALL, "agent": AGENT, "large": LARGE, "history": HISTORY}
_MARK: JsonObject = {"type": "ephemeral"}


@cache
def conversation(workload: str) -> Conversation:
    """The conversation of a workload: small, agent or large."""
    return converse(SCALES[workload])


@cache
def request(workload: str, protocol: str) -> bytes:
    """A workload's request as a client of the protocol sends it."""
    return json.encode(_REQUESTS[protocol](conversation(workload)))


@cache
def answer(protocol: str) -> bytes:
    """A whole answer of about 4 KB: thinking, text and a call."""
    return json.encode(ANSWERS[protocol](answered()))


@cache
def answered() -> Step:
    """What that answer says."""
    random = Random(11)
    call = conversation("small").turns[0].steps[0].calls[0]
    return Step(
        token=prose.token(random, 24),
        thinking=prose.sentences(random, 900),
        proof=prose.opaque(random, 500),
        text=prose.sentences(random, 1800),
        calls=(call,),
    )


def _messages_request(spoken: Conversation) -> JsonObject:
    system: JsonList = [{"type": "text", "text": text} for text in spoken.instructions]
    messages: JsonList = []
    for turn in spoken.turns:
        messages += _messages_prompts(turn)
        for step in turn.steps:
            messages.append({"role": "assistant", "content": messages_blocks(step)})
            if step.calls:
                messages.append({"role": "user", "content": _messages_results(step)})
    if spoken.reasons:
        # As agents set them: behind the instructions and at the end of the conversation.
        _mark(system)
        _mark(messages, "content")
    body: JsonObject = {"model": MODELS[MESSAGES], "max_tokens": 32000, "system": system, "messages": messages}
    body["tools"] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in spoken.tools
    ]
    if spoken.reasons:
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        body["output_config"] = {"effort": "high"}
    body["metadata"] = {"user_id": "user_4f1a90c2_session_7d33"}
    body["stream"] = True
    return body


def _mark(units: JsonList, member: str | None = None) -> None:
    """Set a cache mark on the last unit, or on the last of its `member`."""
    last = units[-1]
    assert isinstance(last, dict)
    inner = last[member] if member is not None else None
    if isinstance(inner, list):
        _mark(inner)
    else:
        last["cache_control"] = _MARK


def _messages_prompts(turn: Turn) -> JsonList:
    messages: JsonList = [{"role": "user", "content": text} for text in turn.prompts[:-1]]
    content: JsonList = [{"type": "text", "text": turn.prompts[-1]}]
    if turn.picture is not None:
        source: JsonObject = {"type": "base64", "media_type": "image/png", "data": turn.picture}
        content.append({"type": "image", "source": source})
    return [*messages, {"role": "user", "content": content}]


def messages_blocks(step: Step) -> JsonList:
    """A step as content blocks of the assistant."""
    blocks: JsonList = []
    if step.thinking:
        blocks.append({"type": "thinking", "thinking": step.thinking, "signature": step.proof})
    if step.text:
        blocks.append({"type": "text", "text": step.text})
    for call in step.calls:
        blocks.append({"type": "tool_use", "id": f"toolu_{call.token}", "name": call.name, "input": call.arguments})
    return blocks


def _messages_results(step: Step) -> JsonList:
    return [
        {
            "type": "tool_result",
            "tool_use_id": f"toolu_{call.token}",
            "content": [{"type": "text", "text": call.result}],
        }
        for call in step.calls
    ]


def _chat_request(spoken: Conversation) -> JsonObject:
    messages: JsonList = [{"role": "system", "content": "\n\n".join(spoken.instructions)}]
    for turn in spoken.turns:
        messages += _chat_prompts(turn)
        for step in turn.steps:
            messages.append(chat_message(step))
            messages += [
                {"role": "tool", "tool_call_id": f"call_{call.token}", "content": call.result} for call in step.calls
            ]
    body: JsonObject = {"model": MODELS[CHAT], "messages": messages}
    body["tools"] = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in spoken.tools
    ]
    if spoken.reasons:
        body["reasoning_effort"] = "high"
    body["max_completion_tokens"] = 32000
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    return body


def _chat_prompts(turn: Turn) -> JsonList:
    if turn.picture is None:
        return [{"role": "user", "content": text} for text in turn.prompts]
    messages: JsonList = [{"role": "user", "content": text} for text in turn.prompts[:-1]]
    image: JsonObject = {"url": f"data:image/png;base64,{turn.picture}"}
    content: JsonList = [{"type": "text", "text": turn.prompts[-1]}, {"type": "image_url", "image_url": image}]
    return [*messages, {"role": "user", "content": content}]


def chat_message(step: Step) -> JsonObject:
    """A step as a message of the assistant."""
    message: JsonObject = {"role": "assistant", "content": step.text or None}
    if step.thinking:
        message["reasoning_content"] = step.thinking
    if step.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{call.token}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.encode(call.arguments).decode()},
            }
            for call in step.calls
        ]
    return message


def _responses_request(spoken: Conversation) -> JsonObject:
    items: JsonList = []
    for turn in spoken.turns:
        items += _responses_prompts(turn)
        for step in turn.steps:
            items += responses_items(step)
            items += [
                {"type": "function_call_output", "call_id": f"call_{call.token}", "output": call.result}
                for call in step.calls
            ]
    body: JsonObject = {"model": MODELS[RESPONSES], "instructions": "\n\n".join(spoken.instructions), "input": items}
    body["tools"] = responses_tools(spoken)
    body["tool_choice"] = "auto"
    body["parallel_tool_calls"] = True
    if spoken.reasons:
        body["reasoning"] = {"effort": "high", "summary": "auto"}
        body["include"] = ["reasoning.encrypted_content"]
    body["max_output_tokens"] = 32000
    body["store"] = False
    body["stream"] = True
    return body


def responses_tools(spoken: Conversation) -> JsonList:
    """The tools as Responses declares, and echoes, them."""
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "strict": False,
            "parameters": tool.parameters,
        }
        for tool in spoken.tools
    ]


def _responses_prompts(turn: Turn) -> JsonList:
    items: JsonList = []
    for text in turn.prompts:
        content: JsonList = [{"type": "input_text", "text": text}]
        if turn.picture is not None and text is turn.prompts[-1]:
            url = f"data:image/png;base64,{turn.picture}"
            content.append({"type": "input_image", "image_url": url, "detail": "auto"})
        items.append({"type": "message", "role": "user", "content": content})
    return items


def responses_items(step: Step) -> JsonList:
    """A step as output items."""
    items: JsonList = []
    if step.thinking:
        items.append(
            {
                "type": "reasoning",
                "id": f"rs_{step.token}",
                "summary": [{"type": "summary_text", "text": step.thinking}],
                "encrypted_content": step.proof,
            }
        )
    if step.text:
        content: JsonList = [{"type": "output_text", "text": step.text, "annotations": [], "logprobs": []}]
        message: JsonObject = {"type": "message", "id": f"msg_{step.token}", "role": "assistant", "status": "completed"}
        items.append({**message, "content": content})
    for call in step.calls:
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{call.token}",
                "call_id": f"call_{call.token}",
                "name": call.name,
                "arguments": json.encode(call.arguments).decode(),
                "status": "completed",
            }
        )
    return items


def messages_answer(step: Step) -> JsonObject:
    """A step as a whole answer of Messages."""
    return {
        "id": f"msg_{step.token}",
        "type": "message",
        "role": "assistant",
        "model": MODELS[MESSAGES],
        "content": messages_blocks(step),
        "stop_reason": "tool_use" if step.calls else "end_turn",
        "stop_sequence": None,
        "usage": messages_usage(),
    }


def messages_usage() -> JsonObject:
    """Token counts as Messages reports them."""
    return {
        "input_tokens": 12,
        "cache_creation_input_tokens": 340,
        "cache_read_input_tokens": 81000,
        "output_tokens": 812,
        "output_tokens_details": {"thinking_tokens": 230},
    }


def chat_answer(step: Step) -> JsonObject:
    """A step as a whole answer of Chat."""
    finish = "tool_calls" if step.calls else "stop"
    message: JsonObject = {**chat_message(step), "refusal": None, "annotations": []}
    return {
        "id": f"chatcmpl-{step.token}",
        "object": "chat.completion",
        "created": 1767225600,
        "model": MODELS[CHAT],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": chat_usage(),
        "service_tier": "default",
        "system_fingerprint": None,
    }


def chat_usage() -> JsonObject:
    """Token counts as Chat reports them."""
    return {
        "prompt_tokens": 81352,
        "completion_tokens": 812,
        "total_tokens": 82164,
        "prompt_tokens_details": {"cached_tokens": 81000, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 230, "audio_tokens": 0},
    }


def responses_answer(step: Step) -> JsonObject:
    """A step as a whole answer of Responses, which repeats what was asked."""
    spoken = conversation("small")
    return {
        "id": f"resp_{step.token}",
        "object": "response",
        "created_at": 1767225600,
        "completed_at": 1767225609,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": "\n\n".join(spoken.instructions),
        "max_output_tokens": 32000,
        "max_tool_calls": None,
        "model": MODELS[RESPONSES],
        "output": responses_items(step),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": "high", "summary": "auto"},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": responses_tools(spoken),
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": 81352,
            "input_tokens_details": {"cached_tokens": 81000, "cache_write_tokens": 340},
            "output_tokens": 812,
            "output_tokens_details": {"reasoning_tokens": 230},
            "total_tokens": 82164,
        },
        "user": None,
        "metadata": {},
    }


_REQUESTS: dict[str, Callable[[Conversation], JsonObject]] = {
    MESSAGES: _messages_request,
    CHAT: _chat_request,
    RESPONSES: _responses_request,
}
ANSWERS: dict[str, Callable[[Step], JsonObject]] = {
    MESSAGES: messages_answer,
    CHAT: chat_answer,
    RESPONSES: responses_answer,
}
