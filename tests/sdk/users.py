"""Programs that use an SDK: a tool loop of two turns, with the history kept the way each SDK's users keep it."""

from __future__ import annotations

import json
from collections.abc import Callable

import anthropic
import openai
from anthropic.types import ImageBlockParam, Message, MessageParam, ToolParam, ToolResultBlockParam
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam, ChatCompletionToolParam
from openai.types.responses import FunctionToolParam, Response, ResponseInputItemParam
from openai.types.responses.response_input_item_param import FunctionCallOutput

from tests.sdk.clients import Handler, anthropic_client, openai_client
from tests.sdk.digging import Object
from tests.sdk.names import CHAT, MESSAGES, RESPONSES

QUESTION = "How is the weather in Paris, what time is it, and what does it look like?"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA: Object = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}
CITY: Object = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NOTHING: Object = {"type": "object", "properties": {}}
TOOLS: dict[str, Object] = {"get_weather": CITY, "get_time": NOTHING, "take_photo": NOTHING}
RESULTS = {"get_weather": "18 degrees", "get_time": "12:00"}


PHOTO: ImageBlockParam = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


class Heard:
    """What the program saw of the first answer, and the text of the last."""

    def __init__(self, calls: list[tuple[str, str, object]], reasoning: str, text: str) -> None:
        self.calls = calls
        self.reasoning = reasoning
        self.text = text
        self.final = ""


def messages_loop(client: anthropic.Anthropic, streamed: bool, model: str = "claude-opus-5") -> Heard:
    """Anthropic's users append `message.content` as it is."""
    history: list[MessageParam] = [{"role": "user", "content": QUESTION}]
    first = ask_message(client, history, streamed, model)
    history.append({"role": "assistant", "content": first.content})
    results: list[ToolResultBlockParam] = []
    heard = Heard([], "", "")
    for block in first.content:
        if block.type == "thinking":
            heard.reasoning += block.thinking
        elif block.type == "text":
            heard.text += block.text
        elif block.type == "tool_use":
            heard.calls.append((block.id, block.name, block.input))
            result: ToolResultBlockParam = {"type": "tool_result", "tool_use_id": block.id}
            if block.name == "take_photo":
                result["content"] = [PHOTO]
            else:
                result["content"] = RESULTS[block.name]
            results.append(result)
    history.append({"role": "user", "content": results})
    last = ask_message(client, history, streamed, model)
    heard.final = "".join(block.text for block in last.content if block.type == "text")
    return heard


def ask_message(client: anthropic.Anthropic, history: list[MessageParam], streamed: bool, model: str) -> Message:
    """Anthropic's SDK, asked once with everything it has."""
    tools: list[ToolParam] = [
        {"name": name, "description": f"Runs {name}.", "input_schema": schema} for name, schema in TOOLS.items()
    ]
    if streamed:
        with client.messages.stream(
            model=model,
            max_tokens=4096,
            messages=history,
            tools=tools,
            thinking={"type": "adaptive"},
            output_config={"effort": "medium", "format": {"type": "json_schema", "schema": SCHEMA}},
        ) as stream:
            return stream.get_final_message()
    return client.messages.create(
        model=model,
        max_tokens=4096,
        messages=history,
        tools=tools,
        thinking={"type": "adaptive"},
        output_config={"effort": "medium", "format": {"type": "json_schema", "schema": SCHEMA}},
    )


def chat_loop(client: openai.OpenAI, streamed: bool, model: str = "gpt-5") -> Heard:
    """Users of Chat append the message, as a dictionary without what is null."""
    history: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
    first = ask_completion(client, history, streamed, model)
    history.append(first.model_dump(exclude_none=True))  # type: ignore[arg-type]  # as its users do
    reasoning = (first.model_extra or {}).get("reasoning_content") or ""
    heard = Heard([], str(reasoning), first.content or "")
    for call in first.tool_calls or []:
        assert call.type == "function"
        heard.calls.append((call.id, call.function.name, json.loads(call.function.arguments or "{}")))
        result = RESULTS.get(call.function.name, "a photo, saved as photo.png")
        history.append({"role": "tool", "tool_call_id": call.id, "content": result})
    heard.final = ask_completion(client, history, streamed, model).content or ""
    return heard


def ask_completion(
    client: openai.OpenAI, history: list[ChatCompletionMessageParam], streamed: bool, model: str
) -> ChatCompletionMessage:
    """The SDK's Chat side, asked likewise."""
    tools: list[ChatCompletionToolParam] = [
        {"type": "function", "function": {"name": name, "description": f"Runs {name}.", "parameters": schema}}
        for name, schema in TOOLS.items()
    ]
    if streamed:
        with client.chat.completions.stream(
            model=model,
            messages=history,
            tools=tools,
            reasoning_effort="medium",
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
            },
            stream_options={"include_usage": True},
        ) as stream:
            return stream.get_final_completion().choices[0].message
    return (
        client.chat.completions.create(
            model=model,
            messages=history,
            tools=tools,
            reasoning_effort="medium",
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
            },
        )
        .choices[0]
        .message
    )


def responses_loop(client: openai.OpenAI, streamed: bool, model: str = "gpt-5") -> Heard:
    """Users of Responses add `response.output` to the input."""
    history: list[ResponseInputItemParam] = [{"role": "user", "content": QUESTION}]
    first = ask_response(client, history, streamed, model)
    history += first.output  # type: ignore[arg-type]  # as its users do
    heard = Heard([], "", first.output_text)
    for item in first.output:
        if item.type == "reasoning":
            heard.reasoning += "".join(part.text for part in item.summary)
        elif item.type == "function_call":
            heard.calls.append((item.call_id, item.name, json.loads(item.arguments)))
            output: FunctionCallOutput = {"type": "function_call_output", "call_id": item.call_id, "output": ""}
            if item.name == "take_photo":
                url = f"data:image/png;base64,{PIXEL}"
                output["output"] = [{"type": "input_image", "image_url": url, "detail": "auto"}]
            else:
                output["output"] = RESULTS[item.name]
            history.append(output)
    heard.final = ask_response(client, history, streamed, model).output_text
    return heard


def ask_response(client: openai.OpenAI, history: list[ResponseInputItemParam], streamed: bool, model: str) -> Response:
    """The SDK's Responses side, asked likewise."""
    tools: list[FunctionToolParam] = [
        {"type": "function", "name": name, "description": f"Runs {name}.", "parameters": schema, "strict": False}
        for name, schema in TOOLS.items()
    ]
    if streamed:
        with client.responses.stream(
            model=model,
            input=history,
            tools=tools,
            reasoning={"effort": "medium", "summary": "auto"},
            text={"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}},
            include=["reasoning.encrypted_content"],
            store=False,
        ) as stream:
            return stream.get_final_response()
    return client.responses.create(
        model=model,
        input=history,
        tools=tools,
        reasoning={"effort": "medium", "summary": "auto"},
        text={"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}},
        include=["reasoning.encrypted_content"],
        store=False,
    )


USERS: dict[str, Callable[[Handler, bool], Heard]] = {
    MESSAGES: lambda handler, streamed: messages_loop(anthropic_client(handler), streamed),
    CHAT: lambda handler, streamed: chat_loop(openai_client(handler), streamed),
    RESPONSES: lambda handler, streamed: responses_loop(openai_client(handler), streamed),
}
