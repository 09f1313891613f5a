"""One question and one answer in each protocol, by every way its SDK offers: whole, stream helper, plain events."""

from __future__ import annotations

from collections.abc import Callable

import openai
from anthropic.types import ContentBlockParam, Message, MessageDeltaUsage
from anthropic.types import Usage as MessagesUsage
from msgspec import Struct
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionContentPartParam
from openai.types.responses import Response, ResponseInputContentParam, ResponseUsage

from tests.gateway.harness import CHAT, MESSAGES, RESPONSES
from tests.gateway.sdk.desk import Desk

WHOLE, HELPER, EVENTS = "whole", "stream helper", "plain events"
WAYS = (WHOLE, HELPER, EVENTS)
CAP = 4096


class Counts(Struct, frozen=True, kw_only=True):
    """Tokens in one way of counting: all input, and what of it was read from a cache; all output, and its thinking."""

    input: int
    cached: int
    output: int
    thinking: int


class Content(Struct, frozen=True, kw_only=True):
    """What a user says: text, and an image or a document behind it."""

    text: str
    image: str = ""
    image_url: str = ""
    pdf: str = ""
    pdf_url: str = ""


class Told(Struct, frozen=True, kw_only=True):
    """An answer as the program sees it; `stop` is the protocol's own word."""

    text: str
    stop: str | None
    model: str
    counts: Counts | None
    # The text as it came, in pieces.
    pieces: tuple[str, ...] = ()


def ask(desk: Desk, client: str, model: str, content: Content, way: str) -> Told:
    """Put a question with the SDK of a protocol."""
    return _SPEAKERS[client](desk, model, content, way)


