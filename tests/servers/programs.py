"""Programs that use an SDK: each keeps its history the way the SDK's users do, and answers every call."""

from __future__ import annotations

from collections.abc import Callable

import anthropic
import openai
from anthropic.types import Message, MessageParam, ToolParam, ToolResultBlockParam
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam, ChatCompletionToolParam
from openai.types.responses import FunctionToolParam, Response, ResponseInputItemParam

from tests.sdk.clients import Handler, anthropic_client, openai_client
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.servers.reading import Heard, of_completion, of_message, of_response
from tests.servers.recordings import Recording

QUESTION = "What is known of Lisbon?"
AGAIN = "And of Porto?"
SCHEMA: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}}


def result(name: str) -> str:
    """What a tool gives back."""
    return f"{name} is done"


def messages_program(handler: Handler, recording: Recording, model: str, streamed: bool) -> list[Heard]:
    """Anthropic's users append `message.content` as it is."""
    client = anthropic_client(handler)
    history: list[MessageParam] = [{"role": "user", "content": QUESTION}]
    told: list[Heard] = []
    for _ in recording.turns:
        try:
            message = _message(client, history, recording, model, streamed)
        except anthropic.APIError as error:
            return [*told, _error(MESSAGES, error)]
        heard = of_message(message)
        told.append(heard)
        history.append({"role": "assistant", "content": message.content})
        results: list[ToolResultBlockParam] = [
            {"type": "tool_result", "tool_use_id": call_id, "content": result(name)} for call_id, name, _ in heard.calls
        ]
        history.append({"role": "user", "content": results or AGAIN})
    _last(lambda: _message(client, history, recording, model, streamed))
    return told


def _message(
    client: anthropic.Anthropic, history: list[MessageParam], recording: Recording, model: str, streamed: bool
) -> Message:
    tools: list[ToolParam] = [{"name": name, "input_schema": SCHEMA} for name in recording.tools]
    cap = recording.max_tokens or 4096
    # A budget needs room below the cap.
    thinking: anthropic.types.ThinkingConfigParam = (
        {"type": "enabled", "budget_tokens": 1024} if cap > 1024 else {"type": "disabled"}
    )
    if streamed:
        with client.messages.stream(
            model=model, max_tokens=cap, messages=history, tools=tools, thinking=thinking
        ) as stream:
            return stream.get_final_message()
    return client.messages.create(model=model, max_tokens=cap, messages=history, tools=tools, thinking=thinking)


def chat_program(handler: Handler, recording: Recording, model: str, streamed: bool) -> list[Heard]:
    """Users of Chat append the message, as a dictionary without what is null."""
    client = openai_client(handler)
    history: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
    told: list[Heard] = []
    for _ in recording.turns:
        try:
            completion = _completion(client, history, recording, model, streamed)
        except openai.APIError as error:
            return [*told, _error(CHAT, error)]
        heard = of_completion(completion)
        told.append(heard)
        history.append(completion.choices[0].message.model_dump(exclude_none=True))  # type: ignore[arg-type]  # as its users do
        for call_id, name, _ in heard.calls:
            history.append({"role": "tool", "tool_call_id": call_id, "content": result(name)})
        if not heard.calls:
            history.append({"role": "user", "content": AGAIN})
    _last(lambda: _completion(client, history, recording, model, streamed))
    return told


def _completion(
    client: openai.OpenAI, history: list[ChatCompletionMessageParam], recording: Recording, model: str, streamed: bool
) -> ChatCompletion:
    tools: list[ChatCompletionToolParam] = [
        {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in recording.tools
    ]
    if streamed:
        with client.chat.completions.stream(
            model=model,
            messages=history,
            tools=tools or openai.omit,
            max_tokens=recording.max_tokens or openai.omit,
            reasoning_effort="medium",
            stream_options={"include_usage": True},
        ) as stream:
            stream.until_done()
            # Not the final completion: the SDK raises for what was cut, to keep its users from parsing half an answer.
            return stream.current_completion_snapshot
    return client.chat.completions.create(
        model=model,
        messages=history,
        tools=tools or openai.omit,
        max_tokens=recording.max_tokens or openai.omit,
        reasoning_effort="medium",
    )


def responses_program(handler: Handler, recording: Recording, model: str, streamed: bool) -> list[Heard]:
    """Users of Responses add `response.output` to the input."""
    client = openai_client(handler)
    history: list[ResponseInputItemParam] = [{"role": "user", "content": QUESTION}]
    told: list[Heard] = []
    for _ in recording.turns:
        try:
            response = _response(client, history, recording, model, streamed)
        except openai.APIError as error:
            return [*told, _error(RESPONSES, error)]
        heard = of_response(response)
        told.append(heard)
        if heard.error:
            return told
        history += response.output  # type: ignore[arg-type]  # as its users do
        for call_id, name, _ in heard.calls:
            history.append({"type": "function_call_output", "call_id": call_id, "output": result(name)})
        if not heard.calls:
            history.append({"role": "user", "content": AGAIN})
    _last(lambda: _response(client, history, recording, model, streamed))
    return told


def _response(
    client: openai.OpenAI, history: list[ResponseInputItemParam], recording: Recording, model: str, streamed: bool
) -> Response:
    tools: list[FunctionToolParam] = [
        {"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in recording.tools
    ]
    if streamed:
        with client.responses.stream(
            model=model,
            input=history,
            tools=tools or openai.omit,
            max_output_tokens=recording.max_tokens or openai.omit,
            reasoning={"effort": "medium", "summary": "auto"},
            include=["reasoning.encrypted_content"],
            store=False,
        ) as stream:
            for event in stream:
                if event.type in ("response.completed", "response.incomplete", "response.failed"):
                    return event.response
            raise AssertionError("no terminal event")
    return client.responses.create(
        model=model,
        input=history,
        tools=tools or openai.omit,
        max_output_tokens=recording.max_tokens or openai.omit,
        reasoning={"effort": "medium", "summary": "auto"},
        include=["reasoning.encrypted_content"],
        store=False,
    )


def _error(protocol: str, error: anthropic.APIError | openai.APIError) -> Heard:
    status = getattr(error, "status_code", 0)
    return Heard(protocol=protocol, error=error.message, status=status)


def _last(ask: Callable[[], object]) -> None:
    """The request that follows the last answer: only its body matters, and nobody answers it."""
    try:
        ask()
    except (anthropic.BadRequestError, openai.BadRequestError):
        return
    raise AssertionError("the last request was answered")


PROGRAMS: dict[str, Callable[[Handler, Recording, str, bool], list[Heard]]] = {
    MESSAGES: messages_program,
    CHAT: chat_program,
    RESPONSES: responses_program,
}