def _messages(desk: Desk, model: str, content: Content, way: str) -> Told:
    blocks: list[ContentBlockParam] = [{"type": "text", "text": content.text}]
    if content.image:
        blocks.append({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": content.image}})
    if content.image_url:
        blocks.append({"type": "image", "source": {"type": "url", "url": content.image_url}})
    if content.pdf:
        blocks.append(
            {
                "type": "document",
                "title": "report.pdf",
                "source": {"type": "base64", "media_type": "application/pdf", "data": content.pdf},
            }
        )
    if content.pdf_url:
        blocks.append({"type": "document", "source": {"type": "url", "url": content.pdf_url}})
    client = desk.anthropic.messages
    if way == EVENTS:
        return _message_events(desk, model, blocks)
    pieces: tuple[str, ...] = ()
    message: Message
    if way == HELPER:
        with client.stream(model=model, max_tokens=CAP, messages=[{"role": "user", "content": blocks}]) as stream:
            pieces = tuple(stream.text_stream)
            message = stream.get_final_message()
    else:
        message = client.create(model=model, max_tokens=CAP, messages=[{"role": "user", "content": blocks}])
    text = "".join(block.text for block in message.content if block.type == "text")
    counts = _messages_counts(message.usage)
    return Told(text=text, stop=message.stop_reason, model=message.model, counts=counts, pieces=pieces)


def _message_events(desk: Desk, model: str, blocks: list[ContentBlockParam]) -> Told:
    pieces: list[str] = []
    stop, named, counts = None, "", None
    with desk.anthropic.messages.create(
        model=model, max_tokens=CAP, messages=[{"role": "user", "content": blocks}], stream=True
    ) as stream:
        for event in stream:
            if event.type == "message_start":
                named = event.message.model
            elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                pieces.append(event.delta.text)
            elif event.type == "message_delta":
                stop, counts = event.delta.stop_reason, _messages_counts(event.usage)
    return Told(text="".join(pieces), stop=stop, model=named, counts=counts, pieces=tuple(pieces))


def _messages_counts(usage: MessagesUsage | MessageDeltaUsage) -> Counts:
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    details = usage.output_tokens_details
    return Counts(
        input=(usage.input_tokens or 0) + read + written,
        cached=read,
        output=usage.output_tokens,
        thinking=details.thinking_tokens if details is not None else 0,
    )


def _chat(desk: Desk, model: str, content: Content, way: str) -> Told:
    parts: list[ChatCompletionContentPartParam] = [{"type": "text", "text": content.text}]
    if content.image:
        parts.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{content.image}"}})
    if content.image_url:
        parts.append({"type": "image_url", "image_url": {"url": content.image_url}})
    if content.pdf:
        data = f"data:application/pdf;base64,{content.pdf}"
        parts.append({"type": "file", "file": {"file_data": data, "filename": "report.pdf"}})
    assert not content.pdf_url, "Chat has no documents by address"
    client = desk.openai.chat.completions
    if way == EVENTS:
        return _chat_events(desk, model, parts)
    pieces: list[str] = []
    if way == HELPER:
        completion: ChatCompletion
        try:
            with client.stream(
                model=model, messages=[{"role": "user", "content": parts}], stream_options={"include_usage": True}
            ) as stream:
                pieces += (event.delta for event in stream if event.type == "content.delta")
                completion = stream.get_final_completion()
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as error:
            # The helper's own way to tell that an answer was cut.
            assert error.completion is not None
            completion = error.completion
        choice, usage, named = completion.choices[0], completion.usage, completion.model
        text, stop = choice.message.content or "", choice.finish_reason
    else:
        answer = client.create(model=model, messages=[{"role": "user", "content": parts}])
        text, stop = answer.choices[0].message.content or "", answer.choices[0].finish_reason
        usage, named = answer.usage, answer.model
    return Told(text=text, stop=stop, model=named, counts=_chat_counts(usage), pieces=tuple(pieces))


def _chat_events(desk: Desk, model: str, parts: list[ChatCompletionContentPartParam]) -> Told:
    """The plain stream, without asking for usage: there is none, and every chunk has its choice (S5)."""
    pieces: list[str] = []
    stop, named = None, ""
    with desk.openai.chat.completions.create(
        model=model, messages=[{"role": "user", "content": parts}], stream=True
    ) as stream:
        for chunk in stream:
            assert len(chunk.choices) == 1 and chunk.usage is None
            named, choice = chunk.model, chunk.choices[0]
            pieces += [choice.delta.content] if choice.delta.content else []
            stop = choice.finish_reason or stop
    return Told(text="".join(pieces), stop=stop, model=named, counts=None, pieces=tuple(pieces))


def _chat_counts(usage: CompletionUsage | None) -> Counts | None:
    if usage is None:
        return None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    read, written = usage.prompt_tokens_details, usage.completion_tokens_details
    return Counts(
        input=usage.prompt_tokens,
        cached=(read.cached_tokens or 0) if read is not None else 0,
        output=usage.completion_tokens,
        thinking=(written.reasoning_tokens or 0) if written is not None else 0,
    )


def _responses(desk: Desk, model: str, content: Content, way: str) -> Told:
    parts: list[ResponseInputContentParam] = [{"type": "input_text", "text": content.text}]
    if content.image:
        url = f"data:image/png;base64,{content.image}"
        parts.append({"type": "input_image", "detail": "auto", "image_url": url})
    if content.image_url:
        parts.append({"type": "input_image", "detail": "auto", "image_url": content.image_url})
    if content.pdf:
        data = f"data:application/pdf;base64,{content.pdf}"
        parts.append({"type": "input_file", "file_data": data, "filename": "report.pdf"})
    if content.pdf_url:
        parts.append({"type": "input_file", "file_url": content.pdf_url})
    client = desk.openai.responses
    pieces: list[str] = []
    response: Response
    if way == WHOLE:
        response = client.create(model=model, input=[{"role": "user", "content": parts}])
    elif way == HELPER:
        with client.stream(model=model, input=[{"role": "user", "content": parts}]) as helper:
            for told in helper:
                if told.type == "response.output_text.delta":
                    pieces.append(told.delta)
                elif told.type == "response.completed":
                    response = helper.get_final_response()
                elif told.type == "response.incomplete":
                    # The helper has no final response for an answer that was cut.
                    response = told.response
    else:
        with client.create(model=model, input=[{"role": "user", "content": parts}], stream=True) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    pieces.append(event.delta)
                elif event.type in ("response.completed", "response.incomplete"):
                    response = event.response
    reason = response.incomplete_details.reason if response.incomplete_details is not None else None
    stop = f"{response.status}:{reason}" if reason else response.status
    counts = _responses_counts(response.usage)
    return Told(text=response.output_text, stop=stop, model=response.model, counts=counts, pieces=tuple(pieces))


def _responses_counts(usage: ResponseUsage | None) -> Counts | None:
    if usage is None:
        return None
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    return Counts(
        input=usage.input_tokens,
        cached=usage.input_tokens_details.cached_tokens,
        output=usage.output_tokens,
        thinking=usage.output_tokens_details.reasoning_tokens,
    )


_SPEAKERS: dict[str, Callable[[Desk, str, Content, str], Told]] = {
    MESSAGES: _messages,
    CHAT: _chat,
    RESPONSES: _responses,
}
